//! One page about performance, made from a result and from nothing else.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::cell::{self, short};
use crate::opening::{self, Comparison};
use crate::plot_files;
use crate::report::printed_command;
use crate::streams::{
    case::{Case, Test},
    goals::{self, LIMIT, OURS, OURS_ALONE},
    plot,
    results::Results,
    session,
    table::{TESTS, count},
};

/// Writes the page with its opening and the sections of other measurements, and its plots into a
/// folder beside it.
pub fn write(results: &Results, opening: &[Comparison], sections: &str, page: &Path) -> Result<()> {
    let plots = plots_of(page);
    let tests = TESTS
        .into_iter()
        .map(|test| Ok((file_of(test), plot::sweep(results, test)?)))
        .collect::<Result<Vec<_>>>()?;
    let first = (OPENING, opening::chart(opening)?);
    let plotted = tests.into_iter().chain(session::page::plots(results)?);
    for (file, svg) in plotted.chain([first]) {
        plot_files::keep(&plots.join(file), svg.as_deref())?;
    }
    let folder = plots
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    fs::write(page, text(results, opening, sections, &folder))
        .with_context(|| format!("writing {}", page.display()))
}

/// The chart of the opening.
const OPENING: &str = "opening.svg";

fn plots_of(page: &Path) -> PathBuf {
    page.with_extension("")
}

const fn file_of(test: Test) -> &'static str {
    match test {
        Test::Echo => "echo.svg",
        Test::OneWay => "one-way.svg",
        Test::Stream => "stream.svg",
        Test::StreamUnbatched => "stream-unbatched.svg",
        Test::RoundTrip => "round-trip.svg",
    }
}

/// The page; its plots lie in `folder`.
fn text(results: &Results, opening: &[Comparison], more: &str, folder: &str) -> String {
    let mut out = format!(
        "# Performance\n\n\
         <!-- Made by `covalent-bench page` from a result of `covalent-bench streams`. Do not \
         edit: measure again. -->\n\n\
         Covalent beside its peers on one machine of {} cores. Each row compares two medians of\n\
         one run, in which both sides took turns. The sections below have the spreads, the\n\
         command lines and the cores of either side; the daemon's core counts. soft-RoCE needs\n\
         a kernel with `rdma_rxe`: [guests](supported-kernels.md) compare it.\n\n{}",
        results.host.cores,
        opening::text(opening, &format!("{folder}/{OPENING}"))
    );
    verdicts(&mut out, results);
    lost(&mut out, results);
    method(&mut out, results);
    for test in TESTS {
        section(&mut out, results, test, folder);
    }
    session::page::write(&mut out, results, folder);
    out.push_str(more);
    contestants(&mut out, results);
    out
}

// Writing to a string cannot fail, here and below.

fn method(out: &mut String, results: &Results) {
    let Results { host, setup, .. } = results;
    let _ = writeln!(
        out,
        "\n## Method\n\n\
         The tests of pipes compare pipes with their peers on one machine, in one run. Each of\n\
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
         time, so it cannot reach the stream figures.\n",
        setup.rounds
    );
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
        ("medians", results.settled().words()),
        ("mix of packets", setup.mix.clone()),
        ("measured", format!("`{}`", printed_command(&host.command))),
        ("program", format!("covalent-bench {}", host.version)),
    ];
    let _ = writeln!(out, "| | |\n|---|---|");
    for (name, value) in rows {
        let _ = writeln!(out, "| {name} | {value} |");
    }
}

fn verdicts(out: &mut String, results: &Results) {
    let _ = writeln!(
        out,
        "\n## Goals\n\n\
         {}. A goal for several sizes shows the worst one.\n\n\
         | goal | | ratio | pipes | peer | at |\n\
         |---|---|---:|---:|---:|---|",
        count(&results.goals)
    );
    for verdict in &results.goals {
        let _ = match (verdict.met, verdict.worst) {
            (Some(met), Some(worst)) => {
                let unit = worst.case.test.unit();
                writeln!(
                    out,
                    "| {} | {} | {:.2} | {} {unit} | {} {unit} | {} |",
                    verdict.goal,
                    cell::met_on_page(met),
                    worst.ratio,
                    short(worst.ours),
                    short(worst.theirs),
                    worst.case.size
                )
            }
            _ => writeln!(out, "| {} | not measured | | | | |", verdict.goal),
        };
    }
}

