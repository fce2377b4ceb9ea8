//! The contestants.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::{
    report::Description,
    streams::{
        case::{Case, Test},
        pair::{Company, Tallies},
        part::{Means, Part},
    },
};

/// One way of moving packets or messages between two processes.
pub trait Contestant {
    /// Returns its name in results.
    fn name(&self) -> &'static str;

    /// Gets ready, once. Its error is the reason why it takes no part.
    fn prepare(&mut self) -> Result<Description>;

    /// Whether it can do this.
    fn takes(&self, case: Case) -> bool;

    /// One repetition.
    fn run(&mut self, case: Case) -> Result<Outcome>;

    /// Stops processes that it keeps running between repetitions. Called after each round.
    fn pause(&mut self) {}
}

/// The result of one repetition.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// In the test's unit.
    pub figure: f64,
    /// How much of the daemon's core was taken.
    pub daemon_cores: f64,
    /// How much of the application's.
    pub application_cores: f64,
    /// How much was taken by processes that only make the others possible.
    pub other_cores: f64,
}

/// A contestant whose processes run this program.
pub struct Ours<'a> {
    /// Its name.
    pub name: &'static str,
    /// By which means.
    pub means: Means,
    /// The tests that it can do.
    pub tests: &'static [Test],
    /// Its description, or the reason why it is not available.
    pub description: Result<Description, String>,
    /// Where its processes meet.
    pub company: &'a Company,
    /// The near side's part, but for the case and the means.
    pub part: &'a Part,
    /// The application's core.
    pub far_core: usize,
}

impl Contestant for Ours<'_> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn prepare(&mut self) -> Result<Description> {
        self.description.clone().map_err(anyhow::Error::msg)
    }

    fn takes(&self, case: Case) -> bool {
        self.tests.contains(&case.test)
    }

    fn run(&mut self, case: Case) -> Result<Outcome> {
        let part = Part {
            case,
            means: self.means,
            ..self.part.clone()
        };
        let tallies = self.company.measure(&part, self.far_core)?;
        Ok(outcome(case.test, &tallies))
    }
}

fn outcome(test: Test, tallies: &Tallies) -> Outcome {
    let counted = if test.counted_far() {
        tallies.far
    } else {
        tallies.near
    };
    let per_second = |count: u64| count as f64 / counted.seconds.max(f64::MIN_POSITIVE);
    let figure = match test {
        Test::Echo | Test::OneWay => per_second(counted.count) / 1e6,
        Test::Stream | Test::StreamUnbatched => per_second(counted.bytes) / 1e9,
        Test::RoundTrip => counted.round_trip_us,
    };
    let cores = |tally: crate::streams::tally::Tally| {
        if tally.seconds > 0.0 {
            tally.cpu_seconds / tally.seconds
        } else {
            0.0
        }
    };
    Outcome {
        figure,
        daemon_cores: cores(tallies.near),
        application_cores: cores(tallies.far),
        other_cores: tallies.aid.map_or(0.0, cores),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::tally::Tally;

    #[test]
    fn the_side_that_counts_gives_the_figure_and_each_side_its_core() {
        let tally = |count, seconds, cpu_seconds| Tally {
            count,
            bytes: count * 100,
            seconds,
            cpu_seconds,
            round_trip_us: 0.25,
        };
        let tallies = Tallies {
            near: tally(4_000_000, 2.0, 2.0),
            far: tally(3_000_000, 1.0, 0.5),
            aid: Some(tally(0, 1.0, 0.1)),
        };
        let echo = outcome(Test::Echo, &tallies);
        assert_eq!(
            (
                echo.figure,
                echo.daemon_cores,
                echo.application_cores,
                echo.other_cores
            ),
            (2.0, 1.0, 0.5, 0.1)
        );
        assert_eq!(outcome(Test::OneWay, &tallies).figure, 3.0);
        assert_eq!(outcome(Test::Stream, &tallies).figure, 0.3);
        assert_eq!(outcome(Test::RoundTrip, &tallies).figure, 0.25);
    }
}
