//! One run as it is printed, and the tables and traces that are printed of any.

use std::fmt::Display;

use covalent_sim::node_name;
use serde::Serialize;

use crate::output::{Cell, Theme, grouped};

/// Lines of the trace before a violation that are shown of one seed of many.
const LAST_LINES: usize = 60;

/// JSON output of one run.
#[derive(Serialize)]
pub struct Run<'a, E, R, V> {
    pub seed: u64,
    /// The command that makes this run again.
    pub command: String,
    pub nodes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<&'a str>,
    pub cables: Vec<[&'static str; 2]>,
    pub faults: Vec<&'static str>,
    pub trace: Vec<&'a E>,
    pub report: Option<&'a R>,
    pub violation: Option<&'a V>,
}

/// The names of the nodes at both ends of each cable.
pub fn cable_names(cables: &[[usize; 2]]) -> Vec<[&'static str; 2]> {
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

/// Describes the outcome of a run: its result if every invariant held, or the violation.
pub fn end<R, F: Display>(result: &Result<R, F>, table: impl FnOnce(&R) -> String) -> String {
    match result {
        Ok(report) => format!("\n{}\nEvery invariant held.", table(report)),
        Err(failure) => format!("\nBroken: {failure}"),
    }
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
pub fn counts(report: impl Iterator<Item = (&'static str, u64)>) -> String {
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
