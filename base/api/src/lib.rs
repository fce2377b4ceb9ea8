//! Messages between the processes of one node.
//!
//! `covalentd` listens on one Unix `SOCK_SEQPACKET` socket, `covalentd.sock` in `node.runtime_dir`.
//! Applications, `covalent-control` and the CLI send it one JSON [`request::Request`] per datagram
//! and receive one [`request::Reply`]. File descriptors are passed as `SCM_RIGHTS`. A subscribed
//! client also receives [`event::Event`]s as [`request::Reply::Event`]. `covalent-control` listens
//! on a socket of the same type for the CLI ([`control`]).
//!
//! Programs of two consecutive releases are compatible ([`versions`]). A sender uses only the
//! features of the agreed version. A receiver ignores unknown fields of replies and events, and
//! refuses a request that it does not understand as a whole.
//!
//! This crate holds only data. It has no threads, no `unsafe` and no I/O.

pub mod agreement;
pub mod causes;
pub mod control;
pub mod datagram;
pub mod ethertype;
pub mod event;
pub mod faults;
pub mod former;
pub mod guid;
pub mod hex64;
pub mod key_change;
pub mod metrics;
pub mod name;
pub mod outdated;
pub mod pipe_kind;
pub mod refusal;
pub mod request;
pub mod rule;
pub mod status;
pub mod tap;
pub mod tuning;
pub mod versions;

pub use versions::API_VERSION;

/// Largest datagram on the socket, in bytes. A longer one is refused by either side.
pub const MAX_DATAGRAM_BYTES: usize = 64 * 1024;