/// Lists every case in which a peer is better than pipes.
fn lost(out: &mut String, results: &Results) {
    let lost: Vec<String> = results
        .figures
        .iter()
        .filter(|figure| ![OURS, OURS_ALONE, LIMIT].contains(&figure.contestant.as_str()))
        .filter_map(|figure| {
            let compared = goals::compare(results, &figure.contestant, figure.case)?;
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
    let _ = writeln!(out, "\n## Where a peer is better\n");
    if lost.is_empty() {
        let _ = writeln!(
            out,
            "Nowhere in the tests of pipes. Each of the other sections has its own comparison."
        );
    } else {
        let _ = writeln!(out, "{}", lost.join("\n"));
    }
}

fn section(out: &mut String, results: &Results, test: Test, folder: &str) {
    let sizes = results.sizes(test);
    if sizes.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n## {}\n", test.title());
    if sizes.len() > 1 {
        let _ = writeln!(out, "![{}]({folder}/{})\n", test.title(), file_of(test));
    }
    let _ = write!(out, "| {} |", test.unit());
    for size in &sizes {
        let _ = write!(out, " {size} |");
    }
    let _ = write!(out, " daemon's core | application's core |\n|---|");
    for _ in 0..sizes.len() + 2 {
        let _ = write!(out, "---:|");
    }
    let _ = writeln!(out);
    for entry in results.in_test(test) {
        let name = if entry.name == OURS {
            format!("**{}**", entry.name)
        } else {
            entry.name.clone()
        };
        let _ = write!(out, "| {name} |");
        let mut cores = None;
        for &size in &sizes {
            let _ = match results.figure(&entry.name, Case { test, size }) {
                Some(figure) => {
                    cores.get_or_insert(figure);
                    write!(
                        out,
                        " {} ({}–{}) |",
                        short(figure.figure.median),
                        short(figure.figure.min),
                        short(figure.figure.max)
                    )
                }
                None => write!(out, " |"),
            };
        }
        if let Some(figure) = cores {
            let _ = write!(
                out,
                " {:.2} | {:.2}",
                figure.daemon_cores, figure.application_cores
            );
            if figure.other_cores > 0.005 {
                let _ = write!(out, ", and {:.2} for a third process", figure.other_cores);
            }
        }
        let _ = writeln!(out, " |");
    }
    let _ = writeln!(
        out,
        "\nMedian (least–most). Shares of the two cores are those at {}.",
        sizes[0]
    );
    ratios(out, results, test);
}

/// How many times better pipes are than each.
fn ratios(out: &mut String, results: &Results, test: Test) {
    let sizes = results.sizes(test);
    let peers: Vec<&str> = results
        .in_test(test)
        .into_iter()
        .map(|entry| entry.name.as_str())
        .filter(|name| *name != OURS)
        .collect();
    if peers.is_empty() {
        return;
    }
    let _ = write!(out, "\n| pipes are better by a factor of |");
    for size in &sizes {
        let _ = write!(out, " {size} |");
    }
    let _ = write!(out, "\n|---|");
    for _ in &sizes {
        let _ = write!(out, "---:|");
    }
    let _ = writeln!(out);
    for peer in peers {
        let _ = write!(out, "| than {peer} |");
        for &size in &sizes {
            let _ = match goals::compare(results, peer, Case { test, size }) {
                Some(compared) => write!(out, " {:.2} |", compared.ratio),
                None => write!(out, " |"),
            };
        }
        let _ = writeln!(out);
    }
}

fn contestants(out: &mut String, results: &Results) {
    let _ = writeln!(
        out,
        "\n## Contestants\n\n\
         The daemon's side sends packets from 4096 buffers of 2 KiB in turn, as if a NIC had\n\
         filled them: each begins with a cache line and is prefetched eight packets ahead, as\n\
         drivers do. Packets move in bursts of 64. The application's side adds one to a byte\n\
         of each packet (one way: reads it), and the daemon's side reads that byte of each\n\
         returned packet. testpmd (memif, vhost) has buffers of its own, which circulate: its\n\
         far side swaps the addresses of each packet, and its near side reads no byte. A\n\
         message is a length of four bytes and as many bytes; its receiver finds its end and\n\
         reads a byte of it.\n"
    );
    for entry in &results.contestants {
        let description = &entry.description;
        if let Some(reason) = &entry.absent {
            let _ = writeln!(out, "- **{}** took no part: {reason}.", entry.name);
            continue;
        }
        let _ = writeln!(
            out,
            "- **{}**: {}; version {}. {}.",
            entry.name, description.what, description.version, description.tuning
        );
        entry.write_runs(out, "repetitions");
    }
    let _ = writeln!(
        out,
        "\n`make bench` installs the peers, measures, and keeps the raw results in\n\
         `bench/results`. `covalent-bench page` generates this page from them. Nothing else\n\
         may run meanwhile."
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::{results::example, session::example::with_sweeps};

    #[test]
    fn the_page_has_wins_losses_and_absent_sides() {
        let page = text(&example(), &[], "", "performance");
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
            "testpmd swaps addresses instead, and its near side\nlooks at nothing.",
            "covalentd places at most one datagram at a\ntime",
            "rings below 2 MiB: 4 KiB pages |",
        ] {
            assert!(page.contains(words), "{words:?} is not in\n{page}");
        }
        // No plot of a single size.
        assert!(!page.contains("round-trip.svg"), "{page}");
    }

    #[test]
    fn a_missed_goal_stands_out() {
        let mut results = example();
        results.goals[0].met = Some(false);
        assert!(text(&results, &[], "", "performance").contains("DPDK memif | **missed** | 5.00"));
    }

    #[test]
    fn page_and_plots_are_written_together_and_old_plots_removed() {
        let folder = tempfile::tempdir().expect("a directory");
        let page = folder.path().join("performance.md");
        let plots = folder.path().join("performance");
        fs::create_dir(&plots).expect("made");
        for file in ["one-way.svg", "pipe-count.svg"] {
            fs::write(plots.join(file), "of an earlier run").expect("written");
        }
        write(&example(), &[], "\n## More\n", &page).expect("written");
        let text = fs::read_to_string(&page).expect("written");
        let (before, after) = text.split_once("\n## More\n").expect("the other section");
        assert!(before.contains("## Echo") && after.contains("## Contestants"));
        assert!(plots.join("echo.svg").exists());
        assert!(!plots.join("one-way.svg").exists());
        assert!(!plots.join("pipe-count.svg").exists());
        write(&with_sweeps(), &[], "", &page).expect("written");
        assert!(plots.join("pipe-count.svg").exists());
        let page = fs::read_to_string(page).expect("read");
        assert!(page.contains("## Number of pipes"), "{page}");
    }
}
