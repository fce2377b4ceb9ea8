//! The section of the page about performance.

use std::{fmt::Write as _, path::Path};

use anyhow::Result;

use super::{
    results::{DOORBELL, Results, YIELD},
    table::{load_words, others},
};
use crate::{cell, kept::Kept as _, streams::printed_command};

/// Builds the section from the last result beside `results`. The section states if there is no
/// result.
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
        "`strace -c` counts the system calls of the lanes' threads while an application adds\n\
         to a word at another node over AF_XDP. A lane rings its port's doorbell\n\
         (`{DOORBELL}`) once for each round that sends, regardless of the number of frames.\n\
         Under `{}` it also yields its core (`{YIELD}`) after its work and, when idle, every\n\
         64 rounds, because an application that shares the core needs it. The number of those\n\
         calls grows with the elapsed time, which is long for a traced lane. A verb causes no\n\
         other call. [Allocations](#exchanges-over-one-link) are counted above.\n\n\
         | | lane | frames sent | doorbells | per verb | yields of the core | others |\n\
         |---|---|---:|---:|---:|---:|---|",
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
                lane.of(YIELD),
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
        printed_command(&host.command),
        host.words()
    );
    out
}

#[cfg(test)]
mod tests {
    use super::{super::results::example, *};

    #[test]
    fn the_section_has_calls_and_goals() {
        let section = text(Some(&example::results()));
        for words in [
            "\n## System calls of a lane\n",
            "| 100000 additions, 512 in flight | asking | 5000 | 4000 | 0.040 | 30000 | write 3 |",
            "a yield of the core | met | 0.00 |",
        ] {
            assert!(section.contains(words), "{words:?} is not in\n{section}");
        }
    }

    #[test]
    fn without_a_result_the_section_names_the_command() {
        assert!(text(None).contains("Not counted: `covalent-bench system-calls"));
    }
}
