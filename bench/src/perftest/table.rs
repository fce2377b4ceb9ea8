//! Figures of perftest and ours below each other, all as whole round trips.

use std::fmt::Write as _;

use super::parse::{Kind, Output, Row, Times};
use crate::{
    latency,
    report::{Block, Table},
};

/// Returns the factor from printed times to whole round trips: 2 for a program that prints half of
/// one.
const fn factor(kind: Kind) -> f64 {
    match kind {
        Kind::HalfRoundTrip => 2.0,
        Kind::RoundTrip | Kind::Rate => 1.0,
    }
}

fn name(output: &Output) -> String {
    let doubled = match output.kind {
        Kind::HalfRoundTrip => ", printed as half of it",
        Kind::RoundTrip | Kind::Rate => "",
    };
    let place = [output.device.as_deref(), output.link_type.as_deref()];
    let place: Vec<&str> = place.into_iter().flatten().collect();
    format!("{} ({}{doubled})", output.title, place.join(", "))
}

fn figure_text(figure: Option<f64>, factor: f64) -> String {
    figure.map_or_else(
        || "–".to_owned(),
        |figure| format!("{:.2}", figure * factor),
    )
}

/// Everything, for people at a terminal.
pub fn table(outputs: &[Output], ours: Option<&latency::Results>, unread: &[String]) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(out, "whole round trips (µs)\n{}  side", latency::HEADER);
    let mut line = |bytes: u64, count: u64, times: &Times, factor: f64, side: &str| {
        let _ = writeln!(
            out,
            " {bytes:<7} {count:<14} {:<14} {:<12} {:<16} {:<14} {:<16} {:<22} {:<22}  {side}",
            figure_text(times.min, factor),
            figure_text(times.max, factor),
            figure_text(times.typical, factor),
            figure_text(times.mean, factor),
            // Of a sum of two the deviation would be another; nothing is made up.
            figure_text(times.stdev.filter(|_| factor == 1.0), factor),
            figure_text(times.p99, factor),
            figure_text(times.p999, factor)
        );
    };
    for (ours, figures) in ours
        .iter()
        .flat_map(|results| results.figures.iter().map(move |one| (results, one)))
    {
        let times = &figures.times_us;
        let times = Times {
            min: Some(times.min),
            max: Some(times.max),
            typical: Some(times.typical),
            mean: Some(times.mean),
            stdev: Some(times.stdev),
            p99: Some(times.p99),
            p999: Some(times.p999),
        };
        line(
            figures.bytes as u64,
            figures.requests,
            &times,
            1.0,
            &(figures.label() + &figures.behind(ours.setup.pacing)),
        );
    }
    for (output, row, times) in timed(outputs) {
        line(
            row.bytes,
            row.iterations,
            &times,
            factor(output.kind),
            &name(output),
        );
    }
    if rated(outputs).next().is_some() {
        let _ = writeln!(
            out,
            "rates\n #bytes #iterations    M messages/s   MB/s (10^6)   side"
        );
    }
    for (output, row) in rated(outputs) {
        let _ = writeln!(
            out,
            " {:<7} {:<14} {:<14} {:<12}  {}",
            row.bytes,
            row.iterations,
            figure_text(row.mpps, 1.0),
            figure_text(row.bytes_per_s, 1e-6),
            name(output)
        );
    }
    match ours {
        Some(ours) => {
            let _ = writeln!(
                out,
                "# ours: {}; {}; perftest's: of the machine that printed it",
                ours.setup.pacing,
                ours.host.words()
            );
            if matches!(ours.setup.pacing, latency::Pacing::Open { .. }) {
                let _ = writeln!(
                    out,
                    "# NOT COMPARABLE: ours used a schedule, perftest sends requests one after the \
                     other; measure ours with `latency --ping-pong`"
                );
            }
        }
        None => {
            let _ = writeln!(
                out,
                "# none of ours: `covalent-bench latency --ping-pong --results DIR`, then --beside \
                 DIR"
            );
        }
    }
    if !unread.is_empty() {
        let _ = writeln!(
            out,
            "# not read, for they do not fit their header: {}",
            unread.join(", ")
        );
    }
    out
}

