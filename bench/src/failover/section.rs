//! The section of the page about performance.

use std::{fmt::Write as _, path::Path};

use anyhow::Result;

use super::{results::Results, table::reasons};
use crate::{
    cell,
    kept::Kept as _,
    loss,
    streams::{printed_command, without_places},
};

/// Builds the section from the last result beside `results`. The section states if there is no
/// result.
pub fn section(results: &Path) -> Result<String> {
    Ok(text(Results::last_beside(results)?.as_ref()))
}

fn text(results: Option<&Results>) -> String {
    let mut out = "\n## A link is cut\n\n".to_owned();
    // Writing to a string cannot fail, here and below.
    let Some(results) = results else {
        let _ = writeln!(
            out,
            "Not measured: `covalent-bench failover --results bench/results` does, as root."
        );
        return out;
    };
    let setup = &results.setup;
    let trip_us = results.round_trip_ns as f64 / 1e3;
    let _ = writeln!(
        out,
        "Two daemons have two links over AF_XDP on veth pairs. An application keeps {}\n\
         additions open at the other node, alternately in one phase and in two. One link is\n\
         cut and repaired repeatedly, in each of the ways in turn. *First* is the time from\n\
         just before the cut is requested to the first completion, over the other link, of a\n\
         verb that waited on the cut one. An application does not see which link a verb uses:\n\
         a verb that a later one overtook waited on the cut link. *Attributed* is the number\n\
         of cuts with such a verb. A cut has none if the call that takes the interface down\n\
         outlasts everything else. *First* is then the longest wait of any verb, counted from\n\
         its posting if the cut was requested earlier; that is an upper bound of the time\n\
         since the cable failed. *Round trips* are those of one verb at a time over the same\n\
         links, {trip_us:.1} µs.\n\n\
         | | cuts | attributed | first: p50 µs | p99 | max | p99 in round trips | longest wait: \
         p50 µs | p99 | max | detected by |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|",
        setup.open
    );
    for figures in &results.sides {
        let (first, longest) = (&figures.first, &figures.longest);
        let _ = writeln!(
            out,
            "| {} | {} | {} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {} |",
            figures.way.words(),
            figures.cuts,
            figures.distinguished,
            first.p50_us,
            first.p99_us,
            first.max_us,
            first.p99_us / trip_us,
            longest.p50_us,
            longest.p99_us,
            longest.max_us,
            reasons(figures)
        );
    }
    let _ = writeln!(out, "\n| goal | | p99 µs |\n|---|---|---:|");
    for verdict in &results.goals {
        let met = cell::met_on_page(verdict.met);
        let _ = writeln!(
            out,
            "| {} | {met} | {:.0} |",
            verdict.target, verdict.p99_us
        );
    }
    if let Some(severed) = &results.severed {
        let _ = writeln!(
            out,
            "\nWithout a second link there is no failover. This compares TCP with a message of\n\
             Covalent, a request and its reply each:"
        );
        out.push_str(&loss::cuts_section(severed.cut_ms, &severed.cuts));
    }
    let others: u64 = results.sides.iter().map(|figures| figures.others).sum();
    let host = &results.host;
    let _ = writeln!(
        out,
        "\n| | |\n|---|---|\n\
         | verbs | {}, each executed once; {others} failures of links that were not cut |\n\
         | mode | {} |\n\
         | cores | {} |\n\
         | medians | {} |\n\
         | machine | {} |\n\
         | measured | `{}` |",
        results.verbs,
        setup.words(),
        setup.core_words(),
        results
            .settled()
            .map_or_else(|| "one repeat".to_owned(), |settled| settled.words()),
        host.words(),
        printed_command(&host.command)
    );
    for daemon in &setup.daemons {
        let _ = writeln!(out, "| daemon | `{}` |", without_places(&daemon.join(" ")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{super::results::example, *};

    #[test]
    fn the_section_has_gaps_reasons_and_goals() {
        let section = text(Some(&example::results()));
        for words in [
            "\n## A link is cut\n",
            "| silent both ways | 100 | 100 | 300 |",
            "| peer RTT exceeded 100 |",
            "| silent both ways: p99 from the cut to the first completion over the other link \
             below 1 ms | **missed** | 300",
            "| silent | tcp | 3 | 1 | 400.0 (200.0–600.0) |",
            "| medians | 5 repeats; the widest spread is",
            "| 600000, each executed once; 0 failures of links that were not cut |",
        ] {
            assert!(section.contains(words), "{words:?} is not in\n{section}");
        }
    }

    #[test]
    fn without_a_result_the_section_names_the_command() {
        assert!(text(None).contains("Not measured: `covalent-bench failover"));
    }
}
