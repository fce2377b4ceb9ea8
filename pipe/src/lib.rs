//! Ensō pipes in shared memory, their notification rings, and the socket that hands them over.

mod cursor;
mod sync;
mod violation;
#[cfg(not(loom))]
mod words;
#[cfg(loom)]
pub mod words;

pub use violation::{Cursor, Violation};

// Everything below stands on mapped memory, where the model checker's atomics cannot lie.
#[cfg(not(loom))]
mod consumer;
#[cfg(not(loom))]
mod control;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod mapping;
#[cfg(not(loom))]
mod memfd;
#[cfg(not(loom))]
mod memory;
#[cfg(not(loom))]
mod producer;
#[cfg(not(loom))]
mod ring;
#[cfg(not(loom))]
mod spec;

#[cfg(not(loom))]
pub mod app;
#[cfg(not(loom))]
pub mod cable;
#[cfg(not(loom))]
pub mod event;
#[cfg(not(loom))]
pub mod nic;
#[cfg(not(loom))]
pub mod region;
#[cfg(not(loom))]
pub mod seqpacket;
#[cfg(not(loom))]
pub mod session;

#[cfg(not(loom))]
pub use error::PipeError;
#[cfg(not(loom))]
pub use memory::PipeMemory;
#[cfg(not(loom))]
pub use spec::{
    CAPACITY_BYTES_MAX, CAPACITY_BYTES_MIN, Direction, PagePolicy, PipeSpec, QUANTUM_BYTES,
};
