//! Channels: the way over several hops that a path takes, reserved hop by hop, with room for whatever may be under way on it.
//!
//! [`Channels`] is what one node holds. A *channel* is a number on a link, given by whoever opened it. At each end of a path it leads to an
//! *end*, which the node's virtual ports are; a node between joins two of them to a *transit*, passes whole frames of the path on, and keeps
//! nothing of what they say. Links carry notes and frames once and in order, or fail. It has no clock; paces only count silence.
//!
//! ```text
//!  origin          transit            target
//!    │── Open ────────►│                 │      the transit has a number on each link, and room, before anybody else is asked
//!    │                 │── Open ────────►│      the target has an end
//!    │                 │◄──────── Opened │      what the target says of the path follows
//!    │◄──────── Opened │                 │
//!    │◄══════ frames of the path ═══════►│
//!    │── Close ───────►│── Close ───────►│      each says Close once; a number is free when both have
//!    │◄──────── Close ─│◄──────── Close ─│
//!    │◄─────── Wanted ─│                 │      somebody else was refused: the origin gives the path back if nobody uses it
//! ```
//!
//! | file | what |
//! |---|---|
//! | `note` | what neighbours say to each other, as bytes |
//! | `table` | the channels of one link |
//! | `transit` | the frames between two of them |
//! | `hear` | what a neighbour says |
//! | `share` | what one neighbour may take of the room |
//! | `say` | the next note, and the next frame |
//! | `sound` | what holds of channels, seen to at each pace |
//!
//! # Why nothing stays reserved
//! Whoever gives up a channel says `Close`, and whoever hears it gives up the channel on the other side, if it is a transit's, and says `Close`
//! too: so a `Close` reaches both ends. A link that fails ends all of its channels, at both of its ends, and is a `Close` for the rest of each
//! path. A transit on which nothing passed for too long is given up as well: whatever else happened, its ends have. And what tables hold that
//! nobody said is found at the next pace, or when a word has been waited for for too long (`sound`).

#[cfg(feature = "arbitrary-state")]
mod arbitrary;
mod hear;
pub mod note;
mod say;
mod share;
mod sound;
mod table;
mod transit;

use alloc::{boxed::Box, vec, vec::Vec};
use core::hash::{Hash, Hasher};

pub use self::{
    hear::{Lie, Passed},
    say::Ready,
    sound::Unsound,
    table::{CHANNELS_MAX, Spot},
    transit::TRANSIT_RECORDS_MAX,
};
use self::{
    note::{CloseReason, Open},
    table::{Due, Far, Side, Stage},
    transit::Transit,
};
use crate::tree::{BERTHS_MAX, Neighbors};

/// Most ends of a node.
pub const ENDS_MAX: u16 = 64;

/// Ends of a node, one bit for each.
pub type Ends = u64;

/// Every counter counts up from the node's construction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChannelCounters {
    /// Paths that this node opened and that came to be.
    pub opened: u64,
    /// Paths that this node opened in vain.
    pub refused: u64,
    /// Paths that ended here.
    pub accepted: u64,
    /// Paths of others that came to lead through this node, as far as it is concerned.
    pub joined: u64,
    /// Paths of others that this node refused.
    pub declined: u64,
    /// Records of others that were taken to be passed on.
    pub taken_records: u64,
    /// Those of them that were passed on.
    pub passed_records: u64,
    /// Those that were dropped, because their path was over.
    pub dropped_records: u64,
    /// Records that came on a channel that this side had closed already.
    pub late_records: u64,
}

/// They decide nothing.
impl Hash for ChannelCounters {
    fn hash<H: Hasher>(&self, _state: &mut H) {}
}

/// The channels of one node. One owner, one thread; plain data. Allocates in [`Channels::new`] and [`Channels::add_berth`] only.
#[derive(Debug, Clone, Hash)]
pub struct Channels {
    sides: Vec<Side>,
    transits: Box<[Transit]>,
    /// The channel of each end.
    ends: Box<[Option<Spot>]>,
    neighbors: Neighbors,
    counters: ChannelCounters,
}

impl Channels {
    /// Room for `transits` paths of others, of 6 KiB each, and for `ends` own ones, [`ENDS_MAX`] at most.
    #[must_use]
    pub fn new(transits: u16, ends: u16) -> Self {
        Self {
            sides: Vec::with_capacity(BERTHS_MAX),
            transits: (0..transits).map(|_| Transit::new()).collect(),
            ends: vec![None; usize::from(ends.min(ENDS_MAX))].into_boxed_slice(),
            neighbors: Neighbors::NONE,
            counters: ChannelCounters::default(),
        }
    }

    /// Makes room for the channels of one more berth.
    pub fn add_berth(&mut self) {
        if self.sides.len() < BERTHS_MAX {
            self.sides.push(Side::new());
        }
    }

    /// What happened.
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

