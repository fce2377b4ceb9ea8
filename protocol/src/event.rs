//! What a node tells about its links, and about the nodes beyond them.

use core::fmt;

use crate::{LinkRefusal, Name};

/// A link came up, went down, or does not come up.
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
    /// The link failed. Its open exchanges are being resolved over other links, or over this one when it returns.
    Down {
        /// The caller's index of the port.
        port: u16,
        /// What showed it.
        reason: DownReason,
        /// Exchanges of this side that were open on it.
        open: u32,
    },
    /// The link does not come up although somebody answers, or does so for another reason than was told before.
    Refused {
        /// The caller's index of the port.
        port: u16,
        /// What is wrong.
        why: LinkRefusal,
    },
    /// What was told to be wrong is not found any more. If it was put right, the link comes up.
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
    Hangs {
        /// The node's GUID.
        root: u64,
        /// The caller's index of the port.
        port: u16,
        /// Cables between this node and that one.
        hops: u16,
    },
    /// There is no way to this node: partitioned from it, as far as can be known here. May be early, while somebody else still looks for one;
    /// then [`NodeEvent::Hangs`] takes it back.
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
    /// Another node says this node's GUID.
    Twin,
    /// There is no room for this node in the table. Told once until one is forgotten.
    Full {
        /// The node's GUID.
        root: u64,
    },
    /// A link that came up takes no part in trees: too many are up.
    NoBerth {
        /// The caller's index of the port.
        port: u16,
    },
}

/// The evidence by which a link was declared failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DownReason {
    /// The port lost its carrier.
    CarrierLost,
    /// A record is missing: it was lost, or came out of order, which no cable does to frames.
    SequenceGap,
    /// The peer reflects something that was never said.
    ReflectionMismatch,
    /// The port could not transmit.
    TransmitFailed,
    /// Nothing was heard for too many paces.
    PeerSilent,
    /// Other links made too many round trips while the ball of this one did not come back.
    Outpaced,
    /// The peer's balls come, and reflect nothing of what was said: it does not hear this side.
    Unreflected,
    /// The peer left the epoch: it saw evidence that this side did not.
    PeerReinitialised,
    /// The peer lost its memory.
    PeerRestarted,
    /// The peer's port was moved to another cable, or who is at the other end is not who the handshake said.
    PeerMoved,
    /// The peer says that it owes nothing, but an exchange is unanswered.
    Unanswered,
    /// The peer broke the protocol under a valid CRC.
    Violation,
    /// The peer's clock is farther ahead than any number of events can have brought it, or than
    /// this node may follow now.
    ClockLeap,
    /// A hop of the path to the peer failed, or a node on it gave it up.
    PathBroken,
    /// The path to the peer was given back: nothing was under way on it for a while, or a cable leads there.
    PathIdle,
}

impl DownReason {
    /// Every reason, in the order of [`crate::FailureCounters::iter`].
    pub const ALL: [Self; 15] = [
        Self::CarrierLost,
        Self::SequenceGap,
        Self::ReflectionMismatch,
        Self::TransmitFailed,
        Self::PeerSilent,
        Self::Outpaced,
        Self::Unreflected,
        Self::PeerReinitialised,
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
            Self::Outpaced => "outpaced",
            Self::Unreflected => "unreflected",
            Self::PeerReinitialised => "peer_reinitialised",
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
            Self::Outpaced => "outpaced by other links",
            Self::Unreflected => "not heard by the peer",
            Self::PeerReinitialised => "peer re-initialised",
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
