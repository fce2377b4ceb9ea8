//! Runs of links and groups as they are printed, and the tables and traces that are printed of any.

use anyhow::Result;
use covalent_sim::{
    harness::{Entry, Failure, Simulator, Violation},
    node_name, run_seeds,
};
use serde::Serialize;

use super::{RunArgs, many::Many};
use crate::{
    args::Format,
    interrupt::Interrupt,
    output::{self, Cell, Theme, grouped},
};

/// Lines of the trace before a violation that are shown of one seed of many.
const LAST_LINES: usize = 60;

/// A simulator whose runs are printed event by event.
pub trait Printed: Simulator<Report: Serialize> {
    /// Topic of an event.
    type Subject: Serialize;
    /// Columns of the time of an event.
    const TIME_COLUMNS: usize;

    /// Runs a seed, and records its events.
    ///
    /// # Errors
    /// There is no such world.
    fn recorded(&self, seed: u64) -> Result<Recorded<Self>>;

    /// Every figure of a report, with its name.
    fn figures(report: &Self::Report) -> impl Iterator<Item = (&'static str, u64)>;
}

/// A run, what its seed decided, and its events.
pub struct Recorded<S: Printed> {
    /// The choices of the seed, for people.
    pub text: String,
    pub nodes: usize,
    pub shape: Option<String>,
    pub cables: Vec<[usize; 2]>,
    pub faults: Vec<&'static str>,
    pub result: Result<S::Report, Box<Failure>>,
    pub trace: Vec<Entry<S::Subject>>,
}

/// JSON output of one run.
#[derive(Serialize)]
struct Run<'a, E, R> {
    seed: u64,
    /// The command that makes this run again.
    command: String,
    nodes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<String>,
    cables: Vec<[&'static str; 2]>,
    faults: Vec<&'static str>,
    trace: Vec<&'a E>,
    report: Option<&'a R>,
    violation: Option<&'a Violation>,
}

/// Prints one run, or many. `is_shown` selects the events of one. Gives whether every invariant
/// held.
///
/// # Errors
/// Fails if there is no such world, the reader of the output is gone, or the command was requested
/// to stop.
pub fn run<S: Printed>(
    options: &S,
    args: &RunArgs,
    is_shown: impl Fn(&S::Subject) -> bool,
    interrupt: &Interrupt,
) -> Result<bool> {
    match args.seeds {
        None => one(options, args, is_shown),
        Some(_) => many(options, args, interrupt),
    }
}

fn one<S: Printed>(
    options: &S,
    args: &RunArgs,
    is_shown: impl Fn(&S::Subject) -> bool,
) -> Result<bool> {
    let recorded = options.recorded(args.seed)?;
    let result = &recorded.result;
    let shown = recorded
        .trace
        .iter()
        .filter(|entry| is_shown(&entry.subject));
    match args.format {
        Format::Json => output::json(&Run {
            seed: args.seed,
            command: options.command(args.seed),
            nodes: recorded.nodes,
            shape: recorded.shape,
            cables: cable_names(&recorded.cables),
            faults: recorded.faults,
            trace: shown.collect(),
            report: result.as_ref().ok(),
            violation: result.as_ref().err().map(|failure| &failure.violation),
        })?,
        Format::Table => {
            let mut text = recorded.text;
            text.extend(shown.map(line::<S>));
            text += &match result {
                Ok(report) => {
                    let table = counts(S::figures(report));
                    format!("\n{table}\nEvery invariant held.")
                }
                Err(failure) => format!("\nBroken: {failure}"),
            };
            output::line(&text)?;
        }
    }
    Ok(result.is_ok())
}

fn many<S: Printed>(options: &S, args: &RunArgs, interrupt: &Interrupt) -> Result<bool> {
    let seeds = args.numbers();
    if options.drawn(seeds.start).is_none() {
        // Report an impossible shape before the first run.
        options.recorded(seeds.start)?;
    }
    let many = Many::run(seeds.clone(), interrupt, |progress| {
        run_seeds(seeds, options, progress)
    })?;
    match args.format {
        Format::Json => output::json(&many.json())?,
        Format::Table => {
            let table = |report: &S::Report| counts(S::figures(report));
            output::line(&many.text("seeds", table, |failure| {
                let trace = options.recorded(failure.seed)?.trace;
                Ok(last_lines(&trace, line::<S>))
            })?)?;
        }
    }
    Ok(many.held())
}

fn line<S: Printed>(entry: &Entry<S::Subject>) -> String {
    let columns = S::TIME_COLUMNS;
    format!("{:>columns$}  {}\n", entry.when, entry.text)
}

/// The names of the nodes at both ends of each cable.
fn cable_names(cables: &[[usize; 2]]) -> Vec<[&'static str; 2]> {
    cables.iter().map(|ends| ends.map(node_name)).collect()
}

/// Cables in one line.
pub fn cable_list(cables: &[[usize; 2]]) -> String {
    let cables: Vec<_> = cable_names(cables)
        .iter()
        .map(|[a, b]| format!("{a}-{b}"))
        .collect();
    cables.join(" ")
}

/// The last lines of a trace.
pub fn last_lines<E>(trace: &[E], line: impl Fn(&E) -> String) -> String {
    let from = trace.len().saturating_sub(LAST_LINES);
    trace[from..].iter().map(line).collect()
}

/// A figure in each line.
pub fn figures<'a>(
    theme: Theme,
    header: [&str; 2],
    figures: impl IntoIterator<Item = (&'a str, String)>,
) -> String {
    let mut table = theme.new_table(header);
    for (what, how_much) in figures {
        table.add_row([Cell::new(what), Cell::right(how_much)]);
    }
    table.to_string()
}

/// A count in each line.
fn counts(report: impl Iterator<Item = (&'static str, u64)>) -> String {
    let named: Vec<_> = report
        .map(|(what, count)| (what.replace('_', " "), grouped(count)))
        .collect();
    let lines = named
        .iter()
        .map(|(what, count)| (what.as_str(), count.clone()));
    figures(Theme::of_stdout(), ["what", "count"], lines)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// The widest figures.
    pub fn widest(theme: Theme) -> String {
        let count = (
            "entries of each node in its tables of trees",
            grouped(u64::MAX),
        );
        figures(theme, ["what", "count"], [count])
    }
}
