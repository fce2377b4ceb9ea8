//! A run for people at a terminal.

use std::fmt::Write as _;

use super::results::Results;
use crate::cell;

/// The whole run.
pub fn table(results: &Results) -> String {
    let setup = &results.setup;
    let mut out = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        out,
        "atomics: additions to one counter at another node (M/s; median of {} rounds, with the \
         least and the most)\n  \
         {:<34}{:>9}{:>14}{:>16}{:>10}",
        setup.rounds, "", "rate", "", "records a frame", "of Redis"
    );
    let best = results.best_of_redis().map(|best| best.mops.median);
    for side in &results.sides {
        let rate = &side.mops;
        let per_frame = cell::figure(side.records_per_frame, 1);
        let of_redis = cell::figure(best.map(|best| rate.median / best), 2);
        let _ = writeln!(
            out,
            "  {:<34}{:>9.3}{:>14}{per_frame:>16}{of_redis:>10}",
            side.side.words(),
            rate.median,
            format!("{:.2}–{:.2}", rate.min, rate.max),
        );
    }
    for verdict in &results.goals {
        let _ = writeln!(
            out,
            "  {}: {}: {:.2}",
            cell::met(verdict.met),
            verdict.target,
            verdict.ratio
        );
    }
    let _ = writeln!(
        out,
        "  {}\n  {}\n  {}\n  {}",
        results.settled().words(),
        setup.words(),
        setup.core_words(),
        results.host.words()
    );
    out
}

#[cfg(test)]
mod tests {
    use super::{super::results::example, *};

    #[test]
    fn all_sides_stand_beside_the_faster_load_of_redis() {
        let table = table(&example::results());
        for words in [
            "  Redis INCR, 1 connection              0.600     0.54–0.66               –      0.60\n",
            "  Redis INCR, 50 connections            1.000",
            "  additions in the lane's \
             thread        6.000     5.40–6.60            21.5      6.00\n",
            "  NOT MET: additions of an application to a counter",
            "255 slots, 512 verbs",
        ] {
            assert!(table.contains(words), "{words:?} is not in\n{table}");
        }
    }
}
