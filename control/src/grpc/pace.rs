//! When a sample is due, and how many were left out.

use std::time::Duration;

use tokio::time::Instant;

/// Samples at equal distances. Who comes late gets one, and is told how many there should have been.
#[derive(Debug)]
pub struct Pace {
    interval: Duration,
    due: Instant,
}

impl Pace {
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

    /// Takes the sample that is due at `now`, or was before. Returns how many between it and the one before are left out.
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
    fn who_comes_late_gets_one_and_the_rest_is_counted() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut pace = Pace::new(second, start);
        assert_eq!((pace.due(), pace.take(start)), (start, 0));
        assert_eq!(pace.due(), start + second);
        // A little late: the next one is due when it would have been.
        assert_eq!(pace.take(start + second + second / 2), 0);
        assert_eq!(pace.due(), start + 2 * second);
        // The sample of 2 s, taken at 5.5 s, stands for those of 3, 4 and 5 s.
        assert_eq!(pace.take(start + 5 * second + second / 2), 3);
        assert_eq!(pace.due(), start + 6 * second);
    }
}
