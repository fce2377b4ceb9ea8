//! To ask a neighbour to come nearer, to pass that on, and to deny it.
//!
//! A question climbs from child to parent, along labels that come nearer and nearer, up to a node that can come below the bound, the root at
//! the latest, or to one that does not hang, which denies. Who is denied is noted, and told again when that may have changed.

use super::{Berths, Label, Standing, Trees, Watch, note::Item};

impl Trees {
    /// The neighbour at a berth asks this node to come nearer than a bound.
    pub(super) fn on_seek(&mut self, berth: u8, item: &Item, watch: &mut impl Watch) {
        let bound = item.label;
        // Who never said that it hangs there is not asked by an honest neighbour.
        let Some(at) = self.table.find(item.root) else {
            return;
        };
        let tree = &mut self.table[at];
        if self.own == Some(at) {
            if tree.label.is_nearer(bound) {
                self.berths[usize::from(berth)].adverts.insert(at);
            } else if !self.rise(bound.wave_before()) {
                self.deny(at, berth);
            }
        } else if tree.standing != Standing::Hangs || tree.parent == Some(berth) {
            self.deny(at, berth);
        } else if tree.label.is_nearer(bound) {
            self.berths[usize::from(berth)].adverts.insert(at);
        } else {
            tree.seekers.insert(berth);
            tree.wanted = tree.wanted.nearer_of(bound);
            self.settle(at, watch);
        }
    }

    /// The neighbour at a berth cannot come nearer now.
    pub(super) fn on_denied(&mut self, berth: u8, root: u64, watch: &mut impl Watch) {
        let Some(at) = self.table.find(root) else {
            return;
        };
        let tree = &mut self.table[at];
        match tree.standing {
            Standing::Hangs => {
                if tree.parent == Some(berth) {
                    self.deny_seekers(at);
                }
            }
            Standing::Seeks | Standing::Lost => {
                tree.asked.remove(berth);
                self.settle(at, watch);
            }
        }
    }

    fn deny(&mut self, at: usize, berth: u8) {
        let place = &mut self.berths[usize::from(berth)];
        // An advert that waits will have it ask again, and denies by itself if it says "lost".
        if !place.adverts.contains(at) {
            place.denials.insert(at);
        }
        self.table[at].denied.insert(berth);
    }

    /// All who wait for this node wait in vain.
    pub(super) fn deny_seekers(&mut self, at: usize) {
        let tree = &mut self.table[at];
        let seekers = tree.seekers;
        tree.want_nothing();
        for berth in seekers.iter() {
            self.deny(at, berth);
        }
    }

    /// Says once more where this node stands, which takes back a denial: also one that was not said yet, for behind the advert it would stand until the
    /// next pace.
    pub(super) fn tell_again(&mut self, at: usize, berths: Berths) {
        for berth in berths.iter() {
            self.berths[usize::from(berth)].denials.remove(at);
        }
        self.advert(at, berths);
    }

    /// Those who were denied may ask again.
    pub(super) fn tell_denied_again(&mut self, at: usize) {
        let denied = core::mem::take(&mut self.table[at].denied);
        self.tell_again(at, denied);
    }

    /// What the neighbour at a berth is to be asked for now, if anything.
    pub(super) fn bound_for(&self, at: usize, berth: u8) -> Option<Label> {
        let tree = &self.table[at];
        match (tree.standing, tree.parent) {
            (Standing::Hangs, Some(parent)) if parent == berth => {
                tree.is_wanted().then_some(tree.wanted)
            }
            (Standing::Hangs, Some(parent)) => {
                let said = self.said(at, berth);
                let is_shorter = said.is_candidate() && said.hops < self.said(at, parent).hops;
                (is_shorter && !said.leads(tree.label)).then_some(tree.label)
            }
            (Standing::Hangs, None) => None,
            (Standing::Seeks | Standing::Lost, _) => {
                tree.asked.contains(berth).then_some(tree.label)
            }
        }
    }
}
