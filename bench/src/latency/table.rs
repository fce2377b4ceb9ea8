//! A run for people at a terminal: perftest's columns, one table for each size.

use std::fmt::Write as _;

use super::results::{Figures, Results};
use crate::{cell, report::Goal};

/// perftest's header, as `ib_send_lat` prints it, followed by our own columns.
pub const HEADER: &str = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]";

/// The whole run.
pub fn table(results: &Results) -> String {
    let setup = &results.setup;
    let mut out = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        out,
        "latency: whole round trips; \
         {}\n{HEADER}   90%[usec]   99.99%[usec]   spread   lost  cores  side",
        setup.pacing
    );
    for bytes in results.sizes() {
        for figures in results.of_size(bytes) {
            let _ = writeln!(out, "{}", line(results, figures));
        }
    }
    for entry in &results.contestants {
        if let Some(reason) = &entry.absent {
            let _ = writeln!(out, "# {} took no part: {reason}", entry.name);
        }
        if let Some(failure) = entry.failures.first() {
            let _ = writeln!(
                out,
                "# {}: {} repeats failed, the first: {failure}",
                entry.name,
                entry.failures.len()
            );
        }
    }
    for goal in &results.goals {
        let Goal {
            target, measured, ..
        } = goal;
        let _ = write!(out, "# {}: {target}: {measured:.2}", cell::met(goal.met));
        let _ = match &goal.sides {
            Some(sides) => writeln!(
                out,
                " ({:.2} against {:.2} {})",
                sides.covalent, sides.beside, sides.unit
            ),
            None => writeln!(out),
        };
    }
    let _ = writeln!(
        out,
        "# {}; of {} ms after {} requests to warm up\n\
         # requester on core {}, responder on core {}; cores: the load of each, with everything \
         that ran there\n\
         # {}",
        results.medians(),
        setup.slice_ms,
        setup.warm_up,
        setup.near_core,
        setup.far_core,
        results.host.words()
    );
    for trouble in results.troubles() {
        let _ = writeln!(out, "# busy: {trouble}");
    }
    out
}

fn line(results: &Results, figures: &Figures) -> String {
    let times = &figures.times_us;
    let behind = figures.behind(results.setup.pacing);
    format!(
        " {:<7} {:<14} {:<14.2} {:<12.2} {:<16.2} {:<14.2} {:<16.2} {:<22.2} {:<22.2} {:<11.2} \
         {:<12.2} {:>6.1} % {:>6}  {:.2}+{:.2}  {}{behind}",
        figures.bytes,
        figures.requests,
        times.min,
        times.max,
        times.typical,
        times.mean,
        times.stdev,
        times.p99,
        times.p999,
        times.p90,
        times.p9999,
        figures.p50_us.spread() * 100.0,
        figures.lost,
        figures.asking_core,
        figures.answering_core,
        figures.label()
    )
}

#[cfg(test)]
mod tests {
    use super::{super::results::example, *};

    #[test]
    fn columns_are_perftests_and_then_ours() {
        let table = table(&example::results());
        let lines: Vec<&str> = table.lines().collect();
        let header: Vec<&str> = lines[1].split_whitespace().collect();
        assert_eq!(
            header[..7],
            [
                "#bytes",
                "#iterations",
                "t_min[usec]",
                "t_max[usec]",
                "t_typical[usec]",
                "t_avg[usec]",
                "t_stdev[usec]"
            ]
        );
        let row: Vec<&str> = lines[2].split_whitespace().collect();
        assert_eq!(
            (row[0], row[1], row.last()),
            ("8", "30000", Some(&"covalent-message"))
        );
        assert!(row[4].starts_with("10.6"), "{row:?}");
        assert_eq!(
            lines
                .iter()
                .filter(|line| line.ends_with("  0.50+1.00  udp (as a test)"))
                .count(),
            2
        );
        assert!(table.contains("# ucx took no part: it is not installed"));
        assert!(table.contains("# 3 repeats; the widest spread is 2.0 %"));
    }

    #[test]
    fn a_slow_side_and_a_busy_machine_are_marked() {
        let mut results = example::results();
        results.run.figures[1].rate_per_s = 5000.0;
        results.run.figures[1].watched.others_cores = 0.7;
        let table = table(&results);
        assert!(
            table.contains("udp (as a test) (did not keep up: 5000/s)"),
            "{table}"
        );
        assert!(
            table.contains("# busy: udp, 8 bytes: other processes took 0.70 cores"),
            "{table}"
        );
    }
}
