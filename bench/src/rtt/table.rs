//! A run for people at a terminal.

use std::fmt::Write as _;

use super::{
    goals::Verdict,
    results::{Results, SideName},
};

/// The whole run.
pub fn table(results: &Results) -> String {
    let setup = &results.setup;
    let median = |side| Some(results.figures(side)?.p50_us.median);
    let (bare, udp) = (median(SideName::Bare), median(SideName::Udp));
    let of = |ours: f64, peer: Option<f64>| {
        peer.map_or_else(|| "–".to_owned(), |peer| format!("{:.2}", ours / peer))
    };
    let mut out = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        out,
        "rtt: 8 bytes compared and swapped at another node, one at a time (µs; p50: median of {} rounds, with the least and the most)\n  \
         {:<40}{:>9}{:>16}{:>9}{:>9}{:>9}{:>9}{:>9}",
        setup.rounds, "", "p50", "", "p99", "p99.9", "p99.99", "of bare", "of UDP"
    );
    for side in &results.sides {
        let p50 = &side.p50_us;
        let _ = writeln!(
            out,
            "  {:<40}{:>9.3}{:>16}{:>9.2}{:>9.2}{:>9.2}{:>9}{:>9}",
            side.side.words(),
            p50.median,
            format!("{:.2}–{:.2}", p50.min, p50.max),
            side.p99_us,
            side.p999_us,
            side.p9999_us,
            of(p50.median, bare),
            of(p50.median, udp)
        );
    }
    let lost: u64 = results.sides.iter().map(|side| side.lost).sum();
    let trips: u64 = results.sides.iter().map(|side| side.round_trips).sum();
    let _ = writeln!(out, "  {trips} round trips, {lost} not answered in time");
    for verdict in &results.goals {
        let _ = writeln!(out, "  {}", line(verdict));
    }
    let _ = writeln!(
        out,
        "  {}; {:.3} frames sent for one exchange in a lane's thread\n  {}\n  {}",
        setup.words(),
        setup.frames_per_exchange,
        setup.core_words(),
        results.host.words()
    );
    out
}

fn line(verdict: &Verdict) -> String {
    format!(
        "{}: {}: {:.2} ({:.3} against {:.3} µs)",
        if verdict.met { "met" } else { "NOT MET" },
        verdict.target,
        verdict.ratio,
        verdict.covalent,
        verdict.bare
    )
}

#[cfg(test)]
mod tests {
    use super::{super::results::example, *};

    #[test]
    fn both_meanings_are_told_by_their_names() {
        let table = table(&example::results());
        for words in [
            "CAS in the lane's thread                    4.800       4.32–7.20     9.60    14.40    19.20     1.20     0.24",
            "CAS of an application                      11.000",
            "kernel UDP, asleep in recv",
            "  met: a CAS in the lane's thread takes at most 1.25 times a bare AF_XDP echo: 1.20 (4.800 against 4.000 µs)",
            "  NOT MET: a CAS of an application takes at most 2 times a bare AF_XDP echo: 2.75",
            "8000 round trips, 0 not answered in time",
            "copy, need_wakeup true, 1 queue(s), pages of 4096 bytes",
        ] {
            assert!(table.contains(words), "{words:?} is not in\n{table}");
        }
    }
}
