//! What one neighbour may take of the room for paths.
//!
//! Nobody else can see who uses a path, so a neighbour could keep all of them busy for ever. One
//! has three quarters at most; the rest is for the others, and for the node itself.

use super::{Channels, Spot};

/// Of so many places one is not for the same neighbour.
const PLACES_PER_OTHER: usize = 4;

/// Places that one neighbour may have.
const fn share(places: usize) -> usize {
    places - places / PLACES_PER_OTHER
}

impl Channels {
    /// Whether as many paths lead through this node for the neighbour at a berth as may.
    #[must_use]
    pub fn has_all_its_transits(&self, berth: u8) -> bool {
        let asked = self.transits.iter().filter_map(|transit| transit.legs);
        let asked = asked.filter(|[back, _]| back.berth == berth);
        asked.count() >= share(self.transits.len())
    }

    /// Whether as many paths end at this node that the neighbour at a berth asked for as may.
    #[must_use]
    pub fn has_all_its_ends(&self, berth: u8) -> bool {
        let asked = |end: &u16| self.was_asked_for_by(*end, berth);
        (0..self.ends.len() as u16).filter(asked).count() >= share(self.ends.len())
    }

    /// Whether the path of an end was asked for by the neighbour at a berth.
    #[must_use]
    pub fn was_asked_for_by(&self, end: u16, berth: u8) -> bool {
        let spot = self.spot_of(end);
        spot.is_some_and(|spot| spot.berth == berth && !spot.is_own())
    }

    /// Has the nodes that asked for paths over a berth know that their room is wanted.
    pub(super) fn ask_back_of(&mut self, berth: u8) {
        for index in 0..self.transits.len() {
            let legs = self.transits[index].legs;
            if legs.is_some_and(|[back, _]: [Spot; 2]| back.berth == berth) {
                self.ask_back(index);
            }
        }
    }
}
