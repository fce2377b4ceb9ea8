//! What is done with each pace. No repair waits for one.

use super::{Berths, Standing, Trees, Watch, table::Said};

/// Paces after which a tree that is lost may be forgotten: 5 s.
const LOST_PACES_MAX: u8 = 250;

impl Trees {
    /// A pace passed. `heard_all`: the berths whose neighbour is known to have heard everything that was said to it.
    pub fn on_tick(&mut self, heard_all: Berths, watch: &mut impl Watch) {
        self.pace_waves(watch);
        // From the end, because a tree that is forgotten leaves the order.
        for place in (0..self.table.len()).rev() {
            let at = self.table.nth(place);
            if self.own == Some(at) {
                continue;
            }
            if core::mem::take(&mut self.table[at].hops_untold) {
                self.advert(at, self.up);
            }
            if self.table[at].standing == Standing::Hangs {
                self.ask_again(at);
            } else {
                self.seek_again(at, watch);
                self.forget_if_gone(at, heard_all);
            }
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

    /// Forgets a tree to whose root there is no way for long, label and all. Only when nobody can hang on this node or take it for a parent on an
    /// old word: then labels stay in order without its own.
    fn forget_if_gone(&mut self, at: usize, heard_all: Berths) {
        if self.table[at].standing != Standing::Lost {
            return;
        }
        let has_heard = |&berth: &u8| !self.berths[usize::from(berth)].waits(at);
        let heard: Berths = heard_all.iter().filter(has_heard).collect();
        let says_something = !self.who(at, |said| said.hangs).is_empty();
        let is_waiting = self.berths.iter().any(|berth| berth.waits(at));
        let tree = &mut self.table[at];
        tree.unheard = tree.unheard.without(heard);
        tree.lost_paces = tree.lost_paces.saturating_add(1);
        let may_go = !says_something && !is_waiting && tree.unheard.is_empty();
        if may_go && tree.lost_paces >= LOST_PACES_MAX {
            self.table.remove(at);
            for berth in &mut self.berths {
                berth.said[at] = Said::NOTHING;
            }
            self.full_told = false;
        }
    }
}
