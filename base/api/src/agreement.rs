//! Messages between control and the daemon about the configuration in force.
//!
//! Control queries the held configuration
//! ([`Request::Agreement`](crate::request::Request::Agreement)). It sends the text of the wanted
//! configuration in pieces ([`Request::Draft`](crate::request::Request::Draft)) and then offers it
//! ([`Request::Offer`](crate::request::Request::Offer)). The text is `Config::to_toml` of
//! `covalent-config`. Its digest is the CRC-64/NVME of those bytes.

use serde::{Deserialize, Serialize};

use crate::hex64::Hex64;

/// Most bytes of text in one datagram: JSON may need two for one of them.
pub const PIECE_BYTES_MAX: usize = 24 * 1024;

/// A configuration in force.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldBrief {
    /// Incarnation of the daemon.
    pub incarnation: Hex64,
    /// Revision: the number of the agreement. 0 is the configuration that the daemon read at its
    /// start.
    pub epoch: u64,
    /// Digest of the text.
    pub digest: Hex64,
}

/// Outcome of an offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictBrief {
    /// The configuration in force now.
    pub held: HeldBrief,
    /// Why it was refused; `None`: it was taken.
    pub refused: Option<RefusalBrief>,
    /// State of each lane, as of the loop boundary of its last reply. Empty if no lane was queried.
    pub lanes: Vec<LaneHeld>,
    /// Reasons for the refusal, human-readable.
    pub objections: Vec<Objection>,
    /// Keys whose value changed, if the offer was accepted.
    pub changed: Vec<String>,
    /// Side effects that may be unexpected, human-readable: pipes whose port is closed or reopened.
    /// Only if the offer was accepted.
    pub beware: Vec<String>,
}

/// Reason why an offer was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum RefusalBrief {
    /// The configuration that the client believes in force is not, or another client has queried
    /// since.
    Stale,
    /// The revision is not later than the one in force.
    NotLater,
    /// Another exchange is in flight.
    Busy,
    /// It cannot be applied to a daemon that runs.
    Unready,
    /// A lane cannot take it.
    Lane {
        /// Which.
        lane: u32,
    },
}

/// State that one lane holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneHeld {
    /// Index of the lane.
    pub lane: u32,
    /// The revision that it holds.
    pub epoch: u64,
    /// Loop iterations of the lane at the time of its reply.
    pub loops: u64,
    /// Its ports.
    pub ports: Vec<PortHeld>,
}

/// A port as its lane sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortHeld {
    /// Configured name.
    pub name: String,
    /// Whether frames can pass.
    pub open: bool,
    /// The epoch of its link, if that is up.
    pub link_epoch: Option<u32>,
    /// State of its interface when the port was opened. Absent for a port without an interface or
    /// without a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<PortFacts>,
}

/// State of a port's network interface when the port was opened. If the interface differs now, the
/// port is outdated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortFacts {
    /// Index in the daemon's network namespace. An interface that is made again has another.
    pub index: u32,
    /// Its hardware address, for example `02:00:00:00:00:01`.
    pub address: String,
    /// Its MTU in bytes.
    pub mtu_bytes: u32,
    /// Receive queues that the port has.
    pub queues: u32,
    /// Those are all, because the port is configured to have all.
    pub all_queues: bool,
    /// The port's XDP program, as `bpftool prog` counts.
    pub program_id: u32,
}

/// An obstacle to a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Objection {
    /// The key's path in the offered text, for example `link.slots`; empty: no key's.
    pub key: String,
    /// The problem, and how to resolve it.
    pub message: String,
}
