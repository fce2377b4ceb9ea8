//! Everything that happens, as checkers, figures and trace are shown it.

use covalent_protocol::DownReason;

use super::{book::Told, content::FrameKind, fault::MeshFault};
use crate::shape::Spot;

/// Something happened.
#[derive(Debug, Clone, Copy)]
pub enum MeshFact<'a> {
    /// A link came up at one end.
    Up {
        /// The end.
        at: Spot,
        /// The epoch that this end holds.
        epoch: u32,
    },
    /// A link failed at one end.
    Down {
        /// The end.
        at: Spot,
        /// The evidence.
        reason: DownReason,
    },
    /// A node said something.
    Sent {
        /// The end from which.
        from: Spot,
        /// What is in the frame.
        kind: FrameKind,
        /// How many records.
        records: usize,
        /// Units after which it arrives; `None` for what is lost at once.
        arrives_in: Option<u64>,
    },
    /// A node asks a neighbour for something.
    Asked {
        /// What tells it from everything else that is asked for.
        token: u64,
        /// Who asks.
        from: u16,
        /// Who is asked.
        to: u16,
        /// The life of `to` that `from` knows.
        known_life: u32,
    },
    /// It was executed.
    Executed {
        /// What was asked for.
        token: u64,
        /// By whom.
        at: u16,
        /// The answer.
        reply: u64,
    },
    /// Somebody is told how it ended.
    Told {
        /// What was asked for.
        token: u64,
        /// By whom it was asked for.
        by: u16,
        /// How it ended.
        how: Told,
    },
    /// Somebody is told that nobody knows how it ended for now.
    Doubted {
        /// What was asked for.
        token: u64,
        /// By whom it was asked for.
        by: u16,
    },
    /// A fault, or its end.
    Fault(&'a MeshFault),
    /// Everything came to rest, or did not.
    AtRest {
        /// Paces since the last fault.
        paces: u32,
        /// Within so many it must.
        paces_max: u32,
        /// What has not come to its end.
        unfinished: Option<&'a str>,
        /// What each node that is on counted.
        counts: &'a [Counts],
    },
}

/// What a node counted, over all its links, since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// The node.
    pub node: u16,
    /// Exchanges that it started and that committed, by its links' counters.
    pub committed: u64,
    /// Exchanges of its peers that it executed, by its links' counters.
    pub executed: u64,
    /// Exchanges that it started and that ended because the peer lost its memory, by its links' counters.
    pub forgotten: u64,
}
