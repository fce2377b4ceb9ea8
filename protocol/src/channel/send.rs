//! The next note, and the next frame that passes.

use super::{
    Channels,
    note::{ChannelMessage, PassHead},
    table::{Due, Far, Spot, Stage},
};
use crate::wire::RecordBytes;

/// An item that may be sent next on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// A frame of others, of so many records.
    Frame(usize),
    /// Records of this end.
    End(u16),
}

impl Channels {
    /// The first control message that waits for a neighbor.
    #[must_use]
    pub fn note(&self, neighbor: u8) -> Option<ChannelMessage> {
        let side = self.sides.get(usize::from(neighbor))?;
        if side.due == 0 {
            return None;
        }
        let spot = Spot::at(neighbor, side.due.trailing_zeros() as usize);
        let channel = side.seen(spot);
        match channel.due {
            Due::Nothing => None,
            Due::Open => Some(ChannelMessage::Open(channel.open)),
            Due::Opened => Some(ChannelMessage::Opened(spot.number())),
            Due::Close(why) => Some(ChannelMessage::Close {
                channel: spot.number(),
                why,
                opener: spot.is_own(),
            }),
            Due::Wanted => Some(ChannelMessage::Wanted(spot.number())),
        }
    }

    /// Removes the control message that [`Channels::note`] returned: it was sent.
    pub fn message_sent(&mut self, neighbor: u8) {
        let Some(side) = self.sides.get_mut(usize::from(neighbor)) else {
            return;
        };
        if side.due == 0 {
            return;
        }
        let spot = Spot::at(neighbor, side.due.trailing_zeros() as usize);
        if side.seen(spot).stage == (Stage::Closing { peer_closed: true }) {
            side.free(spot);
        } else {
            side.set_due(spot, Due::Nothing);
        }
    }

    /// The item that may be sent next to a neighbor. Channels take turns. `speaks` returns whether
    /// an end has something to send.
    pub fn ready(&self, neighbor: u8, speaks: impl Fn(u16) -> bool) -> Option<(Spot, Ready)> {
        let side = self.sides.get(usize::from(neighbor))?;
        // A channel's control message is sent before its frames.
        let mut rest = (side.waiting | side.ends) & !side.due;
        let from_turn = u128::MAX << side.turn;
        while rest != 0 {
            let next = if rest & from_turn == 0 {
                rest
            } else {
                rest & from_turn
            };
            let spot = Spot::at(neighbor, next.trailing_zeros() as usize);
            rest &= !spot.bit();
            let channel = side.seen(spot);
            let ready = match channel.far {
                _ if channel.stage != Stage::Open => None,
                Far::End(end) => speaks(end).then_some(Ready::End(end)),
                Far::Transit(index, leg) => {
                    let waiting = &self.transits[usize::from(index)].waiting[usize::from(leg)];
                    waiting.first().map(Ready::Frame)
                }
                Far::Nowhere => None,
            };
            if let Some(ready) = ready {
                return Some((spot, ready));
            }
        }
        None
    }

    /// The header of a frame on a channel.
    #[must_use]
    pub const fn head(spot: Spot, to_all: bool) -> PassHead {
        PassHead {
            channel: spot.number(),
            opener: spot.is_own(),
            to_all,
        }
    }

    /// Something of an end passed on its channel: others have their turn.
    pub fn end_sent(&mut self, spot: Spot) {
        if let Some(side) = self.sides.get_mut(usize::from(spot.neighbor)) {
            side.turn = (spot.place() as u8 + 1) & 127;
        }
    }

    /// Removes the frame that [`Channels::ready`] returned and writes its records to the start of
    /// `space`. Returns its header and the number of records.
    pub fn take_frame(
        &mut self,
        spot: Spot,
        space: &mut [RecordBytes],
    ) -> Option<(PassHead, usize)> {
        let side = self.sides.get_mut(usize::from(spot.neighbor))?;
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
