//! The parts of the page about pipes.

use anyhow::Result;

use crate::{
    cell::short,
    report::{Block, Table},
    streams::{
        case::{Case, Test},
        goals::{self, LIMIT, OURS, OURS_ALONE, count},
        part::session_slots,
        plot,
        results::Results,
        session,
        table::TESTS,
    },
    summary::Summary,
};

/// All plots, those of tests first.
pub const PLOTS: &[&str] = &[
    "echo.svg",
    "one-way.svg",
    "stream.svg",
    "stream-unbatched.svg",
    "round-trip.svg",
    session::page::THROUGHPUT,
    session::page::P50,
    session::page::P99,
    session::page::PIPE_COUNT,
];

const fn file_of(test: Test) -> &'static str {
    match test {
        Test::Echo => "echo.svg",
        Test::OneWay => "one-way.svg",
        Test::Stream => "stream.svg",
        Test::StreamUnbatched => "stream-unbatched.svg",
        Test::RoundTrip => "round-trip.svg",
    }
}

/// Draws the plots of the tests and sweeps that have one.
pub fn plots(report: &Results) -> Result<Vec<(String, String)>> {
    let tests = TESTS
        .into_iter()
        .map(|test| Ok((file_of(test), plot::sweep(report, test)?)))
        .collect::<Result<Vec<_>>>()?;
    let all = tests.into_iter().chain(session::page::plots(report)?);
    Ok(all
        .filter_map(|(file, svg)| Some((file.to_owned(), svg?)))
        .collect())
}

/// Goals, defeats, method, and a section for each test and sweep.
pub fn blocks(report: &Results) -> Vec<Block> {
    let mut blocks = vec![
        Block::Text(format!(
            "## Goals\n\n{}. A goal for several sizes shows the worst one.",
            count(&report.goals)
        )),
        verdicts(report),
        lost(report),
        method(report),
        facts(report),
    ];
    for test in TESTS {
        blocks.extend(section(report, test));
    }
    blocks.extend(session::page::blocks(report));
    blocks
}

fn method(report: &Results) -> Block {
    Block::Text(format!(
        "## Method\n\n\
         The tests of pipes compare pipes with other systems on one machine, in one run. Each of\n\
         the two processes has a core of its own. The work for each packet is the same: touch\n\
         a byte of it, then send it back. testpmd swaps addresses instead, and its near side\n\
         looks at nothing. All contestants take turns, case by case, {} times. Figures are\n\
         medians, and are comparable only within this run. [Contestants](#contestants) has the\n\
         method and the command lines.\n\n\
         The tests of pipes have no covalentd and no network: one process has the daemon's\n\
         half of a pipe, the other one the application's. The sections from\n\
         [frames from a virtual cable](#frames-from-a-virtual-cable-into-a-pipe) on use\n\
         daemons and veth pairs, except *Exchanges over one link* (threads and an in-memory\n\
         cable) and *Instructions* (one thread). covalentd places at most one datagram at a\n\
         time, so it cannot reach the stream figures.",
        report.setup.rounds
    ))
}

fn facts(report: &Results) -> Block {
    let (setup, host) = (&report.setup, &report.host);
    let governor = setup
        .governor
        .as_deref()
        .unwrap_or("unknown (a virtual machine)");
    let rows = [
        ("processor", format!("{}, {} cores", host.cpu, host.cores)),
        ("memory", format!("{} GiB", (host.memory_mib + 512) >> 10)),
        ("kernel", format!("Linux {}", host.kernel)),
        ("frequency governor", governor.to_owned()),
        ("load before the run", host.load_average.clone()),
        (
            "meanwhile",
            host.watched
                .map_or_else(|| "not watched".to_owned(), |watched| watched.words()),
        ),
        (
            "cores",
            format!(
                "daemon's side on core {}, application's side on core {}",
                setup.daemon_core, setup.application_core
            ),
        ),
        (
            "rings of pipes and of the bare ring",
            format!(
                "{} KiB in pages of {} bytes; rings below 2 MiB: 4 KiB pages",
                setup.ring_kib, setup.page_bytes
            ),
        ),
        (
            "slots of the session beside a pipe",
            setup.session_slots.map_or_else(
                || format!("64; a daemon's has {}", session_slots(1)),
                |slots| slots.to_string(),
            ),
        ),
        (
            "transparent huge pages",
            format!("`{}`", setup.transparent_huge_pages),
        ),
        (
            "each repetition",
            format!(
                "{} ms, after {} ms to warm up",
                setup.slice_ms, setup.warm_up_ms
            ),
        ),
        ("medians", report.medians()),
        ("mix of packets", setup.mix.clone()),
        ("measured", host.measured()),
        ("program", format!("covalent-bench {}", host.version)),
    ];
    Block::facts(rows, [])
}

