//! Events of a node about its links, and about the nodes beyond them.

use core::fmt;

use crate::{LinkRefusal, Name};

/// A link came up, went down, or cannot come up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkEvent {
    /// Both ends hold the same new epoch.
    Up {
        /// The caller's index of the port.
        port: u16,
        /// The peer's GUID.
        peer: u64,
        /// The peer's name.
        name: Name,
        /// The peer's index of its own port.
        peer_port: u16,
        /// The epoch that both ends hold.
        epoch: u32,
    },
    /// The link failed. Its open exchanges are being resolved over other links, or over this one
    /// when it returns.
    Down {
        /// The caller's index of the port.
        port: u16,
        /// The evidence.
        reason: DownReason,
        /// Exchanges of this side that were open on it.
        open: u32,
    },
    /// The link does not come up although a peer answers, or the reason differs from the one
    /// reported before.
    Refused {
        /// The caller's index of the port.
        port: u16,
        /// The reason.
        why: LinkRefusal,
    },
    /// The reported reason no longer applies. If the cause was fixed, the link comes up.
    RefusalOver {
        /// The caller's index of the port.
        port: u16,
    },
}

impl LinkEvent {
    /// The caller's index of the port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        match self {
            Self::Up { port, .. }
            | Self::Down { port, .. }
            | Self::Refused { port, .. }
            | Self::RefusalOver { port } => *port,
        }
    }
}

/// Something happened to the way to a node, near or far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeEvent {
    /// The way to a node leads over this port now.
    Attached {
        /// The node's GUID.
        root: u64,
        /// The caller's index of the port.
        port: u16,
        /// Cables between this node and that one.
        hops: u16,
    },
    /// This node is unreachable: partitioned, as far as is known here. The report may be early,
    /// while another node still searches for a path; then [`NodeEvent::Attached`] revokes it.
    Lost {
        /// The node's GUID.
        root: u64,
    },
    /// The name of a node is known, or another one.
    Called {
        /// The node's GUID.
        root: u64,
        /// Its name.
        name: Name,
    },
    /// Another node uses this node's GUID.
    Twin,
    /// The table has no entry left for this node. Reported once until an entry is removed.
    Full {
        /// The node's GUID.
        root: u64,
    },
    /// A link that came up takes no part in trees: too many are up.
    NoNeighborIndex {
        /// The caller's index of the port.
        port: u16,
    },
}

/// The evidence by which a link was declared failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DownReason {
    /// The port lost its carrier.
    CarrierLost,
    /// A record is missing: it was lost or reordered. A cable does not reorder frames.
    SequenceGap,
    /// The peer reflects a value that was never sent.
    ReflectionMismatch,
    /// The port could not transmit.
    TransmitFailed,
    /// Nothing was received for too many ticks.
    PeerSilent,
    /// Peer RTT exceeded: other links made too many round trips before the keepalive of this link
    /// came back.
    PeerRttExceeded,
    /// The peer's keepalives arrive but reflect nothing that this side sent: the peer does not
    /// receive.
    Unreflected,
    /// The peer left the epoch: it saw evidence that this side did not.
    PeerReinitialized,
    /// The peer lost its memory.
    PeerRestarted,
    /// The peer's port was moved to another cable, or the node at the other end is not the one of
    /// the handshake.
    PeerMoved,
    /// The peer reports that it owes no reply, but an exchange is unanswered.
    Unanswered,
    /// The peer broke the protocol under a valid CRC.
    Violation,
    /// The peer's clock is farther ahead than any number of events can have brought it, or than
    /// this node may follow now.
    ClockLeap,
    /// A hop of the path to the peer failed, or a node on it gave it up.
    PathBroken,
    /// The path to the peer was closed: nothing was in flight on it for a while, or a cable leads
    /// there.
    PathIdle,
}

impl DownReason {
    /// Every reason, in the order of [`FailureCounters::iter`](crate::FailureCounters::iter).
    pub const ALL: [Self; 15] = [
        Self::CarrierLost,
        Self::SequenceGap,
        Self::ReflectionMismatch,
        Self::TransmitFailed,
        Self::PeerSilent,
        Self::PeerRttExceeded,
        Self::Unreflected,
        Self::PeerReinitialized,
        Self::PeerRestarted,
        Self::PeerMoved,
        Self::Unanswered,
        Self::Violation,
        Self::ClockLeap,
        Self::PathBroken,
        Self::PathIdle,
    ];

    /// Stable snake_case name, for counters and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CarrierLost => "carrier_lost",
            Self::SequenceGap => "sequence_gap",
            Self::ReflectionMismatch => "reflection_mismatch",
            Self::TransmitFailed => "transmit_failed",
            Self::PeerSilent => "peer_silent",
            Self::PeerRttExceeded => "peer_rtt_exceeded",
            Self::Unreflected => "unreflected",
            Self::PeerReinitialized => "peer_reinitialized",
            Self::PeerRestarted => "peer_restarted",
            Self::PeerMoved => "peer_moved",
            Self::Unanswered => "unanswered",
            Self::Violation => "violation",
            Self::ClockLeap => "clock_leap",
            Self::PathBroken => "path_broken",
            Self::PathIdle => "path_idle",
        }
    }
}

impl fmt::Display for DownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CarrierLost => "carrier lost",
            Self::SequenceGap => "sequence gap: a frame lost or out of order",
            Self::ReflectionMismatch => "reflection mismatch",
            Self::TransmitFailed => "transmit failed",
            Self::PeerSilent => "peer silent",
            Self::PeerRttExceeded => "peer RTT exceeded",
            Self::Unreflected => "not received by the peer",
            Self::PeerReinitialized => "peer re-initialized",
            Self::PeerRestarted => "peer restarted",
            Self::PeerMoved => "peer moved",
            Self::Unanswered => "exchange unanswered",
            Self::Violation => "protocol violation",
            Self::ClockLeap => "clock too far ahead",
            Self::PathBroken => "path broken",
            Self::PathIdle => "path not needed",
        })
    }
}
