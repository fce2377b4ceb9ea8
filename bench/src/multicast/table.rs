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
        "multicast: messages in one order (a second; median of {} rounds, with the least and the \
         most)\n  \
         {:<36}{:>10}{:>20}{:>14}{:>9}{:>10}{:>10}",
        setup.rounds, "", "messages", "", "deliveries", "a batch", "p50 us", "p99 us"
    );
    for side in &results.sides {
        let rate = &side.messages_per_s;
        let deliveries = side.deliveries_per_s.as_ref().map(|rate| rate.median);
        let _ = writeln!(
            out,
            "  {:<36}{:>10.0}{:>20}{:>14}{:>9}{:>10}{:>10}",
            side.side.words(),
            rate.median,
            format!("{:.0}–{:.0}", rate.min, rate.max),
            cell::figure(deliveries, 0),
            cell::figure(side.messages_per_batch, 1),
            cell::figure(side.p50_us, 0),
            cell::figure(side.p99_us, 0),
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
        "  {}\n  {}\n  {}",
        results.settled().words(),
        setup.words(),
        results.host.words()
    );
    out
}

#[cfg(test)]
mod tests {
    use super::{super::results::example, *};

    #[test]
    fn all_sides_stand_beside_each_other() {
        let table = table(&example::results());
        for words in [
            "  group, all send, 64 \
             B                   200000       180000–220000        800000     12.5",
            "  group, one message at a time, 64 B        5000",
            "     150       420\n",
            "  etcd, 3 members, 1280 \
             B                   2500           2250–2750             –        –",
            "  NOT MET: messages of 64 B in a group of 4",
            "  met: messages of 1280 B",
        ] {
            assert!(table.contains(words), "{words:?} is not in\n{table}");
        }
    }
}
