//! What holds of channels between any two steps, seen to at each pace: registers that hold anything else come back from there.
//!
//! Two kinds of damage are told apart. What one node sees in its own tables it mends: a channel, an end and a transit that do not lead to each
//! other are over. What the two ends of a link hold of a channel differs where one waits for a word that the other will never say: nobody
//! who is sound lets wait for so long, so the link is failed, which ends all its channels at both ends.

use super::{
    CHANNELS_MAX, Channels, Ends,
    note::CloseReason,
    table::{Due, Far, Spot, Stage},
};
use crate::tree::Berths;

/// What a look at everything came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unsound {
    /// Ends whose path that was.
    pub ends: Ends,
    /// Links to be declared failed.
    pub berths: Berths,
}

impl Channels {
    /// A pace passed. A transit on which nothing came for more than `silent_paces_max` of them is given up; a word that was waited for twice as
    /// long never comes.
    pub fn on_pace(&mut self, silent_paces_max: u32) -> Unsound {
        let mut unsound = Unsound::default();
        self.part_ends(&mut unsound);
        self.part_transits(silent_paces_max);
        let patience_paces = silent_paces_max.saturating_mul(2);
        for berth in 0..self.sides.len() as u8 {
            for place in 0..2 * CHANNELS_MAX {
                let spot = Spot::at(berth, place);
                self.part_channel(spot, &mut unsound);
                let side = &mut self.sides[usize::from(berth)];
                if side.waits_in_vain(spot, patience_paces) {
                    unsound.berths.insert(berth);
                }
            }
            self.sides[usize::from(berth)].count_again();
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

    /// A transit that somebody has joins two channels; one on which nothing came for too long is given up.
    fn part_transits(&mut self, silent_paces_max: u32) {
        for index in 0..self.transits.len() as u16 {
            let transit = &mut self.transits[usize::from(index)];
            transit.wanted = false;
            let Some(legs) = transit.legs else {
                self.counters.dropped_records += transit.clear();
                continue;
            };
            transit.silent_paces = transit.silent_paces.saturating_add(1);
            let is_silent = transit.silent_paces > silent_paces_max;
            let is_joined = legs[0] != legs[1]
                && self.leads(legs[0], Far::Transit(index, 0))
                && self.leads(legs[1], Far::Transit(index, 1));
            if is_joined && !is_silent {
                let waiting = &self.transits[usize::from(index)].waiting;
                for (waiting, spot) in waiting.iter().zip(legs) {
                    if waiting.first().is_some() {
                        self.sides[usize::from(spot.berth)].waiting |= spot.bit();
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

    /// A channel leads to an end or a transit that has it, unless it waits for a decision or is over.
    fn part_channel(&mut self, spot: Spot, unsound: &mut Unsound) {
        let channel = *self.sides[usize::from(spot.berth)].seen(spot);
        let is_mutual = match channel.far {
            Far::Nobody => false,
            Far::End(end) => self.spot_of(end) == Some(spot),
            Far::Transit(index, leg) => self
                .transits
                .get(usize::from(index))
                .and_then(|transit| transit.legs)
                .is_some_and(|legs| legs.get(usize::from(leg)) == Some(&spot)),
        };
        match channel.stage {
            Stage::Opening | Stage::Open if !is_mutual => self.close(spot, CloseReason::Broken),
            Stage::Asked if channel.far != Far::Nobody && !is_mutual => {
                self.close(spot, CloseReason::Broken);
            }
            Stage::Free | Stage::Closing { .. } if channel.far != Far::Nobody => {
                if let Far::End(end) = channel.far
                    && is_mutual
                {
                    self.ends[usize::from(end)] = None;
                    unsound.ends |= 1 << end;
                }
                self.sides[usize::from(spot.berth)].cut(spot);
            }
            _ => {}
        }
        let side = &mut self.sides[usize::from(spot.berth)];
        let channel = *side.seen(spot);
        let says_what_it_is = match (channel.stage, channel.due) {
            (_, Due::Nothing) => true,
            (Stage::Opening, Due::Open) => spot.is_own() && channel.open.channel == spot.number(),
            (Stage::Open, Due::Opened | Due::Wanted) => !spot.is_own(),
            (Stage::Closing { .. }, Due::Close(_)) => true,
            _ => false,
        };
        if !says_what_it_is {
            unsound.berths.insert(spot.berth);
        }
    }

    /// Whether a channel leads there.
    fn leads(&self, spot: Spot, far: Far) -> bool {
        let side = self.sides.get(usize::from(spot.berth));
        side.is_some_and(|side| side.seen(spot).far == far)
    }
}
