//! The next note, and the next frame that passes.

use super::{
    Channels,
    note::{ChannelNote, PassHead},
    table::{Due, Far, Spot, Stage},
};
use crate::wire::RecordBytes;

/// What may pass next on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// A frame of others, of so many records.
    Frame(usize),
    /// What this end has to say.
    End(u16),
}

impl Channels {
    /// The first note that waits for the neighbour at a berth.
    #[must_use]
    pub fn note(&self, berth: u8) -> Option<ChannelNote> {
        let side = self.sides.get(usize::from(berth))?;
        if side.due == 0 {
            return None;
        }
        let spot = Spot::at(berth, side.due.trailing_zeros() as usize);
        let channel = side.seen(spot);
        match channel.due {
            Due::Nothing => None,
            Due::Open => Some(ChannelNote::Open(channel.open)),
            Due::Opened => Some(ChannelNote::Opened(spot.number())),
            Due::Close(why) => Some(ChannelNote::Close {
                channel: spot.number(),
                why,
                opener: spot.is_own(),
            }),
            Due::Wanted => Some(ChannelNote::Wanted(spot.number())),
        }
    }

    /// Takes out the note that [`Channels::note`] gave: it is said.
    pub fn note_said(&mut self, berth: u8) {
        let Some(side) = self.sides.get_mut(usize::from(berth)) else {
            return;
        };
        if side.due == 0 {
            return;
        }
        let spot = Spot::at(berth, side.due.trailing_zeros() as usize);
        if side.seen(spot).stage == (Stage::Closing { heard: true }) {
            side.free(spot);
        } else {
            side.set_due(spot, Due::Nothing);
        }
    }

    /// What may pass next to the neighbour at a berth: channels with something to pass take turns. `speaks` tells of an end whether it has
    /// something to say.
    pub fn ready(&self, berth: u8, speaks: impl Fn(u16) -> bool) -> Option<(Spot, Ready)> {
        let side = self.sides.get(usize::from(berth))?;
        // Nothing passes before what is to be said of its channel.
        let mut rest = (side.waiting | side.ends) & !side.due;
        let from_turn = u128::MAX << side.turn;
        while rest != 0 {
            let next = if rest & from_turn == 0 {
                rest
            } else {
                rest & from_turn
            };
            let spot = Spot::at(berth, next.trailing_zeros() as usize);
            rest &= !spot.bit();
            let channel = side.seen(spot);
            let ready = match channel.far {
                _ if channel.stage != Stage::Open => None,
                Far::End(end) => speaks(end).then_some(Ready::End(end)),
                Far::Transit(index, leg) => {
                    let waiting = &self.transits[usize::from(index)].waiting[usize::from(leg)];
                    waiting.first().map(Ready::Frame)
                }
                Far::Nobody => None,
            };
            if let Some(ready) = ready {
                return Some((spot, ready));
            }
        }
        None
    }

    /// What stands before a frame on a channel.
    #[must_use]
    pub const fn head(spot: Spot, to_all: bool) -> PassHead {
        PassHead {
            channel: spot.number(),
            opener: spot.is_own(),
            to_all,
        }
    }

    /// Something of an end passed on its channel: others have their turn.
    pub fn end_said(&mut self, spot: Spot) {
        if let Some(side) = self.sides.get_mut(usize::from(spot.berth)) {
            side.turn = (spot.place() as u8 + 1) & 127;
        }
    }

    /// Takes the frame out that [`Channels::ready`] gave, to the start of `space`: what stands before it, and its records.
    pub fn take_frame(
        &mut self,
        spot: Spot,
        space: &mut [RecordBytes],
    ) -> Option<(PassHead, usize)> {
        let side = self.sides.get_mut(usize::from(spot.berth))?;
        let Far::Transit(index, leg) = side.seen(spot).far else {
            return None;
        };
        let waiting = &mut self.transits[usize::from(index)].waiting[usize::from(leg)];
        let (records, to_all) = waiting.pop(space)?;
        if waiting.first().is_none() {
            side.waiting &= !spot.bit();
        }
        side.turn = (spot.place() as u8 + 1) & 127;
        self.counters.passed_records += records as u64;
        Some((Self::head(spot, to_all), records))
    }
}
