//! What a neighbour says.

use super::{
    Channels,
    note::{CloseReason, Open, PassHead},
    table::{Due, Far, Side, Spot, Stage},
};
use crate::wire::RecordBytes;

/// No neighbour says that: its link is to be declared failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lie;

/// What became of a frame that came on a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passed {
    /// It is for this end.
    Here(u16),
    /// It waits to go on.
    On,
    /// It was dropped: the channel is closing.
    Dropped,
}

impl Channels {
    fn side(&mut self, berth: u8) -> Result<&mut Side, Lie> {
        self.sides.get_mut(usize::from(berth)).ok_or(Lie)
    }

    /// The neighbour at a berth asks for a path. Whoever calls decides then what becomes of it: [`Channels::accept`], [`Channels::pass_on`],
    /// [`Channels::refuse`]; else it stays [undecided](Channels::undecided_behind).
    ///
    /// # Errors
    /// [`Lie`]: the number is taken.
    pub fn on_open(&mut self, berth: u8, open: Open) -> Result<Spot, Lie> {
        let side = self.side(berth)?;
        let spot = Spot::new(berth, open.channel, false);
        let channel = side.channel(spot);
        if channel.stage != Stage::Free {
            return Err(Lie);
        }
        channel.stage = Stage::Asked;
        channel.open = open;
        side.undecided |= spot.bit();
        Ok(spot)
    }

    /// The neighbour at a berth says that a path is there. Returns the end that wanted it.
    ///
    /// # Errors
    /// [`Lie`]: none was asked for.
    pub fn on_opened(&mut self, berth: u8, number: u8) -> Result<Option<u16>, Lie> {
        let side = self.side(berth)?;
        let spot = Spot::new(berth, number, true);
        let channel = side.channel(spot);
        match (channel.stage, channel.due) {
            (Stage::Opening, Due::Nothing) => channel.stage = Stage::Open,
            // It said so before it heard that nobody wants it any more.
            (Stage::Closing { heard: false }, _) => return Ok(None),
            _ => return Err(Lie),
        }
        match channel.far {
            Far::End(end) => {
                self.counters.opened += 1;
                Ok(Some(end))
            }
            Far::Transit(index, leg) => {
                if let Some(legs) = self.transits[usize::from(index)].legs {
                    let back = legs[1 - usize::from(leg)];
                    let side = self.side(back.berth)?;
                    side.channel(back).stage = Stage::Open;
                    side.set_due(back, Due::Opened);
                }
                Ok(None)
            }
            Far::Nobody => Ok(None),
        }
    }

    /// The neighbour at a berth gives a channel up, or agrees that it is over. Returns the end whose path that was.
    ///
    /// # Errors
    /// [`Lie`]: there is no such channel.
    pub fn on_close(
        &mut self,
        berth: u8,
        number: u8,
        own: bool,
        why: CloseReason,
    ) -> Result<Option<u16>, Lie> {
        let side = self.side(berth)?;
        let spot = Spot::new(berth, number, own);
        let channel = side.channel(spot);
        match (channel.stage, channel.due) {
            (Stage::Free | Stage::Closing { heard: true }, _) | (Stage::Opening, Due::Open) => {
                Err(Lie)
            }
            (Stage::Closing { heard: false }, Due::Close(_)) => {
                channel.stage = Stage::Closing { heard: true };
                Ok(None)
            }
            (Stage::Closing { heard: false }, _) => {
                side.free(spot);
                Ok(None)
            }
            (stage, _) => {
                let end = self.release(spot, why);
                if stage == Stage::Opening && end.is_some() {
                    self.counters.refused += 1;
                }
                let side = self.side(berth)?;
                side.cut(spot);
                side.channel(spot).stage = Stage::Closing { heard: true };
                side.set_due(spot, Due::Close(why));
                Ok(end)
            }
        }
    }

    /// The neighbour at a berth says that the room that a path takes is wanted by others. Returns the end that asked for it.
    ///
    /// # Errors
    /// [`Lie`]: there is no such channel, or it is not there yet.
    pub fn on_wanted(&mut self, berth: u8, number: u8) -> Result<Option<u16>, Lie> {
        let side = self.side(berth)?;
        let spot = Spot::new(berth, number, true);
        let channel = side.seen(spot);
        match (channel.stage, channel.far) {
            (Stage::Open, Far::End(end)) => Ok(Some(end)),
            (Stage::Open, Far::Transit(index, _)) => {
                self.ask_back(usize::from(index));
                Ok(None)
            }
            // It said so before it heard that it is given back.
            (Stage::Closing { heard: false }, _) => Ok(None),
            _ => Err(Lie),
        }
    }

    /// A frame came on a channel from the neighbour at a berth: its records go to an end, or wait to go on.
    ///
    /// # Errors
    /// [`Lie`]: nothing may pass there.
    pub fn on_pass(
        &mut self,
        berth: u8,
        head: PassHead,
        records: &[RecordBytes],
    ) -> Result<Passed, Lie> {
        let side = self.side(berth)?;
        let spot = Spot::new(berth, head.channel, !head.opener);
        let channel = side.seen(spot);
        match (channel.stage, channel.due) {
            (Stage::Open, Due::Nothing | Due::Wanted) => {}
            // It was said before the neighbour heard that this side has closed it.
            (Stage::Closing { heard: false }, _) => {
                self.counters.late_records += records.len() as u64;
                return Ok(Passed::Dropped);
            }
            _ => return Err(Lie),
        }
        let (index, leg) = match channel.far {
            Far::End(end) => return Ok(Passed::Here(end)),
            Far::Transit(index, leg) => (usize::from(index), usize::from(leg)),
            Far::Nobody => return Ok(Passed::Dropped),
        };
        let transit = &mut self.transits[index];
        transit.silent_paces = 0;
        let Some(legs) = transit.legs else {
            return Ok(Passed::Dropped);
        };
        let onward = legs[1 - leg];
        if transit.waiting[1 - leg].push(head.to_all, records) {
            self.counters.taken_records += records.len() as u64;
            let side = self.side(onward.berth)?;
            side.waiting |= onward.bit();
            Ok(Passed::On)
        } else {
            self.give_up(spot, CloseReason::Overrun);
            Ok(Passed::Dropped)
        }
    }
}
