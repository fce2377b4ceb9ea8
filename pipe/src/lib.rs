//! Ensō pipes in shared memory, their notification rings, and the socket that hands them over.
//!
//! A pipe is a ring of *data*: packets lie back to back, each from a multiple of 64 bytes on, and the ring is mapped twice in a row so that
//! none ever wraps (Sadok et al., *Ensō: A Streaming Interface for NIC-Application Communication*, OSDI 2023). One process is
//! the NIC: the daemon, with [`nic::NicPipe`]. The other is the application, with one of [`app`].
//!
//! ```
//! use covalent_pipe::{Direction, PagePolicy, PipeMemory, PipeSpec, app::RxPipe, nic::NicPipe};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The daemon makes the memory and hands its two descriptors over (here: to itself).
//! let capacity_bytes = 64 * 1024;
//! let spec = PipeSpec { direction: Direction::Rx, capacity_bytes, pages: PagePolicy::Auto };
//! let memory = PipeMemory::create(&spec)?;
//! let [control, data] = memory.fds();
//! let received = [control.try_clone_to_owned()?, data.try_clone_to_owned()?];
//! let mut nic = NicPipe::new(memory);
//!
//! // The application maps it.
//! let mut pipe = RxPipe::new(PipeMemory::open(received, Direction::Rx, capacity_bytes)?)?;
//!
//! nic.push(b"a packet")?;
//! nic.push(b"and another")?;
//! nic.publish();
//!
//! let batch = pipe.recv().expect("two packets were published");
//! assert_eq!(batch.iter().collect::<Vec<_>>(), [&b"a packet"[..], b"and another"]);
//! batch.free_all();
//! # Ok(())
//! # }
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`nic`], [`app`] | the two halves of pipes: packets in (RX), out (TX), in and back (RX/TX), and bytes without gaps in |
//! | [`framing`] | messages in bytes without gaps |
//! | [`session`] | who should look at which pipe, and who sleeps |
//! | [`region`] | registered memory for verbs |
//! | [`cable`] | frames between two processes, both ways, with a carrier |
//! | [`seqpacket`], [`event`] | how processes meet, and wake each other |
//! | [`reaper`] | closing what a stranger may have made slow to close |
//! | [`telemetry`] | counters that anyone reads while their writer runs, and after |
//!
//! # Trust
//!
//! The daemon trusts no application. Every word that an application can write is read once, judged, and then used; a word that no
//! honest application writes is a [`Violation`], which ends that application's session and touches nothing else. Cursors of the daemon's own
//! are kept in private memory and only ever written to shared memory. The sizes of all memory are sealed, so no page can vanish under
//! the daemon; what an RX pipe carries is sealed against writing by the application, and everything else against holes ([`end_writers`])
//! before the daemon touches it.
//!
//! # `unsafe`
//!
//! It is in seven files (and one more, in `modelled`, that only the model checker compiles). Shared
//! memory is reached in five: `mapping.rs` (mapping it; words as atomics), `shared_bytes.rs`
//! (copying bytes), `ring.rs` (where they lie), and
//! `producer.rs` and `consumer.rs` (which spans of bytes are whose). `socket_options.rs` sets and reads options of sockets, and `owner_process.rs` maps a page
//! that is wiped in a child. Everything else is
//! denied `unsafe`. Bytes that an untrusted process may change are [`SharedBytes`], which can only
//! be copied.
#![deny(unsafe_code)]

#[macro_use]
mod mutation;

#[allow(unsafe_code, reason = "shared memory")]
mod consumer;
// What lies in mapped memory otherwise is made of the model checker's atomics for it: those cannot lie in mapped memory.
#[cfg_attr(loom, path = "modelled/control.rs")]
mod control;
mod counters;
mod cursor;
mod error;
#[cfg_attr(loom, path = "modelled/memory.rs")]
mod memory;
#[allow(unsafe_code, reason = "shared memory")]
mod producer;
mod refused;
#[allow(unsafe_code, reason = "shared memory")]
#[cfg_attr(loom, path = "modelled/ring.rs")]
mod ring;
mod shared;
#[allow(unsafe_code, reason = "shared memory")]
mod shared_bytes;
mod spec;
mod sync;
mod violation;
#[cfg(not(loom))]
mod words;
#[cfg(loom)]
pub mod words;

#[cfg(not(loom))]
mod layout;
#[cfg(not(loom))]
#[allow(unsafe_code, reason = "shared memory")]
mod mapping;
#[cfg(not(loom))]
mod memfd;
#[cfg(not(loom))]
mod memory_limit;
#[cfg(not(loom))]
#[allow(unsafe_code, reason = "socket options that no library offers")]
pub mod socket_options;

pub mod app;
#[cfg(not(loom))]
pub mod cable;
#[cfg(not(loom))]
pub mod event;
pub mod framing;
#[cfg(not(loom))]
pub mod lock_file;
pub mod nic;
#[cfg(not(loom))]
#[allow(unsafe_code, reason = "a page that the kernel wipes in a child")]
pub mod owner_process;
#[cfg(not(loom))]
pub mod reaper;
#[cfg(not(loom))]
pub mod region;
#[cfg(not(loom))]
pub mod seqpacket;
pub mod session;
#[cfg(not(loom))]
pub mod telemetry;

pub use error::PipeError;
#[cfg(not(loom))]
pub use memfd::end_writers;
pub use memory::PipeMemory;
#[cfg(loom)]
pub use mutation::Mutation;
pub use refused::Refused;
pub use shared_bytes::{SharedBytes, SharedBytesMut};
pub use spec::{
    CAPACITY_BYTES_MAX, CAPACITY_BYTES_MIN, Direction, PagePolicy, PipeSpec, QUANTUM_BYTES,
};
pub use violation::{Cursor, Violation};
