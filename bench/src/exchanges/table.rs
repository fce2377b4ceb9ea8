//! A run for people at a terminal.

use std::fmt::Write as _;

use super::{goals::Verdict, results::Results};
use crate::cell;

/// The whole run.
pub fn table(results: &Results) -> String {
    let setup = &results.setup;
    let mut out = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        out,
        "exchanges: additions to 8 bytes at the other end of a cable in memory (M/s; median of {} \
         rounds, with the least and the most)\n  \
         {:<34}{:>9}{:>14}{:>10}{:>11}{:>12}{:>12}{:>7}",
        setup.rounds, "", "exchanges", "", "records", "a frame", "of sealed", "of plain", "alloc"
    );
    for side in &results.sides {
        let (median, range) = side.exchanges_mops.as_ref().map_or_else(
            || ("–".to_owned(), String::new()),
            |rate| {
                (
                    format!("{:.3}", rate.median),
                    format!("{:.2}–{:.2}", rate.min, rate.max),
                )
            },
        );
        let [sealed, plain] = results.fractions(side).unwrap_or_default();
        let _ = writeln!(
            out,
            "  {:<34}{median:>9}{range:>14}{:>10.2}{:>11.1}{sealed:>12.3}{plain:>12.3}{:>7}",
            side.side.words(),
            side.records_mops.median,
            side.records_per_frame,
            side.allocations
        );
    }
    for verdict in &results.goals {
        let _ = writeln!(out, "  {}", line(verdict));
    }
    let _ = writeln!(
        out,
        "  ends on cores {} and {}, cable of {} frames, {} ms a slice\n  {}\n  {}",
        setup.near_core,
        setup.far_core,
        setup.ring_slots,
        setup.slice_ms,
        results.settled().words(),
        results.host.words()
    );
    out
}

fn line(verdict: &Verdict) -> String {
    let met = cell::met(verdict.met);
    let margin = verdict
        .margin
        .map_or_else(String::new, |margin| format!(" ({margin:.2} of the goal)"));
    format!("{met}: {}: {:.3}{margin}", verdict.target, verdict.measured)
}

#[cfg(test)]
mod tests {
    use super::{super::results::example, *};

    #[test]
    fn rates_are_shown_as_fractions_of_the_raw_cable() {
        let table = table(&example::results());
        for words in [
            "  1PC, 64 slots, one initiator         12.000   10.80–13.20     24.00       \
             23.0       0.300       0.150      0\n",
            "  records, not looked at                    –",
            "  met: at least 10 M/s additions to 8 bytes in 1PC, 64 slots, one initiator: 12.000 \
             (1.20 of the goal)",
            "  NOT MET: at least 6 M/s additions to 8 bytes in 2PC",
            "  met: no allocation during exchanges: 0.000\n",
        ] {
            assert!(table.contains(words), "{words:?} is not in\n{table}");
        }
    }
}
