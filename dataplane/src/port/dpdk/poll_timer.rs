//! Limits how often the lane queries a device's carrier: the query crosses the bus to the NIC, so
//! it does not run on every burst.

use std::time::{Duration, Instant};

/// Bursts for each look at the clock.
const BURSTS_PER_CLOCK: u32 = 16;

/// The least time between two questions.
const QUERY_INTERVAL: Duration = Duration::from_millis(1);

/// Decides when to query again.
#[derive(Debug)]
pub(super) struct PollTimer {
    bursts: u32,
    last: Option<Instant>,
}

impl PollTimer {
    pub(super) const fn new() -> Self {
        Self {
            bursts: 0,
            last: None,
        }
    }

    /// Counts one more burst. Returns whether to query the device now.
    pub(super) fn is_due(&mut self) -> bool {
        if self.bursts > 0 {
            self.bursts -= 1;
            return false;
        }
        self.bursts = BURSTS_PER_CLOCK;
        self.is_due_at(Instant::now())
    }

    /// The lane slept: the next burst looks at the clock.
    pub(super) const fn slept(&mut self) {
        self.bursts = 0;
    }

    /// The device reported an event: query it on the next burst.
    pub(super) const fn hurry(&mut self) {
        self.bursts = 0;
        self.last = None;
    }

    fn is_due_at(&mut self, now: Instant) -> bool {
        let due = self
            .last
            .is_none_or(|last| now.saturating_duration_since(last) >= QUERY_INTERVAL);
        if due {
            self.last = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_queried_once_per_interval() {
        let mut poll_timer = PollTimer::new();
        let start = Instant::now();
        assert!(poll_timer.is_due_at(start), "the first time");
        assert!(!poll_timer.is_due_at(start + QUERY_INTERVAL / 2));
        assert!(poll_timer.is_due_at(start + QUERY_INTERVAL));
        poll_timer.hurry();
        assert!(poll_timer.is_due_at(start + QUERY_INTERVAL));
    }
}
