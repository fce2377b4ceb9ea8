//! Detects from events alone whether the other end still receives this one.
//!
//! A keepalive may request one in return (a ping). While anything is open on a link, one ping at a
//! time is in flight, so a lost record shows within a round trip: as a gap, or by a keepalive that
//! owes nothing. If the ping itself does not come back, round trips of other links and keepalives
//! of the peer that reflect nothing reveal it.
//!
//! A link that is up sends at least a keepalive for each tick, and counts the ticks in which it
//! received none. One ping at most is in flight.

use super::feedback::Feedback;
use crate::wire::slice::Kind;

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
    /// Ticks since the last reception.
    keepalive_misses: u32,
    /// A message other than keepalives and control messages was sent since the last tick.
    sent_since_tick: bool,
    /// A keepalive waits for transmission, unless another message replaces it.
    idle_due: bool,
    /// Whether its round trips count against other links, and theirs against it. Outlives the
    /// epochs.
    pub is_measured: bool,
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
            keepalive_misses: 0,
            sent_since_tick: false,
            idle_due: false,
            is_measured: true,
        }
    }

    /// Enters an epoch whose records count from `first`.
    pub const fn enter_epoch(&mut self, first: u32) {
        *self = Self {
            is_measured: self.is_measured,
            ..Self::new(first)
        };
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

    #[cfg(feature = "arbitrary-state")]
    pub(crate) fn scramble_ticks(
        &mut self,
        keepalive_misses_max: u32,
        draw: &mut crate::draw::Draw,
    ) {
        self.keepalive_misses = draw.below(keepalive_misses_max);
        self.sent_since_tick = draw.flag();
        self.idle_due = draw.flag();
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

    /// Whether a keepalive waits for transmission.
    #[inline]
    pub const fn keepalive_due(&self) -> bool {
        self.ping_due || self.answer_due || self.idle_due
    }

    /// Ticks since the last reception, while the link is up.
    #[inline]
    pub const fn keepalive_misses(&self) -> u32 {
        self.keepalive_misses
    }

    /// Records were received. `must_reflect`: so many that they must be reflected although nothing
    /// else is sent.
    #[inline]
    pub const fn received(&mut self, must_reflect: bool) {
        self.keepalive_misses = 0;
        self.idle_due |= must_reflect;
    }

    /// A message was written. Keepalives do not count, or an idle link would send one only every
    /// other tick. Nor do control messages: a keepalive goes with them, because only it carries its
    /// state.
    #[inline]
    pub fn sent(&mut self, kind: Kind) {
        if kind != Kind::ControlMessage {
            self.sent_since_tick |= kind != Kind::Keepalive;
            self.idle_due = false;
        }
    }

    /// A tick passed while the link is up. Returns the ticks since the last reception.
    pub const fn tick_up(&mut self) -> u32 {
        self.keepalive_misses += 1;
        self.idle_due |= !self.sent_since_tick;
        self.sent_since_tick = false;
        self.keepalive_misses
    }

    /// The epoch ended.
    pub const fn clear(&mut self) {
        self.idle_due = false;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::feedback::WINDOW_RECORDS_MAX;

    #[test]
    fn an_idle_link_sends_a_keepalive_for_each_tick_and_counts_silence() {
        let mut liveness = Liveness::new(0);
        for misses in 1..4 {
            assert_eq!(liveness.tick_up(), misses);
            assert!(liveness.keepalive_due());
            liveness.sent(Kind::Keepalive);
            assert!(!liveness.keepalive_due());
        }
        liveness.sent(Kind::Request);
        assert_eq!(liveness.tick_up(), 4);
        assert!(!liveness.keepalive_due(), "the request was enough");
        liveness.sent(Kind::ControlMessage);
        liveness.received(false);
        assert_eq!(liveness.tick_up(), 1);
        assert!(liveness.keepalive_due(), "a control message is not enough");
    }

    #[test]
    fn one_ping_is_in_flight_and_an_epoch_keeps_whether_the_link_is_measured() {
        let mut feedback = Feedback::new(0, WINDOW_RECORDS_MAX);
        let mut liveness = Liveness::new(0);
        liveness.is_measured = false;
        liveness.ping();
        liveness.keepalive_sent(feedback.next_sequence());
        feedback.sent(7);
        liveness.ping();
        assert!(!liveness.ping_due() && liveness.is_pinging());
        liveness.enter_epoch(5);
        assert!(!liveness.is_pinging() && !liveness.is_measured);
    }
}
