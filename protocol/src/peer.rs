//! The nodes at the other ends of the cables.

use crate::{Name, transaction::List};

/// Earlier lives of a peer that are remembered, so that a late handshake of one is not taken for another restart.
const RETIRED_MAX: usize = 4;

/// One node that was heard of.
#[derive(Debug)]
pub(crate) struct Peer {
    pub guid: u64,
    /// Random number of its present life.
    pub incarnation: u64,
    pub name: Name,
    /// Links to it that are up.
    pub links_up: u32,
    /// Never sent, or reversed: free to go over any link.
    pub queue: List,
    /// Open on a link that failed, and not being asked about now.
    pub unresolved: List,
    retired: [Option<u64>; RETIRED_MAX],
    retired_next: usize,
}

impl Peer {
    pub const fn new(guid: u64, incarnation: u64, name: Name) -> Self {
        Self {
            guid,
            incarnation,
            name,
            links_up: 0,
            queue: List::new(),
            unresolved: List::new(),
            retired: [None; RETIRED_MAX],
            retired_next: 0,
        }
    }

    /// Whether `incarnation` is one of its earlier lives.
    pub fn is_retired(&self, incarnation: u64) -> bool {
        self.retired.contains(&Some(incarnation))
    }

    /// It lives anew.
    pub fn reincarnate(&mut self, incarnation: u64) {
        self.retired[self.retired_next] = Some(self.incarnation);
        self.retired_next = (self.retired_next + 1) % RETIRED_MAX;
        self.incarnation = incarnation;
    }

    /// Whether nothing here would be lost with it.
    pub const fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.unresolved.is_empty()
    }
}
