//! Latches: lookup, eviction, and the record of what eviction loses.
//!
//! An evicted set is not cabled, so nothing requested in one of its epochs will be executed: a link
//! about to come up in such an epoch restarts its handshake ([`Node::void_agreements`]). [`Lost`]
//! covers exchanges that were executed: they must never be reported as never received.

use core::ops::Range;

use super::{Node, SETS_PER_LINK, far::SETS_PER_PATH};
use crate::{
    exchange::PATH_PORTS,
    latch::{Latch, Lost, Standing, Verdict, later_of},
};

impl Node {
    /// The latches of a port of a peer.
    #[inline]
    pub(super) fn set_of(&self, peer: usize, port: u16) -> Option<usize> {
        self.latches
            .iter()
            .position(|set| set.owner == Some((peer, port)))
    }

    /// Sets that are a link's first. All paths share theirs.
    pub(super) fn own_sets(&self, link: usize) -> Range<usize> {
        match link.checked_sub(self.path_links) {
            Some(cable) => {
                let first = self.path_sets() + cable * SETS_PER_LINK;
                first..first + SETS_PER_LINK
            }
            None => 0..self.path_sets(),
        }
    }

    /// Sets of all paths, which come first.
    pub(super) const fn path_sets(&self) -> usize {
        self.path_links * SETS_PER_PATH
    }

    /// The latest epoch of any end of a path: none was ever in a later one.
    pub(super) fn latest_path_epoch(&self) -> u32 {
        let links = &self.links[..self.path_links];
        let epochs = links.iter().map(|link| link.epoch());
        epochs.reduce(later_of).unwrap_or_default()
    }

    /// The loss if nothing is known of a peer's earlier exchanges.
    pub(super) fn everything(&self) -> Lost {
        Lost {
            cables: true,
            paths: Some(self.latest_path_epoch()),
        }
    }

    /// Forgets a peer that leaves the table, for the peer met on `link`.
    pub(super) fn forget_peer_at(&mut self, at: usize, link: usize) {
        // Any peer met from now on may be this one.
        let mut lost = self.peers[at].lost;
        if self.peers[at].has_lived_before() {
            lost = lost.and(self.everything());
        }
        for set in 0..self.latches.len() {
            if self.latches[set]
                .owner
                .is_some_and(|(owner, _)| owner == at)
            {
                lost = lost.and(self.lost_with(set));
                self.latches[set].clear();
            }
        }
        self.peers_lost = self.peers_lost.and(lost);
        self.void_agreements_with(self.peers[at].guid, link);
        for relays in &mut self.relays {
            relays.forget_peer(at);
        }
    }

    /// The part of a set that may still be queried and is lost with it.
    fn lost_with(&self, set: usize) -> Lost {
        let set = &self.latches[set];
        if set.is_far() {
            // No reply is sent on a link whose epoch has ended: see `detach`.
            let is_reflected = |link: usize, record| self.links[link].feedback.is_reflected(record);
            Lost {
                cables: false,
                paths: set.unlearned_until(is_reflected),
            }
        } else {
            let is_used = |latch: &Latch| latch.standing != Standing::Empty;
            Lost {
                cables: set.latches.iter().any(is_used),
                paths: None,
            }
        }
    }

    /// Binds a set to the link that its port is cabled to now.
    pub(super) fn bind_set(&mut self, set: usize, link: usize) {
        self.takes += 1;
        let latest = self.latest_path_epoch();
        let set = &mut self.latches[set];
        set.taken_at = self.takes;
        set.link = Some(link);
        set.distrust(self.links[link].epoch());
        if let Some((peer, _)) = set.owner {
            self.peers[peer].lost.bound(latest);
        }
        self.peers_lost.bound(latest);
    }

