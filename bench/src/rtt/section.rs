//! The section of the page about performance.

use std::{fmt::Write as _, path::Path};

use anyhow::Result;

use super::results::{Results, SideName};
use crate::{
    kept::Kept as _,
    streams::{told_command, without_places},
};

/// The section from the last result beside `results`; it says so where there is none.
pub fn section(results: &Path) -> Result<String> {
    Ok(text(Results::last_beside(results)?.as_ref()))
}

fn text(results: Option<&Results>) -> String {
    let mut out = "\n## Round trip of a compare-and-swap\n\n".to_owned();
    // Writing to a string cannot fail, here and below.
    let Some(results) = results else {
        let _ = writeln!(
            out,
            "Not measured: `covalent-bench rtt --results bench/results` does, as root."
        );
        return out;
    };
    let setup = &results.setup;
    let _ = writeln!(
        out,
        "Eight bytes are compared and swapped at another node, over AF_XDP on a veth pair between two network namespaces; the next one leaves when the\n\
         answer is there. It has two meanings. *In the lane's thread*: whoever asks is in the lane itself and polls its port, as a bare AF_XDP client\n\
         does; port, protocol and verb engine in one thread at either end. *Of an application*: another process hands its verb to the lane through a\n\
         pipe and waits for the answer in another. The bare echo sends back what it received and its client compares; with *frames unread* neither\n\
         looks at a frame, which saves bringing its lines over from the other core twice. All sides took turns {} times, {} ms each; p50 is the median of the rounds' medians (least to most),\n\
         the other quantiles are of all round trips.\n\n\
         | | p50 µs | p99 | p99.9 | p99.99 | of bare | of UDP |\n|---|---:|---:|---:|---:|---:|---:|",
        setup.rounds, setup.slice_ms
    );
    let median = |side| Some(results.figures(side)?.p50_us.median);
    for side in &results.sides {
        let p50 = &side.p50_us;
        let of = |peer| {
            median(peer).map_or_else(
                || "–".to_owned(),
                |peer| format!("{:.2}", p50.median / peer),
            )
        };
        let _ = writeln!(
            out,
            "| {} | {:.2} ({:.2}–{:.2}) | {:.1} | {:.1} | {:.1} | {} | {} |",
            side.side.words(),
            p50.median,
            p50.min,
            p50.max,
            side.p99_us,
            side.p999_us,
            side.p9999_us,
            of(SideName::Bare),
            of(SideName::Udp)
        );
    }
    let _ = writeln!(out, "\n| goal | | ratio |\n|---|---|---:|");
    for verdict in &results.goals {
        let met = if verdict.met { "met" } else { "**missed**" };
        let _ = writeln!(out, "| {} | {met} | {:.2} |", verdict.target, verdict.ratio);
    }
    let _ = writeln!(out, "\n| | |\n|---|---|");
    let rows = [
        ("mode", setup.words()),
        ("cores", setup.core_words()),
        (
            "kernel UDP",
            format!(
                "connected sockets, `SO_BUSY_POLL` off, one thread on core {} and one on core {}",
                setup.near_core, setup.far_core
            ),
        ),
        ("machine", results.host.words()),
        (
            "measured",
            format!("`{}`", told_command(&results.host.command)),
        ),
    ];
    for (name, value) in rows {
        let _ = writeln!(out, "| {name} | {value} |");
    }
    for daemon in &setup.daemons {
        let _ = writeln!(out, "| daemon | `{}` |", without_places(&daemon.join(" ")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{super::results::example, *};

    #[test]
    fn the_section_tells_both_meanings_goals_and_mode() {
        let section = text(Some(&example::results()));
        for words in [
            "\n## Round trip of a compare-and-swap\n",
            "| CAS in the lane's thread | 4.80 (4.32–7.20) | 9.6 | 14.4 | 19.2 | 1.20 | 0.24 |",
            "| CAS of an application | 11.00 (9.90–16.50) |",
            "| a CAS of an application takes at most 2 times a bare AF_XDP echo | **missed** | 2.75 |",
            "| a CAS in the lane's thread takes at most 1.25 times a bare AF_XDP echo | met | 1.20 |",
            "native XDP, copy,",
            "`SO_BUSY_POLL` off",
        ] {
            assert!(section.contains(words), "{words:?} is not in\n{section}");
        }
    }

    #[test]
    fn without_a_result_the_section_says_how_to_get_one() {
        let folder = tempfile::tempdir().expect("a directory");
        let section = section(folder.path()).expect("no problem");
        assert!(section.contains("Not measured: `covalent-bench rtt"));
    }
}
