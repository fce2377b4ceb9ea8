//! Round trips, one after the other: the next leaves when the answer is there.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;

use crate::{stop, summary::Summary};

/// How long an answer may take before it counts as lost.
const PATIENCE: Duration = Duration::from_millis(200);

/// Round trips before counting.
const WARM_UP: u32 = 200;

/// The round trips of one slice, in nanoseconds.
#[derive(Debug)]
pub struct Slice {
    trips: Histogram<u64>,
    lost: u64,
}

impl Slice {
    /// Makes round trips for as long as `slice`. Each is told by when its answer must be there, and whether it was.
    pub fn of(slice: Duration, mut trip: impl FnMut(Instant) -> Result<bool>) -> Result<Self> {
        for _ in 0..WARM_UP {
            trip(Instant::now() + PATIENCE)?;
        }
        let mut measured = Self {
            trips: histogram()?,
            lost: 0,
        };
        let start = Instant::now();
        let mut before = start;
        while before - start < slice && !stop::is_asked() {
            let came = trip(before + PATIENCE)?;
            let now = Instant::now();
            if came {
                measured.add(now - before);
            } else {
                measured.lost += 1;
            }
            before = now;
        }
        stop::check()?;
        Ok(measured)
    }

    fn add(&mut self, trip: Duration) {
        // Saturating keeps one that took longer than the histogram reaches as its largest.
        self.trips
            .saturating_record(u64::try_from(trip.as_nanos()).unwrap_or(u64::MAX));
    }
}

/// The round trips of one side, in nanoseconds.
#[derive(Debug)]
pub struct Side {
    all: Histogram<u64>,
    medians_us: Vec<f64>,
    lost: u64,
}

impl Side {
    /// A side that was not measured yet.
    pub fn new() -> Result<Self> {
        Ok(Self {
            all: histogram()?,
            medians_us: Vec::new(),
            lost: 0,
        })
    }

    /// Adds a slice, in which an answer must have come.
    pub fn add(&mut self, slice: Slice) -> Result<()> {
        ensure!(!slice.trips.is_empty(), "no answer came");
        self.medians_us
            .push(slice.trips.value_at_quantile(0.5) as f64 / 1e3);
        self.all.add(&slice.trips).context("adding up histograms")?;
        self.lost += slice.lost;
        Ok(())
    }

    /// How many answers came.
    pub fn round_trips(&self) -> u64 {
        self.all.len()
    }

    /// How many did not come in time.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The medians of the slices, in microseconds.
    pub fn median_us(&self) -> Result<Summary> {
        Summary::of(self.medians_us.clone()).context("nothing was measured")
    }

    /// A quantile of all round trips, in microseconds.
    pub fn quantile_us(&self, quantile: f64) -> f64 {
        self.all.value_at_quantile(quantile) as f64 / 1e3
    }

    /// The longest of all round trips, in microseconds.
    pub fn max_us(&self) -> f64 {
        self.all.max() as f64 / 1e3
    }
}

fn histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, 1_000_000_000, 3).context("making a histogram")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_without_an_answer_is_no_figure() {
        let slice = Duration::from_millis(2);
        let mut side = Side::new().expect("a histogram");
        let silence = Slice::of(slice, |_| Ok(false)).expect("measured");
        assert!(silence.lost > 0);
        side.add(silence).expect_err("no answer came");
        side.add(Slice::of(slice, |_| Ok(true)).expect("measured"))
            .expect("answers came");
        let median = side.median_us().expect("a figure");
        assert_eq!(median.repeats.len(), 1);
        assert!(side.round_trips() > 0 && side.lost() == 0);
        assert!(side.quantile_us(0.5) <= side.max_us());
    }
}
