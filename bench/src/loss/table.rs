//! A run as a terminal table: request times under frame loss, side by side.

use std::fmt::Write as _;

use super::results::{Cuts, Results};

/// The whole run.
pub fn table(results: &Results) -> String {
    let setup = &results.setup;
    let mut out = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        out,
        "loss: {} bytes there and back on a cable that loses frames; {} (µs)\n  \
         {:<9}{:<26}{:>10}{:>10}{:>10}{:>12}{:>12}{:>8}{:>25}",
        setup.bytes,
        setup.pacing,
        "loss",
        "",
        "p50",
        "p99",
        "p99.9",
        "p99.99",
        "max",
        "lost",
        "frames lost on the way"
    );
    for parts in results.parts() {
        for side in results.sides() {
            let Some(one) = results.lossy(side, parts) else {
                continue;
            };
            let times = &one.figures.times_us;
            let _ = writeln!(
                out,
                "  {:<9}{:<26}{:>10.1}{:>10.1}{:>10.1}{:>12.1}{:>12.1}{:>8}{:>25}{}",
                one.percent(),
                side,
                times.typical,
                times.p99,
                times.p999,
                times.p9999,
                times.max,
                one.figures.lost,
                format!("{} + {}", one.lost_frames[0], one.lost_frames[1]),
                if one.figures.kept_up(setup.pacing) {
                    String::new()
                } else {
                    format!("  DID NOT KEEP UP: {:.0}/s", one.figures.rate_per_s)
                }
            );
        }
    }
    out.push_str(&cuts(setup.cut_ms, &results.cuts));
    for entry in &results.contestants {
        if let Some(reason) = &entry.absent {
            let _ = writeln!(out, "  {} took no part: {reason}", entry.name);
        }
        if let Some(failure) = entry.failures.first() {
            let _ = writeln!(
                out,
                "  {}: {} repeats failed, the first: {failure}",
                entry.name,
                entry.failures.len()
            );
        }
    }
    let _ = writeln!(
        out,
        "  {} repeats of {} ms; requester on core {}, responder on core {}\n  {}",
        setup.repeats,
        setup.slice_ms,
        setup.near_core,
        setup.far_core,
        results.host.words()
    );
    out
}

/// Formats the figures for a cable that is cut. Empty if it was not cut.
pub fn cuts(cut_ms: u64, cuts: &[Cuts]) -> String {
    let mut out = String::new();
    if !cuts.is_empty() {
        let _ = writeln!(
            out,
            "cut for {} ms, repeatedly (ms; median with the least and the most)\n  \
             {:<14}{:<26}{:>6}{:>7}{:>14}{:>20}{:>16}{:>20}{:>8}",
            cut_ms, "", "", "cuts", "never", "to recover", "", "longest wait", "", "lost"
        );
    }
    for cut in cuts {
        let (recovered, longest) = (&cut.recovered_ms, &cut.longest_ms);
        let _ = writeln!(
            out,
            "  {:<14}{:<26}{:>6}{:>7}{:>14.1}{:>20}{:>16.1}{:>20}{:>8}",
            cut.way.words(),
            cut.figures.side,
            recovered.repeats.len(),
            cut.unrecovered,
            recovered.median,
            format!("{:.1}–{:.1}", recovered.min, recovered.max),
            longest.median,
            format!("{:.1}–{:.1}", longest.min, longest.max),
            cut.figures.lost
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{super::results::example, *};

    #[test]
    fn sides_stand_below_each_other_under_each_loss_and_cut() {
        let table = table(&example::results());
        let lines: Vec<&str> = table.lines().collect();
        let at = |words: &str| {
            lines
                .iter()
                .position(|line| line.starts_with(words))
                .unwrap_or_else(|| panic!("{words:?} is not in\n{table}"))
        };
        assert_eq!(at("  1 %      covalent-message") + 1, at("  1 %      tcp"));
        assert!(at("  0 %      tcp") < at("  1 %      covalent-message"));
        assert!(lines[at("  1 %      tcp")].contains("100 + 200"));
        assert!(
            lines[at("  silent        tcp")].contains("400.0")
                && lines[at("  silent        tcp")].contains("200.0–600.0")
        );
    }
}
