//! Many runs: their progress and their results.

use std::{
    io::{self, IsTerminal},
    ops::{ControlFlow, Range},
    time::{Duration, Instant},
};

use anyhow::Result;
use covalent_sim::harness::{Failure, Violation};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::{interrupt::Interrupt, output::grouped};

/// Callback that is invoked after each of many runs, with the number of completed runs.
pub type Progress<'a> = dyn Fn(u64) -> ControlFlow<()> + Sync + 'a;

/// The result of many runs.
pub struct Many<R> {
    /// The combined result, or the run that failed.
    pub result: Result<R, Box<Failure>>,
    /// The requested number of runs.
    pub count: u64,
    /// How long they took.
    pub elapsed_s: f64,
}

/// JSON output of many runs.
#[derive(Serialize)]
pub struct Runs<'a, R> {
    seeds: u64,
    elapsed_s: f64,
    seeds_per_s: f64,
    report: Option<&'a R>,
    violation: Option<&'a Violation>,
    /// The seed that broke it and the command that replays it.
    failed: Option<(u64, &'a str)>,
}

impl<R> Many<R> {
    /// Runs them all, with a progress bar on a terminal. `numbers` are the numbers of the runs.
    ///
    /// # Errors
    /// Fails if the command was requested to stop.
    pub fn run(
        numbers: Range<u64>,
        interrupt: &Interrupt,
        all: impl FnOnce(&Progress<'_>) -> Result<R, Box<Failure>>,
    ) -> Result<Self> {
        let count = numbers.end - numbers.start;
        let bar = if io::stderr().is_terminal() {
            ProgressBar::new(count).with_style(style())
        } else {
            ProgressBar::hidden()
        };
        let start = Instant::now();
        let result = all(&|done| {
            bar.set_position(done);
            match interrupt.sleep(Duration::ZERO) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        let elapsed_s = start.elapsed().as_secs_f64();
        bar.finish_and_clear();
        interrupt.sleep(Duration::ZERO)?;
        Ok(Self {
            result,
            count,
            elapsed_s,
        })
    }

    /// Whether every invariant held in all of them.
    pub const fn held(&self) -> bool {
        self.result.is_ok()
    }

    /// Returns the JSON output.
    pub fn json(&self) -> Runs<'_, R> {
        let failure = self.result.as_ref().err();
        Runs {
            seeds: self.count,
            elapsed_s: self.elapsed_s,
            seeds_per_s: self.per_s(),
            report: self.result.as_ref().ok(),
            violation: failure.map(|failure| &failure.violation),
            failed: failure.map(|failure| (failure.seed, failure.replay.as_str())),
        }
    }

    /// Returns the text output: a table of the combined result, or the events before a failure.
    /// `runs` is the noun for the runs.
    ///
    /// # Errors
    /// Returns the errors of `before`.
    pub fn text(
        &self,
        runs: &str,
        table: impl FnOnce(&R) -> String,
        before: impl FnOnce(&Failure) -> Result<String>,
    ) -> Result<String> {
        Ok(match &self.result {
            Ok(report) => format!(
                "{}\nEvery invariant held in {} runs, {:.1} s: {:.0} {runs}/s.",
                table(report),
                grouped(self.count),
                self.elapsed_s,
                self.per_s()
            ),
            Err(failure) => before(failure)? + &format!("\nBroken: {failure}"),
        })
    }

    fn per_s(&self) -> f64 {
        self.count as f64 / self.elapsed_s
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{bar:24} {pos} of {len} seeds, {per_sec}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}
