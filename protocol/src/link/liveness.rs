//! Whether the other end still hears this one, from events alone.
//!
//! A ball may *ask* for one in return. While something is open on a link such a ball goes along, one at a time, so that a
//! lost record shows within a round trip: as a gap, or by the ball that owes nothing. If the ball itself does not come
//! back, the events by which that is found out are the round trips of other links, and the balls of the peer that reflect
//! nothing.

use super::feedback::Feedback;

/// Round trips of other links, without one here, after which a link with something open asks.
const ASK_AFTER: u32 = 2;
/// Balls heard one after the other that reflect nothing of what there is to reflect, after which the link is dead. One counts
/// for each pace of this side: those that came while it stood still were said before what it had not sent yet.
pub(crate) const UNREFLECTED_BALLS_MAX: u32 = 5;

/// What a link counts towards its own death.
#[derive(Debug, Clone, Hash)]
pub(crate) struct Liveness {
    /// A ball that asks waits for transmission.
    ask_due: bool,
    /// The peer's ball asked: a ball waits for transmission, and nothing but a ball will do.
    answer_due: bool,
    /// The record that carried the ball that asks, until it is reflected.
    asked: Option<u32>,
    /// The record whose reflection ends the round trip under way.
    round_trip: u32,
    /// Round trips of other links since something was last reflected here, while there was something open here.
    outpaced: u32,
    /// Balls that reflected nothing since something last was, though something of this side's was to be reflected.
    unreflected_balls: u32,
    /// One was counted since the last tick.
    counted_since_tick: bool,
}

impl Liveness {
    /// Nothing asked in an epoch whose records count from `first`.
    pub const fn new(first: u32) -> Self {
        Self {
            ask_due: false,
            answer_due: false,
            asked: None,
            round_trip: first,
            outpaced: 0,
            unreflected_balls: 0,
            counted_since_tick: false,
        }
    }

    #[cfg(feature = "arbitrary-state")]
    pub(crate) fn scramble(&mut self, draw: &mut crate::node::arbitrary::Draw) {
        self.ask_due = draw.flag();
        self.answer_due = draw.flag();
        self.asked = draw.flag().then(|| draw.sequence());
        self.round_trip = draw.sequence();
        self.outpaced = draw.below(40);
        self.unreflected_balls = draw.below(UNREFLECTED_BALLS_MAX);
        self.counted_since_tick = draw.flag();
    }

    /// Something that was said is reflected. Tells whether that ends a round trip: of something that was said after the
    /// last one had ended.
    #[inline]
    pub const fn reflected(&mut self, feedback: &Feedback) -> bool {
        self.outpaced = 0;
        self.unreflected_balls = 0;
        if let Some(asked) = self.asked
            && feedback.is_reflected(asked)
        {
            self.asked = None;
        }
        if !feedback.is_reflected(self.round_trip) {
            return false;
        }
        self.round_trip = feedback.next_sequence();
        true
    }

    /// Asks, unless the ball that asked last is still under way.
    pub const fn ask(&mut self) {
        self.ask_due = self.asked.is_none();
    }

    /// The peer asked.
    pub const fn answer(&mut self) {
        self.answer_due = true;
    }

    /// Whether a ball asks, and has not come back.
    pub const fn asks(&self) -> bool {
        self.ask_due || self.asked.is_some()
    }

    /// The record that carried the ball that asks, while it has not come back.
    pub const fn asked(&self) -> Option<u32> {
        self.asked
    }

    /// Whether a ball waits for transmission, whatever else is said.
    #[inline]
    pub const fn ball_due(&self) -> bool {
        self.ask_due || self.answer_due
    }

    /// Whether the ball that is written now asks.
    pub const fn ask_due(&self) -> bool {
        self.ask_due
    }

    /// Notes that a ball was written, in the record `sequence`.
    pub const fn said_ball(&mut self, sequence: u32) {
        if self.ask_due {
            self.asked = Some(sequence);
        }
        self.ask_due = false;
        self.answer_due = false;
    }

    /// A round trip of another link ended while something is open here. Tells whether that were `event_ratio` of them
    /// while the ball here did not come back; 0 of them never are.
    pub const fn outpace(&mut self, event_ratio: u32) -> bool {
        self.outpaced = self.outpaced.saturating_add(1);
        if self.outpaced >= ASK_AFTER {
            self.ask();
        }
        event_ratio > 0 && self.outpaced >= event_ratio && self.asked.is_some()
    }

    /// A ball was heard that reflects nothing new though there is something to reflect. Tells whether that were too many.
    pub const fn unreflected_ball(&mut self) -> bool {
        if !self.counted_since_tick {
            self.counted_since_tick = true;
            self.unreflected_balls += 1;
        }
        self.unreflected_balls >= UNREFLECTED_BALLS_MAX
    }

    /// One pace of this side passed.
    pub const fn tick(&mut self) {
        self.counted_since_tick = false;
    }
}
