//! Everything that happens, as checkers, figures and trace are shown it.

use covalent_protocol::{
    DownReason, NodeEvent,
    channel::ChannelCounters,
    tree::{Label, Standing},
};

use super::{
    book::Told,
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
        content: Content,
        /// Units after which it arrives; `None` for what is lost at once.
        arrives_in: Option<u64>,
    },
    /// A node's way to a root leads over one of its cables now.
    Hangs {
        /// The node's end of the cable.
        at: Spot,
        /// The root.
        root: u16,
    },
    /// A node's parent said that it knows no way any more, and the node looks for another.
    Seeks {
        /// The node.
        node: u16,
        /// The root.
        root: u16,
    },
    /// A node knows no way to a root.
    Lost {
        /// The node.
        node: u16,
        /// The root.
        root: u16,
    },
    /// A node told of something that no mesh of honest nodes within its bounds gives reason for: a second root with its GUID, or no room.
    Complained {
        /// The node.
        node: u16,
        /// What it told.
        event: NodeEvent,
    },
    /// A tree, as each node sees it.
    Tree {
        /// The root.
        root: u16,
        /// By node. `None` for one that is off, or that never heard of the root.
        views: &'a [Option<View>],
        /// Whether everything has come to rest.
        at_rest: bool,
    },
    /// A node asks another one for something.
    Asked {
        /// What tells it from everything else that is asked for.
        token: u64,
        /// Who asks.
        from: u16,
        /// Who is asked.
        to: u16,
        /// The life of `to` that `from` knows, or the one that began last if it knows none.
        known_life: u32,
        /// For what.
        errand: Errand,
    },
    /// It was executed.
    Executed {
        /// What was asked for.
        token: u64,
        /// By whom.
        at: u16,
        /// The answer.
        answer: Answer,
    },
    /// An application took a message.
    Took {
        /// At which node.
        at: u16,
        /// The message.
        message: &'a [u8],
    },
    /// A path came up at one end.
    PathUp {
        /// The node.
        at: u16,
        /// The node at the other end.
        far: u16,
    },
    /// A path failed at one end, or was given back.
    PathDown {
        /// The node.
        at: u16,
        /// Which of its virtual ports, counted from 0.
        port: u16,
        /// The evidence.
        reason: DownReason,
    },
    /// Somebody looks at what a node holds.
    Looked(&'a Counts),
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
    /// Somebody who was told so asks by name what became of it, and wants it no more if it was not executed.
    GaveUp {
        /// What was asked for.
        token: u64,
    },
    /// A fault, or its end.
    Fault(&'a MeshFault),
    /// Everything is whole, has come to rest, ways are shortest, and paths that nobody uses had the time to be given back: until a fault or an
    /// exchange nothing happens.
    Idle {
        /// What each node counted.
        counts: &'a [Counts],
    },
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

/// Where a node stands in a tree.
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
    /// Ports to whom it passes on what comes from the root, one bit for each.
    pub children: u32,
}

/// What a node counted, over all its links and paths, since it started, and what it holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// The node.
    pub node: u16,
    /// Entries in its tables of trees: each root that it knows, once and once for each of its ports.
    pub tree_entries: u64,
    /// Bytes of these.
    pub tree_bytes: u64,
    /// Exchanges that it started and that committed, by its links' counters.
    pub committed: u64,
    /// Exchanges of its peers that it executed, by its links' counters.
    pub executed: u64,
    /// Exchanges that it started and that ended because the peer lost its memory, by its links' counters.
    pub forgotten: u64,
    /// Paths that end at it, or that it asked for.
    pub paths: u64,
    /// Paths of others that lead through it, or are to.
    pub transits: u64,
    /// So many may.
    pub transits_max: u64,
    /// Channels of its links.
    pub channels: u64,
    /// Records of others that wait to be passed on.
    pub waiting_records: u64,
    /// What happened to paths.
    pub passed: ChannelCounters,
    /// Words that exchanges with it hold.
    pub held_words: u64,
    /// The counter that its applications share.
    pub counter: u64,
    /// The word that they share.
    pub word: u64,
}
