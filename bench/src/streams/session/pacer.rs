//! How many packets are due at a given rate.

/// Packets that wait for a delayed lane: the capacity of a port's ring of the usual size. Further
/// due packets are missed.
const BACKLOG: u64 = 2048;

/// Packets due by the clock.
#[derive(Debug)]
pub struct Pacer {
    /// Packets per nanosecond; none: always more.
    rate: Option<f64>,
    began_ns: u64,
    /// Packets that were given or missed.
    passed: u64,
    missed: u64,
}

impl Pacer {
    /// Creates a pacer of `mpps` million packets per second from `now_ns` on. Without a rate, any
    /// number is due.
    pub fn new(mpps: Option<f64>, now_ns: u64) -> Self {
        Self {
            rate: mpps.map(|mpps| mpps / 1e3),
            began_ns: now_ns,
            passed: 0,
            missed: 0,
        }
    }

    /// How many of at most `most` packets are due now. They count as given.
    #[inline]
    pub fn due(&mut self, now_ns: u64, most: u64) -> u64 {
        let Some(rate) = self.rate else { return most };
        let by_now = ((now_ns - self.began_ns) as f64 * rate) as u64;
        let missed = by_now.saturating_sub(self.passed + BACKLOG);
        self.missed += missed;
        self.passed += missed;
        let due = (by_now - self.passed).min(most);
        self.passed += due;
        due
    }

    /// Returns when the packet was due after which `behind` others were handed out. Without a rate,
    /// returns `now_ns`.
    #[inline]
    pub fn due_ns(&self, behind: u64, now_ns: u64) -> u64 {
        self.rate.map_or(now_ns, |rate| {
            self.began_ns + ((self.passed - behind) as f64 / rate) as u64
        })
    }

    /// Returns the packets that were due but never handed out, because the caller polled too late.
    pub const fn missed(&self) -> u64 {
        self.missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_decides_how_many_packets_are_due() {
        // Two in a microsecond.
        let mut pacer = Pacer::new(Some(2.0), 1_000);
        assert_eq!(pacer.due(1_000, 64), 0);
        assert_eq!(pacer.due(1_499, 64), 0);
        assert_eq!(pacer.due(1_500, 64), 1);
        assert_eq!(pacer.due(6_000, 64), 9);
        assert_eq!(pacer.due(6_000, 64), 0);
    }

    #[test]
    fn no_more_packets_are_given_than_wanted_and_the_rest_later() {
        let mut pacer = Pacer::new(Some(1.0), 0);
        assert_eq!([(); 3].map(|()| pacer.due(256_000, 100)), [100, 100, 56]);
    }

    #[test]
    fn packets_without_space_at_the_port_are_missed() {
        let mut pacer = Pacer::new(Some(1.0), 0);
        assert_eq!(pacer.due(2_048_000, 0), 0);
        assert_eq!(pacer.missed(), 0);
        assert_eq!(pacer.due(3_000_000, u64::MAX), BACKLOG);
        assert_eq!(pacer.missed(), 3000 - BACKLOG);
        assert_eq!(pacer.due(3_001_000, u64::MAX), 1);
        assert_eq!(pacer.missed(), 3000 - BACKLOG);
    }

    #[test]
    fn a_late_packet_keeps_its_due_time() {
        let mut pacer = Pacer::new(Some(2.0), 1_000);
        assert_eq!(pacer.due(51_000, 64), 64);
        assert_eq!(
            [pacer.due_ns(63, 51_000), pacer.due_ns(0, 51_000)],
            [1_500, 33_000]
        );
        assert_eq!(Pacer::new(None, 1_000).due_ns(0, 51_000), 51_000);
    }

    #[test]
    fn flat_out_everything_is_due() {
        let mut pacer = Pacer::new(None, 0);
        assert_eq!([pacer.due(0, 64), pacer.due(0, 64)], [64, 64]);
    }
}
