//! When a lane that does not sleep offers its core to others.
//!
//! An application that shares the core must get it when the work at hand is done, which may have told it something. On a core of its own
//! an offer is a system call for nothing, and there would be one for each verb that comes alone. So offers that nobody takes become rare, but for
//! those behind a wake-up, which was a system call already.

use std::time::{Duration, Instant};

/// Rounds without an offer behind one that nobody took, and fruitless rounds for each offer: some microseconds, longer than a peer on the next
/// machine takes to answer. An offer to an application that only waits costs two context switches, and just then the answer would come.
const ROUNDS_PER_OFFER: u32 = 64;

/// An offer that comes back sooner was taken by nobody: two context switches take longer, a call that finds nobody a fifth of it.
const TAKEN: Duration = Duration::from_micros(1);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Offers {
    /// The last offer was taken by nobody.
    declined: bool,
    /// Rounds since the last offer.
    rounds: u32,
}

impl Offers {
    /// A round ends that found work or not, left none behind (`drained`), and somebody was woken since the last offer (`woke`) or not. Whether the
    /// core is to be offered now.
    pub(super) const fn due(
        &mut self,
        found_work: bool,
        drained: bool,
        woke: bool,
        fruitless: u32,
    ) -> bool {
        self.rounds = self.rounds.saturating_add(1);
        if found_work {
            drained && (woke || !self.declined || self.rounds >= ROUNDS_PER_OFFER)
        } else {
            fruitless.is_multiple_of(ROUNDS_PER_OFFER)
        }
    }

    /// Offers it.
    pub(super) fn offer(&mut self) {
        let before = Instant::now();
        std::thread::yield_now();
        self.came_back(before.elapsed());
    }

    fn came_back(&mut self, after: Duration) {
        self.declined = after < TAKEN;
        self.rounds = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 1000 rounds that each did a little, how many offer the core, if it comes back `after`.
    fn offered(after: Duration, woke: bool) -> usize {
        let mut offers = Offers::default();
        (0..1000)
            .filter(|_| {
                let due = offers.due(true, true, woke, 0);
                if due {
                    offers.came_back(after);
                }
                due
            })
            .count()
    }

    #[test]
    fn whoever_shares_the_core_has_it_after_each_piece_of_work() {
        assert_eq!(offered(Duration::from_micros(2), false), 1000);
    }

    #[test]
    fn offers_that_nobody_takes_become_rare() {
        assert_eq!(offered(Duration::from_nanos(200), false), 16);
    }

    #[test]
    fn who_was_woken_has_it_at_once() {
        assert_eq!(offered(Duration::from_nanos(200), true), 1000);
    }

    #[test]
    fn work_that_is_left_is_done_first_and_rest_offers_now_and_then() {
        let mut offers = Offers::default();
        assert!(!offers.due(true, false, true, 0));
        let at_rest = (1..=1000).filter(|&fruitless| offers.due(false, false, false, fruitless));
        assert_eq!(at_rest.count(), 15);
    }
}
