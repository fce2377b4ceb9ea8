//! Configuration of a node, and why it refuses a request of its caller.

use core::fmt;

use crate::{
    Name,
    wire::{DEFAULT_ETHERTYPE, MAX_PAYLOAD_BYTES},
};

/// Most exchanges whose identifiers are kept when no caller waits for them any more. It exceeds the
/// exchanges in doubt at once with one cabled node, including those on paths that take over from
/// the cable. A cable has 64 slots by default, a path 8.
const NAMES_MAX: usize = 128;

/// Configuration of a node.
#[derive(Debug, Clone, Copy)]
pub struct NodeConfig {
    /// The node's identity. Not zero, which means none: peers ignore a node with zero.
    pub guid: u64,
    /// Random number of this incarnation of the node. A new number shows the peers that everything
    /// was forgotten.
    pub incarnation: u64,
    /// Name for people.
    pub name: Name,
    /// Exchanges that each peer, and this side, may have open on each link: 1 to 255; 0 means 1.
    pub slots: u8,
    /// Ticks without a message from the peer after which a link fails; 0 means 1.
    pub keepalive_misses_max: u32,
    /// Longest request and reply, in bytes; clamped to 1 to [`MAX_PAYLOAD_BYTES`].
    pub message_bytes_max: u16,
    /// Round trips of another link after which a link with open exchanges fails, if its ping does
    /// not come back; 0 for never.
    pub event_ratio: u32,
    /// EtherType of link frames.
    pub ethertype: u16,
    /// Exchanges of this side that may be queued, open or unresolved at once, over all peers.
    pub transactions_max: usize,
    /// Start value of epochs, records and the exchanges of a slot. The wire requires 0 for records.
    /// Another value is valid only if all nodes have it, which brings a simulation to the wrap of
    /// these counters.
    pub first_sequence: u32,
    /// Secret random number from which the first epoch of each cable is drawn: one of 2^30, unknown
    /// to a node that does not receive on the cable. With 0, epochs begin after `first_sequence`.
    pub epoch_seed: u64,
    /// Configuration of the fabric beyond its neighbors. Without it, the node takes no part in
    /// trees.
    pub fabric: Option<FabricConfig>,
}

impl NodeConfig {
    /// A configuration with the defaults: 64 slots, 10 silent ticks, messages of
    /// [`MAX_PAYLOAD_BYTES`], 32 round trips, [`DEFAULT_ETHERTYPE`], 1024 transactions, no fabric.
    #[must_use]
    pub const fn new(guid: u64, incarnation: u64, name: Name) -> Self {
        Self {
            guid,
            incarnation,
            name,
            slots: 64,
            keepalive_misses_max: 10,
            message_bytes_max: MAX_PAYLOAD_BYTES as u16,
            event_ratio: 32,
            ethertype: DEFAULT_ETHERTYPE,
            transactions_max: 1024,
            first_sequence: 0,
            epoch_seed: 0,
            fabric: None,
        }
    }
}

impl NodeConfig {
    /// The same, within the limits.
    pub(super) fn clamped(self) -> Self {
        Self {
            slots: self.slots.max(1),
            keepalive_misses_max: self.keepalive_misses_max.max(1),
            message_bytes_max: self.message_bytes_max.clamp(1, MAX_PAYLOAD_BYTES as u16),
            ..self
        }
    }

    /// Most exchanges whose identifiers are kept when no caller waits for them any more.
    pub(super) fn names_max(&self) -> usize {
        (self.transactions_max / 4).min(NAMES_MAX)
    }
}

/// Configuration of a node's role in the fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FabricConfig {
    /// Whether the node roots a tree, so that all others know a route to it.
    pub roots: bool,
    /// Most roots that it stores, itself included; 0 means 1. Twice the number of nodes leaves
    /// entries for all of them, whatever roots one neighbor invents. Each takes about 200 bytes,
    /// and 32 for each link.
    pub roots_max: u16,
    /// Most simultaneous paths to nodes beyond its neighbors, opened by either side; clamped to
    /// [`ENDS_MAX`](crate::channel::ENDS_MAX). Each takes about
    /// [`NodeConfig::message_bytes_max`] × 40 bytes, which
    /// are touched when used.
    pub paths: u16,
    /// Paths of others that may lead through it at once. Each takes 6 KiB.
    pub transits: u16,
}

/// 1,024 roots, and it is one of them; 16 paths, and 64 of others.
impl Default for FabricConfig {
    fn default() -> Self {
        Self {
            roots: true,
            roots_max: 1024,
            paths: 16,
            transits: 64,
        }
    }
}

/// Why a link was not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddLinkError {
    /// The port has a link already.
    PortTaken,
    /// The number is reserved for paths: [`PATH_PORTS`](crate::PATH_PORTS) or higher.
    PortOfPath,
}

/// Why an exchange was not taken. Nothing was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubmitError {
    /// No link ever led to a node with this GUID, and no way to it is known.
    NoSuchPeer,
    /// [`NodeConfig::transactions_max`] exchanges are queued, open or unresolved. Retry later.
    Full,
    /// The payload is longer than this node or the peer takes.
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// Most bytes that both take.
        max: usize,
    },
    /// The payload is empty.
    Empty,
}

/// Why a query was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryError {
    /// Too many queries wait for replies. Retry later.
    Full,
}

impl fmt::Display for AddLinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PortTaken => f.write_str("the port has a link already"),
            Self::PortOfPath => f.write_str("the number is reserved for paths"),
        }
    }
}

impl core::error::Error for AddLinkError {}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchPeer => {
                f.write_str("no link ever led to this node, and no path to it is known")
            }
            Self::Full => f.write_str("the maximum number of exchanges is in flight; try later"),
            Self::TooLong { len, max } => {
                write!(f, "the payload has {len} bytes; the most is {max}")
            }
            Self::Empty => f.write_str("the payload is empty"),
        }
    }
}

impl core::error::Error for SubmitError {}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the maximum number of queries waits for answers; try later"),
        }
    }
}

impl core::error::Error for QueryError {}
