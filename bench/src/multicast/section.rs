//! The section of the page about performance.

use std::{fmt::Write as _, path::Path};

use anyhow::Result;

use super::{
    results::Results,
    stream::{CONNECTIONS, PIPELINE},
};
use crate::{cell, kept::Kept as _, streams::printed_command};

/// Builds the section from the last result beside `results`. The section states if there is no
/// result.
pub fn section(results: &Path) -> Result<String> {
    Ok(text(Results::last_beside(results)?.as_ref()))
}

fn text(results: Option<&Results>) -> String {
    let mut out = "\n## Multicast in one order, beside etcd and a stream of Redis\n\n".to_owned();
    // Writing to a string cannot fail, here and below.
    let Some(results) = results else {
        let _ = writeln!(
            out,
            "Not measured: `covalent-bench multicast --results bench/results` does, as root."
        );
        return out;
    };
    let setup = &results.setup;
    let _ = writeln!(
        out,
        "A group has {} members. Each is a process with its own daemon, and an in-memory cable\n\
         joins every two daemons. A message is delivered when all members have it. All members\n\
         deliver the same messages in the same order, which each slice checks. *Messages*\n\
         counts the ordered messages, *deliveries* those that all members together received.\n\
         The peers use the loopback interface. One is etcd with three members, data in memory\n\
         and `--unsafe-no-fsync`, under the load of `etcdctl check perf`. Its writes have\n\
         1,280 bytes, and its log outlives the processes; Covalent's messages do not. The\n\
         other is a stream of Redis with two replicas under\n\
         `redis-benchmark -P {PIPELINE} -c {CONNECTIONS}`. No client waits for those replicas,\n\
         so the stream has figures and no goal. All sides take turns {} times, {} ms each,\n\
         etcd for a minute; medians (least to most), per second. Microseconds are from a\n\
         message to its delivery at its sender.\n\n\
         | | messages/s | deliveries/s | messages in a batch | p50 us | p99 us |\n\
         |---|---:|---:|---:|---:|---:|",
        setup.members, setup.rounds, setup.slice_ms
    );
    for side in &results.sides {
        let rate = &side.messages_per_s;
        let deliveries = side.deliveries_per_s.as_ref().map(|rate| rate.median);
        let _ = writeln!(
            out,
            "| {} | {:.0} ({:.0}–{:.0}) | {} | {} | {} | {} |",
            side.side.words(),
            rate.median,
            rate.min,
            rate.max,
            cell::figure(deliveries, 0),
            cell::figure(side.messages_per_batch, 1),
            cell::figure(side.p50_us, 0),
            cell::figure(side.p99_us, 0),
        );
    }
    let _ = writeln!(out, "\n| goal | | ratio |\n|---|---|---:|");
    for verdict in &results.goals {
        let met = cell::met_on_page(verdict.met);
        let _ = writeln!(out, "| {} | {met} | {:.2} |", verdict.target, verdict.ratio);
    }
    let host = &results.host;
    let none = || "not measured".to_owned();
    let _ = writeln!(
        out,
        "\n| | |\n|---|---|\n\
         | mode | {} |\n\
         | etcd | {} |\n\
         | Redis | {} |\n\
         | medians | {} |\n\
         | machine | {} |\n\
         | measured | `{}` |",
        setup.words(),
        setup.etcd.clone().unwrap_or_else(none),
        setup.redis.clone().unwrap_or_else(none),
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
            "\n## Multicast in one order, beside etcd and a stream of Redis\n",
            "| group, all send, 64 B | 200000 (180000–220000) | 800000 | 12.5 | – | – |",
            "| etcd, 3 members, 1280 B | 2500 (2250–2750) | – | – | – | – |",
            "of all members together | **missed** | 0.80 |",
            "times its rate | met | 20.00 |",
        ] {
            assert!(section.contains(words), "{words:?} is not in\n{section}");
        }
    }

    #[test]
    fn without_a_result_the_section_names_the_command() {
        assert!(text(None).contains("Not measured: `covalent-bench multicast"));
    }
}
