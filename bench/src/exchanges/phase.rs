//! The current phase of a slice: both ends begin and end together.

use std::{
    sync::atomic::{AtomicU8, Ordering},
    time::{Duration, Instant},
};

use crate::stop;

/// Time before counting starts, so that the memory is touched and the link has space.
const WARM_UP: Duration = Duration::from_millis(50);

/// Rounds for each look at the clock.
const ROUNDS_PER_CHECK: u32 = 64;

const WARMING: u8 = 0;
const COUNTING: u8 = 1;
const OVER: u8 = 2;

/// Where a slice stands. The near end sets it, the far end follows.
#[derive(Debug, Default)]
pub struct Phase(AtomicU8);

impl Phase {
    /// Ends the slice early: an end has failed.
    pub fn give_up(&self) {
        self.0.store(OVER, Ordering::Relaxed);
    }

    /// Runs rounds until the slice is over. Calls `count` at the beginning and at the end of the
    /// slice. Returns both counts and the time between them.
    pub fn run<E, C, Error>(
        &self,
        end: &mut E,
        leads: Option<Duration>,
        mut round: impl FnMut(&mut E) -> Result<(), Error>,
        count: impl Fn(&E) -> C,
    ) -> Result<(C, C, Duration), Error> {
        let mut begun = Instant::now();
        let mut rounds = 0_u32;
        let mut started = None;
        loop {
            round(end)?;
            rounds = rounds.wrapping_add(1);
            if let Some(slice) = leads
                && rounds.is_multiple_of(ROUNDS_PER_CHECK)
            {
                // Advance at most one phase per check: a leader that was preempted for the whole
                // slice still counts one.
                let counts = started.is_some();
                if stop::is_requested() || (counts && begun.elapsed() >= slice) {
                    self.0.fetch_max(OVER, Ordering::Relaxed);
                } else if !counts && begun.elapsed() >= WARM_UP {
                    self.0.fetch_max(COUNTING, Ordering::Relaxed);
                    begun = Instant::now();
                }
            }
            match self.0.load(Ordering::Relaxed) {
                WARMING => {}
                COUNTING => {
                    if started.is_none() {
                        started = Some((count(end), Instant::now()));
                    }
                }
                _ => {
                    let last = count(end);
                    let (first, at) = started.unwrap_or_else(|| (count(end), Instant::now()));
                    return Ok((first, last, at.elapsed()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// Marks an end that left, so that the other end no longer waits for it.
    struct Gone<'a>(&'a AtomicU64);

    impl Drop for Gone<'_> {
        fn drop(&mut self) {
            self.0.store(u64::MAX, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_follower_begins_and_ends_with_the_leader() {
        let phase = Phase::default();
        // Each end makes one round per round of the other, regardless of how the scheduler shares
        // the CPUs.
        let made = [AtomicU64::new(0), AtomicU64::new(0)];
        let run = |own: usize, leads| {
            let left = Gone(&made[own]);
            phase.run(
                &mut 0_u64,
                leads,
                |rounds| {
                    *rounds += 1;
                    left.0.store(*rounds, Ordering::Relaxed);
                    while made[1 - own].load(Ordering::Relaxed) < *rounds {
                        std::thread::yield_now();
                    }
                    Ok::<(), ()>(())
                },
                |rounds| *rounds,
            )
        };
        let (led, followed) = std::thread::scope(|scope| {
            let leader = scope.spawn(|| run(0, Some(Duration::from_millis(20))));
            let followed = run(1, None);
            (leader.join().expect("no panic"), followed)
        });
        for (first, last, took) in [led.expect("no error"), followed.expect("no error")] {
            assert!(first > 0 && last > first, "{first} to {last}");
            assert!(!took.is_zero());
        }
    }
}
