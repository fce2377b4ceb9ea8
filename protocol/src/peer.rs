//! The nodes at the other ends of the cables.

use crate::{Name, transaction::List};

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
    /// Latches of one of its ports had to make room for another peer's: what is not remembered of it may have been.
    pub latches_lost: bool,
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
            latches_lost: false,
        }
    }

    /// Whether nothing here would be lost with it.
    pub const fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.unresolved.is_empty()
    }
}
