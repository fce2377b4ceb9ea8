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
        "One counter at another node is added to over one veth pair between two network namespaces, with many additions under way. Redis is asked over\n\
         TCP by `redis-benchmark -t incr -P {}`, once with one connection and once with as many as it takes by itself; the faster one is compared with;\n\
         *not pipelined* is the same with one request of each connection under way.\n\
         Ours go over AF_XDP in one phase, each executed once: *of an application*, through its daemon, or asked for *in the lane's thread* (port,\n\
         protocol and verb engine in one thread at either end). An addition takes a record each way, so none can be faster than the ports carry full\n\
         frames both ways while nobody looks at them: *pairs of records*. All sides took turns {} times, {} ms each; medians (least to most), M/s.\n\n\
         | | M/s | records in a frame | of Redis |\n|---|---:|---:|---:|",
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
        told_command(&host.command)
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
    fn the_section_tells_rates_ratios_and_goals() {
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
    fn without_a_result_the_section_says_how_to_get_one() {
        assert!(text(None).contains("Not measured: `covalent-bench atomics"));
    }
}
