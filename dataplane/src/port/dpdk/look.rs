//! How often a device is asked for its carrier: asking a NIC crosses the bus, so not with every burst.

use std::time::{Duration, Instant};

/// Bursts for each look at the clock.
const BURSTS_PER_CLOCK: u32 = 16;

/// The least time between two questions.
const PACE: Duration = Duration::from_millis(1);

/// When to ask again.
#[derive(Debug)]
pub(super) struct Look {
    bursts: u32,
    last: Option<Instant>,
}

impl Look {
    pub(super) const fn new() -> Self {
        Self {
            bursts: 0,
            last: None,
        }
    }

    /// One more burst: whether the device is to be asked now.
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

    /// Something was heard of the device: the next burst asks it.
    pub(super) const fn hurry(&mut self) {
        self.bursts = 0;
        self.last = None;
    }

    fn is_due_at(&mut self, now: Instant) -> bool {
        let due = self
            .last
            .is_none_or(|last| now.saturating_duration_since(last) >= PACE);
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
    fn a_device_is_asked_once_in_a_pace() {
        let mut look = Look::new();
        let start = Instant::now();
        assert!(look.is_due_at(start), "the first time");
        assert!(!look.is_due_at(start + PACE / 2));
        assert!(look.is_due_at(start + PACE));
        look.hurry();
        assert!(look.is_due_at(start + PACE));
    }
}
