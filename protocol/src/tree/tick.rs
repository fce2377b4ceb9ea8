//! The work of each tick. No repair waits for a tick.

use super::{NeighborSet, Standing, Trees, Watch};

/// Ticks after which an unreachable tree may be forgotten: 5 s.
const LOST_TICKS_MAX: u8 = 250;
/// Ticks after which it may be forgotten in favor of another one: long enough for all nodes behind
/// it to find it unreachable too.
const LOST_TICKS_MIN: u8 = 8;

impl Trees {
    /// Handles a tick. `confirmed` contains the neighbor indices whose neighbor is known to have
    /// received every advert written before the last tick at which it was in the set.
    pub fn on_tick(&mut self, confirmed: NeighborSet, watch: &mut impl Watch) {
        self.ticks = self.ticks.wrapping_add(1);
        self.nothing_to_forget = false;
        self.mend_own();
        self.tick_waves(watch);
        let is_wanted = |neighbor: u8| self.neighbors[usize::from(neighbor)].audit.left_out;
        let lost_ticks_max = if self.up.iter().any(is_wanted) {
            LOST_TICKS_MIN
        } else {
            LOST_TICKS_MAX
        };
        for at in self.table.places() {
            if self.own == Some(at) || !self.table.is_known(at) {
                continue;
            }
            self.mend(at, watch);
            let tree = &mut self.table[at];
            if tree.advertised_hops != tree.hops {
                tree.advertised_hops = tree.hops;
                self.advert(at, self.up);
            }
            if self.table[at].standing == Standing::Attached {
                self.request_again(at);
            } else {
                self.search_again(at, watch);
                self.mark_confirmed(at, confirmed);
                if self.table[at].lost_ticks >= lost_ticks_max && self.may_go(at) {
                    self.forget(at);
                }
            }
        }
        self.tick_shares(watch);
        if !self.is_full() {
            self.full_reported = false;
        }
        for neighbor in self.up.iter() {
            self.neighbors[usize::from(neighbor)].audit.digest_due = true;
        }
    }

    /// Repeats the request to the parent that a neighbor waits for, or to a neighbor that is too
    /// far to be taken for a shorter path.
    fn request_again(&mut self, at: usize) {
        let tree = &self.table[at];
        let target = if tree.is_wanted() {
            tree.parent
        } else {
            self.up
                .iter()
                .filter(|&neighbor| {
                    tree.parent != Some(neighbor) && self.bound_for(at, neighbor).is_some()
                })
                .min_by_key(|&neighbor| self.advertised(at, neighbor).hops)
        };
        if let Some(neighbor) = target {
            self.neighbors[usize::from(neighbor)].searches.insert(at);
        }
    }

    /// Repeats the requests to all neighbors.
    fn search_again(&mut self, at: usize, watch: &mut impl Watch) {
        let candidates = self.candidates(at);
        self.table[at].requested = candidates;
        for neighbor in candidates.iter() {
            self.neighbors[usize::from(neighbor)].searches.insert(at);
        }
        self.settle(at, watch);
    }

    /// Records which neighbors know that this node is unreachable: the advert was written before
    /// the messages known to be received. Later messages do not count, or a steady stream would
    /// block this for good.
    fn mark_confirmed(&mut self, at: usize, confirmed: NeighborSet) {
        let tree = &mut self.table[at];
        tree.unconfirmed = tree.unconfirmed.without(confirmed.and(tree.written));
        tree.lost_ticks = tree.lost_ticks.saturating_add(1);
        let is_written = |&neighbor: &u8| !self.neighbors[usize::from(neighbor)].waits(at);
        let written: NeighborSet = confirmed.and(self.up).iter().filter(is_written).collect();
        let tree = &mut self.table[at];
        tree.written = tree.written.without(confirmed).or(written);
    }

    /// Whether a tree may be forgotten with its label: it is unreachable, and no neighbor can be
    /// attached to this node or take it as a parent by an old advert. Labels then stay in order
    /// without its own.
    fn may_go(&self, at: usize) -> bool {
        let tree = &self.table[at];
        tree.standing == Standing::Lost
            && tree.unconfirmed.is_empty()
            && self
                .neighbors_where(at, |advertised| advertised.attached)
                .is_empty()
            && !self.neighbors.iter().any(|neighbor| neighbor.waits(at))
    }

    fn forget(&mut self, at: usize) {
        self.table.remove(at);
        // A slot is free: the next digest of a neighbor that was left out triggers a request.
        for neighbor in &mut self.neighbors {
            neighbor.audit.left_out = false;
        }
    }

    /// Forgets the unreachable trees that may go, at most once between two ticks whatever neighbors
    /// send.
    pub(super) fn make_room(&mut self) {
        if core::mem::replace(&mut self.nothing_to_forget, true) {
            return;
        }
        for at in self.table.places() {
            if self.table.is_known(at)
                && self.table[at].lost_ticks >= LOST_TICKS_MIN
                && self.may_go(at)
            {
                self.forget(at);
            }
        }
    }
}
