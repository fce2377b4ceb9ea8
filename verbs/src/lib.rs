//! The client library for applications: pipes, regions and atomic verbs.
//!
//! A program attaches to its node's daemon with [`Device::attach`], one device in each thread, and
//! opens the following objects through it:
//!
//! | object | purpose |
//! |---|---|
//! | [`RxPipe`], [`TxPipe`], [`RxTxPipe`] | frames: received, sent, or sent back in place |
//! | [`BytePipe`] | the payloads of UDP datagrams, without gaps |
//! | [`Region`] | memory of this application that verbs of any node access |
//! | [`ReceiveQueue`] | messages that verbs of any node send to it, whole and in one order |
//! | [`Group`] | multicasts that all members deliver in one order, and views of the members |
//! | [`Verbs`] | a queue of verbs on regions, local or remote: post and poll, or block |
//! | [`Notice`] | words about the program in the node's status |
//!
//! Frames are in memory shared with the daemon, each at the next multiple of 64 bytes. A
//! [`framing`] splits the contents of a [`BytePipe`] into messages: of one size, with their length
//! before them, or delimited.
//!
//! # Words and bytes
//! Words are `u64` values in the caller's byte order. They are little-endian on the wire, and where
//! a region is read or written as bytes. Frames are bytes as on the wire. Lengths, offsets and
//! sizes are in bytes, as their names state.
//!
//! # Threads
//! A [`Device`] is `Send` and not `Sync`. Objects opened through it borrow it and stay on its
//! thread. Use a [`Client`] on one thread at a time. A [`Region`] may be shared freely. So may
//! plain data: [`RemoteRegion`], [`Match`], [`PipeTuning`], [`PipeCounters`], and every supplied
//! [`framing`].
//!
//! # Waiting
//! A call `try_x` never waits. A call `x` that may wait for other parties has a [`Timeout`]: a
//! [`Duration`](std::time::Duration) from now, an [`Instant`](std::time::Instant), or
//! [`Timeout::FOREVER`]. Calls that only send a request to the daemon wait for its reply: open,
//! bind, tune, status, and dropping an opened object. Each waits at most for the time of
//! [`Device::set_request_timeout`]. Other calls do not wait.
//!
//! A waiting call spins for [`SPIN`], then sleeps in `poll(2)`. When the daemon stops, each call
//! returns [`Error::DaemonGone`], unless the device reconnects ([`Device::set_reconnect`]).
//!
//! [`Device::until`] waits for any condition, on several objects. A program with an event loop of
//! its own sleeps on the descriptor of its device instead ([`Device::arm`]). With the feature
//! `tokio`, the module `tokio` has the calls as futures.
//!
//! # Bounds
//! No queue is unbounded. A full RX pipe drops and counts. A full TX pipe, a full verb queue and a
//! full receive queue refuse.
//!
//! # Examples
//! Send a frame on port `p0`, and wait a second for it to come back:
//! ```no_run
//! use std::time::Duration;
//!
//! use covalent::{Device, Match};
//!
//! let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
//! let mut back = device.rx_pipe_on(1 << 20, "p0")?;
//! back.bind(&Match::Any)?;
//! let mut out = device.tx_pipe(1 << 20, "p0")?;
//! out.try_send(&[0xff; 60])?;
//! let batch = back.recv(Duration::from_secs(1))?;
//! assert_eq!(batch.iter().next().map(<[u8]>::len), Some(60));
//! # Ok::<(), covalent::Error>(())
//! ```
#![forbid(unsafe_code)]

mod batch;
mod blocking;
mod bytes;
mod client;
mod device;
mod error;
mod group;
mod in_doubt;
mod link_frames;
mod notice;
mod opening;
mod outstanding;
mod pipe_id;
mod queue;
mod readiness;
mod reads;
mod receive;
mod region;
mod remote;
mod replay;
mod rx;
mod rx_tx;
mod stamp;
mod target;
mod timeout;
#[cfg(feature = "tokio")]
pub mod tokio;
mod tx;
mod verb;
mod wait;
mod wire;

pub use covalent_api::{
    event, faults::FaultRates, guid::Guid, request::PipeKind, request::PortBrief, request::Rights,
    rule::Match, rule::Spread, rule::Transport, status, tap::TapFrames, tap::TapHead,
    tuning::BURST_US_MAX, tuning::PipeTuning, tuning::RATE_PER_SECOND_MAX, tuning::RateLimit,
    tuning::RateUnit,
};

pub use covalent_pipe::{framing, nic::PipeCounters};

pub use batch::Batch;
pub use blocking::Mismatch;
pub use bytes::{ByteBatch, BytePipe};
pub use client::{Client, NodeInfo, REQUEST_TIMEOUT};
pub use covalent_protocol::group::{
    Contact, Contacts, GroupCounters, GroupStanding, Incarnation, MEMBERS_MAX, MULTICAST_BYTES_MAX,
    Members, STATE_BYTES_MAX, Stop, View,
};
pub use device::{Carried, Device, Reconnection, SPIN};
pub use error::{Error, Result};
pub use group::{GROUPS_MAX, Group, GroupBuilder, GroupEvent, GroupOptions};
pub use in_doubt::InDoubtId;
pub use notice::{NOTICE_WORDS, NOTICES_MAX, Notice};
pub use pipe_id::PipeId;
pub use queue::{VERBS_DEPTH, VERBS_DEPTH_MAX, Verbs};
pub use receive::{Message, RECEIVE_QUEUE_BYTES_MIN, ReceiveQueue};
pub use region::{Region, RegionOptions};
pub use remote::RemoteRegion;
pub use rx::{Packets, Position, RxBatch, RxPipe};
pub use rx_tx::{PacketMut, RxTxBatch, RxTxPipe};
pub use stamp::Stamp;
pub use timeout::Timeout;
pub use tx::{FRAME_BYTES_MIN, TxPipe, TxReservation};
pub use verb::{
    CommitWord, Comparison, Completion, Condition, MULTI_COMMIT_WORDS_MAX, Mode, Order, Outcome,
    READ_BYTES_MAX, Refusal, SEND_BYTES_MAX, Target, Update, Verb, VerbId, WRITE_BYTES_MAX,
};

/// The front page's example compiles, or the documentation tests fail.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct FrontPage;
