//! Decides when a lane that does not sleep yields its core.
//!
//! An application that shares the core must get it when the current work is done, which may have
//! notified it. On a dedicated core a yield is a useless system call, one for each verb that
//! arrives alone. So yields without a taker become rare, except those after a wake-up, which
//! already made a system call.

use std::time::{Duration, Instant};

/// Rounds without a yield after one without a taker, and idle rounds per yield. They last some
/// microseconds, longer than the reply time of a peer on the next machine. A yield to an
/// application that only waits costs two context switches, just when the reply would arrive.
const ROUNDS_PER_YIELD: u32 = 64;

/// A yield that returns sooner had no taker: two context switches take longer, a call without a
/// taker a fifth of it.
const TAKEN: Duration = Duration::from_micros(1);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Yields {
    /// The last yield had no taker.
    declined: bool,
    /// Rounds since the last yield.
    rounds: u32,
}

impl Yields {
    /// Returns whether to yield the core after a round. `drained`: the round left no work behind.
    /// `woke`: an application was woken since the last yield.
    pub(super) const fn due(
        &mut self,
        found_work: bool,
        drained: bool,
        woke: bool,
        fruitless: u32,
    ) -> bool {
        self.rounds = self.rounds.saturating_add(1);
        if found_work {
            drained && (woke || !self.declined || self.rounds >= ROUNDS_PER_YIELD)
        } else {
            fruitless.is_multiple_of(ROUNDS_PER_YIELD)
        }
    }

    /// Yields the core.
    pub(super) fn yield_core(&mut self) {
        let before = Instant::now();
        std::thread::yield_now();
        self.resumed(before.elapsed());
    }

    fn resumed(&mut self, after: Duration) {
        self.declined = after < TAKEN;
        self.rounds = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of 1000 rounds with a little work yield the core, if each yield returns
    /// after `after`.
    fn yields_of(after: Duration, woke: bool) -> usize {
        let mut yields = Yields::default();
        (0..1000)
            .filter(|_| {
                let due = yields.due(true, true, woke, 0);
                if due {
                    yields.resumed(after);
                }
                due
            })
            .count()
    }

    #[test]
    fn an_application_on_the_same_core_runs_after_each_work_item() {
        assert_eq!(yields_of(Duration::from_micros(2), false), 1000);
    }

    #[test]
    fn unused_yields_become_rare() {
        assert_eq!(yields_of(Duration::from_nanos(200), false), 16);
    }

    #[test]
    fn a_woken_application_gets_the_core_at_once() {
        assert_eq!(yields_of(Duration::from_nanos(200), true), 1000);
    }

    #[test]
    fn pending_work_comes_first_and_an_idle_lane_yields_sometimes() {
        let mut yields = Yields::default();
        assert!(!yields.due(true, false, true, 0));
        let at_rest = (1..=1000).filter(|&fruitless| yields.due(false, false, false, fruitless));
        assert_eq!(at_rest.count(), 15);
    }
}
