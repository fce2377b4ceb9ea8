//! The sweeps' sections of the page about performance, and their plots.

use anyhow::Result;

use super::{
    CoreShares,
    counts::{self, CountPoint, CountSweep, WEAK_SPOT},
    lines::{Line, Plot},
    loads::{LoadLine, LoadPoint, LoadSweep},
};
use crate::{
    cell::short,
    report::{Block, Table},
    streams::{page::spread, results::Results},
    summary::Summary,
};

/// A plot of the sweeps.
pub const THROUGHPUT: &str = "loads-throughput.svg";
/// A plot of the sweeps.
pub const P50: &str = "loads-p50.svg";
/// A plot of the sweeps.
pub const P99: &str = "loads-p99.svg";
/// A plot of the sweeps.
pub const PIPE_COUNT: &str = "pipe-count.svg";

const COUNT_TITLE: &str = "Packets of 64 B to one pipe after the other";

/// The plots by their files' names, those that this run has not as nothing.
pub fn plots(results: &Results) -> Result<Vec<(&'static str, Option<String>)>> {
    let load = |title, up, logarithmic, figure: fn(&LoadPoint) -> Option<&Summary>| {
        results.loads.as_ref().map_or(Ok(None), |sweep| {
            load_plot(sweep, title, up, logarithmic, figure)
        })
    };
    Ok(vec![
        (
            THROUGHPUT,
            load(
                "Received over the load",
                "million packets per second",
                false,
                |point| Some(&point.received_mpps),
            )?,
        ),
        (
            P50,
            load(
                "Median round trip over the load",
                "microseconds",
                true,
                |point| point.p50_us.as_ref(),
            )?,
        ),
        (
            P99,
            load(
                "99th percentile of the round trip over the load",
                "microseconds",
                true,
                |point| point.p99_us.as_ref(),
            )?,
        ),
        (
            PIPE_COUNT,
            results.counts.as_ref().map_or(Ok(None), count_plot)?,
        ),
    ])
}

fn load_plot(
    sweep: &LoadSweep,
    title: &str,
    up: &str,
    logarithmic: bool,
    figure: fn(&LoadPoint) -> Option<&Summary>,
) -> Result<Option<String>> {
    let points = |line: &'_ LoadLine| -> Vec<(f64, Summary)> {
        line.points
            .iter()
            .filter_map(|point| Some((f64::from(point.load_percent), figure(point)?.clone())))
            .collect()
    };
    let drawn: Vec<_> = sweep
        .lines
        .iter()
        .map(|line| (line, points(line)))
        .collect();
    Plot {
        title,
        along: &format!(
            "offered load, in percent of {} Mpps",
            short(sweep.full_mpps)
        ),
        along_tick: |percent| format!("{percent:.0}"),
        along_ticks: 11,
        up,
        logarithmic,
        lines: drawn
            .iter()
            .map(|(line, points)| Line {
                name: &line.name,
                points: points.iter().map(|(at, figure)| (*at, figure)).collect(),
            })
            .collect(),
    }
    .svg()
}

fn count_plot(sweep: &CountSweep) -> Result<Option<String>> {
    let points = |figure: fn(&CountPoint) -> Option<&Summary>| {
        sweep
            .points
            .iter()
            .filter_map(|point| Some((f64::from(point.pipes).log2(), figure(point)?)))
            .collect()
    };
    Plot {
        title: COUNT_TITLE,
        along: "pipes",
        along_tick: |exponent| format!("{:.0}", exponent.exp2()),
        along_ticks: counts::COUNTS.len(),
        up: "million packets per second",
        logarithmic: true,
        lines: vec![
            Line {
                name: "bare rings",
                points: points(|point| point.bare_mpps.as_ref()),
            },
            Line {
                name: "pipes, flat out",
                points: points(|point| Some(&point.flat_out_mpps)),
            },
            Line {
                name: "pipes, kept up",
                points: points(|point| point.lossless_mpps.as_ref()),
            },
        ],
    }
    .svg()
}

/// The sections of the sweeps that were made.
pub fn blocks(report: &Results) -> Vec<Block> {
    let loads = report.loads.iter().flat_map(loads);
    loads.chain(report.counts.iter().flat_map(counts)).collect()
}

