//! Round-trip times as a histogram.

use hdrhistogram::Histogram;

/// Longest distinguishable time in nanoseconds: one minute. Longer times count as this.
const LONGEST_NS: u64 = 60_000_000_000;

/// A histogram of times from 1 ns to a minute, three significant digits, about 200 KiB.
#[derive(Debug, Clone)]
pub struct Latency(Histogram<u64>);

impl Latency {
    /// Empty.
    #[must_use]
    pub fn new() -> Self {
        Self(
            Histogram::new_with_bounds(1, LONGEST_NS, 3)
                .expect("the bounds are constants that the library accepts"),
        )
    }

    /// Counts one time.
    pub fn record(&mut self, time_ns: u64) {
        self.0.saturating_record(time_ns.max(1));
    }

    /// Adds another histogram's counts.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    /// The time that `percent` of all counted times do not exceed; 0 when none was counted.
    #[must_use]
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        if self.0.is_empty() {
            0
        } else {
            self.0.value_at_percentile(percent)
        }
    }

    /// The longest time counted; 0 when none was.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.0.max()
    }
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_known_times() {
        let mut latency = Latency::new();
        assert_eq!(latency.percentile_ns(50.0), 0);
        for time_us in 1..=100 {
            latency.record(time_us * 1000);
        }
        assert!(
            (49_900..=50_100).contains(&latency.percentile_ns(50.0)),
            "{}",
            latency.percentile_ns(50.0)
        );
        latency.record(u64::MAX);
        assert!(
            latency.max_ns() >= LONGEST_NS,
            "longer than the histogram counts as its longest"
        );
        let mut sum = Latency::new();
        sum.add(&latency);
        assert_eq!(sum.max_ns(), latency.max_ns());
    }
}
