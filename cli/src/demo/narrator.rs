//! Progress output: bars on a terminal, plain lines elsewhere.

use std::{
    cell::Cell,
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use anyhow::Result;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::args::Format;

/// Steps of a bar.
const BAR_STEPS: u64 = 1000;

/// Plain lines about one step are at least this far apart.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// The voice of a demonstration.
pub struct Narrator {
    format: Format,
    bars: Option<MultiProgress>,
}

impl Narrator {
    /// Prints on standard output, or on standard error if standard output carries JSON.
    pub fn new(format: Format) -> Self {
        Self {
            format,
            bars: io::stderr().is_terminal().then(MultiProgress::new),
        }
    }

    /// Prints a line.
    ///
    /// # Errors
    /// Fails if the reader of the output is gone, so that the demonstration has no audience.
    pub fn print_line(&self, text: &str) -> Result<()> {
        let print = || -> io::Result<()> {
            match self.format {
                Format::Table => writeln!(io::stdout().lock(), "{text}"),
                Format::Json => writeln!(io::stderr().lock(), "{text}"),
            }
        };
        if let Some(bars) = &self.bars {
            // The next step draws the bars again. Suspending them would panic if the terminal was
            // closed.
            bars.clear()?;
        }
        Ok(print()?)
    }

    /// Starts a long step.
    ///
    /// # Errors
    /// As [`Narrator::print_line`].
    pub fn step(&self, title: &'static str) -> Result<Step<'_>> {
        let bar = self.bars.as_ref().map(|bars| {
            let bar = bars.add(
                ProgressBar::new(BAR_STEPS)
                    .with_style(style())
                    .with_message(""),
            );
            bar.set_prefix(title);
            bar
        });
        if bar.is_none() {
            self.print_line(&format!("{title} …"))?;
        }
        Ok(Step {
            narrator: self,
            title,
            bar,
            printed_at: Cell::new(Instant::now()),
        })
    }
}

/// One step. Dropping it takes its bar away.
pub struct Step<'a> {
    narrator: &'a Narrator,
    title: &'static str,
    bar: Option<ProgressBar>,
    printed_at: Cell<Instant>,
}

impl Step<'_> {
    /// Prints the progress, 0 to 1.
    ///
    /// # Errors
    /// As [`Narrator::print_line`].
    pub fn at(&self, fraction: f64, text: &str) -> Result<()> {
        let fraction = fraction.clamp(0.0, 1.0);
        match &self.bar {
            Some(bar) => {
                // In range: the fraction was clamped.
                bar.set_position((fraction * BAR_STEPS as f64) as u64);
                bar.set_message(text.to_owned());
            }
            None if self.printed_at.get().elapsed() >= LINE_EVERY => {
                self.printed_at.set(Instant::now());
                self.narrator
                    .print_line(&format!("  {:>3.0} %  {text}", fraction * 100.0))?;
            }
            None => {}
        }
        Ok(())
    }

    /// Completes the step and prints its result.
    ///
    /// # Errors
    /// As [`Narrator::print_line`].
    pub fn done(self, text: &str) -> Result<()> {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.narrator.print_line(&format!("{}: {text}", self.title))
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{prefix:>10} {bar:24} {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}