fn loads(sweep: &LoadSweep) -> Vec<Block> {
    let plots = [
        ("Received over the load", THROUGHPUT),
        ("Median round trip over the load", P50),
        ("99th percentile of the round trip over the load", P99),
    ];
    let mut flat_out = Table::new(&["flat out", ">received, Mpps"]);
    for line in &sweep.lines {
        flat_out.row([line.name.clone(), spread(&line.flat_out_mpps)]);
    }
    let mut blocks = vec![
        loads_prose(sweep),
        Block::Plots(
            plots
                .map(|(title, file)| (title.to_owned(), file.to_owned()))
                .into(),
        ),
        Block::Table(flat_out),
    ];
    blocks.extend(sweep.lines.iter().map(load_table));
    blocks.extend(cores(sweep.cores.as_ref()));
    let failures = sweep.lines.iter().flat_map(|line| &line.failures);
    blocks.extend(failed(failures));
    blocks
}

fn loads_prose(sweep: &LoadSweep) -> Block {
    Block::Text(format!(
        "## Notifications over the load\n\n\
         Packets of 64 B go at an exact rate to {} pipes of one session in turn, each with a\n\
         ring of {} KiB. They use the session's notifications and doorbells as a lane drives\n\
         them, and both sides poll. The application receives from the notified pipes. It\n\
         returns about one packet per microsecond through a TX pipe, which times the round\n\
         trip. 100 % is the rate that a source without a limit reaches with prefetching: {}\n\
         Mpps. Each rate was counted for {} ms in each repetition. *Dropped* packets found a\n\
         full pipe. *Late* packets exceeded the 2048 that a port's ring keeps while the\n\
         daemon's core is busy. Round trips begin when a packet is due.\n\n\
         - **reactive**: at most one notification of a pipe is outstanding. The application\n  \
         requests the next one when it has no other work.\n\
         - **reactive, prefetched**: the application requests it before it works on a pipe's\n  \
         packets.\n\
         - **per packet**: each packet is published and notified individually. No notification\n  \
         is requested, so none can be prefetched.",
        sweep.pipes,
        sweep.ring_kib,
        short(sweep.full_mpps),
        sweep.slice_ms
    ))
}

fn load_table(line: &LoadLine) -> Block {
    let mut table = Table::new(&[
        &format!(">{}: load", line.name),
        ">received, Mpps",
        ">dropped",
        ">late",
        ">notifications for a packet",
        ">round trip, median",
        ">99 %",
    ]);
    for point in &line.points {
        let us = |figure: &Option<Summary>| {
            figure
                .as_ref()
                .map_or_else(String::new, |figure| format!("{} µs", short(figure.median)))
        };
        table.row([
            format!("{} %", point.load_percent),
            spread(&point.received_mpps),
            percent(&point.dropped_percent),
            percent(&point.late_percent),
            short(point.notifications_per_packet.median),
            us(&point.p50_us),
            us(&point.p99_us),
        ]);
    }
    Block::Table(table)
}

fn counts(sweep: &CountSweep) -> Vec<Block> {
    let mut table = Table::new(&[
        ">pipes",
        ">ring",
        ">flat out, Mpps",
        ">lost",
        ">notifications for a packet",
        ">no pipe full and at least 99 % delivered, Mpps",
        ">bare rings, Mpps",
        ">of the bare rings",
    ]);
    for point in &sweep.points {
        let optional = |figure: &Option<Summary>| figure.as_ref().map_or_else(String::new, spread);
        let share = point.of_bare();
        table.row([
            if point.pipes == WEAK_SPOT {
                format!("**{}**", point.pipes)
            } else {
                point.pipes.to_string()
            },
            format!("{} KiB", point.ring_kib),
            spread(&point.flat_out_mpps),
            percent(&point.flat_out_missing_percent),
            short(point.notifications_per_packet.median),
            optional(&point.lossless_mpps),
            optional(&point.bare_mpps),
            share.map_or_else(String::new, |share| format!("{share:.2}")),
        ]);
    }
    let mut blocks = vec![
        counts_prose(sweep),
        Block::plot(COUNT_TITLE, PIPE_COUNT),
        Block::Table(table),
    ];
    blocks.extend(sweep.at(WEAK_SPOT).map(weak_spot));
    blocks.extend(cores(sweep.cores.as_ref()));
    blocks.extend(failed(sweep.failures.iter()));
    blocks
}

fn counts_prose(sweep: &CountSweep) -> Block {
    Block::Text(format!(
        "## Number of pipes\n\n\
         Packets of 64 B go one way to 1 to 4096 pipes of one session in turn, with reactive\n\
         notifications. They are not prefetched: with many pipes, an early request would cost\n\
         one more notification each time that the application reads a pipe. The rings together\n\
         are as large as a single one, as long as none is smaller than 64 KiB. *Flat out*: the\n\
         source sends without a limit and drops packets that find a full pipe. *Lost* is\n\
         everything that was not received within the {} ms, including the content of rings\n\
         that filled up. *Kept up* is the highest rate, found by bisection, with no pipe full\n\
         and at least 99 % delivered; the remaining 1 % was late, or in flight at the end. As\n\
         many bare rings of the same sizes are the limit if copying is the only work.",
        sweep.slice_ms
    ))
}

