//! Everything that happens, as checkers, figures and trace are shown it.

use covalent_protocol::{
    DownReason, NodeEvent,
    channel::ChannelCounters,
    tree::{Label, Standing},
};

use super::{
    book::Reported,
    content::Content,
    errand::{Answer, Errand},
    fault::MeshFault,
};
use crate::shape::Spot;

/// Something happened.
#[derive(Debug, Clone, Copy)]
pub enum MeshFact<'a> {
    /// A link came up at one end.
    Up {
        at: Spot,
        /// The epoch that this end holds.
        epoch: u32,
    },
    /// A link failed at one end.
    Down { at: Spot, reason: DownReason },
    /// A node sent a frame.
    Sent {
        from: Spot,
        content: Content,
        /// Units until it arrives; `None` if it is lost at once.
        arrives_in: Option<u64>,
    },
    /// A node's way to a root leads over one of its cables now.
    Attached {
        /// The node's end of the cable.
        at: Spot,
        root: u16,
    },
    /// A node's parent reported that it has no route any more, and the node searches for another
    /// parent.
    Searches { node: u16, root: u16 },
    /// A node knows no way to a root.
    Lost { node: u16, root: u16 },
    /// A node reported an event that honest nodes within their bounds never cause: a second root
    /// with its GUID, or no space.
    Complained { node: u16, event: NodeEvent },
    /// A tree, as each node sees it.
    Tree {
        root: u16,
        /// By node. `None` for a node that is off, or that never learned of the root.
        views: &'a [Option<View>],
        /// Whether everything is at rest.
        at_rest: bool,
    },
    /// A node submits a request to another one.
    Requested {
        from: u16,
        to: u16,
        /// Incarnation of `to` that `from` knows, or the latest one if it knows none.
        known_incarnation: u32,
        errand: Errand,
    },
    /// It was executed.
    Executed { token: u64, at: u16, answer: Answer },
    /// An application took a message.
    Took { at: u16, message: &'a [u8] },
    /// A path came up at one end.
    PathUp {
        at: u16,
        /// The node at the other end.
        far: u16,
    },
    /// A path failed at one end, or was given back.
    PathDown {
        at: u16,
        /// Which of its virtual ports, counted from 0.
        port: u16,
        reason: DownReason,
    },
    /// A sample of what a node holds.
    Sampled(&'a Counts),
    /// An initiator is notified of an outcome.
    Reported { token: u64, by: u16, how: Reported },
    /// An initiator is notified that the outcome is in doubt for now.
    Doubted { token: u64, by: u16 },
    /// An initiator in doubt queries the outcome by name, and no longer needs the request if it was
    /// not executed.
    GaveUp { token: u64 },
    /// A fault, or its end.
    Fault(&'a MeshFault),
    /// Everything is whole and at rest, routes are shortest, and unused paths had the time to be
    /// released. Nothing happens until a fault or an exchange.
    Idle { counts: &'a [Counts] },
    /// Everything came to rest, or did not.
    AtRest {
        /// Ticks since the last fault.
        ticks: u32,
        /// Description of what has not completed.
        unfinished: Option<&'a str>,
        /// Counters of each node that is on.
        counts: &'a [Counts],
    },
}

/// Position of a node in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// Where it stands.
    pub standing: Standing,
    /// The cable to its parent, if it has one.
    pub parent: Option<u16>,
    /// Cables to the root, as the node counts them.
    pub hops: u16,
    /// How near it is.
    pub label: Label,
    /// Ports to which it forwards messages of the root, one bit for each.
    pub children: u32,
}

/// Counters of a node since its start, over all its links and paths, and its resources.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// The node.
    pub node: u16,
    /// Entries in its tree tables: one for each root that it knows, and one more for each of its
    /// ports.
    pub tree_entries: u64,
    /// Bytes of these.
    pub tree_bytes: u64,
    /// Exchanges that it started and that committed, by its links' counters.
    pub committed: u64,
    /// Exchanges of its peers that it executed, by its links' counters.
    pub executed: u64,
    /// Exchanges that it started and that ended because the peer lost its memory, by its links'
    /// counters.
    pub forgotten: u64,
    /// Paths that end at it, or that it requested.
    pub paths: u64,
    /// Paths of others that lead through it, or are to.
    pub transits: u64,
    /// So many may.
    pub transits_max: u64,
    /// Channels of its links.
    pub channels: u64,
    /// Records of others that wait to be passed on.
    pub waiting_records: u64,
    /// Counters of paths.
    pub passed: ChannelCounters,
    /// Words that exchanges with it hold.
    pub held_words: u64,
    /// The counter that its applications share.
    pub counter: u64,
    /// The word that they share.
    pub word: u64,
}