    /// Undoes [`Self::attach`]. The latches stay.
    pub(super) fn detach(&mut self, link: usize) {
        let Some(attachment) = self.links[link].epochs.detach() else {
            return;
        };
        let path_sets = self.path_sets();
        let feedback = &self.links[link].feedback;
        let set = &mut self.latches[attachment.set];
        set.record_learned(|record| feedback.is_reflected(record));
        set.link = None;
        set.latches.iter_mut().for_each(Latch::leave_epoch);
        for set in &mut self.latches[..path_sets] {
            set.end_words(link, |record| feedback.is_reflected(record));
        }
    }

    /// The latches of a port of a peer that queries on `link`; the port need not be cabled. Returns
    /// `None` if they were evicted, or if no set is available now: then nothing is known of the
    /// port.
    pub(super) fn remembered_set(
        &mut self,
        link: usize,
        peer: usize,
        queried: Verdict,
    ) -> Option<usize> {
        if let Some(set) = self.set_of(peer, queried.port) {
            return Some(set);
        }
        if self.peers[peer].lost.covers(queried.port, queried.epoch) {
            return None;
        }
        // A query takes no latches from others.
        let is_free = |&set: &usize| self.latches[set].owner.is_none();
        let set = if queried.port >= PATH_PORTS {
            self.roomiest(link, true)
                .filter(|&set| is_free(&set) || self.lost_with(set) == Lost::default())
        } else {
            (self.path_sets()..self.latches.len()).find(is_free)
        }?;
        self.evict(set, link);
        self.take_set(set, peer, queried.port);
        Some(set)
    }

    /// Gives a free set of latches to a port of a peer.
    fn take_set(&mut self, set: usize, peer: usize, port: u16) {
        self.takes += 1;
        let latches = &mut self.latches[set];
        latches.clear();
        latches.owner = Some((peer, port));
        latches.taken_at = self.takes;
        latches.lose_memory(self.peers[peer].lost);
    }

    /// A set of latches for a port of a peer that is cabled to `link` now: see [`Self::roomiest`].
    pub(super) fn make_room(&mut self, link: usize, peer: usize, port: u16) -> usize {
        // There are more sets than links, of cables and of paths, so one is unused.
        let set = self
            .roomiest(link, self.is_path(link))
            .unwrap_or_else(|| self.own_sets(link).start);
        self.evict(set, link);
        self.take_set(set, peer, port);
        set
    }

    /// The set to evict for the peer met on `link`: a free one, one that loses nothing, or else the
    /// least recently used one. Own sets of the link come first: an unauthenticated neighbor with
    /// many names on one cable takes no memory from peers of other cables. If all own sets were
    /// moved to other cables, any set is taken.
    fn roomiest(&self, link: usize, is_far: bool) -> Option<usize> {
        let own = self.own_sets(link);
        let path_sets = self.path_sets();
        let sets = if is_far {
            0..path_sets
        } else {
            path_sets..self.latches.len()
        };
        sets.filter(|&at| self.latches[at].link.is_none())
            .min_by_key(|&at| {
                let set = &self.latches[at];
                let is_lost = is_far && self.lost_with(at) != Lost::default();
                (
                    set.owner.is_some(),
                    !own.contains(&at),
                    is_lost,
                    set.taken_at,
                )
            })
    }

    /// Evicts a set for the peer met on `link`.
    fn evict(&mut self, set: usize, link: usize) {
        let Some((loser, _)) = self.latches[set].owner else {
            return;
        };
        let lost = if self.latches[set].is_far() {
            self.lost_with(set)
        } else {
            Lost {
                cables: true,
                paths: None,
            }
        };
        self.peers[loser].lost = self.peers[loser].lost.and(lost);
        self.void_agreements_with(self.peers[loser].guid, link);
    }

    /// Restarts the pending agreements of a node, of which latches are forgotten, on other links:
    /// see [`Node::void_agreements`].
    fn void_agreements_with(&mut self, guid: u64, except: usize) {
        self.void_agreements(except, |received, _| {
            received.is_some_and(|(other, _)| other == guid)
        });
    }
}
