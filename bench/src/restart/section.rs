//! The section of the page about performance.

use std::{fmt::Write as _, path::Path};

use anyhow::Result;

use super::results::Results;
use crate::{cell, kept::Kept as _, streams::printed_command};

/// Builds the section from the last result beside `results`. The section states if there is no
/// result.
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
        "Two nodes are on one cable. A client of each node keeps one addition in flight at all\n\
         times, both to the same counter. A daemon is stopped and started again, and the\n\
         clients reattach without help\n\
         ([decision \
         52](decisions.md#52-a-restart-is-lived-through-by-the-library-not-by-the-daemon)).\n\
         The gap is the longest time between two completions around the restart. It includes\n\
         the exit, the start of the new process, its ports, its links and the clients' memory.\n\n\
         | restarted | ended | min ms | p50 | p90 | max |\n\
         |---|---|---:|---:|---:|---:|"
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
        "\n\
         | | |\n\
         |---|---|\n\
         | restarts | {} of each kind of each daemon |\n\
         | additions | {} done, {} with unknown outcome, {} counted, within {} to {}: {} |\n\
         | lanes | {}, not pinned |\n\
         | port | {}, rings of {} |\n\
         | machine | {} |\n\
         | measured | `{}` |",
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
        printed_command(&results.host.command)
    );
    for command in &setup.commands {
        let _ = writeln!(out, "\n`{}`", printed_command(command));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_restart_result_the_section_names_the_command() {
        assert!(text(None).contains("Not measured: `covalent-bench restart"));
    }
}
