//! What processes of one machine share: connections, wake-ups, descriptors and mapped memory.
//!
//! | module | contents |
//! |---|---|
//! | [`seqpacket`] | connections that pass datagrams and descriptors |
//! | [`event`] | descriptors that wake a sleeper |
//! | `reaper` | closing objects that an untrusted user may have made slow to close (a feature) |
//! | [`lock_file`] | a lock that strangers cannot hold |
//! | [`owner_process`] | whether this process made something, or its parent did |
//! | [`mapping`] | memory that another process may write, reached through atomics |
//! | [`published`] | words that one process writes and another reads as a whole |
//!
//! # `unsafe`
//!
//! Three files use it. `mapping.rs` maps memory and provides its words as atomics.
//! `socket_options.rs` sets and reads options of sockets. `owner_process.rs` maps a page that the
//! kernel wipes in a child.
#![deny(unsafe_code)]

#[doc(hidden)]
pub mod mutation;
pub mod published;
pub mod sync;

// The model checker's atomics cannot lie in mapped memory.
#[cfg(not(loom))]
pub mod event;
#[cfg(not(loom))]
pub mod lock_file;
#[cfg(not(loom))]
#[allow(unsafe_code, reason = "shared memory")]
pub mod mapping;
#[cfg(not(loom))]
#[allow(unsafe_code, reason = "a page that the kernel wipes in a child")]
pub mod owner_process;
#[cfg(all(feature = "reaper", not(loom)))]
pub mod reaper;
#[cfg(not(loom))]
pub mod seqpacket;
#[cfg(not(loom))]
#[allow(unsafe_code, reason = "socket options that no library offers")]
pub mod socket_options;
