//! What one neighbour may take of the room for paths.
//!
//! Nobody else can see who uses a path, so a neighbour could keep all of them busy for ever. One
//! has three quarters at most, over however many cables; the rest is for the others, and for the
//! node itself.

use super::{Channels, Spot};
use crate::tree::Berths;

/// Of so many places one is not for the same neighbour.
const PLACES_PER_OTHER: usize = 4;

/// Places that one neighbour may have.
const fn share(places: usize) -> usize {
    places - places / PLACES_PER_OTHER
}

impl Channels {
    /// These are all the berths at which the same neighbour is: together they have one share.
    pub fn are_of_one(&mut self, berths: Berths) {
        self.neighbors.join(berths);
    }

    /// Whether as many paths lead through this node for the neighbour at a berth as may.
    #[must_use]
    pub fn has_all_its_transits(&self, berth: u8) -> bool {
        let asked = self.transits.iter().filter_map(|transit| transit.legs);
        let of_one = self.neighbors.berths_of(berth);
        let asked = asked.filter(|[back, _]| of_one.contains(back.berth));
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
        let of_one = self.neighbors.berths_of(berth);
        spot.is_some_and(|spot| of_one.contains(spot.berth) && !spot.is_own())
    }

    /// Has the nodes that asked for paths over the neighbour at a berth know that their room is wanted.
    pub(super) fn ask_back_of(&mut self, berth: u8) {
        let of_one = self.neighbors.berths_of(berth);
        for index in 0..self.transits.len() {
            let legs = self.transits[index].legs;
            if legs.is_some_and(|[back, _]: [Spot; 2]| of_one.contains(back.berth)) {
                self.ask_back(index);
            }
        }
    }
}
