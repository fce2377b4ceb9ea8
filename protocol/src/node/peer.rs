//! The nodes at the other ends of the cables.
//!
//! The incarnation and the name of a peer are those of its last handshake that was proven. A former
//! incarnation never becomes the current one of the same node.

use crate::{Name, latch::Lost, wire::MAX_PAYLOAD_BYTES};

/// Former incarnations of a peer that are distinguished from new ones.
const FORMER_MAX: usize = 4;

/// One known node.
#[derive(Debug, Clone, Hash)]
pub(in crate::node) struct Peer {
    pub guid: u64,
    /// Random number of its current incarnation.
    pub incarnation: u64,
    pub name: Name,
    /// Longest request and reply that it takes, in bytes.
    pub message_bytes_max: u16,
    /// Links to it that are up.
    pub links_up: u32,
    /// Which of its latches were evicted.
    pub lost: Lost,
    /// Whether a link to it ever was up. Before that its incarnation and its name are not known.
    pub met: bool,
    /// Suppresses path requests to it until the next tick or the next change of a tree.
    pub path_held: bool,
    /// Paths to it that failed without result since the last useful one.
    pub failed_paths: u8,
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
            lost,
            met: true,
            path_held: false,
            failed_paths: 0,
            former: [None; FORMER_MAX],
            former_next: 0,
        }
    }

    /// A peer to which no link was ever up: an address beyond the neighbors.
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

    /// Maximum length of a message, in bytes: the smaller limit of it and of a node that takes
    /// `own`.
    #[inline]
    pub fn bytes_max(&self, own: usize) -> usize {
        own.min(usize::from(self.message_bytes_max))
    }

    /// Starts a new incarnation. If that incarnation existed before, it is another node with the
    /// same GUID: everything remembered of it is lost, which is `everything`.
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

    /// Whether this is one of its former incarnations, as far as they are remembered.
    pub fn lived_before(&self, incarnation: u64) -> bool {
        self.former.contains(&Some(incarnation))
    }

    /// Whether it had former incarnations, of which nothing is remembered.
    pub fn has_lived_before(&self) -> bool {
        self.former.iter().any(Option::is_some)
    }
}
