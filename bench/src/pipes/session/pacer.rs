//! How many packets are due at a given rate.

/// Packets that a source which was held up makes up for. What was due before those is never offered: after a core was away for a millisecond, a
/// rate of twenty million would otherwise become a burst of twenty thousand, which nobody asked for.
const BACKLOG: u64 = 256;

/// Packets due by the clock.
#[derive(Debug)]
pub struct Pacer {
    /// Packets per nanosecond; none: always more.
    rate: Option<f64>,
    began_ns: u64,
    given: u64,
}

impl Pacer {
    /// At `mpps` million packets per second from `now_ns` on; without a rate, as many as are wanted.
    pub fn new(mpps: Option<f64>, now_ns: u64) -> Self {
        Self {
            rate: mpps.map(|mpps| mpps / 1e3),
            began_ns: now_ns,
            given: 0,
        }
    }

    /// How many of at most `most` packets are due now. They count as given.
    #[inline]
    pub fn due(&mut self, now_ns: u64, most: u64) -> u64 {
        let Some(rate) = self.rate else { return most };
        let by_now = ((now_ns - self.began_ns) as f64 * rate) as u64;
        self.given = self.given.max(by_now.saturating_sub(BACKLOG));
        let due = by_now.saturating_sub(self.given).min(most);
        self.given += due;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_due_as_the_rate_says() {
        // Two in a microsecond.
        let mut pacer = Pacer::new(Some(2.0), 1_000);
        assert_eq!(pacer.due(1_000, 64), 0);
        assert_eq!(pacer.due(1_499, 64), 0);
        assert_eq!(pacer.due(1_500, 64), 1);
        assert_eq!(pacer.due(6_000, 64), 9);
        assert_eq!(pacer.due(6_000, 64), 0);
    }

    #[test]
    fn no_more_are_given_than_wanted_and_the_rest_comes_next() {
        let mut pacer = Pacer::new(Some(1.0), 0);
        assert_eq!([(); 3].map(|()| pacer.due(256_000, 100)), [100, 100, 56]);
    }

    #[test]
    fn what_was_missed_long_ago_is_not_made_up_for() {
        let mut pacer = Pacer::new(Some(1.0), 0);
        assert_eq!(pacer.due(1_000_000, u64::MAX), BACKLOG);
        assert_eq!(pacer.due(1_001_000, u64::MAX), 1);
    }

    #[test]
    fn flat_out_everything_is_due() {
        let mut pacer = Pacer::new(None, 0);
        assert_eq!([pacer.due(0, 64), pacer.due(0, 64)], [64, 64]);
    }
}
