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
    let mut out = "\n## Exchanges over one link\n\n".to_owned();
    // Writing to a string cannot fail, here and below.
    let Some(results) = results else {
        let _ = writeln!(
            out,
            "Not measured: `covalent-bench exchanges --results bench/results` does."
        );
        return out;
    };
    let setup = &results.setup;
    let _ = writeln!(
        out,
        "Two threads run the ends of one in-memory cable. Each has a lane's parts for its\n\
         link: the port, the protocol and the engine that executes verbs. They add to eight\n\
         bytes at the other end, with twice as many additions submitted as there are slots.\n\
         For comparison the same cable carries frames full of records, both ways at once. In\n\
         *sealed* each record is written, gets its CRC and is checked. In *plain* one prebuilt\n\
         frame is sent repeatedly, and neither end reads it. All sides take turns {} times, {}\n\
         ms each. Figures are medians (least to most) of both ends together, in millions per\n\
         second.\n\n\
         | | exchanges | records | records in a frame | of sealed | of plain | allocations |\n\
         |---|---:|---:|---:|---:|---:|---:|",
        setup.rounds, setup.slice_ms
    );
    for side in &results.sides {
        let rate = side.exchanges_mops.as_ref().map_or_else(
            || "–".to_owned(),
            |rate| format!("{:.2} ({:.2}–{:.2})", rate.median, rate.min, rate.max),
        );
        let [sealed, plain] = results.fractions(side).unwrap_or_default();
        let _ = writeln!(
            out,
            "| {} | {rate} | {:.1} | {:.1} | {sealed:.3} | {plain:.3} | {} |",
            side.side.words(),
            side.records_mops.median,
            side.records_per_frame,
            side.allocations
        );
    }
    let _ = writeln!(
        out,
        "\n| goal | | measured | of the goal |\n|---|---|---:|---:|"
    );
    for verdict in &results.goals {
        let met = cell::met_on_page(verdict.met);
        let margin = cell::figure(verdict.margin, 2);
        let _ = writeln!(
            out,
            "| {} | {met} | {:.2} | {margin} |",
            verdict.target, verdict.measured
        );
    }
    let host = &results.host;
    let _ = writeln!(
        out,
        "\n| | |\n|---|---|\n\
         | cores | one end on core {}, the other on core {} |\n\
         | cable | at least {} of the longest frames each way |\n\
         | machine | {} |\n\
         | measured | `{}` |",
        setup.near_core,
        setup.far_core,
        setup.ring_slots,
        host.words(),
        printed_command(&host.command)
    );
    out
}

#[cfg(test)]
mod tests {
    use super::{super::results::example, *};

    #[test]
    fn the_section_has_rates_fractions_and_goals() {
        let section = text(Some(&example::results()));
        for words in [
            "\n## Exchanges over one link\n",
            "| 1PC, 64 slots, one initiator | 12.00 (10.80–13.20) | 24.0 | 23.0 | 0.300 | 0.150 | \
             0 |",
            "| records, CRCs made and checked | – | 80.0 |",
            "in 2PC, 64 slots, one initiator | **missed** | 5.00 | 0.83 |",
            "| no allocation during exchanges | met | 0.00 | – |",
        ] {
            assert!(section.contains(words), "{words:?} is not in\n{section}");
        }
    }

    #[test]
    fn without_a_result_the_section_names_the_command() {
        assert!(text(None).contains("Not measured: `covalent-bench exchanges"));
    }
}
