//! A run for people at a terminal.

use std::fmt::Write as _;

use super::results::{Figures, Quantiles, Results};
use crate::{cell, loss};

/// Formats how often each reason was reported for a cut, the most frequent first.
pub fn reasons(figures: &Figures) -> String {
    let mut reasons: Vec<_> = figures.reasons.iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let listed: Vec<_> = reasons
        .iter()
        .map(|(reason, count)| format!("{reason} {count}"))
        .collect();
    listed.join(", ")
}

/// The whole run.
pub fn table(results: &Results) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        out,
        "failover: from just before a cut to the first completion over the other link, and the \
         longest wait of any verb (µs)\n  \
         {:<32}{:>6}{:>7}{:>10}{:>10}{:>10}{:>12}{:>10}{:>10}  detected by",
        "", "cuts", "seen", "p50", "p99", "max", "longest p50", "p99", "max"
    );
    for figures in &results.sides {
        let Quantiles {
            p50_us,
            p99_us,
            max_us,
        } = figures.first;
        let longest = &figures.longest;
        let _ = writeln!(
            out,
            "  {:<32}{:>6}{:>7}{p50_us:>10.1}{p99_us:>10.1}{max_us:>10.1}{:>12.1}{:>10.1}{:>10.1}  {}{}",
            figures.way.words(),
            figures.cuts,
            figures.distinguished,
            longest.p50_us,
            longest.p99_us,
            longest.max_us,
            reasons(figures),
            if figures.others > 0 {
                format!("; the other link failed {} times", figures.others)
            } else {
                String::new()
            }
        );
    }
    let _ = writeln!(
        out,
        "  seen: cuts whose first completion was identified; for the others, p50 to max use the \
         longest wait, an upper bound"
    );
    for verdict in &results.goals {
        let _ = writeln!(
            out,
            "  {}: {}: {:.0} µs ({:.2} of the goal)",
            cell::met(verdict.met),
            verdict.target,
            verdict.p99_us,
            verdict.margin
        );
    }
    if let Some(severed) = &results.severed {
        let _ = writeln!(
            out,
            "\non one cable, which is repaired, without a second link"
        );
        out.push_str(&loss::cuts_table(severed.cut_ms, &severed.cuts));
        let _ = writeln!(out);
    }
    if let Some(settled) = results.settled() {
        let _ = writeln!(out, "  {}", settled.words());
    }
    let _ = writeln!(
        out,
        "  {} verbs, each executed once; round trip of one at a time {:.1} µs\n  {}\n  {}\n  {}",
        results.verbs,
        results.round_trip_ns as f64 / 1e3,
        results.setup.words(),
        results.setup.core_words(),
        results.host.words()
    );
    out
}

#[cfg(test)]
mod tests {
    use super::{super::results::example, *};

    #[test]
    fn each_method_is_shown_with_the_reason_of_detection() {
        let table = table(&example::results());
        for words in [
            "  not cut, to compare with           100      0      80.1",
            "  interface down at the initiator    100      0     350.",
            "carrier lost 100\n",
            "  silent both ways                   100    100     300.",
            "peer RTT exceeded 100\n",
            "  NOT MET: silent both ways: p99 from the cut to the first completion over the other \
             link below 1 ms: 300",
            "round trip of one at a time 20.0 µs",
            "  silent        tcp                            3      1         400.0",
            "  5 repeats; the widest spread is",
        ] {
            assert!(table.contains(words), "{words:?} is not in\n{table}");
        }
    }
}