fn timed(outputs: &[Output]) -> impl Iterator<Item = (&Output, &Row, Times)> {
    outputs.iter().flat_map(|output| {
        output
            .rows
            .iter()
            .filter_map(move |row| Some((output, row, row.times_us?)))
    })
}

fn rated(outputs: &[Output]) -> impl Iterator<Item = (&Output, &Row)> {
    outputs.iter().flat_map(|output| {
        output
            .rows
            .iter()
            .filter(|row| row.mpps.is_some() || row.bytes_per_s.is_some())
            .map(move |row| (output, row))
    })
}

/// The section of the page.
pub fn blocks(outputs: &[Output]) -> Vec<Block> {
    let mut times_table = Table::new(&[
        "",
        ">bytes",
        ">iterations",
        ">min µs",
        ">typical",
        ">mean",
        ">p99",
        ">p99.9",
        ">max",
    ]);
    for (output, row, times) in timed(outputs) {
        let factor = factor(output.kind);
        times_table.row([
            name(output),
            row.bytes.to_string(),
            row.iterations.to_string(),
            figure_text(times.min, factor),
            figure_text(times.typical, factor),
            figure_text(times.mean, factor),
            figure_text(times.p99, factor),
            figure_text(times.p999, factor),
            figure_text(times.max, factor),
        ]);
    }
    let mut rates_table = Table::new(&["", ">bytes", ">iterations", ">M messages/s", ">MB/s"]);
    for (output, row) in rated(outputs) {
        rates_table.row([
            name(output),
            row.bytes.to_string(),
            row.iterations.to_string(),
            figure_text(row.mpps, 1.0),
            figure_text(row.bytes_per_s, 1e-6),
        ]);
    }
    let mut blocks = vec![Block::text(
        "Output of perftest on other machines, as whole round trips. It was not\n\
         measured here, so it has no comparison here.",
    )];
    if timed(outputs).next().is_some() {
        blocks.push(Block::Table(times_table));
    }
    if rated(outputs).next().is_some() {
        blocks.push(Block::Table(rates_table));
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Results, Run, parse::parse},
        *,
    };
    use crate::{host::Host, kept::Kept as _, report::section};

    #[test]
    fn half_round_trips_are_doubled_and_stand_below_ours() {
        let found = parse(include_str!("samples/ib_send_lat.txt"));
        let table = table(&found.outputs, Some(&latency::example_results()), &[]);
        let line = table
            .lines()
            .find(|line| line.contains("Send Latency Test") && line.starts_with(" 64 "))
            .expect("reported");
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(
            words[2..9],
            ["17.82", "116.80", "22.04", "22.74", "–", "36.24", "116.80"]
        );
        assert!(
            table.contains("covalent-message")
                && table.contains("(rxe0, Ethernet, printed as half of it)"),
            "{table}"
        );
    }

    #[test]
    fn whole_round_trips_and_rates_are_left_as_they_are() {
        let text = [
            include_str!("samples/ib_atomic_lat.txt"),
            include_str!("samples/ib_atomic_bw.txt"),
        ]
        .concat();
        let run = Run {
            outputs: parse(&text).outputs,
            ours: None,
            unread: Vec::new(),
        };
        let place = tempfile::tempdir().expect("a directory");
        let page = place.path().join("performance.md");
        let missing = section::<Run>(place.path(), &page).expect("no problem");
        assert_eq!(missing, "");
        let results = Results::new(1, Host::observed(), run);
        results.write_to(place.path()).expect("written");
        let section = section::<Run>(place.path(), &page).expect("made");
        assert!(section.starts_with("\n## perftest on other machines\n\nOutput"));
        assert!(
            section.contains("| Atomic Latency Test (rxe0, Ethernet) | 8 | 1000 | 14.20 | 16.32 |"),
            "{section}"
        );
        assert!(section.contains("| 8 | 1000 | 0.22 | 1.75 |"), "{section}");
    }

    #[test]
    fn unread_lines_are_reported() {
        let table = table(&[], None, &["x.txt:7".to_owned()]);
        assert!(
            table.contains("x.txt:7") && table.contains("none of ours"),
            "{table}"
        );
    }
}
