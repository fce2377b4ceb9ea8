//! A Lamport clock, and the count of executions.
//!
//! A clock has 64 bits. A record carries the lower half, so each keepalive carries the upper half,
//! the *era*. A keepalive is sent first whenever the peer does not know the era: after 2³² events,
//! or when a node meets one with a later clock.

/// Time of an execution, ordered after all earlier executions of the node and all events that it
/// received.
///
/// Of two executions by one incarnation of a node, the later has the greater count and the greater
/// clock. If the submitter of an exchange learned over links that another exchange had ended, the
/// new exchange has the greater clock, on any node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Moment {
    /// Its number among the executions of the node, from 1; 0 for none.
    pub count: u64,
    /// The node's clock of Lamport.
    pub clock: u64,
}

/// Upper bound of the events that a frame adds to the clock: its records, and those of the path
/// frames that it carries.
const FRAME_EVENTS_MAX: u64 = 128;

/// How far ahead a clock may be that is believed without further ado: more than a neighbor gets
/// ahead between two messages.
const NEAR: u64 = 1 << 16;
/// How far hearing may set the clock forward at once. At ten million events in a second a network
/// needs 325 days for so many.
pub(crate) const LEAP_MAX: u64 = 1 << 48;
/// Allowance that each tick restores. A node that always lies needs 2^32 ticks to exhaust the
/// clock, 2.7 years by default, or 2^48 messages within `NEAR`.
const LEAP_PER_TICK: u64 = 1 << 32;

/// See the module. The clock never goes back. It stops at its maximum, which no correct network
/// reaches.
///
/// A false clock must not push it there, nor the clocks of nodes that receive from it. Messages
/// therefore advance the clock only by an *allowance*. A node that is new or was partitioned
/// catches up in one leap.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    now: u64,
    executed: u64,
    /// How far hearing may still set it forward.
    allowance: u64,
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            now: 0,
            executed: 0,
            allowance: LEAP_MAX,
        }
    }
}

impl Clock {
    pub const fn now(self) -> u64 {
        self.now
    }

    /// The upper half.
    pub const fn era(self) -> u32 {
        (self.now >> 32) as u32
    }

    /// Something happened here.
    #[inline]
    pub const fn tick(&mut self) {
        self.now = self.now.saturating_add(1);
    }

    /// Processes a message from a node in `era` whose clock ends in `low`. Returns whether this
    /// node believes the clock. If not, the caller must drop the message without effect.
    #[inline]
    #[must_use]
    pub fn receive(&mut self, era: u32, low: u32) -> bool {
        let clock = u64::from(era) << 32 | u64::from(low);
        let is_believed = clock <= self.now.saturating_add(NEAR) || self.leap(clock);
        if is_believed {
            self.observe(clock);
        }
        is_believed
    }

    /// Whether the allowance is enough to reach a clock that is ahead. If not, half of it is used
    /// anyway. A node that is behind by more than one leap therefore comes closer each time its
    /// link fails, and nodes that receive from it can follow with their own allowance.
    #[cold]
    const fn leap(&mut self, clock: u64) -> bool {
        let ahead = clock - self.now;
        if ahead <= self.allowance {
            self.allowance -= ahead;
            return true;
        }
        let part = self.allowance / 2;
        self.allowance -= part;
        self.now = self.now.saturating_add(part);
        false
    }

    /// Processes a tick.
    pub const fn refill_allowance(&mut self) {
        self.allowance = self.allowance.saturating_add(LEAP_PER_TICK);
        if self.allowance > LEAP_MAX {
            self.allowance = LEAP_MAX;
        }
    }

    /// An exchange is executed here.
    #[inline]
    pub const fn execute(&mut self) -> Moment {
        self.tick();
        self.executed += 1;
        Moment {
            count: self.executed,
            clock: self.now,
        }
    }

    /// Enters the next era now if it would begin within a frame.
    #[inline]
    pub const fn begin_frame(&mut self) {
        let ahead = self.now.saturating_add(FRAME_EVENTS_MAX);
        if ahead >> 32 != self.now >> 32 {
            self.now = ahead >> 32 << 32;
        }
    }

    /// Events from here on come after the event at `clock`.
    #[inline]
    pub fn observe(&mut self, clock: u64) {
        self.now = self.now.max(clock);
        self.tick();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ERA: u64 = 1 << 32;

    #[test]
    fn no_era_begins_within_a_frame() {
        for before in [0, ERA - FRAME_EVENTS_MAX - 1, ERA - 3, ERA, 7 * ERA - 1] {
            let mut clock = Clock {
                now: before,
                ..Clock::default()
            };
            clock.begin_frame();
            assert!(clock.now >= before);
            let era = clock.era();
            (0..FRAME_EVENTS_MAX).for_each(|_| clock.tick());
            assert_eq!(clock.era(), era, "from {before}");
        }
    }

    #[test]
    fn the_clock_is_ahead_of_received_clocks_and_never_goes_back() {
        let mut clock = Clock::default();
        assert!(clock.receive(3, 5));
        assert_eq!(clock.now(), 3 * ERA + 6);
        assert!(clock.receive(2, u32::MAX));
        assert_eq!(clock.now(), 3 * ERA + 7);
        clock.observe(u64::MAX);
        clock.begin_frame();
        assert_eq!(clock.now(), u64::MAX);
    }

    #[test]
    fn a_new_node_follows_in_one_leap_and_a_liar_needs_years() {
        let mut clock = Clock::default();
        assert!(clock.receive((LEAP_MAX >> 32) as u32, 0));
        let mut lied = 0_u64;
        let before = clock.now();
        for _ in 0..10_000 {
            lied += u64::from(!clock.receive(u32::MAX, u32::MAX));
        }
        assert_eq!(lied, 10_000);
        assert_eq!(clock.now(), before, "the allowance was used up");
        for _ in 0..1_000 {
            clock.refill_allowance();
            assert!(!clock.receive(u32::MAX, u32::MAX));
        }
        assert!(
            clock.now() - before < 1_001 * LEAP_PER_TICK,
            "{}",
            clock.now()
        );
    }

    #[test]
    fn a_node_can_follow_a_clock_that_a_lie_advanced() {
        let [mut first, mut second] = [Clock::default(); 2];
        for _ in 0..100 {
            assert!(!first.receive(u32::MAX, u32::MAX));
            let clock_value = first.now();
            assert!(second.receive((clock_value >> 32) as u32, clock_value as u32));
            first.refill_allowance();
            second.refill_allowance();
        }
    }
}
