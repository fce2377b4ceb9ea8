//! The clock of Lamport, and the count of what was executed.
//!
//! A clock has 64 bits. A record has room for the lower half, so each ball says the upper one, the *era*, and a ball goes
//! first wherever the peer does not know it: after 2³² events, or when a node meets one that has seen more.

/// When an exchange was executed, among all that its node executed and all that it had heard of.
///
/// Of two executions of one node in one life the later has the greater count and the greater clock. If an exchange was submitted by
/// somebody who knew that another had ended, and was told so over links, it has the greater clock, whatever the nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Moment {
    /// Its number among the executions of the node, from 1; 0 for none.
    pub count: u64,
    /// The node's clock of Lamport.
    pub clock: u64,
}

/// What a frame may add to the clock, and more: its records, and those of the frames of paths that it bears.
const FRAME_EVENTS_MAX: u64 = 128;

/// How far ahead a clock may be that is believed without further ado: more than a neighbor gets
/// ahead between two messages.
const NEAR: u64 = 1 << 16;
/// How far hearing may set the clock forward at once. At ten million events in a second a network
/// needs 325 days for so many.
pub(crate) const LEAP_MAX: u64 = 1 << 48;
/// What of that comes back with each pace. Whoever lies all the time needs 2^32 paces to use up the
/// clock, 2.7 years by default, or 2^48 messages that are near.
const LEAP_PER_PACE: u64 = 1 << 32;

/// See the module. It never goes back: at its end, which no honest network comes to, it stands still.
///
/// One lie must not bring it there, nor the clocks of all who hear of it. So what hearing may set
/// it forward is an *allowance*. A node that is new, or was apart, is behind by all that happened
/// elsewhere, and follows in one leap.
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

    /// A message came from a node in `era` whose clock ends in `low`. Tells whether that is
    /// believed; if not, whatever the message says has not happened as far as this node knows.
    #[inline]
    #[must_use]
    pub fn hear(&mut self, era: u32, low: u32) -> bool {
        let clock = u64::from(era) << 32 | u64::from(low);
        let is_believed = clock <= self.now.saturating_add(NEAR) || self.leap(clock);
        if is_believed {
            self.observe(clock);
        }
        is_believed
    }

    /// Whether the allowance is enough to follow a clock that is ahead. If it is not, half of it is
    /// used all the same: so who is behind by more than one leap comes nearer each time that its
    /// link fails, and whoever hears this node, with an allowance of its own, can follow.
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

    /// A pace passed.
    pub const fn pace(&mut self) {
        self.allowance = self.allowance.saturating_add(LEAP_PER_PACE);
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

    /// What happens from here on comes after what happened at `clock`.
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
    fn it_is_ahead_of_what_it_heard_and_never_goes_back() {
        let mut clock = Clock::default();
        assert!(clock.hear(3, 5));
        assert_eq!(clock.now(), 3 * ERA + 6);
        assert!(clock.hear(2, u32::MAX));
        assert_eq!(clock.now(), 3 * ERA + 7);
        clock.observe(u64::MAX);
        clock.begin_frame();
        assert_eq!(clock.now(), u64::MAX);
    }

    #[test]
    fn who_is_new_follows_in_one_leap_and_a_liar_needs_years() {
        let mut clock = Clock::default();
        assert!(clock.hear((LEAP_MAX >> 32) as u32, 0));
        let mut lied = 0_u64;
        let before = clock.now();
        for _ in 0..10_000 {
            lied += u64::from(!clock.hear(u32::MAX, u32::MAX));
        }
        assert_eq!(lied, 10_000);
        assert_eq!(clock.now(), before, "the allowance was used up");
        for _ in 0..1_000 {
            clock.pace();
            assert!(!clock.hear(u32::MAX, u32::MAX));
        }
        assert!(
            clock.now() - before < 1_001 * LEAP_PER_PACE,
            "{}",
            clock.now()
        );
    }

    #[test]
    fn who_hears_of_a_lie_from_another_can_follow() {
        let [mut first, mut second] = [Clock::default(); 2];
        for _ in 0..100 {
            assert!(!first.hear(u32::MAX, u32::MAX));
            let said = first.now();
            assert!(second.hear((said >> 32) as u32, said as u32));
            first.pace();
            second.pace();
        }
    }
}
