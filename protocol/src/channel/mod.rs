//! Channels: the route of a path over several hops, reserved hop by hop, with buffers for
//! everything that may be in flight on it.
//!
//! [`Channels`] is the state of one node. A *channel* is a number on a link, assigned by the side
//! that opened it. At each end of a path the channel leads to an *end*, which is a virtual port of
//! the node. A node between joins two channels to a *transit*. It forwards whole frames of the path
//! and keeps no state about their contents. Links carry control messages and frames exactly once
//! and in order, or fail. The module has no clock: ticks only count silence.
//!
//! ```text
//!  origin          transit            target
//!    │── Open ────────►│                 │      the transit first reserves numbers and buffers
//!    │                 │── Open ────────►│      the target has an end
//!    │                 │◄──────── Opened │      frames of the target follow
//!    │◄──────── Opened │                 │
//!    │◄══════ frames of the path ═══════►│
//!    │── Close ───────►│── Close ───────►│      each side sends Close once; both free the number
//!    │◄──────── Close ─│◄──────── Close ─│
//!    │◄─────── Wanted ─│                 │      another path was refused: close if idle
//! ```
//!
//! | file | content |
//! |---|---|
//! | `note` | control messages between neighbors, as bytes |
//! | `table` | the channels of one link |
//! | `transit` | the frames between two of them |
//! | `receive` | receiving from a neighbor |
//! | `share` | limits on what one neighbor may reserve |
//! | `send` | the next control message, and the next frame to send |
//! | `sound` | the invariants of channels, checked at each tick |
//!
//! # Why no reservation leaks
//! A node that closes a channel sends `Close`. A transit that receives it also closes the channel
//! on its other side and sends `Close` there, so a `Close` reaches both ends. A link that fails
//! ends all of its channels at both of its ends, and acts as a `Close` for the rest of each path. A
//! node also closes a transit on which nothing passed for too long: whatever else happened, its
//! ends have closed. The check at each tick finds table contents that no message established, and
//! replies that are overdue (`sound`).

#[cfg(feature = "arbitrary-state")]
mod arbitrary;
pub mod note;
mod receive;
mod send;
mod share;
mod sound;
mod table;
mod transit;

use alloc::{boxed::Box, vec, vec::Vec};
use core::hash::{Hash, Hasher};

use self::{
    note::{CloseReason, Open},
    table::{Due, Far, Side, Stage},
    transit::Transit,
};
pub use self::{
    receive::{Lie, Passed},
    send::Ready,
    sound::Unsound,
    table::{CHANNELS_MAX, Spot},
    transit::TRANSIT_RECORDS_MAX,
};
use crate::tree::{Bundles, NEIGHBORS_MAX};

/// Most ends of a node.
pub const ENDS_MAX: u16 = 64;

/// Ends of a node, one bit for each.
pub type Ends = u64;

/// Every counter counts up from the node's construction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChannelCounters {
    /// Paths that this node opened and that were established.
    pub opened: u64,
    /// Paths that this node opened and that were refused.
    pub refused: u64,
    /// Paths that ended here.
    pub accepted: u64,
    /// Paths of others that this node joined as a transit.
    pub joined: u64,
    /// Paths of others that this node refused.
    pub declined: u64,
    /// Records of others that were taken to be passed on.
    pub taken_records: u64,
    /// Of these, records that were forwarded.
    pub passed_records: u64,
    /// Those that were dropped, because their path was over.
    pub dropped_records: u64,
    /// Records that arrived on a channel that this side had already closed.
    pub late_records: u64,
}

/// They decide nothing.
impl Hash for ChannelCounters {
    fn hash<H: Hasher>(&self, _state: &mut H) {}
}

/// The channels of one node. One owner, one thread; plain data. Allocates only in [`Channels::new`]
/// and [`Channels::add_neighbor`].
#[derive(Debug, Clone, Hash)]
pub struct Channels {
    sides: Vec<Side>,
    transits: Box<[Transit]>,
    /// The channel of each end.
    ends: Box<[Option<Spot>]>,
    bundles: Bundles,
    counters: ChannelCounters,
}