fn weak_spot(point: &CountPoint) -> Block {
    let lossless = point.lossless_mpps.as_ref();
    let lossless = lossless.map_or_else(String::new, |lossless| {
        format!(
            ", and {} Mpps with no pipe full and at least 99 % delivered",
            short(lossless.median)
        )
    });
    Block::Text(format!(
        "{WEAK_SPOT} pipes on one core are the published weak spot of systems of this kind. Here \
         {} Mpps get through flat out, with {} lost{lossless}.",
        short(point.flat_out_mpps.median),
        percent(&point.flat_out_missing_percent)
    ))
}

fn cores(shares: Option<&CoreShares>) -> Option<Block> {
    let CoreShares {
        daemon,
        application,
    } = shares?;
    Some(Block::Text(format!(
        "Share of the daemon's core: {}; of the application's: {} (median, least–most of the runs; \
         both poll).",
        spread(daemon),
        spread(application)
    )))
}

fn failed<'a>(mut failures: impl Iterator<Item = &'a String>) -> Option<Block> {
    let first = failures.next()?;
    Some(Block::Text(format!(
        "{} repetitions failed, the first: {first}",
        1 + failures.count()
    )))
}

/// Values too small for three digits are printed as such.
fn percent(figure: &Summary) -> String {
    match figure.median {
        0.0 => "0".to_owned(),
        few if few < 0.001 => "< 0.001 %".to_owned(),
        share => format!("{} %", short(share)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::on_page,
        streams::{results::example, session::example::with_sweeps},
    };

    fn page() -> String {
        on_page(&blocks(&with_sweeps()), "performance")
    }

    #[test]
    fn each_mode_shows_throughput_loss_and_round_trip_at_each_load() {
        let page = page();
        for words in [
            "## Notifications over the load",
            "the rate that a source without a limit reaches with prefetching: 20.0\nMpps.",
            "| reactive, prefetched | 20.0 (15.0–25.0) |",
            "| per packet: load | received, Mpps |",
            "| 10 % | 2.00 (1.50–2.50) | 0 | 0 | 0.500 | 0.750 µs | 4.00 µs |",
            "| 100 % | 9.00 (6.75–11.2) | 50.0 % | 2.00 % | 0.500 | 9.00 µs | 45.0 µs |",
            "(performance/loads-p99.svg)",
            "1 repetitions failed, the first: gone",
        ] {
            assert!(page.contains(words), "{words:?} is not in\n{page}");
        }
    }

    #[test]
    fn each_number_of_pipes_shows_its_loss_and_the_weak_spot() {
        let page = page();
        for words in [
            "| 1 | 2048 KiB | 40.0 (30.0–50.0) | 0 | 0.500 | 39.0 (29.2–48.8) | 50.0 (37.5–62.5) | \
             0.78 |",
            "| **32** | 64 KiB | 8.00 (6.00–10.0) | 0.250 % | 0.500 | 7.00 (5.25–8.75) | 20.0 \
             (15.0–25.0) | 0.35 |",
            "| 4096 | 64 KiB | 3.00 (2.25–3.75) | < 0.001 % | 0.500 | | | |",
            "Here 8.00 Mpps get through flat out, with 0.250 % lost, and 7.00 Mpps with no pipe \
             full and at least 99 % delivered.",
        ] {
            assert!(page.contains(words), "{words:?} is not in\n{page}");
        }
    }

    #[test]
    fn every_sweep_has_its_plots() {
        let drawn = plots(&with_sweeps()).expect("drawn");
        let words: [&[&str]; 4] = [
            &[
                "Received over the load",
                "in percent of 20.0 Mpps",
                "per packet",
            ],
            &["Median round trip", "microseconds (logarithmic)"],
            &["99th percentile"],
            &["bare rings", "pipes, kept up", "4096"],
        ];
        for ((file, svg), words) in drawn.iter().zip(words) {
            let svg = svg.as_ref().expect("a plot");
            for word in words {
                assert!(svg.contains(word), "{word:?} is not in {file}");
            }
        }
    }

    #[test]
    fn a_result_without_sweeps_has_no_such_sections() {
        assert_eq!(blocks(&example()), []);
        let plots = plots(&example()).expect("no problem");
        assert!(plots.iter().all(|(_, svg)| svg.is_none()));
    }
}