fn verdicts(report: &Results) -> Block {
    let rows = goals::all(&report.goals).into_iter().map(|(words, goal)| {
        let compared = goal.and_then(|goal| Some((goal, goal.sides.as_ref()?)));
        let cells = compared.map_or_else(
            || vec![String::new(); 4],
            |(goal, sides)| {
                let figure = |figure| format!("{} {}", short(figure), sides.unit);
                vec![
                    format!("{:.2}", goal.measured),
                    figure(sides.covalent),
                    figure(sides.beside),
                    sides.at.clone().unwrap_or_default(),
                ]
            },
        );
        (goal.map(|goal| goal.met), words, cells)
    });
    Block::Goals {
        columns: [">ratio", ">pipes", ">other system", "at"]
            .map(str::to_owned)
            .into(),
        rows: rows.collect(),
    }
}

/// Lists every case in which another system is better than pipes.
fn lost(report: &Results) -> Block {
    let lost: Vec<String> = report
        .figures
        .iter()
        .filter(|figure| ![OURS, OURS_ALONE, LIMIT].contains(&figure.contestant.as_str()))
        .filter_map(|figure| {
            let compared = goals::compare(report, &figure.contestant, figure.case)?;
            (compared.ratio < 1.0).then(|| {
                let unit = figure.case.test.unit();
                format!(
                    "- {}: {} reaches {} {unit}, pipes {} ({:.2})",
                    figure.case,
                    figure.contestant,
                    short(compared.theirs),
                    short(compared.ours),
                    compared.ratio
                )
            })
        })
        .collect();
    let lost = if lost.is_empty() {
        "Nowhere in the tests of pipes. Each of the other sections has its own comparison."
            .to_owned()
    } else {
        lost.join("\n")
    };
    Block::Text(format!("## Where another system is better\n\n{lost}"))
}

fn section(report: &Results, test: Test) -> Vec<Block> {
    let sizes = report.sizes(test);
    let Some(smallest) = sizes.first() else {
        return Vec::new();
    };
    let mut columns = vec![test.unit().to_owned()];
    columns.extend(sizes.iter().map(|size| format!(">{size}")));
    columns.extend([">daemon's core", ">application's core"].map(str::to_owned));
    let mut table = Table::with_columns(columns);
    for entry in report.in_test(test) {
        let figures = sizes.iter().map(|&size| {
            let case = Case { test, size };
            report.figure(&entry.name, case)
        });
        let figures: Vec<_> = figures.collect();
        let name = if entry.name == OURS {
            format!("**{}**", entry.name)
        } else {
            entry.name.clone()
        };
        let mut cells = vec![name];
        cells.extend(
            figures
                .iter()
                .map(|figure| figure.map_or_else(String::new, |figure| spread(&figure.figure))),
        );
        if let Some(figure) = figures.into_iter().flatten().next() {
            let other = if figure.other_cores > 0.005 {
                format!(", and {:.2} for a third process", figure.other_cores)
            } else {
                String::new()
            };
            cells.push(format!("{:.2}", figure.daemon_cores));
            cells.push(format!("{:.2}{other}", figure.application_cores));
        }
        table.row(cells);
    }
    let mut blocks = vec![
        Block::Text(format!("## {}", test.title())),
        Block::plot(test.title(), file_of(test)),
        Block::Table(table),
        Block::Text(format!(
            "Median (least–most). Shares of the two cores are those at {smallest}."
        )),
    ];
    blocks.extend(ratios(report, test));
    blocks
}