impl Channels {
    /// Reserves `transits` paths of others, of 6 KiB each, and `ends` own paths, at most
    /// [`ENDS_MAX`].
    #[must_use]
    pub fn new(transits: u16, ends: u16) -> Self {
        Self {
            sides: Vec::with_capacity(NEIGHBORS_MAX),
            transits: (0..transits).map(|_| Transit::new()).collect(),
            ends: vec![None; usize::from(ends.min(ENDS_MAX))].into_boxed_slice(),
            bundles: Bundles::NONE,
            counters: ChannelCounters::default(),
        }
    }

    /// Allocates the channels of one more neighbor index.
    pub fn add_neighbor(&mut self) {
        if self.sides.len() < NEIGHBORS_MAX {
            self.sides.push(Side::new());
        }
    }

    /// The counters.
    #[must_use]
    pub const fn counters(&self) -> ChannelCounters {
        self.counters
    }

    /// The channel of an end.
    #[must_use]
    pub fn spot_of(&self, end: u16) -> Option<Spot> {
        *self.ends.get(usize::from(end))?
    }

    /// Paths of others that lead through this node, or are to.
    #[must_use]
    pub fn transits(&self) -> usize {
        let legs = self
            .transits
            .iter()
            .filter(|transit| transit.legs.is_some());
        legs.count()
    }

    /// Records that wait to be passed on.
    #[must_use]
    pub fn waiting_records(&self) -> usize {
        let waiting = self.transits.iter().flat_map(|transit| &transit.waiting);
        waiting.map(|waiting| waiting.len()).sum()
    }

