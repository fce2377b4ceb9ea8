//! The section of the page about performance.

use std::{fmt::Write as _, path::Path};

use anyhow::Result;

use super::{
    results::{DOORBELL, OFFER, Results},
    table::{load_words, others},
};
use crate::{cell, kept::Kept as _, streams::told_command};

/// The section from the last result beside `results`; it says so where there is none.
pub fn section(results: &Path) -> Result<String> {
    Ok(text(Results::last_beside(results)?.as_ref()))
}

fn text(results: Option<&Results>) -> String {
    let mut out = "\n## System calls of a lane\n\n".to_owned();
    // Writing to a string cannot fail, here and below.
    let Some(results) = results else {
        let _ = writeln!(
            out,
            "Not counted: `covalent-bench system-calls --results bench/results` does, as root."
        );
        return out;
    };
    let _ = writeln!(
        out,
        "`strace -c` counts what the lanes' threads call while an application adds to a word at another node over AF_XDP. A lane rings its port's\n\
         doorbell (`{DOORBELL}`) once for each round that sends, however many frames it sends then. Under `{}` it also offers its core (`{OFFER}`) when\n\
         the work at hand is done and, at rest, every 64 rounds: an application that shares the core needs it, and those calls go with the time that\n\
         passes (a traced lane has much of it). Nothing else is called for a verb. Allocations are counted [above](#exchanges-over-one-link).\n\n\
         | | lane | frames sent | doorbells | for a verb | offers of the core | others |\n|---|---|---:|---:|---:|---:|---|",
        results.setup.idle
    );
    for load in &results.loads {
        for lane in &load.lanes {
            let bells = lane.of(DOORBELL);
            let _ = writeln!(
                out,
                "| {} | {} | {} | {bells} | {:.3} | {} | {} |",
                load_words(load),
                lane.lane,
                lane.frames,
                bells as f64 / load.verbs as f64,
                lane.of(OFFER),
                others(lane)
            );
        }
    }
    let _ = writeln!(out, "\n| goal | | measured |\n|---|---|---:|");
    for verdict in &results.goals {
        let met = cell::met_on_page(verdict.met);
        let _ = writeln!(
            out,
            "| {} | {met} | {:.2} |",
            verdict.target, verdict.measured
        );
    }
    let host = &results.host;
    let _ = writeln!(
        out,
        "\nCounted with `{}` on {}.",
        told_command(&host.command),
        host.words()
    );
    out
}

#[cfg(test)]
mod tests {
    use super::{super::results::example, *};

    #[test]
    fn the_section_tells_calls_and_goals() {
        let section = text(Some(&example::results()));
        for words in [
            "\n## System calls of a lane\n",
            "| 100000 additions, 512 under way | asking | 5000 | 4000 | 0.040 | 30000 | write 3 |",
            "an offer of the core | met | 0.00 |",
        ] {
            assert!(section.contains(words), "{words:?} is not in\n{section}");
        }
    }

    #[test]
    fn without_a_result_the_section_says_how_to_get_one() {
        assert!(text(None).contains("Not counted: `covalent-bench system-calls"));
    }
}
