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

/// See the module. It never goes back: at its end, which no honest network comes to, it stands still.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Clock {
    now: u64,
    executed: u64,
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

    /// A message came from a node in `era` whose clock ends in `low`.
    #[inline]
    pub fn hear(&mut self, era: u32, low: u32) {
        self.observe(u64::from(era) << 32 | u64::from(low));
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
                executed: 0,
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
        clock.hear(3, 5);
        assert_eq!(clock.now(), 3 * ERA + 6);
        clock.hear(2, u32::MAX);
        assert_eq!(clock.now(), 3 * ERA + 7);
        clock.hear(u32::MAX, u32::MAX);
        clock.begin_frame();
        assert_eq!(clock.now(), u64::MAX);
    }
}
