//! The sweeps for people at a terminal.

use std::fmt::Write as _;

use super::{counts::CountSweep, loads::LoadSweep};
use crate::{cell::short, streams::results::Results, summary::Summary};

/// Both, as far as they were measured. Writing to a string cannot fail.
pub fn write(out: &mut String, results: &Results) {
    if let Some(sweep) = &results.loads {
        loads(out, sweep);
    }
    if let Some(sweep) = &results.counts {
        counts(out, sweep);
    }
}

fn loads(out: &mut String, sweep: &LoadSweep) {
    for line in &sweep.lines {
        let _ = writeln!(
            out,
            "Notifications, {}: {} pipes of {} KiB, {} Mpps flat out",
            line.name,
            sweep.pipes,
            sweep.ring_kib,
            short(line.flat_out_mpps.median)
        );
        let _ = writeln!(
            out,
            "  {:>6} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "load", "received", "dropped", "late", "p50", "p99"
        );
        for point in &line.points {
            let _ = writeln!(
                out,
                "  {:>4} % {:>9} {:>7} % {:>7} % {:>9} {:>9}",
                point.load_percent,
                short(point.received_mpps.median),
                short(point.dropped_percent.median),
                short(point.late_percent.median),
                or_none(point.p50_us.as_ref()),
                or_none(point.p99_us.as_ref())
            );
        }
        if let Some(failure) = line.failures.first() {
            let _ = writeln!(out, "  failed {} times: {failure}", line.failures.len());
        }
    }
}

fn counts(out: &mut String, sweep: &CountSweep) {
    let _ = writeln!(
        out,
        "Packets of 64 B to one pipe after the other (Mpps)\n  {:>6} {:>9} {:>9} {:>9} {:>9} \
         {:>10}",
        "pipes", "ring", "flat out", "lost", "kept up", "bare rings"
    );
    for point in &sweep.points {
        let _ = writeln!(
            out,
            "  {:>6} {:>5} KiB {:>9} {:>7} % {:>9} {:>10}",
            point.pipes,
            point.ring_kib,
            short(point.flat_out_mpps.median),
            short(point.flat_out_missing_percent.median),
            or_none(point.lossless_mpps.as_ref()),
            or_none(point.bare_mpps.as_ref())
        );
    }
    if let Some(failure) = sweep.failures.first() {
        let _ = writeln!(out, "  failed {} times: {failure}", sweep.failures.len());
    }
}

fn or_none(figure: Option<&Summary>) -> String {
    figure.map_or_else(|| "–".to_owned(), |figure| short(figure.median))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::session::example::with_sweeps;

    #[test]
    fn people_see_loads_and_numbers_of_pipes() {
        let mut out = String::new();
        write(&mut out, &with_sweeps());
        for words in [
            "Notifications, per packet: 8 pipes of 256 KiB, 10.0 Mpps flat out",
            "   100 %      9.00    50.0 %    2.00 %      9.00      45.0",
            "      32    64 KiB      8.00   0.250 %      7.00       20.0",
            "    4096    64 KiB      3.00   0.000 %         –          –",
            "failed 1 times: gone",
        ] {
            assert!(out.contains(words), "{words:?} is not in\n{out}");
        }
    }
}
