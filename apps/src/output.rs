//! Output of the applications: JSON lines for programs, a table for people. Errors go to stderr.

use std::{
    io::{self, Write},
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use comfy_table::{CellAlignment, Table, presets::UTF8_HORIZONTAL_ONLY};
use serde::Serialize;

/// Exit code of a run whose checks all passed.
pub const EXIT_HELD: u8 = 0;
/// Exit code of a run in which a check failed.
pub const EXIT_FAILED: u8 = 1;
/// Exit code of a run that could not take place.
pub const EXIT_NOT_RUN: u8 = 2;

/// Interval between progress lines.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object a line; `type` is `ready`, `news`, `progress` or `report`.
    Json,
    /// A table for people.
    Table,
}

/// The options about printing, the same in every application.
#[derive(Debug, Clone, Copy, Args)]
pub struct OutputArgs {
    /// How to print the report on stdout
    #[arg(long, value_enum, default_value = "table")]
    pub format: Format,
    /// Print a JSON line of `"type":"progress"` on stdout each 200 ms
    #[arg(long)]
    pub progress_json: bool,
}

/// Where an application prints.
#[derive(Debug)]
pub struct Output {
    args: OutputArgs,
    next_progress: Instant,
}

impl Output {
    /// Creates an output that prints as `args` specify.
    #[must_use]
    pub fn new(args: OutputArgs) -> Self {
        Self {
            args,
            next_progress: Instant::now() + PROGRESS_EVERY,
        }
    }

    /// Prints that the application is ready.
    ///
    /// # Errors
    /// stdout is closed.
    pub fn ready(&self, ready: &impl Serialize) -> io::Result<()> {
        match self.args.format {
            Format::Json => line("ready", ready),
            Format::Table => {
                let mut out = io::stdout().lock();
                writeln!(out, "ready")?;
                out.flush()
            }
        }
    }

    /// Reports an event: in JSON a line of `"type":"news"`, otherwise `text`.
    ///
    /// # Errors
    /// stdout is closed.
    pub fn news(&self, news: &impl Serialize, text: &str) -> io::Result<()> {
        match self.args.format {
            Format::Json => line("news", news),
            Format::Table => {
                let mut out = io::stdout().lock();
                writeln!(out, "{text}")?;
                out.flush()
            }
        }
    }

    /// Whether [`Output::progress`] is due. Cheap enough for each turn of a loop that knows the
    /// time.
    #[must_use]
    pub fn wants_progress(&self, now: Instant) -> bool {
        self.args.progress_json && now >= self.next_progress
    }

    /// Prints the progress of the work.
    ///
    /// # Errors
    /// stdout is closed.
    pub fn progress(&mut self, now: Instant, progress: &impl Serialize) -> io::Result<()> {
        self.next_progress = now + PROGRESS_EVERY;
        line("progress", progress)
    }

    /// Prints the report: `rows` are its lines in the table.
    ///
    /// # Errors
    /// stdout is closed.
    pub fn report(&self, report: &impl Serialize, rows: &[(&str, String)]) -> io::Result<()> {
        match self.args.format {
            Format::Json => line("report", report),
            Format::Table => {
                let mut out = io::stdout().lock();
                writeln!(out, "{}", table(rows))?;
                out.flush()
            }
        }
    }
}

/// Returns the exit code of `main`: whether the checks passed, or that the run could not take
/// place, with the reason on stderr.
pub fn exit(app: &str, result: anyhow::Result<bool>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::from(EXIT_HELD),
        Ok(false) => ExitCode::from(EXIT_FAILED),
        Err(error) => {
            // `{:#}` writes the whole chain of causes on one line.
            let _ = writeln!(io::stderr(), "{app}: {error:#}");
            ExitCode::from(EXIT_NOT_RUN)
        }
    }
}

#[derive(Serialize)]
struct Line<'a, T> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(flatten)]
    body: &'a T,
}

fn line(kind: &str, body: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_string(&Line { kind, body })?;
    text.push('\n');
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn table(rows: &[(&str, String)]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    for (name, value) in rows {
        table.add_row([*name, value]);
    }
    if let Some(values) = table.column_mut(1) {
        values.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A count with its thousands apart: `1 234 567`.
#[must_use]
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A time in the unit that suits it: `850 ns`, `12.3 µs`, `4.56 ms`, `1.20 s`.
#[must_use]
pub fn time(time_ns: u64) -> String {
    let ns = time_ns as f64;
    match time_ns {
        0..1_000 => format!("{time_ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", ns / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", ns / 1e6),
        _ => format!("{:.2} s", ns / 1e9),
    }
}

/// `value` in each second of `elapsed_ns`; 0 when no time passed.
#[must_use]
pub fn per_second(value: u64, elapsed_ns: u64) -> f64 {
    if elapsed_ns == 0 {
        0.0
    } else {
        value as f64 * 1e9 / elapsed_ns as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1 234 567");
        assert_eq!(time(850), "850 ns");
        assert_eq!(time(12_345), "12.3 µs");
        assert_eq!(time(1_200_000_000), "1.20 s");
        assert!((per_second(10, 2_000_000_000) - 5.0).abs() < f64::EPSILON);
        assert!(per_second(10, 0) == 0.0);
    }
}
