//! Counting within a window of time.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use nix::sys::resource::{UsageWho, getrusage};
use serde::{Deserialize, Serialize};

/// The counts of one side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Packets or messages.
    pub count: u64,
    /// Their bytes, without prefixes.
    pub bytes: u64,
    /// In how long, in seconds.
    pub seconds: f64,
    /// Processor time that this side's process took meanwhile, in seconds.
    pub cpu_seconds: f64,
    /// Median of a round trip, in microseconds; 0 where none was timed.
    pub round_trip_us: f64,
}

/// Turns between two looks at the clock.
const TURNS_PER_POLL: u32 = 32;

/// When to count.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Before counting.
    pub warm_up: Duration,
    /// Counting.
    pub slice: Duration,
    /// Whether this side stops at the end of the window. The other side runs until it is stopped.
    pub counts: bool,
}

/// Counts one side's turns.
#[derive(Debug)]
pub struct Meter<'a> {
    window: Window,
    stop: &'a AtomicBool,
    turns: u32,
    began: Instant,
    phase: Phase,
    round_trips: Option<Histogram<u64>>,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    WarmingUp,
    Counting {
        since: Instant,
        cpu_seconds: f64,
        count: u64,
        bytes: u64,
    },
    Over(Tally),
}

impl<'a> Meter<'a> {
    /// The window begins now.
    pub fn start(window: Window, stop: &'a AtomicBool) -> Self {
        Self {
            window,
            stop,
            turns: 0,
            began: Instant::now(),
            phase: Phase::WarmingUp,
            round_trips: None,
        }
    }

    /// Returns whether to run another turn. Called once per turn with the totals so far.
    #[inline]
    pub fn continues(&mut self, count: u64, bytes: u64) -> bool {
        self.turns += 1;
        if self.turns < TURNS_PER_POLL {
            return true;
        }
        self.turns = 0;
        self.observe(count, bytes)
    }

    /// As [`Meter::continues`], for turns so long that each looks at the clock.
    pub fn observe(&mut self, count: u64, bytes: u64) -> bool {
        if self.stop.load(Ordering::Relaxed) {
            return false;
        }
        let now = Instant::now();
        match self.phase {
            Phase::WarmingUp if now - self.began >= self.window.warm_up => {
                self.phase = Phase::Counting {
                    since: now,
                    cpu_seconds: cpu_seconds(),
                    count,
                    bytes,
                };
            }
            Phase::Counting { since, .. } if now - since >= self.window.slice => {
                self.close(now, count, bytes);
                return !self.window.counts;
            }
            _ => {}
        }
        true
    }

    /// One block of round trips took so long each.
    pub fn time(&mut self, round_trip: Duration) {
        if !matches!(self.phase, Phase::Counting { .. }) {
            return;
        }
        // Picoseconds would exceed three significant digits. A nanosecond is precise enough for the
        // median.
        let histogram = self.round_trips.get_or_insert_with(|| {
            Histogram::new_with_bounds(1, 1_000_000_000, 3)
                .expect("three figures of up to a second in nanoseconds")
        });
        histogram.saturating_record(u64::try_from(round_trip.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Returns the counts. If the window was cut short, returns the partial counts.
    pub fn finish(mut self, count: u64, bytes: u64) -> Tally {
        self.close(Instant::now(), count, bytes);
        let Phase::Over(mut tally) = self.phase else {
            return Tally::default();
        };
        tally.round_trip_us = self.round_trips.map_or(0.0, |histogram| {
            histogram.value_at_quantile(0.5) as f64 / 1e3
        });
        tally
    }

    fn close(&mut self, now: Instant, count: u64, bytes: u64) {
        if let Phase::Counting {
            since,
            cpu_seconds: cpu_before,
            count: count_before,
            bytes: bytes_before,
        } = self.phase
        {
            self.phase = Phase::Over(Tally {
                count: count - count_before,
                bytes: bytes - bytes_before,
                seconds: (now - since).as_secs_f64(),
                cpu_seconds: cpu_seconds() - cpu_before,
                round_trip_us: 0.0,
            });
        }
    }
}

/// Processor time that this process has taken, in seconds.
pub fn cpu_seconds() -> f64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |usage| {
        let seconds =
            |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        seconds(usage.user_time()) + seconds(usage.system_time())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(counts: bool) -> Window {
        Window {
            warm_up: Duration::from_millis(2),
            slice: Duration::from_millis(5),
            counts,
        }
    }

    #[test]
    fn only_packets_after_the_warm_up_count() {
        let stop = AtomicBool::new(false);
        // One per millisecond: about two before the window and five within. On a busy machine, a
        // sleep may span a whole phase.
        let measure = || {
            let mut meter = Meter::start(window(true), &stop);
            let mut count = 0;
            while meter.observe(count, count * 10) {
                meter.time(Duration::from_nanos(300));
                count += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
            (meter.finish(count, count * 10), count)
        };
        let (tally, count) = std::iter::repeat_with(measure)
            .take(100)
            .find(|(tally, count)| tally.count > 0 && tally.count < *count)
            .expect("some before the window and some within");
        assert!(tally.count < count);
        assert_eq!(tally.bytes, tally.count * 10);
        assert!(tally.seconds >= 0.005, "{tally:?}");
        assert!((0.299..0.302).contains(&tally.round_trip_us), "{tally:?}");
    }

    #[test]
    fn an_end_that_does_not_count_continues_until_stopped() {
        let stop = AtomicBool::new(false);
        let mut meter = Meter::start(window(false), &stop);
        let begin = Instant::now();
        while !matches!(meter.phase, Phase::Over(_)) {
            assert!(meter.observe(7, 7));
        }
        assert!(
            meter.observe(7, 7),
            "the window is over, and no stop was requested"
        );
        stop.store(true, Ordering::Relaxed);
        assert!(!meter.observe(7, 7));
        let tally = meter.finish(1000, 1000);
        // The window closed before the end, and with nothing in it.
        assert_eq!(tally.count, 0);
        assert!(tally.seconds < begin.elapsed().as_secs_f64(), "{tally:?}");
    }
}
