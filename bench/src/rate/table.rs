//! A run for people at a terminal.

use std::fmt::Write as _;

use super::{
    goals::{Verdict, count},
    results::Results,
};
use crate::streams::short;

/// The whole run.
pub fn table(results: &Results) -> String {
    let mut out = String::new();
    let setup = &results.setup;
    // Writing to a string cannot fail.
    for size in results.sizes() {
        let _ = writeln!(
            out,
            "frames from a virtual cable, {size} (Mpps, medians of \
             {})\n  {:<26}{:>9}{:>9}{:>9}   cores: sender's + receiver's + application's",
            setup.rounds, "", "arrived", "offered", "of bare"
        );
        for entry in &results.contestants {
            let Some(figure) = results.figure(&entry.name, size) else {
                continue;
            };
            let of_bare = results.of_bare(figure);
            let _ = writeln!(
                out,
                "  {:<26}{:>9}{:>9}{:>9}   {:.2} + {:.2} + {:.2}",
                entry.name,
                short(figure.mpps.median),
                short(figure.offered_mpps),
                of_bare.map_or_else(|| "–".to_owned(), short),
                figure.sender_cores,
                figure.receiver_cores,
                figure.application_cores
            );
        }
    }
    for entry in &results.contestants {
        if let Some(reason) = &entry.absent {
            let _ = writeln!(out, "not measured: {}: {reason}", entry.name);
        }
        if let Some(failure) = entry.failures.first() {
            let _ = writeln!(
                out,
                "failed {} times: {}: {failure}",
                entry.failures.len(),
                entry.name
            );
        }
    }
    for verdict in &results.goals {
        let _ = writeln!(out, "  {}", line(verdict));
    }
    let _ = writeln!(out, "{}", count(&results.goals));
    let shared = if results.shares_core() {
        " (shared with the lane)"
    } else {
        ""
    };
    let _ = writeln!(
        out,
        "  {}\n  rings of {}, bursts of {}; sender on core {}, receiver or lane on core {}, \
         application on core {}{shared}\n  \
         {}; mix: {}",
        results.settled().words(),
        setup.ring_slots,
        setup.burst,
        setup.sender_core,
        setup.receiver_core,
        setup.application_core,
        results.host.words(),
        setup.mix
    );
    out
}

fn line(verdict: &Verdict) -> String {
    format!(
        "{} {}: {:.3} ({} against {} Mpps of {}){}",
        if verdict.met { "✓" } else { "✗" },
        verdict.target,
        verdict.ratio,
        short(verdict.covalent),
        short(verdict.bare),
        verdict.peer,
        if verdict.met { "" } else { "  MISSED" }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::results::example;

    #[test]
    fn people_see_figures_absences_and_goals() {
        let table = table(&example());
        for words in [
            "  covalent-port                 0.990     2.00    0.990   1.00 + 0.95 + 0.05\n",
            "  covalent-port                 0.800     2.00    0.800   1.00",
            "not measured: dpdk-af_packet: there is no dpdk-testpmd",
            "✓ 64 B into a pipe: at least 0.97 of a bare AF_XDP receiver: 0.990 (0.990 against \
             1.00 Mpps of af_xdp)\n",
            "never below DPDK's net_af_xdp: 0.900 (0.990 against 1.10 Mpps of \
             dpdk-af_xdp-busy)  MISSED",
            "  3 repeats; the widest spread is 20.0 %\n",
            "1 of 3 goals met; 3 not measured",
            "application on core 1 (shared with the lane)",
        ] {
            assert!(table.contains(words), "{words:?} in\n{table}");
        }
    }
}
