//! A run for people at a terminal.

use std::fmt::Write as _;

use crate::{
    cell::short,
    report::Goal,
    streams::{
        case::{Case, Test},
        goals::{self, count},
        results::Results,
        session,
    },
};

/// All tests, in the order of the output.
pub const TESTS: [Test; 5] = [
    Test::Echo,
    Test::OneWay,
    Test::Stream,
    Test::StreamUnbatched,
    Test::RoundTrip,
];

/// The whole run.
pub fn table(results: &Results) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    for test in TESTS {
        let sizes = results.sizes(test);
        if sizes.is_empty() {
            continue;
        }
        let _ = writeln!(
            out,
            "{} ({}, medians of {})",
            test.title(),
            test.unit(),
            results.setup.rounds
        );
        let _ = write!(out, "  {:<16}", "");
        for size in &sizes {
            let _ = write!(out, " {size:>9}");
        }
        let _ = writeln!(out, "   cores: daemon's + application's");
        for entry in results.in_test(test) {
            let _ = write!(out, "  {:<16}", entry.name);
            let mut cores = [0.0_f64; 3];
            for &size in &sizes {
                let case = Case { test, size };
                match results.figure(&entry.name, case) {
                    Some(figure) => {
                        let _ = write!(out, " {:>9}", short(figure.figure.median));
                        cores = [
                            figure.daemon_cores,
                            figure.application_cores,
                            figure.other_cores,
                        ];
                    }
                    None => {
                        let _ = write!(out, " {:>9}", "–");
                    }
                }
            }
            let [daemon, application, other] = cores;
            let _ = write!(out, "   {daemon:.2} + {application:.2}");
            if other > 0.005 {
                let _ = write!(out, " + {other:.2} for its own process");
            }
            let _ = writeln!(out);
        }
    }
    session::table::write(&mut out, results);
    for entry in &results.contestants {
        if let Some(reason) = &entry.absent {
            let _ = writeln!(out, "not there: {}: {reason}", entry.name);
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
    for (words, verdict) in goals::all(&results.goals) {
        let _ = writeln!(out, "  {}", line(&words, verdict));
    }
    let _ = writeln!(out, "{}", count(&results.goals));
    let _ = writeln!(
        out,
        "  {}\n  {}; rings of {} KiB in pages of {} bytes; mix: {}",
        results.medians(),
        results.host.words(),
        results.setup.ring_kib,
        results.setup.page_bytes,
        results.setup.mix
    );
    out
}

/// Returns a line with a goal and its verdict.
fn line(words: &str, verdict: Option<&Goal>) -> String {
    let Some((goal, sides)) = verdict.and_then(|goal| Some((goal, goal.sides.as_ref()?))) else {
        return format!("– {words}: not measured");
    };
    format!(
        "{} {words}: {:.2} ({} against {} {}, {}){}",
        if goal.met { "✓" } else { "✗" },
        goal.measured,
        short(sides.covalent),
        short(sides.beside),
        sides.unit,
        sides.at.as_deref().unwrap_or_default(),
        if goal.met { "" } else { "  MISSED" }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::results::example;

    #[test]
    fn people_see_figures_absences_and_goals() {
        let table = table(&example());
        for words in [
            "covalent-pipe         55.0      4.50      10.0   1.00 + 0.99",
            "dpdk-memif            11.0      5.50         –",
            "not there: aeron: built without",
            "✓ 64 B echo: at least 4 times DPDK memif: 5.00 (55.0 against 11.0 Mpps, 64 B)",
            "– 64 B echo: at least 3 times DPDK vhost: not measured",
            "2 of 2 goals met; 13 not measured",
        ] {
            assert!(table.contains(words), "{words:?} in\n{table}");
        }
        assert!(!table.contains("One way"), "{table}");
    }

    #[test]
    fn a_missed_goal_is_marked() {
        let mut goal = example().goals.remove(0);
        goal.met = false;
        let line = line(&goal.target, Some(&goal));
        assert!(line.starts_with('✗') && line.ends_with("MISSED"), "{line}");
    }

    #[test]
    fn figures_are_short() {
        let shorts = [0.1234, 1.234, 12.34, 123.4].map(short);
        assert_eq!(shorts, ["0.123", "1.23", "12.3", "123"]);
    }
}
