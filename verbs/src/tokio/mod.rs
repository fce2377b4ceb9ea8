//! The calls that wait, as futures of Tokio (feature `tokio`).
//!
//! [`AsyncDevice`] is a [`Device`](crate::Device) registered with the runtime. Its calls have the
//! names of the calls that block, and take the object instead of a timeout: for that there is
//! [`timeout`](::tokio::time::timeout). [`AsyncVerbs`] shares a verb queue between
//! tasks. [`ByteReader`] and [`MessageStream`] are for code that takes an
//! [`AsyncRead`](::tokio::io::AsyncRead) or a [`Stream`](futures_core::Stream). There is no
//! `AsyncWrite`: a writer may split and join what it writes, and frames have bounds.
//!
//! # Tasks
//! A device and its objects stay on one thread, so their futures are not `Send`. Run them in one
//! task (`join!`, `select!`), or on a [`LocalSet`](::tokio::task::LocalSet). A task that is spawned
//! outlives every borrow. A thread that serves a device until it ends leaks the device for that:
//! `Box::leak(Box::new(device))`.
//!
//! The device has one descriptor. When there is news, every task that waits on the device looks at
//! its own object and sleeps again if it finds nothing. Nothing spins, and nothing is allocated for
//! a frame or a wait. A task that always finds something yields to the others as any Tokio task
//! does ([`coop`](::tokio::task::coop)).
//!
//! # Cancellation
//! A future takes something from an object only in the poll that returns it. So dropping a future
//! loses nothing, in `select!` or after a timeout: frames, bytes, messages, events and completions
//! are received by the next call. A frame that waits for room was not sent. A verb that was posted
//! stays posted: see [`AsyncVerbs`].
//!
//! # What blocks
//! Calls that only send a request to the daemon block the thread until its reply, as without Tokio:
//! attach, open, bind, tune, status, drop.
//!
//! With [reconnection](crate::Device::set_reconnect), futures wait while no daemon runs, and the
//! thread goes on: the runtime needs [`enable_time`](::tokio::runtime::Builder::enable_time) for
//! that. Calls that do not wait return [`Error::DaemonGone`](crate::Error::DaemonGone) meanwhile.
//! Once a daemon accepts the connection, attaching again blocks for its replies.

mod bytes;
mod device;
mod flush;
mod messages;
mod receive;
mod verbs;

pub use bytes::ByteReader;
pub use device::AsyncDevice;
pub use flush::Flush;
pub use messages::{MessageStream, OwnedMessage};
pub use receive::Receive;
pub use verbs::{AsyncVerbs, PostedVerb};
