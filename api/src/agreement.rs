//! What control and the daemon say to each other about the configuration in force.
//!
//! Control asks what is held ([`crate::request::Request::Agreement`]), sends the text of what it wants in pieces
//! ([`crate::request::Request::Draft`]), and offers it ([`crate::request::Request::Offer`]). The text is
//! [`crate::config::Config::to_toml`], and its digest the CRC-64/NVME of those bytes.

use serde::{Deserialize, Serialize};

use crate::hex64::Hex64;

/// Most bytes of text in one datagram: JSON may need two for one of them.
pub const PIECE_BYTES_MAX: usize = 24 * 1024;

/// A configuration in force.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldBrief {
    /// The life of the daemon.
    pub incarnation: Hex64,
    /// Counts what was agreed on; 0 is what the daemon read at its start.
    pub epoch: u64,
    /// Digest of the text.
    pub digest: Hex64,
}

/// How an offer ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictBrief {
    /// What is in force now.
    pub held: HeldBrief,
    /// Why it was refused; `None`: it was taken.
    pub refused: Option<RefusalBrief>,
    /// What each lane holds, as it said at the loop boundary at which it answered last; empty if no lane was asked.
    pub lanes: Vec<LaneHeld>,
    /// What stands in the way, for people.
    pub objections: Vec<Objection>,
    /// Keys whose value is another one, if it was taken.
    pub changed: Vec<String>,
    /// Who is affected by it and may not know, for people: pipes whose port goes or is opened again, if it was taken.
    pub beware: Vec<String>,
}

/// Why an offer was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum RefusalBrief {
    /// What was believed is not in force, or somebody else asked since.
    Stale,
    /// The epoch is not later than the one in force.
    NotLater,
    /// Another exchange is under way.
    Busy,
    /// It cannot be applied to a daemon that runs.
    Unready,
    /// A lane cannot take it.
    Lane {
        /// Which.
        lane: u32,
    },
}

/// What one lane holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneHeld {
    /// Index of the lane.
    pub lane: u32,
    /// The epoch that it holds.
    pub epoch: u64,
    /// Rounds that it had made when it said so.
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
    /// What its interface was when it was opened; absent for a port that has none, or no device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<PortFacts>,
}

/// What the network interface of a port was when the port was opened: if it is something else now, the port is not what it should be.
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

/// Something that stands in the way of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Objection {
    /// The key's path in the offered text, for example `link.slots`; empty: no key's.
    pub key: String,
    /// What is wrong and what to do.
    pub message: String,
}
