//! The section of the page about performance.

use std::{fmt::Write as _, path::Path};

use anyhow::Result;

use super::results::Results;
use crate::{cell, kept::Kept as _, streams::told_command};

/// The section from the last result beside `results`; it says so where there is none.
pub fn section(results: &Path) -> Result<String> {
    Ok(text(Results::last_beside(results)?.as_ref()))
}

fn text(results: Option<&Results>) -> String {
    let mut out = "\n## A daemon is started again\n\n".to_owned();
    // Writing to a string cannot fail, here and below.
    let Some(results) = results else {
        let _ = writeln!(
            out,
            "Not measured: `covalent-bench restart --results bench/results` does, as root."
        );
        return out;
    };
    let setup = &results.setup;
    let _ = writeln!(
        out,
        "Two nodes on one cable, and a client of each that has one addition under way all the time, both to the same counter. A daemon is ended and started\n\
         again, and the clients find it by themselves ([decision 52](decisions.md#52-a-restart-is-lived-through-by-the-library-not-by-the-daemon)). The gap is the longest time between two completions around it, with all that it takes: the\n\
         end, the start of the new process, its ports, its links, the clients' memory.\n\n\
         | restarted | ended | min ms | p50 | p90 | max |\n|---|---|---:|---:|---:|---:|"
    );
    for gaps in &results.gaps {
        let _ = write!(out, "| {} | {} |", gaps.what, gaps.ended.words());
        for percent in [0, 50, 90, 100] {
            let ms = gaps.percentile_ns(percent) as f64 / 1e6;
            let _ = write!(out, " {ms:.2} |");
        }
        out.push('\n');
    }
    let _ = writeln!(
        out,
        "\n| | |\n|---|---|\n| restarts | {} of each kind of each daemon |\n| additions | {} done, {} of which nobody can tell, {} counted, within {} to {}: {} |\n\
         | lanes | {}, wherever there is room |\n| port | {}, rings of {} |\n| machine | {} |\n| measured | `{}` |",
        setup.restarts,
        results.done,
        results.unknown,
        results.counted,
        results.done,
        results.done + results.unknown,
        if results.is_exact {
            "exact"
        } else {
            "**not exact**"
        },
        setup.idle,
        cell::mode(&setup.mode),
        setup.ring_slots,
        results.host.words(),
        told_command(&results.host.command)
    );
    for command in &setup.commands {
        let _ = writeln!(out, "\n`{}`", told_command(command));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nothing_was_measured_it_says_how_to() {
        assert!(text(None).contains("Not measured: `covalent-bench restart"));
    }
}