    /// Number of channels that have not been closed by both ends of the link.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.sides.iter().map(|side| side.taken().count()).sum()
    }

    /// Requests a path from an end that has none to `target`, over the neighbor with an index.
    /// Returns `false` if no channel number is free.
    pub fn open(&mut self, end: u16, neighbor: u8, target: u64, origin: u64, hops: u8) -> bool {
        // An end has one path; only in registers that hold anything there is another.
        self.close_end(end, CloseReason::Broken);
        let Some(spot) = self.give_number(neighbor, Far::End(end), |channel| Open {
            hops_left: hops,
            channel,
            target,
            origin,
        }) else {
            return false;
        };
        self.ends[usize::from(end)] = Some(spot);
        true
    }

    /// A channel that is opened here.
    fn give_number(
        &mut self,
        neighbor: u8,
        far: Far,
        open: impl FnOnce(u8) -> Open,
    ) -> Option<Spot> {
        let side = self.sides.get_mut(usize::from(neighbor))?;
        let number = side.free_number()?;
        let spot = Spot::new(neighbor, number, true);
        let channel = side.channel(spot);
        channel.stage = Stage::Opening;
        channel.open = open(number);
        side.lead(spot, far);
        side.set_due(spot, Due::Open);
        Some(spot)
    }

    /// The next requested and undecided path after `last`.
    #[must_use]
    pub fn undecided_behind(&self, last: Option<Spot>) -> Option<(Spot, Open)> {
        let first = last.map_or((0, 0), |last| (last.neighbor, last.place() + 1));
        let mut sides = self.sides.iter().zip(0..).skip(usize::from(first.0));
        sides.find_map(|(side, neighbor)| {
            let start = if neighbor == first.0 { first.1 } else { 0 };
            let behind = side.undecided & u128::MAX.checked_shl(start as u32).unwrap_or(0);
            (behind != 0).then(|| {
                let spot = Spot::at(neighbor, behind.trailing_zeros() as usize);
                (spot, side.seen(spot).open)
            })
        })
    }

    /// Accepts the requested path at an end that has none.
    pub fn accept(&mut self, spot: Spot, end: u16) {
        self.close_end(end, CloseReason::Broken);
        let side = &mut self.sides[usize::from(spot.neighbor)];
        side.channel(spot).stage = Stage::Open;
        side.lead(spot, Far::End(end));
        side.set_due(spot, Due::Opened);
        self.ends[usize::from(end)] = Some(spot);
        self.counters.accepted += 1;
    }

    /// Forwards the requested path over the neighbor with an index.
    ///
    /// # Errors
    /// The reason why it cannot: the caller then refuses the path. If no transit is free, all
    /// origins that hold one are requested to close it if it is idle.
    pub fn pass_on(&mut self, spot: Spot, neighbor: u8) -> Result<(), CloseReason> {
        if self.has_used_transit_quota(spot.neighbor) {
            self.request_release_by(spot.neighbor);
            return Err(CloseReason::NoRoom);
        }
        let joined = self.join(spot, neighbor);
        if joined == Err(CloseReason::NoRoom) {
            for index in 0..self.transits.len() {
                self.request_release(index);
            }
        }
        joined
    }

    /// Requests the node that opened the path of a transit to close it if idle, at most once
    /// between two ticks.
    fn request_release(&mut self, index: usize) {
        let transit = &mut self.transits[index];
        let Some([back, _]) = transit.legs.filter(|_| !transit.wanted) else {
            return;
        };
        let side = &mut self.sides[usize::from(back.neighbor)];
        let channel = side.seen(back);
        if (channel.stage, channel.due) == (Stage::Open, Due::Nothing) && !back.is_own() {
            side.set_due(back, Due::Wanted);
            transit.wanted = true;
        }
    }

    fn join(&mut self, spot: Spot, neighbor: u8) -> Result<(), CloseReason> {
        let requested = self.sides[usize::from(spot.neighbor)].seen(spot).open;
        let free = self
            .transits
            .iter()
            .position(|transit| transit.legs.is_none());
        if neighbor == spot.neighbor {
            return Err(CloseReason::NoRoute);
        }
        if requested.hops_left <= 1 {
            return Err(CloseReason::TooFar);
        }
        let index = free.ok_or(CloseReason::NoRoom)?;
        let onward = self
            .give_number(neighbor, Far::Transit(index as u16, 1), |channel| Open {
                hops_left: requested.hops_left - 1,
                channel,
                ..requested
            })
            .ok_or(CloseReason::NoRoom)?;
        let transit = &mut self.transits[index];
        transit.legs = Some([spot, onward]);
        transit.silent_ticks = 0;
        self.sides[usize::from(spot.neighbor)].lead(spot, Far::Transit(index as u16, 0));
        self.counters.joined += 1;
        Ok(())
    }

    /// Refuses the requested path.
    pub fn refuse(&mut self, spot: Spot, why: CloseReason) {
        self.counters.declined += 1;
        self.close(spot, why);
    }

    /// An end gives its path up. Does nothing if it has none.
    pub fn close_end(&mut self, end: u16, why: CloseReason) {
        if let Some(spot) = self.ends[usize::from(end)].take() {
            self.close(spot, why);
        }
    }

    /// Closes a channel from this side. Does not notify its end or transit.
    fn close(&mut self, spot: Spot, why: CloseReason) {
        let side = &mut self.sides[usize::from(spot.neighbor)];
        let channel = side.seen(spot);
        match (channel.stage, channel.due) {
            (Stage::Free | Stage::Closing { .. }, _) => {}
            // The neighbor has not received the `Open`.
            (Stage::Opening, Due::Open) => side.free(spot),
            (Stage::Opening | Stage::Requested | Stage::Open, _) => {
                side.cut(spot);
                side.channel(spot).stage = Stage::Closing { peer_closed: false };
                side.set_due(spot, Due::Close(why));
            }
        }
    }

    /// Releases the target of a channel: returns its end, or frees its transit and closes the other
    /// channel.
    fn release(&mut self, spot: Spot, why: CloseReason) -> Option<u16> {
        match self.sides[usize::from(spot.neighbor)].seen(spot).far {
            Far::Nowhere => None,
            Far::End(end) => {
                self.ends[usize::from(end)] = None;
                Some(end)
            }
            Far::Transit(index, leg) => {
                let transit = &mut self.transits[usize::from(index)];
                self.counters.dropped_records += transit.clear();
                if let Some(legs) = transit.legs.take() {
                    self.close(legs[1 - usize::from(leg)], why);
                }
                None
            }
        }
    }

    /// A link failed: frees its channels. Returns the ends of their paths.
    pub fn on_down(&mut self, neighbor: u8) -> Ends {
        let mut ends = 0;
        if usize::from(neighbor) >= self.sides.len() {
            return ends;
        }
        self.bundles.leave(neighbor);
        for place in 0..2 * CHANNELS_MAX {
            let spot = Spot::at(neighbor, place);
            if let Some(end) = self.release(spot, CloseReason::Broken) {
                ends |= 1 << end;
            }
            self.sides[usize::from(neighbor)].free(spot);
        }
        ends
    }

    /// This side ends a path of others, of which a channel is given.
    fn give_up(&mut self, spot: Spot, why: CloseReason) {
        self.release(spot, why);
        self.close(spot, why);
    }
}
