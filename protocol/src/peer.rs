//! The nodes at the other ends of the cables.

use crate::{Name, latch::Lost, transaction::List, wire::MAX_PAYLOAD_BYTES};

/// Former lives of a peer that are told from new ones.
const FORMER_MAX: usize = 4;

/// One node that was heard of.
#[derive(Debug, Clone, Hash)]
pub(crate) struct Peer {
    pub guid: u64,
    /// Random number of its present life.
    pub incarnation: u64,
    pub name: Name,
    /// Longest request and reply that it takes, in bytes.
    pub message_bytes_max: u16,
    /// Links to it that are up.
    pub links_up: u32,
    /// Never sent, or reversed: free to go over any link.
    pub queue: List,
    /// Open on a link that failed, and not being asked about now.
    pub unresolved: List,
    /// Not executed, as a neighbour said that the peer says: to be asked about once more over a link to it.
    pub undone: List,
    /// Unresolved ones that nobody waits for and that are kept for whoever asks.
    pub orphans: u32,
    /// What had to make room of its latches.
    pub lost: Lost,
    /// Whether a link to it ever was up. Before that its incarnation and its name are not known.
    pub met: bool,
    /// No path to it is asked for before the next pace, or before a tree changes.
    pub path_held: bool,
    /// Paths to it that came to nothing, since the last one that was good for something.
    pub paths_in_vain: u8,
    former: [Option<u64>; FORMER_MAX],
    former_next: usize,
}

impl Peer {
    pub const fn new(guid: u64, incarnation: u64, name: Name, lost: Lost) -> Self {
        Self {
            guid,
            incarnation,
            name,
            message_bytes_max: MAX_PAYLOAD_BYTES as u16,
            links_up: 0,
            queue: List::new(),
            unresolved: List::new(),
            undone: List::new(),
            orphans: 0,
            lost,
            met: true,
            path_held: false,
            paths_in_vain: 0,
            former: [None; FORMER_MAX],
            former_next: 0,
        }
    }

    /// One to whom no link was ever up: an address beyond the neighbours.
    pub const fn unmet(guid: u64, name: Name, lost: Lost) -> Self {
        Self {
            met: false,
            ..Self::new(guid, 0, name, lost)
        }
    }

    /// A link to it is about to be up for the first time.
    pub const fn meet(&mut self, incarnation: u64) {
        self.met = true;
        self.incarnation = incarnation;
    }

    /// Whether something waits for a link to it.
    pub const fn waits(&self) -> bool {
        !(self.queue.is_empty() && self.unresolved.is_empty() && self.undone.is_empty())
    }

    /// It lives anew. A life that was there before is another node with the same GUID: what was remembered of it then
    /// is lost, which is `everything`.
    pub fn reincarnate(&mut self, incarnation: u64, everything: Lost) {
        self.lost = if self.lived_before(incarnation) {
            everything
        } else {
            Lost::default()
        };
        self.former[self.former_next] = Some(self.incarnation);
        self.former_next = (self.former_next + 1) % FORMER_MAX;
        self.incarnation = incarnation;
    }

    /// Whether this is one of the lives that it had before its present one, as far as they are remembered.
    pub fn lived_before(&self, incarnation: u64) -> bool {
        self.former.contains(&Some(incarnation))
    }

    /// Whether it had other lives, of which nothing is remembered.
    pub fn has_lived_before(&self) -> bool {
        self.former.iter().any(Option::is_some)
    }

    /// Whether nothing would be lost with it that anybody waits for.
    pub const fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.undone.is_empty() && self.unresolved.len() == self.orphans
    }
}
