//! Invariants of channels between any two steps, checked and restored at each tick from arbitrary
//! register contents.
//!
//! There are two kinds of damage. A node repairs damage that it sees in its own tables: it closes a
//! channel, an end and a transit that do not refer to each other. If the two ends of a link
//! disagree on a channel, one end waits for a message that the other never sends. No correct
//! neighbor delays a message for so long, so this side fails the link, which ends all its channels
//! at both ends.

use super::{
    CHANNELS_MAX, Channels, Ends,
    note::CloseReason,
    table::{Due, Far, Spot, Stage},
};
use crate::tree::NeighborSet;

/// Result of a check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unsound {
    /// Ends whose path was closed.
    pub ends: Ends,
    /// Links to be declared failed.
    pub neighbors: NeighborSet,
}

impl Channels {
    /// Processes a tick. Closes a transit on which nothing arrived for more than `silent_ticks_max`
    /// ticks. A message that is overdue for twice as long fails its link.
    pub fn on_tick(&mut self, silent_ticks_max: u32) -> Unsound {
        let mut unsound = Unsound::default();
        self.part_ends(&mut unsound);
        self.part_transits(silent_ticks_max);
        let patience_ticks = silent_ticks_max.saturating_mul(2);
        for neighbor in 0..self.sides.len() as u8 {
            for place in 0..2 * CHANNELS_MAX {
                let spot = Spot::at(neighbor, place);
                self.part_channel(spot, &mut unsound);
                let side = &mut self.sides[usize::from(neighbor)];
                if side.wait_expired(spot, patience_ticks) {
                    unsound.neighbors.insert(neighbor);
                }
            }
            self.sides[usize::from(neighbor)].recount();
        }
        unsound
    }

    /// An end has a channel that leads to it.
    fn part_ends(&mut self, unsound: &mut Unsound) {
        for end in 0..self.ends.len() as u16 {
            let Some(spot) = self.ends[usize::from(end)] else {
                continue;
            };
            if !self.leads(spot, Far::End(end)) {
                self.ends[usize::from(end)] = None;
                unsound.ends |= 1 << end;
            }
        }
    }

    /// A transit in use joins two channels. Closes a transit on which nothing arrived for too long.
    fn part_transits(&mut self, silent_ticks_max: u32) {
        for index in 0..self.transits.len() as u16 {
            let transit = &mut self.transits[usize::from(index)];
            transit.wanted = false;
            let Some(legs) = transit.legs else {
                self.counters.dropped_records += transit.clear();
                continue;
            };
            transit.silent_ticks = transit.silent_ticks.saturating_add(1);
            let is_silent = transit.silent_ticks > silent_ticks_max;
            let is_joined = legs[0] != legs[1]
                && self.leads(legs[0], Far::Transit(index, 0))
                && self.leads(legs[1], Far::Transit(index, 1));
            if is_joined && !is_silent {
                let waiting = &self.transits[usize::from(index)].waiting;
                for (waiting, spot) in waiting.iter().zip(legs) {
                    if waiting.first().is_some() {
                        self.sides[usize::from(spot.neighbor)].waiting |= spot.bit();
                    }
                }
                continue;
            }
            let why = if is_joined {
                CloseReason::Silent
            } else {
                CloseReason::Broken
            };
            let transit = &mut self.transits[usize::from(index)];
            transit.legs = None;
            self.counters.dropped_records += transit.clear();
            for (leg, spot) in (0..).zip(legs) {
                if self.leads(spot, Far::Transit(index, leg)) {
                    self.close(spot, why);
                }
            }
        }
    }

    /// A channel and its end or transit refer to each other, unless the channel is undecided or
    /// closing.
    fn part_channel(&mut self, spot: Spot, unsound: &mut Unsound) {
        let channel = *self.sides[usize::from(spot.neighbor)].seen(spot);
        let is_mutual = match channel.far {
            Far::Nowhere => false,
            Far::End(end) => self.spot_of(end) == Some(spot),
            Far::Transit(index, leg) => self
                .transits
                .get(usize::from(index))
                .and_then(|transit| transit.legs)
                .is_some_and(|legs| legs.get(usize::from(leg)) == Some(&spot)),
        };
        match channel.stage {
            Stage::Opening | Stage::Open if !is_mutual => self.close(spot, CloseReason::Broken),
            Stage::Requested if channel.far != Far::Nowhere && !is_mutual => {
                self.close(spot, CloseReason::Broken);
            }
            Stage::Free | Stage::Closing { .. } if channel.far != Far::Nowhere => {
                if let Far::End(end) = channel.far
                    && is_mutual
                {
                    self.ends[usize::from(end)] = None;
                    unsound.ends |= 1 << end;
                }
                self.sides[usize::from(spot.neighbor)].cut(spot);
            }
            _ => {}
        }
        let side = &mut self.sides[usize::from(spot.neighbor)];
        let channel = *side.seen(spot);
        let is_consistent = match (channel.stage, channel.due) {
            (_, Due::Nothing) => true,
            (Stage::Opening, Due::Open) => spot.is_own() && channel.open.channel == spot.number(),
            (Stage::Open, Due::Opened | Due::Wanted) => !spot.is_own(),
            (Stage::Closing { .. }, Due::Close(_)) => true,
            _ => false,
        };
        if !is_consistent {
            unsound.neighbors.insert(spot.neighbor);
        }
    }

    /// Whether a channel leads there.
    fn leads(&self, spot: Spot, far: Far) -> bool {
        let side = self.sides.get(usize::from(spot.neighbor));
        side.is_some_and(|side| side.seen(spot).far == far)
    }
}
