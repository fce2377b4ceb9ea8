//! Ensō pipes in shared memory, and their notification rings.
//!
//! A pipe is a ring of *data*. Packets lie back to back, and each starts at a multiple of 64 bytes.
//! The ring is mapped twice in a row, so no packet wraps (Sadok et al., *Ensō: A Streaming
//! Interface for NIC-Application Communication*, OSDI 2023). One process is the NIC: the daemon,
//! with [`nic::NicPipe`]. The other is the application, with one of [`app`].
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
//! | module | contents |
//! |---|---|
//! | [`nic`], [`app`] | the two halves of pipes: RX, TX, RX/TX, and RX of bytes without gaps |
//! | [`framing`] | messages in bytes without gaps |
//! | [`session`] | notifications, doorbells and sleeping flags |
//! | [`region`] | registered memory for verbs |
//! | [`cable`] | frames between two processes in both directions, with a carrier |
//!
//! # Trust
//!
//! The daemon trusts no application. It reads each word that an application can write once,
//! validates it, and then uses it. A word that no honest application writes is a [`Violation`]. A
//! violation ends that application's session and affects nothing else. The daemon keeps its own
//! cursors in private memory and only writes them to shared memory. The sizes of all memory are
//! sealed, so no page can vanish under the daemon. The data of an RX pipe is sealed against writing
//! by the application. All other memory is sealed against holes ([`end_writers`]) before the daemon
//! touches it.
//!
//! # `unsafe`
//!
//! Four files use `unsafe`, plus one in `modeled` that only the model checker compiles.
//! `covalent-ipc` maps the memory and provides its words as atomics.
//!
//! - `shared_bytes.rs` copies bytes.
//! - `ring.rs` locates bytes in the ring.
//! - `producer.rs` and `consumer.rs` determine which side owns which span.
//!
//! All other modules deny `unsafe`. Bytes that an untrusted process may change are [`SharedBytes`],
//! which can only be copied.
#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "shared memory")]
mod consumer;
// For the model checker, modules that use mapped memory are replaced: its atomics cannot lie in
// mapped memory.
#[cfg_attr(loom, path = "modeled/control.rs")]
mod control;
mod counters;
mod cursor;
mod error;
#[cfg_attr(loom, path = "modeled/memory.rs")]
mod memory;
#[allow(unsafe_code, reason = "shared memory")]
mod producer;
mod refused;
#[allow(unsafe_code, reason = "shared memory")]
#[cfg_attr(loom, path = "modeled/ring.rs")]
mod ring;
mod shared;
#[allow(unsafe_code, reason = "shared memory")]
mod shared_bytes;
mod spec;
mod violation;
#[cfg(not(loom))]
mod words;
#[cfg(loom)]
pub mod words;

#[cfg(not(loom))]
mod layout;
#[cfg(not(loom))]
mod memfd;
#[cfg(not(loom))]
mod memory_limit;

pub mod app;
#[cfg(not(loom))]
pub mod cable;
pub mod framing;
pub mod nic;
#[cfg(not(loom))]
pub mod region;
pub mod session;

pub use error::PipeError;
#[cfg(not(loom))]
pub use memfd::end_writers;
pub use memory::PipeMemory;
pub use refused::Refused;
pub use shared_bytes::{SharedBytes, SharedBytesMut};
pub use spec::{
    CAPACITY_BYTES_MAX, CAPACITY_BYTES_MIN, Direction, PagePolicy, PipeSpec, QUANTUM_BYTES,
};
pub use violation::{Cursor, Violation};
