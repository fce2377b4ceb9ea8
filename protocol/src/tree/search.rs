//! Requests to a neighbor to move nearer, their forwarding and their denial.
//!
//! A request climbs from child to parent, along labels that get nearer. It stops at a node that can
//! move below the bound, at the latest the root, or at a node that is not attached, which denies. A
//! denied neighbor is recorded, and notified when the denial may have changed.

use super::{Label, NeighborSet, Standing, Trees, Watch, note::Item};

impl Trees {
    /// The neighbor requests this node to move nearer than a bound.
    pub(super) fn on_search(&mut self, neighbor: u8, item: &Item, watch: &mut impl Watch) {
        let bound = item.label;
        // An honest neighbor requests only from a node that advertised itself as attached.
        let Some(at) = self.table.find(item.root) else {
            return;
        };
        let tree = &mut self.table[at];
        if self.own == Some(at) {
            if tree.label.is_nearer(bound) {
                self.neighbors[usize::from(neighbor)].adverts.insert(at);
            } else if !self.rise(bound.wave_before()) {
                self.deny(at, neighbor);
            }
        } else if tree.standing != Standing::Attached || tree.parent == Some(neighbor) {
            self.deny(at, neighbor);
        } else if tree.label.is_nearer(bound) {
            self.neighbors[usize::from(neighbor)].adverts.insert(at);
        } else {
            tree.searchers.insert(neighbor);
            tree.wanted = tree.wanted.nearer_of(bound);
            self.settle(at, watch);
        }
    }

    /// The neighbor cannot move nearer now.
    pub(super) fn on_denied(&mut self, neighbor: u8, root: u64, watch: &mut impl Watch) {
        let Some(at) = self.table.find(root) else {
            return;
        };
        let tree = &mut self.table[at];
        match tree.standing {
            Standing::Attached => {
                if tree.parent == Some(neighbor) {
                    self.deny_searchers(at);
                }
            }
            Standing::Searches | Standing::Lost => {
                tree.requested.remove(neighbor);
                self.settle(at, watch);
            }
        }
    }

    fn deny(&mut self, at: usize, neighbor: u8) {
        let place = &mut self.neighbors[usize::from(neighbor)];
        // A queued advert makes it request again. The advert denies by itself if it reports
        // "unreachable".
        if !place.adverts.contains(at) {
            place.denials.insert(at);
        }
        self.table[at].denied.insert(neighbor);
    }

    /// Denies all neighbors that wait for this node.
    pub(super) fn deny_searchers(&mut self, at: usize) {
        let tree = &mut self.table[at];
        let searchers = tree.searchers;
        tree.want_nothing();
        for neighbor in searchers.iter() {
            self.deny(at, neighbor);
        }
    }

    /// Advertises the state of this node once more, which revokes a denial. Drops a denial not sent
    /// yet: behind the advert it would remain in force until the next tick.
    pub(super) fn advertise_again(&mut self, at: usize, neighbors: NeighborSet) {
        for neighbor in neighbors.iter() {
            self.neighbors[usize::from(neighbor)].denials.remove(at);
        }
        self.advert(at, neighbors);
    }

    /// Allows the denied neighbors to request again.
    pub(super) fn advertise_again_to_denied(&mut self, at: usize) {
        let denied = core::mem::take(&mut self.table[at].denied);
        self.advertise_again(at, denied);
    }

    /// The bound to request from the neighbor now, if any.
    pub(super) fn bound_for(&self, at: usize, neighbor: u8) -> Option<Label> {
        let tree = &self.table[at];
        match (tree.standing, tree.parent) {
            (Standing::Attached, Some(parent)) if parent == neighbor => {
                tree.is_wanted().then_some(tree.wanted)
            }
            (Standing::Attached, Some(parent)) => {
                let advertised = self.advertised(at, neighbor);
                let is_shorter =
                    advertised.is_candidate() && advertised.hops < self.advertised(at, parent).hops;
                (is_shorter && !advertised.leads(tree.label)).then_some(tree.label)
            }
            (Standing::Attached, None) => None,
            (Standing::Searches | Standing::Lost, _) => {
                tree.requested.contains(neighbor).then_some(tree.label)
            }
        }
    }
}
