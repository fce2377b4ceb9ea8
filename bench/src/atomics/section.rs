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
    let mut out = "\n## Additions to a counter, beside Redis\n\n".to_owned();
    // Writing to a string cannot fail, here and below.
    let Some(results) = results else {
        let _ = writeln!(
            out,
            "Not measured: `covalent-bench atomics --results bench/results` does, as root."
        );
        return out;
    };
    let setup = &results.setup;
    let _ = writeln!(
        out,
        "A client adds to one counter at another node, over one veth pair between two network\n\
         namespaces, with many additions in flight. `redis-benchmark -t incr -P {}` loads\n\
         Redis over TCP, once with one connection and once with its default number; the faster\n\
         one is the reference. *Not pipelined* is the same with one request in flight per\n\
         connection. Covalent's additions use AF_XDP in one phase, and each is executed once.\n\
         *Of an application* goes through its daemon. *In the lane's thread* has the port, the\n\
         protocol and the verb engine in one thread at either end. An addition takes a record\n\
         each way, so the limit is *pairs of records*: the ports carry full frames both ways,\n\
         and neither end reads them. All sides take turns {} times, {} ms each; medians (least\n\
         to most), M/s.\n\n\
         | | M/s | records in a frame | of Redis |\n\
         |---|---:|---:|---:|",
        setup.pipeline, setup.rounds, setup.slice_ms
    );
    let best = results.best_of_redis().map(|best| best.mops.median);
    for side in &results.sides {
        let rate = &side.mops;
        let per_frame = cell::figure(side.records_per_frame, 1);
        let of_redis = cell::figure(best.map(|best| rate.median / best), 2);
        let _ = writeln!(
            out,
            "| {} | {:.2} ({:.2}–{:.2}) | {per_frame} | {of_redis} |",
            side.side.words(),
            rate.median,
            rate.min,
            rate.max
        );
    }
    let _ = writeln!(out, "\n| goal | | ratio |\n|---|---|---:|");
    for verdict in &results.goals {
        let met = cell::met_on_page(verdict.met);
        let _ = writeln!(out, "| {} | {met} | {:.2} |", verdict.target, verdict.ratio);
    }
    let host = &results.host;
    let _ = writeln!(
        out,
        "\n| | |\n|---|---|\n\
         | mode | {} |\n\
         | cores | {} |\n\
         | Redis | {} |\n\
         | medians | {} |\n\
         | machine | {} |\n\
         | measured | `{}` |",
        setup.words(),
        setup.core_words(),
        setup.redis,
        results.settled().words(),
        host.words(),
        printed_command(&host.command)
    );
    for side in &results.sides {
        for command in &side.commands {
            let _ = writeln!(out, "| {} | `{command}` |", side.side.words());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{super::results::example, *};

    #[test]
    fn the_section_has_rates_ratios_and_goals() {
        let section = text(Some(&example::results()));
        for words in [
            "\n## Additions to a counter, beside Redis\n",
            "| additions of an application | 2.50 (2.25–2.75) | 21.5 | 2.50 |",
            "| Redis INCR, 50 connections | 1.00 (0.90–1.10) | – | 1.00 |",
            "| pairs of records, not looked at | 8.00 (7.20–8.80) | 21.5 | 8.00 |",
            "with -P 64 | **missed** | 2.50 |",
        ] {
            assert!(section.contains(words), "{words:?} is not in\n{section}");
        }
    }

    #[test]
    fn without_a_result_the_section_names_the_command() {
        assert!(text(None).contains("Not measured: `covalent-bench atomics"));
    }
}
