//! What the processes of one node say to each other.
//!
//! `covalentd` listens on one Unix `SOCK_SEQPACKET` socket ([`config::Config::socket_path`]). Applications, `covalent-control`
//! and the CLI send it one JSON [`request::Request`] per datagram and receive one [`request::Reply`]; file descriptors
//! travel beside it as `SCM_RIGHTS`. A subscribed client also receives [`event::Event`]s as [`request::Reply::Event`].
//! `covalent-control` listens on a socket of its own kind for the CLI ([`control`]).
//! With the feature `arguments`, it says how the two processes are called too. What `auto` becomes on an interface is here as well ([`auto`]), for all three
//! go by it.
//! Programs of two releases that follow each other understand each other ([`versions`]): what is sent says no more than the version that
//! both agreed on, replies and events are read with whatever fields they have, and a request that is not understood is refused whole.
//! This crate holds only data: no I/O but reading the configuration (a file, and the host's name for a node without one) and the kernel's release, no threads, no `unsafe`.

pub mod agreement;
#[cfg(feature = "arguments")]
pub mod arguments;
pub mod auto;
pub mod config;
pub mod control;
pub mod datagram;
pub mod event;
pub mod former;
pub mod guid;
pub mod hex64;
pub mod metrics;
pub mod name;
pub mod outdated;
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
