//! Detects from events alone whether the other end still receives this one.
//!
//! A keepalive may request one in return (a ping). While anything is open on a link, one ping at a
//! time is in flight, so a lost record shows within a round trip: as a gap, or by a keepalive that
//! owes nothing. If the ping itself does not come back, round trips of other links and keepalives
//! of the peer that reflect nothing reveal it.

use super::feedback::Feedback;

/// Round trips of other links, without one here, after which a link with open exchanges sends a
/// ping.
const PING_AFTER: u32 = 2;
/// Consecutive keepalives that reflect nothing outstanding, after which the link fails. At most one
/// counts for each own tick: keepalives that arrived while this side was stalled were sent before
/// its next records.
pub(crate) const UNREFLECTED_KEEPALIVES_MAX: u32 = 5;

/// Liveness state of a link: evidence that leads to its failure.
#[derive(Debug, Clone, Hash)]
pub(crate) struct Liveness {
    /// A ping waits for transmission.
    ping_due: bool,
    /// The peer sent a ping: a keepalive waits for transmission, and no other message can replace
    /// it.
    answer_due: bool,
    /// The record that carried the ping, until it is reflected.
    ping_record: Option<u32>,
    /// The record whose reflection ends the current round trip.
    round_trip: u32,
    /// Round trips of other links since the last reflection here, while something was open here.
    other_round_trips: u32,
    /// Keepalives that reflected nothing since the last reflection, while records of this side were
    /// unreflected.
    unreflected_keepalives: u32,
    /// One was counted since the last tick.
    counted_since_tick: bool,
}

impl Liveness {
    /// No ping sent in an epoch whose records count from `first`.
    pub const fn new(first: u32) -> Self {
        Self {
            ping_due: false,
            answer_due: false,
            ping_record: None,
            round_trip: first,
            other_round_trips: 0,
            unreflected_keepalives: 0,
            counted_since_tick: false,
        }
    }

    #[cfg(feature = "arbitrary-state")]
    pub(crate) fn scramble(&mut self, draw: &mut crate::draw::Draw) {
        self.ping_due = draw.flag();
        self.answer_due = draw.flag();
        self.ping_record = draw.flag().then(|| draw.sequence());
        self.round_trip = draw.sequence();
        self.other_round_trips = draw.below(40);
        self.unreflected_keepalives = draw.below(UNREFLECTED_KEEPALIVES_MAX);
        self.counted_since_tick = draw.flag();
    }

    /// A sent record is reflected. Returns whether that ends a round trip: it was sent after the
    /// last round trip ended.
    #[inline]
    pub const fn reflected(&mut self, feedback: &Feedback) -> bool {
        self.other_round_trips = 0;
        self.unreflected_keepalives = 0;
        if let Some(ping_record) = self.ping_record
            && feedback.is_reflected(ping_record)
        {
            self.ping_record = None;
        }
        if !feedback.is_reflected(self.round_trip) {
            return false;
        }
        self.round_trip = feedback.next_sequence();
        true
    }

    /// Makes a ping due unless the last one is still in flight.
    pub const fn ping(&mut self) {
        self.ping_due = self.ping_record.is_none();
    }

    /// The peer sent a ping.
    pub const fn answer(&mut self) {
        self.answer_due = true;
    }

    /// Whether a ping is due or has not come back.
    pub const fn is_pinging(&self) -> bool {
        self.ping_due || self.ping_record.is_some()
    }

    /// The record that carried the ping, while it has not come back.
    pub const fn ping_record(&self) -> Option<u32> {
        self.ping_record
    }

    /// Whether a keepalive waits for transmission, regardless of other messages.
    #[inline]
    pub const fn keepalive_due(&self) -> bool {
        self.ping_due || self.answer_due
    }

    /// Whether the keepalive being written is a ping.
    pub const fn ping_due(&self) -> bool {
        self.ping_due
    }

    /// Records that a keepalive was written, in the record `sequence`.
    pub const fn keepalive_sent(&mut self, sequence: u32) {
        if self.ping_due {
            self.ping_record = Some(sequence);
        }
        self.ping_due = false;
        self.answer_due = false;
    }

    /// A round trip of another link ended while something is open here. Returns whether there were
    /// `event_ratio` of them before the ping here came back; never for 0.
    pub const fn count_other_round_trip(&mut self, event_ratio: u32) -> bool {
        self.other_round_trips = self.other_round_trips.saturating_add(1);
        if self.other_round_trips >= PING_AFTER {
            self.ping();
        }
        event_ratio > 0 && self.other_round_trips >= event_ratio && self.ping_record.is_some()
    }

    /// A keepalive was received that reflects nothing new although records are unreflected. Returns
    /// whether there were too many.
    pub const fn count_unreflected_keepalive(&mut self) -> bool {
        if !self.counted_since_tick {
            self.counted_since_tick = true;
            self.unreflected_keepalives += 1;
        }
        self.unreflected_keepalives >= UNREFLECTED_KEEPALIVES_MAX
    }

    /// Processes a tick of this side.
    pub const fn tick(&mut self) {
        self.counted_since_tick = false;
    }
}