/// How many times better pipes are than each.
fn ratios(report: &Results, test: Test) -> Option<Block> {
    let sizes = report.sizes(test);
    let mut columns = vec!["pipes are better by a factor of".to_owned()];
    columns.extend(sizes.iter().map(|size| format!(">{size}")));
    let mut table = Table::with_columns(columns);
    let peers = report.in_test(test).into_iter();
    let mut peers = peers.filter(|entry| entry.name != OURS).peekable();
    peers.peek()?;
    for peer in peers {
        let ratios = sizes.iter().map(|&size| {
            let compared = goals::compare(report, &peer.name, Case { test, size });
            compared.map_or_else(String::new, |compared| format!("{:.2}", compared.ratio))
        });
        table.row([format!("than {}", peer.name)].into_iter().chain(ratios));
    }
    Some(Block::Table(table))
}

/// A median with the least and the most.
pub fn spread(figure: &Summary) -> String {
    format!(
        "{} ({}–{})",
        short(figure.median),
        short(figure.min),
        short(figure.max)
    )
}

/// The end of the page.
pub fn contestants(report: &Results) -> Vec<Block> {
    vec![
        Block::text(
            "## Contestants\n\n\
         The daemon's side sends packets from 4096 buffers of 2 KiB in turn, as if a NIC had\n\
         filled them: each begins with a cache line and is prefetched eight packets ahead, as\n\
         drivers do. Packets move in bursts of 64. The application's side adds one to a byte\n\
         of each packet (one way: reads it), and the daemon's side reads that byte of each\n\
         returned packet. testpmd (memif, vhost) has buffers of its own, which circulate: its\n\
         far side swaps the addresses of each packet, and its near side reads no byte. A\n\
         message is a length of four bytes and as many bytes; its receiver finds its end and\n\
         reads a byte of it.",
        ),
        Block::contestants(
            &report.contestants,
            " took no part",
            |one| one.words("version ", "."),
            "repetitions",
        ),
        Block::text(
            "`make bench` installs the other systems, measures, and keeps the raw results in\n\
         `bench/results`. `covalent-bench page` generates this page from them. Nothing else\n\
         may run meanwhile.",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{report::on_page, streams::results::example};

    #[test]
    fn the_page_has_wins_losses_and_absent_sides() {
        let report = example();
        let page = report.section("performance", &["echo.svg"])
            + &on_page(&contestants(&report), "performance");
        for words in [
            "| processor | Some CPU, 2 cores |",
            "| 64 B echo: at least 4 times DPDK memif | met | 5.00 | 55.0 Mpps | 11.0 Mpps | 64 B \
             |",
            "| 64 B echo: at least 3 times DPDK vhost | not measured | | | | |",
            "- echo, 1518 B: dpdk-memif reaches 5.50 Mpps, pipes 4.50 (0.82)",
            "![Echo: daemon's core, application's core and back](performance/echo.svg)",
            "| **covalent-pipe** | 55.0 (50.0–60.0) | 4.50 (4.00–5.00) | 10.0 (10.0–10.0) | 1.00 | \
             0.99 |",
            "| than dpdk-memif | 5.00 | 0.82 | |",
            "- **aeron** took no part: built without the feature `peers`.",
            "  - `dpdk-memif --go`",
            "| measured | `covalent-bench streams` |",
            "| slots of the session beside a pipe | 2048 |",
            "testpmd swaps addresses instead, and its near side\nlooks at nothing.",
            "covalentd places at most one datagram at a\ntime",
            "rings below 2 MiB: 4 KiB pages |",
        ] {
            assert!(page.contains(words), "{words:?} is not in\n{page}");
        }
    }

    #[test]
    fn a_smaller_session_than_a_daemons_is_stated() {
        let mut report = example();
        report.run.setup.session_slots = None;
        let section = report.section("performance", &[]);
        let words = "| slots of the session beside a pipe | 64; a daemon's has 2048 |";
        assert!(section.contains(words), "{section}");
    }

    #[test]
    fn a_single_size_has_no_plot() {
        let plots = plots(&example()).expect("drawn");
        let files: Vec<&str> = plots.iter().map(|(file, _)| file.as_str()).collect();
        assert_eq!(files, ["echo.svg"]);
    }

    #[test]
    fn a_missed_goal_stands_out() {
        let mut report = example();
        report.goals[0].met = false;
        let section = report.section("performance", &[]);
        assert!(section.contains("DPDK memif | **missed** | 5.00"));
    }
}
