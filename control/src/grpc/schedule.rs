//! When a sample is due, and how many were left out.

use std::time::Duration;

use tokio::time::Instant;

/// Samples at a constant interval. A late reader gets one sample, and the number of samples that
/// were skipped.
#[derive(Debug)]
pub struct Schedule {
    interval: Duration,
    due: Instant,
}

impl Schedule {
    /// The first sample is due at `start`.
    pub const fn new(interval: Duration, start: Instant) -> Self {
        Self {
            interval,
            due: start,
        }
    }

    /// When the next sample is due.
    pub const fn due(&self) -> Instant {
        self.due
    }

    /// Takes the sample that is due at or before `now`. Returns the number of samples skipped since
    /// the previous one.
    pub fn take(&mut self, now: Instant) -> u64 {
        let late = now.saturating_duration_since(self.due).as_nanos();
        let skipped = u64::try_from(late / self.interval.as_nanos().max(1)).unwrap_or(u64::MAX);
        let steps = u32::try_from(skipped.saturating_add(1)).unwrap_or(u32::MAX);
        self.due += self.interval.saturating_mul(steps);
        skipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_reader_gets_one_sample_and_the_skipped_are_counted() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut schedule = Schedule::new(second, start);
        assert_eq!((schedule.due(), schedule.take(start)), (start, 0));
        assert_eq!(schedule.due(), start + second);
        // A little late: the next one is due when it would have been.
        assert_eq!(schedule.take(start + second + second / 2), 0);
        assert_eq!(schedule.due(), start + 2 * second);
        // The sample of 2 s, taken at 5.5 s, replaces those of 3, 4 and 5 s.
        assert_eq!(schedule.take(start + 5 * second + second / 2), 3);
        assert_eq!(schedule.due(), start + 6 * second);
    }
}
