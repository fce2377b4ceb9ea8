//! Rate limit of a pipe.
//!
//! The generic cell rate algorithm (ITU-T I.371, 5.4.1.1.1): each packet has a theoretical arrival
//! time, the end of the previous one at the exact rate. It may go earlier by as much as the burst
//! allows. The state is one number, and no error accumulates.

use covalent_api::tuning::{RateLimit, RateUnit};

const FS_PER_SECOND: u64 = 1_000_000_000_000_000;
const FS_PER_NS: u128 = 1_000_000;
const FS_PER_US: u128 = 1_000_000_000;
const BITS_PER_BYTE: u64 = 8;

/// Computes when the next packet of a pipe may go. Pure: the caller passes the time.
#[derive(Debug)]
pub struct Pacer {
    /// Femtoseconds per unit, so that 10 Tbit/s are still exact to a hundredth.
    fs_per_unit: u64,
    unit: RateUnit,
    burst_fs: u128,
    /// When the next packet would go at the exact rate.
    due_fs: u128,
}

impl Pacer {
    /// For a `limit` that was checked.
    pub fn new(limit: RateLimit) -> Self {
        Self {
            fs_per_unit: FS_PER_SECOND / limit.per_second.max(1),
            unit: limit.unit,
            burst_fs: u128::from(limit.burst_us) * FS_PER_US,
            due_fs: 0,
        }
    }

    /// When the next packet may go, if not at `now_ns`.
    pub fn wait_until_ns(&self, now_ns: u64) -> Option<u64> {
        let earliest_fs = self.due_fs.saturating_sub(self.burst_fs);
        (earliest_fs > u128::from(now_ns) * FS_PER_NS)
            .then(|| u64::try_from(earliest_fs.div_ceil(FS_PER_NS)).unwrap_or(u64::MAX))
    }

    /// A packet of `bytes` bytes goes at `now_ns`, which [`Pacer::wait_until_ns`] allowed.
    pub fn sent(&mut self, now_ns: u64, bytes: usize) {
        let units = match self.unit {
            RateUnit::Packets => 1,
            RateUnit::Bits => bytes as u64 * BITS_PER_BYTE,
        };
        let now_fs = u128::from(now_ns) * FS_PER_NS;
        self.due_fs = self.due_fs.max(now_fs) + u128::from(units) * u128::from(self.fs_per_unit);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pacer(unit: RateUnit, per_second: u64, burst_us: u32) -> Pacer {
        Pacer::new(RateLimit {
            unit,
            per_second,
            burst_us,
        })
    }

    /// Returns the packets of `bytes` bytes that go in `span_ns` if the caller polls every
    /// `poll_ns`.
    fn run(pacer: &mut Pacer, span_ns: u64, poll_ns: u64, bytes: usize) -> u64 {
        let start = 5_000_000_000;
        let mut sent = 0;
        for now in (start..start + span_ns).step_by(poll_ns as usize) {
            while pacer.wait_until_ns(now).is_none() {
                pacer.sent(now, bytes);
                sent += 1;
            }
        }
        sent
    }

    #[test]
    fn a_frequent_caller_sends_at_the_rate() {
        let sent = run(
            &mut pacer(RateUnit::Packets, 1_000_000, 0),
            1_000_000_000,
            1_000,
            64,
        );
        assert!((999_999..=1_000_001).contains(&sent), "{sent}");
        let sent = run(
            &mut pacer(RateUnit::Bits, 8_000_000, 0),
            1_000_000_000,
            1_000,
            1000,
        );
        assert!((999..=1_001).contains(&sent), "{sent}");
    }

    #[test]
    fn an_infrequent_caller_catches_up_within_the_burst() {
        // Polled each millisecond: without a burst one packet per poll, with a burst of a
        // millisecond all of them.
        let span = 1_000_000_000;
        let sent = run(
            &mut pacer(RateUnit::Packets, 100_000, 0),
            span,
            1_000_000,
            64,
        );
        assert!((1000..=1001).contains(&sent), "{sent}");
        let sent = run(
            &mut pacer(RateUnit::Packets, 100_000, 1000),
            span,
            1_000_000,
            64,
        );
        assert!((99_900..=100_102).contains(&sent), "{sent}");
    }

    #[test]
    fn a_pause_is_worth_one_burst_and_no_more() {
        let mut pacer = pacer(RateUnit::Packets, 1_000_000, 10);
        run(&mut pacer, 1_000_000, 1_000, 64);
        let later = 100_000_000_000;
        let mut at_once = 0;
        while pacer.wait_until_ns(later).is_none() {
            pacer.sent(later, 64);
            at_once += 1;
        }
        assert_eq!(at_once, 11);
        assert_eq!(pacer.wait_until_ns(later), Some(later + 1_000));
    }

    proptest! {
        /// No interval exceeds the rate plus one burst and one packet. A caller that returns at the
        /// announced time may send.
        #[test]
        fn never_more_than_allowed(
            per_second in 1..=10_000_000_000_000_u64, burst_us in 0..=1_000_000_u32, bits: bool,
            polls in prop::collection::vec((0..2_000_000_u64, 1..2000_usize), 1..200),
        ) {
            let unit = if bits { RateUnit::Bits } else { RateUnit::Packets };
            let mut pacer = pacer(unit, per_second, burst_us);
            let start = 1_000_000_000_u64;
            let mut now = start;
            let (mut units, mut largest) = (0_u128, 0_u128);
            for (step, bytes) in polls {
                now += step;
                let cost = if bits { bytes as u128 * 8 } else { 1 };
                for _ in 0..50 {
                    match pacer.wait_until_ns(now) {
                        None => {
                            pacer.sent(now, bytes);
                            units += cost;
                            largest = largest.max(cost);
                        }
                        Some(later) => {
                            prop_assert!(later > now);
                            prop_assert_eq!(pacer.wait_until_ns(later), None);
                            break;
                        }
                    }
                }
            }
            // The rate is rounded up by less than one in a hundred.
            let span_ns = u128::from(now - start) + u128::from(burst_us) * 1000 + 1;
            let allowed = span_ns * u128::from(per_second) * 101 / 100_000_000_000 + 1 + largest;
            prop_assert!(units <= allowed, "{units} of {allowed}");
        }
    }
}
