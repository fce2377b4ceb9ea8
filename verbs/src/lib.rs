//! What applications link: pipes, regions and atomic verbs.
//!
//! A program attaches to its node's daemon with [`Device::attach`], one device in each thread, and opens through it
//!
//! | object | what it is |
//! |---|---|
//! | [`RxPipe`], [`TxPipe`], [`RxTxPipe`] | frames, each at the next multiple of 64 bytes in memory shared with the daemon: received, sent, or sent back in place |
//! | [`BytePipe`] | what UDP datagrams carry, without gaps: messages of one size, with their length before them, or delimited ([`framing`]) |
//! | [`Region`] | memory of one's own that verbs of any node act on |
//! | [`ReceiveQueue`] | messages that verbs of any node send to it, whole and in one order |
//! | [`Group`] | multicasts that all members of a group deliver in one order, and views, which tell who they are |
//! | [`Verbs`] | a queue of verbs on regions, local or remote: post and poll, or block |
//!
//! # Words and bytes
//! Words are `u64` values in the caller's own byte order; they are little-endian on the wire and where a region is read or written as bytes. Frames
//! are bytes as on the wire. Lengths, offsets and sizes are in bytes, and say so in their names.
//!
//! # Threads
//! A [`Device`] is `Send` and not `Sync`; what is opened through it borrows it and stays on its thread. A [`Client`] is used by one thread at a time. A
//! [`Region`] is shared freely, and so is plain data: [`RemoteRegion`], [`Match`], [`PipeTuning`], [`PipeCounters`], every [`framing`] supplied.
//!
//! # Waiting
//! Every call that may wait for others has a variant with a deadline ([`std::time::Instant`]); those that only ask the daemon for something (open, bind, tune,
//! status, and dropping what was opened) wait for its answer, each no longer than [`Device::set_request_timeout`] says. Calls that do not wait say so. A call
//! that waits spins for [`SPIN`], then sleeps in `poll(2)`. When the daemon ends, each returns [`Error::DaemonGone`], unless the device is to find it again ([`Device::set_reconnect`]).
//!
//! # Bounds
//! Nothing queues without end. A full RX pipe drops and counts; a full TX pipe, a full verb queue and a full receive queue refuse.
//!
//! # Examples
//! Send a frame to oneself over whatever is plugged into port `p0` and wait a second for it:
//! ```no_run
//! use std::time::{Duration, Instant};
//!
//! use covalent_verbs::{Device, Match};
//!
//! let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
//! let mut back = device.rx_pipe_on(1 << 20, "p0")?;
//! back.bind(&Match::Any)?;
//! let mut out = device.tx_pipe(1 << 20, "p0")?;
//! out.send(&[0xff; 60])?;
//! let batch = back.recv_deadline(Instant::now() + Duration::from_secs(1))?;
//! assert_eq!(batch.iter().next().map(<[u8]>::len), Some(60));
//! # Ok::<(), covalent_verbs::Error>(())
//! ```
#![forbid(unsafe_code)]

mod again;
mod blocking;
mod bytes;
mod carry;
mod client;
mod device;
mod error;
mod group;
mod in_doubt;
mod lives;
mod outstanding;
mod queue;
mod receive;
mod region;
mod remote;
mod rx;
mod rx_tx;
mod shared;
mod stamp;
mod tx;
mod verb;
mod wait;

pub use covalent_api::{
    config::FaultRates, event, guid::Guid, request::PipeKind, request::PortBrief, request::Rights,
    rule::Match, rule::Spread, rule::Transport, status, tuning::BURST_US_MAX, tuning::PipeTuning,
    tuning::RATE_PER_SECOND_MAX, tuning::RateLimit, tuning::RateUnit,
};

pub use covalent_pipe::{framing, nic::NicCounters as PipeCounters};

pub use again::{Carried, Reconnection};
pub use blocking::Mismatch;
pub use bytes::{ByteBatch, BytePipe};
pub use client::{Client, NodeInfo, REQUEST_TIMEOUT};
pub use covalent_protocol::group::{
    Contact, Contacts, GroupCounters, GroupStanding, Life, MEMBERS_MAX, MULTICAST_BYTES_MAX,
    Members, STATE_BYTES_MAX, Stop, View,
};
pub use device::{Device, PipeId, SPIN};
pub use error::{Error, Result, SendRefusal};
pub use group::{GROUPS_MAX, Group, GroupEvent, GroupOptions, GroupSeat};
pub use in_doubt::InDoubtId;
pub use queue::{Batch, VERBS_DEPTH, VERBS_DEPTH_MAX, Verbs};
pub use receive::{Message, RECEIVE_QUEUE_BYTES_MIN, ReceiveQueue};
pub use region::{Region, RegionOptions};
pub use remote::RemoteRegion;
pub use rx::{Packets, Position, RxBatch, RxPipe};
pub use rx_tx::{PacketMut, RxTxBatch, RxTxPipe};
pub use stamp::Stamp;
pub use tx::{FRAME_BYTES_MIN, TxPipe, TxReservation};
pub use verb::{
    CommitWord, Comparison, Completion, Condition, MULTI_COMMIT_WORDS_MAX, Mode, Order, Outcome,
    READ_BYTES_MAX, Refusal, SEND_BYTES_MAX, Target, Update, Verb, VerbId, WRITE_BYTES_MAX,
};

/// The front page's example compiles, or the documentation tests fail.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct FrontPage;
