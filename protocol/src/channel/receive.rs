//! Control messages and frames from a neighbor.

use super::{
    Channels,
    note::{CloseReason, Open, PassHead},
    table::{Due, Far, Side, Spot, Stage},
};
use crate::wire::RecordBytes;

/// A protocol violation: no correct neighbor sends this. The caller must declare the link failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lie;

/// Outcome of a frame that arrived on a channel.
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
    fn side(&mut self, neighbor: u8) -> Result<&mut Side, Lie> {
        self.sides.get_mut(usize::from(neighbor)).ok_or(Lie)
    }

    /// A neighbor requests a path. The caller then decides with [`Channels::accept`],
    /// [`Channels::pass_on`] or [`Channels::refuse`]. Until then the path stays
    /// [undecided](Channels::undecided_behind).
    ///
    /// # Errors
    /// [`Lie`]: the number is taken.
    pub fn on_open(&mut self, neighbor: u8, open: Open) -> Result<Spot, Lie> {
        let side = self.side(neighbor)?;
        let spot = Spot::new(neighbor, open.channel, false);
        let channel = side.channel(spot);
        if channel.stage != Stage::Free {
            return Err(Lie);
        }
        channel.stage = Stage::Requested;
        channel.open = open;
        side.undecided |= spot.bit();
        Ok(spot)
    }

    /// A neighbor reports that a path is established. Returns the end that requested it.
    ///
    /// # Errors
    /// [`Lie`]: none was requested.
    pub fn on_opened(&mut self, neighbor: u8, number: u8) -> Result<Option<u16>, Lie> {
        let side = self.side(neighbor)?;
        let spot = Spot::new(neighbor, number, true);
        let channel = side.channel(spot);
        match (channel.stage, channel.due) {
            (Stage::Opening, Due::Nothing) => channel.stage = Stage::Open,
            // The neighbor sent it before it received the `Close`.
            (Stage::Closing { peer_closed: false }, _) => return Ok(None),
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
                    let side = self.side(back.neighbor)?;
                    side.channel(back).stage = Stage::Open;
                    side.set_due(back, Due::Opened);
                }
                Ok(None)
            }
            Far::Nowhere => Ok(None),
        }
    }

    /// A neighbor closes a channel, or confirms the close. Returns the end of that path.
    ///
    /// # Errors
    /// [`Lie`]: there is no such channel.
    pub fn on_close(
        &mut self,
        neighbor: u8,
        number: u8,
        own: bool,
        why: CloseReason,
    ) -> Result<Option<u16>, Lie> {
        let side = self.side(neighbor)?;
        let spot = Spot::new(neighbor, number, own);
        let channel = side.channel(spot);
        match (channel.stage, channel.due) {
            (Stage::Free | Stage::Closing { peer_closed: true }, _)
            | (Stage::Opening, Due::Open) => Err(Lie),
            (Stage::Closing { peer_closed: false }, Due::Close(_)) => {
                channel.stage = Stage::Closing { peer_closed: true };
                Ok(None)
            }
            (Stage::Closing { peer_closed: false }, _) => {
                side.free(spot);
                Ok(None)
            }
            (stage, _) => {
                let end = self.release(spot, why);
                if stage == Stage::Opening && end.is_some() {
                    self.counters.refused += 1;
                }
                let side = self.side(neighbor)?;
                side.cut(spot);
                side.channel(spot).stage = Stage::Closing { peer_closed: true };
                side.set_due(spot, Due::Close(why));
                Ok(end)
            }
        }
    }

    /// A neighbor reports that other paths need the path's resources. Returns the end that
    /// requested the path.
    ///
    /// # Errors
    /// [`Lie`]: there is no such channel, or it is not established.
    pub fn on_wanted(&mut self, neighbor: u8, number: u8) -> Result<Option<u16>, Lie> {
        let side = self.side(neighbor)?;
        let spot = Spot::new(neighbor, number, true);
        let channel = side.seen(spot);
        match (channel.stage, channel.far) {
            (Stage::Open, Far::End(end)) => Ok(Some(end)),
            (Stage::Open, Far::Transit(index, _)) => {
                self.request_release(usize::from(index));
                Ok(None)
            }
            // The neighbor sent it before it received the `Close`.
            (Stage::Closing { peer_closed: false }, _) => Ok(None),
            _ => Err(Lie),
        }
    }

    /// A frame arrived on a channel from a neighbor: its records go to an end, or wait for
    /// forwarding.
    ///
    /// # Errors
    /// [`Lie`]: no frame may pass there.
    pub fn on_pass(
        &mut self,
        neighbor: u8,
        head: PassHead,
        records: &[RecordBytes],
    ) -> Result<Passed, Lie> {
        let side = self.side(neighbor)?;
        let spot = Spot::new(neighbor, head.channel, !head.opener);
        let channel = side.seen(spot);
        match (channel.stage, channel.due) {
            (Stage::Open, Due::Nothing | Due::Wanted) => {}
            // The neighbor sent it before it received the `Close`.
            (Stage::Closing { peer_closed: false }, _) => {
                self.counters.late_records += records.len() as u64;
                return Ok(Passed::Dropped);
            }
            _ => return Err(Lie),
        }
        let (index, leg) = match channel.far {
            Far::End(end) => return Ok(Passed::Here(end)),
            Far::Transit(index, leg) => (usize::from(index), usize::from(leg)),
            Far::Nowhere => return Ok(Passed::Dropped),
        };
        let transit = &mut self.transits[index];
        transit.silent_ticks = 0;
        let Some(legs) = transit.legs else {
            return Ok(Passed::Dropped);
        };
        let onward = legs[1 - leg];
        if transit.waiting[1 - leg].push(head.to_all, records) {
            self.counters.taken_records += records.len() as u64;
            let side = self.side(onward.neighbor)?;
            side.waiting |= onward.bit();
            Ok(Passed::On)
        } else {
            self.give_up(spot, CloseReason::Overrun);
            Ok(Passed::Dropped)
        }
    }
}