    /// Channels of which not both ends of the link have said that they are over.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.sides.iter().map(|side| side.taken().count()).sum()
    }

    /// Asks for a path from an end that has none to `target`, over the neighbour at `berth`. `false` where there is no number for it.
    pub fn open(&mut self, end: u16, berth: u8, target: u64, origin: u64, hops: u8) -> bool {
        // An end has one path; only in registers that hold anything there is another.
        self.close_end(end, CloseReason::Broken);
        let Some(spot) = self.give_number(berth, Far::End(end), |channel| Open {
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
    fn give_number(&mut self, berth: u8, far: Far, open: impl FnOnce(u8) -> Open) -> Option<Spot> {
        let side = self.sides.get_mut(usize::from(berth))?;
        let number = side.free_number()?;
        let spot = Spot::new(berth, number, true);
        let channel = side.channel(spot);
        channel.stage = Stage::Opening;
        channel.open = open(number);
        side.lead(spot, far);
        side.set_due(spot, Due::Open);
        Some(spot)
    }

    /// The next path, behind that one, that was asked for and is not decided.
    #[must_use]
    pub fn undecided_behind(&self, last: Option<Spot>) -> Option<(Spot, Open)> {
        let first = last.map_or((0, 0), |last| (last.berth, last.place() + 1));
        let mut sides = self.sides.iter().zip(0..).skip(usize::from(first.0));
        sides.find_map(|(side, berth)| {
            let start = if berth == first.0 { first.1 } else { 0 };
            let behind = side.undecided & u128::MAX.checked_shl(start as u32).unwrap_or(0);
            (behind != 0).then(|| {
                let spot = Spot::at(berth, behind.trailing_zeros() as usize);
                (spot, side.seen(spot).open)
            })
        })
    }

    /// The path that was asked for ends here, at an end that has none.
    pub fn accept(&mut self, spot: Spot, end: u16) {
        self.close_end(end, CloseReason::Broken);
        let side = &mut self.sides[usize::from(spot.berth)];
        side.channel(spot).stage = Stage::Open;
        side.lead(spot, Far::End(end));
        side.set_due(spot, Due::Opened);
        self.ends[usize::from(end)] = Some(spot);
        self.counters.accepted += 1;
    }

    /// The path that was asked for goes on over the neighbour at `berth`.
    ///
    /// # Errors
    /// Why it does not: then it is refused. For want of room all who take some are asked to give it back, if nobody uses it.
    pub fn pass_on(&mut self, spot: Spot, berth: u8) -> Result<(), CloseReason> {
        if self.has_all_its_transits(spot.berth) {
            self.ask_back_of(spot.berth);
            return Err(CloseReason::NoRoom);
        }
        let joined = self.join(spot, berth);
        if joined == Err(CloseReason::NoRoom) {
            for index in 0..self.transits.len() {
                self.ask_back(index);
            }
        }
        joined
    }

    /// Has the node that asked for the path of a transit know that its room is wanted: once between two paces.
    fn ask_back(&mut self, index: usize) {
        let transit = &mut self.transits[index];
        let Some([back, _]) = transit.legs.filter(|_| !transit.wanted) else {
            return;
        };
        let side = &mut self.sides[usize::from(back.berth)];
        let channel = side.seen(back);
        if (channel.stage, channel.due) == (Stage::Open, Due::Nothing) && !back.is_own() {
            side.set_due(back, Due::Wanted);
            transit.wanted = true;
        }
    }

    fn join(&mut self, spot: Spot, berth: u8) -> Result<(), CloseReason> {
        let asked = self.sides[usize::from(spot.berth)].seen(spot).open;
        let free = self
            .transits
            .iter()
            .position(|transit| transit.legs.is_none());
        if berth == spot.berth {
            return Err(CloseReason::NoWay);
        }
        if asked.hops_left <= 1 {
            return Err(CloseReason::TooFar);
        }
        let index = free.ok_or(CloseReason::NoRoom)?;
        let onward = self
            .give_number(berth, Far::Transit(index as u16, 1), |channel| Open {
                hops_left: asked.hops_left - 1,
                channel,
                ..asked
            })
            .ok_or(CloseReason::NoRoom)?;
        let transit = &mut self.transits[index];
        transit.legs = Some([spot, onward]);
        transit.silent_paces = 0;
        self.sides[usize::from(spot.berth)].lead(spot, Far::Transit(index as u16, 0));
        self.counters.joined += 1;
        Ok(())
    }

    /// The path that was asked for is refused.
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

    /// This side gives a channel up. What it leads to is not told.
    fn close(&mut self, spot: Spot, why: CloseReason) {
        let side = &mut self.sides[usize::from(spot.berth)];
        let channel = side.seen(spot);
        match (channel.stage, channel.due) {
            (Stage::Free | Stage::Closing { .. }, _) => {}
            // The neighbour has never heard of it.
            (Stage::Opening, Due::Open) => side.free(spot),
            (Stage::Opening | Stage::Asked | Stage::Open, _) => {
                side.cut(spot);
                side.channel(spot).stage = Stage::Closing { heard: false };
                side.set_due(spot, Due::Close(why));
            }
        }
    }

    /// What a channel leads to is over: tells the end, if that is one. A transit is free, and its other channel closed.
    fn release(&mut self, spot: Spot, why: CloseReason) -> Option<u16> {
        match self.sides[usize::from(spot.berth)].seen(spot).far {
            Far::Nobody => None,
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

    /// A link failed: its channels are no more. Returns the ends whose path that was.
    pub fn on_down(&mut self, berth: u8) -> Ends {
        let mut ends = 0;
        if usize::from(berth) >= self.sides.len() {
            return ends;
        }
        self.neighbors.leave(berth);
        for place in 0..2 * CHANNELS_MAX {
            let spot = Spot::at(berth, place);
            if let Some(end) = self.release(spot, CloseReason::Broken) {
                ends |= 1 << end;
            }
            self.sides[usize::from(berth)].free(spot);
        }
        ends
    }

    /// This side ends a path of others, of which a channel is given.
    fn give_up(&mut self, spot: Spot, why: CloseReason) {
        self.release(spot, why);
        self.close(spot, why);
    }
}
