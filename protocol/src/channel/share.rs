//! Limits on the transits and ends that one neighbor may use.
//!
//! No other node can see which node uses a path, so a neighbor could keep all of them busy forever.
//! One neighbor gets at most three quarters, over all its cables. The rest is for other neighbors
//! and for the node itself.

use super::{Channels, Spot};
use crate::tree::NeighborSet;

/// Of so many places one is not for the same neighbor.
const PLACES_PER_OTHER: usize = 4;

/// Places that one neighbor may have.
const fn share(places: usize) -> usize {
    places - places / PLACES_PER_OTHER
}

impl Channels {
    /// Declares that these are all the indexes of one neighbor. They share one limit.
    pub fn set_bundle(&mut self, neighbors: NeighborSet) {
        self.bundles.join(neighbors);
    }

    /// Whether a neighbor uses its full share of the transits of this node.
    #[must_use]
    pub fn has_used_transit_quota(&self, neighbor: u8) -> bool {
        let requested = self.transits.iter().filter_map(|transit| transit.legs);
        let bundle = self.bundles.bundle_of(neighbor);
        let requested = requested.filter(|[back, _]| bundle.contains(back.neighbor));
        requested.count() >= share(self.transits.len())
    }

    /// Whether a neighbor uses its full share of the ends of this node.
    #[must_use]
    pub fn has_used_end_quota(&self, neighbor: u8) -> bool {
        let requested = |end: &u16| self.was_requested_by(*end, neighbor);
        (0..self.ends.len() as u16).filter(requested).count() >= share(self.ends.len())
    }

    /// Whether a neighbor requested the path of an end.
    #[must_use]
    pub fn was_requested_by(&self, end: u16, neighbor: u8) -> bool {
        let spot = self.spot_of(end);
        let bundle = self.bundles.bundle_of(neighbor);
        spot.is_some_and(|spot| bundle.contains(spot.neighbor) && !spot.is_own())
    }

    /// Requests the nodes that opened paths over a neighbor to close them if idle.
    pub(super) fn request_release_by(&mut self, neighbor: u8) {
        let bundle = self.bundles.bundle_of(neighbor);
        for index in 0..self.transits.len() {
            let legs = self.transits[index].legs;
            if legs.is_some_and(|[back, _]: [Spot; 2]| bundle.contains(back.neighbor)) {
                self.request_release(index);
            }
        }
    }
}
