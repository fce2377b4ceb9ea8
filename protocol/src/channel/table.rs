//! The channels of one link, as one end holds them.

use alloc::{boxed::Box, vec};

use super::note::{CloseReason, Open};

/// Channels of a link for each end that opens them.
pub const CHANNELS_MAX: usize = 64;
const OWN: u8 = CHANNELS_MAX as u8;

/// Position of a channel in the tables of a node: the neighbor index of the link, the number, and
/// the side that assigned it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Spot {
    /// The neighbor index.
    pub neighbor: u8,
    place: u8,
}

impl Spot {
    /// The channel `number`, below [`CHANNELS_MAX`]. `own`: this node opened it, not the neighbor.
    pub(super) const fn new(neighbor: u8, number: u8, own: bool) -> Self {
        Self {
            neighbor,
            place: number | if own { OWN } else { 0 },
        }
    }

    pub(super) const fn at(neighbor: u8, place: usize) -> Self {
        Self {
            neighbor,
            place: place as u8,
        }
    }

    pub(super) const fn place(self) -> usize {
        self.place as usize
    }

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.place & !OWN
    }

    /// Whether this node opened it.
    #[must_use]
    pub const fn is_own(self) -> bool {
        self.place & OWN != 0
    }

    pub(super) const fn bit(self) -> u128 {
        1 << self.place
    }
}

/// How far a channel is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    /// There is none.
    Free,
    /// Opened here, towards the target. Nothing passes before the answer.
    Opening,
    /// Opened by the neighbor, not answered.
    Requested,
    /// Frames pass.
    Open,
    /// This side closed it. The number is free when both ends have sent `Close`.
    Closing {
        /// The neighbor has.
        peer_closed: bool,
    },
}

/// The target of a channel at this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Far {
    /// Nothing: it is not decided yet, or over.
    Nowhere,
    /// This end of a path.
    End(u16),
    /// Another channel, over this transit, of which this is the leg with that number.
    Transit(u16, u8),
}

/// The control message to send next about a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Due {
    Nothing,
    Open,
    Opened,
    Close(CloseReason),
    Wanted,
}

#[derive(Debug, Clone, Copy, Hash)]
pub(super) struct Channel {
    pub stage: Stage,
    pub far: Far,
    pub due: Due,
    /// The request.
    pub open: Open,
}

impl Channel {
    const FREE: Self = Self {
        stage: Stage::Free,
        far: Far::Nowhere,
        due: Due::Nothing,
        open: Open {
            hops_left: 0,
            channel: 0,
            target: 0,
            origin: 0,
        },
    };
}

/// The channels of one neighbor index.
#[derive(Debug, Clone, Hash)]
pub(super) struct Side {
    channels: Box<[Channel]>,
    /// Channels with a control message to send.
    pub due: u128,
    /// Channels on which frames wait to go out.
    pub waiting: u128,
    /// Channels that lead to an end here.
    pub ends: u128,
    /// Requested and undecided channels.
    pub undecided: u128,
    /// The channel that may send next.
    pub turn: u8,
    /// Ticks without a reply of the neighbor, or without a decision, by table entry.
    waited_ticks: Box<[u32]>,
}

impl Side {
    pub fn new() -> Self {
        Self {
            channels: vec![Channel::FREE; 2 * CHANNELS_MAX].into_boxed_slice(),
            due: 0,
            waiting: 0,
            ends: 0,
            undecided: 0,
            turn: 0,
            waited_ticks: vec![0; 2 * CHANNELS_MAX].into_boxed_slice(),
        }
    }

    pub fn channel(&mut self, spot: Spot) -> &mut Channel {
        &mut self.channels[spot.place()]
    }

    pub const fn seen(&self, spot: Spot) -> &Channel {
        &self.channels[spot.place()]
    }

    /// The lowest number that is free to be given here.
    pub fn free_number(&self) -> Option<u8> {
        let own = &self.channels[CHANNELS_MAX..];
        let free = own.iter().position(|channel| channel.stage == Stage::Free);
        free.map(|number| number as u8)
    }

    /// Channels that there are.
    pub fn taken(&self) -> impl Iterator<Item = usize> {
        let is_taken = |place: &usize| self.channels[*place].stage != Stage::Free;
        (0..self.channels.len()).filter(is_taken)
    }

    /// Sets or clears the control message to send.
    pub fn set_due(&mut self, spot: Spot, due: Due) {
        self.channel(spot).due = due;
        match due {
            Due::Nothing => self.due &= !spot.bit(),
            Due::Open | Due::Opened | Due::Close(_) | Due::Wanted => self.due |= spot.bit(),
        }
    }

    /// Sets the target of the channel.
    pub fn lead(&mut self, spot: Spot, far: Far) {
        self.channel(spot).far = far;
        self.undecided &= !spot.bit();
        match far {
            Far::End(_) => self.ends |= spot.bit(),
            Far::Nowhere | Far::Transit(..) => self.ends &= !spot.bit(),
        }
    }

    /// The channel is no more, or leads nowhere any more.
    pub fn cut(&mut self, spot: Spot) {
        self.lead(spot, Far::Nowhere);
        self.waiting &= !spot.bit();
    }

    /// The number is free.
    pub fn free(&mut self, spot: Spot) {
        self.cut(spot);
        self.due &= !spot.bit();
        *self.channel(spot) = Channel::FREE;
        self.waited_ticks[spot.place()] = 0;
    }

    /// Processes a tick. Returns whether a channel has waited for more than `patience_ticks` ticks.
    pub fn wait_expired(&mut self, spot: Spot, patience_ticks: u32) -> bool {
        let stage = self.seen(spot).stage;
        let waited = &mut self.waited_ticks[spot.place()];
        *waited = match stage {
            Stage::Free | Stage::Open => 0,
            Stage::Opening | Stage::Requested | Stage::Closing { .. } => waited.saturating_add(1),
        };
        *waited > patience_ticks
    }

    /// Recomputes the bit sets from the channels. The transits maintain the set of waiting
    /// channels; extra bits in it are harmless.
    pub fn recount(&mut self) {
        (self.due, self.ends, self.undecided) = (0, 0, 0);
        for (channel, place) in self.channels.iter().zip(0..) {
            let bit = 1 << place;
            if channel.due != Due::Nothing {
                self.due |= bit;
            }
            if matches!(channel.far, Far::End(_)) {
                self.ends |= bit;
            }
            if channel.stage == Stage::Requested && channel.far == Far::Nowhere {
                self.undecided |= bit;
            }
        }
    }
}
