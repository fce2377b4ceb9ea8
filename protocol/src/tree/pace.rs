//! What is done with each pace. No repair waits for one.

use super::{Berths, Standing, Trees, Watch};

/// Paces after which a tree that is lost may be forgotten: 5 s.
const LOST_PACES_MAX: u8 = 250;
/// Paces after which it may be forgotten for the sake of another: long enough for everybody behind to have lost it too.
const LOST_PACES_MIN: u8 = 8;

impl Trees {
    /// A pace passed. `heard`: the berths whose neighbour is known to have heard every advert that was
    /// written before the last pace at which it was among them.
    pub fn on_tick(&mut self, heard: Berths, watch: &mut impl Watch) {
        self.paces = self.paces.wrapping_add(1);
        self.nothing_to_forget = false;
        self.mend_own();
        self.pace_waves(watch);
        let is_wanted = |berth: u8| self.berths[usize::from(berth)].audit.left_out;
        let lost_paces_max = if self.up.iter().any(is_wanted) {
            LOST_PACES_MIN
        } else {
            LOST_PACES_MAX
        };
        for at in self.table.places() {
            if self.own == Some(at) || !self.table.is_known(at) {
                continue;
            }
            self.mend(at, watch);
            let tree = &mut self.table[at];
            if tree.told_hops != tree.hops {
                tree.told_hops = tree.hops;
                self.advert(at, self.up);
            }
            if self.table[at].standing == Standing::Hangs {
                self.ask_again(at);
            } else {
                self.seek_again(at, watch);
                self.note_heard(at, heard);
                if self.table[at].lost_paces >= lost_paces_max && self.may_go(at) {
                    self.forget(at);
                }
            }
        }
        self.pace_shares(watch);
        if !self.is_full() {
            self.full_told = false;
        }
        for berth in self.up.iter() {
            self.berths[usize::from(berth)].audit.digest_due = true;
        }
    }

    /// Asks the parent again for what somebody waits for, or a neighbour that is too far to be taken for a shorter way.
    fn ask_again(&mut self, at: usize) {
        let tree = &self.table[at];
        let whom = if tree.is_wanted() {
            tree.parent
        } else {
            self.up
                .iter()
                .filter(|&berth| tree.parent != Some(berth) && self.bound_for(at, berth).is_some())
                .min_by_key(|&berth| self.said(at, berth).hops)
        };
        if let Some(berth) = whom {
            self.berths[usize::from(berth)].seeks.insert(at);
        }
    }

    /// Asks everybody again.
    fn seek_again(&mut self, at: usize, watch: &mut impl Watch) {
        let candidates = self.candidates(at);
        self.table[at].asked = candidates;
        for berth in candidates.iter() {
            self.berths[usize::from(berth)].seeks.insert(at);
        }
        self.settle(at, watch);
    }

    /// Notes who heard that this node is lost: it was written before what is known to be heard. What
    /// is written after that does not count, or nothing would be heard while somebody never stops.
    fn note_heard(&mut self, at: usize, heard: Berths) {
        let tree = &mut self.table[at];
        tree.unheard = tree.unheard.without(heard.and(tree.written));
        tree.lost_paces = tree.lost_paces.saturating_add(1);
        let is_written = |&berth: &u8| !self.berths[usize::from(berth)].waits(at);
        let written: Berths = heard.and(self.up).iter().filter(is_written).collect();
        let tree = &mut self.table[at];
        tree.written = tree.written.without(heard).or(written);
    }

    /// Whether a tree may be forgotten, label and all: it is lost, and nobody can hang on this node or take it for a parent on an old word. Then labels
    /// stay in order without its own.
    fn may_go(&self, at: usize) -> bool {
        let tree = &self.table[at];
        tree.standing == Standing::Lost
            && tree.unheard.is_empty()
            && self.who(at, |said| said.hangs).is_empty()
            && !self.berths.iter().any(|berth| berth.waits(at))
    }

    fn forget(&mut self, at: usize) {
        self.table.remove(at);
        // There is a place: who was left out is asked with its next digest.
        for berth in &mut self.berths {
            berth.audit.left_out = false;
        }
    }

    /// Forgets the trees that are lost and may go: once between two paces, whatever neighbours say.
    pub(super) fn make_room(&mut self) {
        if core::mem::replace(&mut self.nothing_to_forget, true) {
            return;
        }
        for at in self.table.places() {
            if self.table.is_known(at)
                && self.table[at].lost_paces >= LOST_PACES_MIN
                && self.may_go(at)
            {
                self.forget(at);
            }
        }
    }
}
