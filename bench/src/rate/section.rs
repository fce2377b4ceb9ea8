//! The section of the page about performance.

use std::{fmt::Write as _, path::Path};

use anyhow::Result;

use super::{
    bars,
    contestant::OURS,
    goals::{Verdict, count},
    results::{Results, Setup},
};
use crate::{
    cell,
    kept::Kept as _,
    plot_files,
    streams::{printed_command, short},
};

const PLOT: &str = "rate.svg";

const TITLE: &str = "Frames from a virtual cable into a pipe";

/// Builds the section from the last result beside `results`. Its plot goes to the plot folder of
/// `page`: its name without the extension.
pub fn section(results: &Path, page: &Path) -> Result<String> {
    let last = Results::last_beside(results)?;
    let folder = page.with_extension("");
    let path = folder.join(PLOT);
    let svg = last
        .as_ref()
        .map(|results| bars::bars(results, TITLE))
        .transpose()?;
    plot_files::keep(&path, svg.as_deref())?;
    let folder = folder
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    Ok(text(last.as_ref(), &folder))
}

/// The section; its plot lies in `folder`.
fn text(results: Option<&Results>, folder: &str) -> String {
    let mut out = format!("\n## {TITLE}\n\n");
    // Writing to a string cannot fail, here and below.
    let Some(results) = results else {
        let _ = writeln!(
            out,
            "Not measured: `covalent-bench rate --results bench/results` does, as root."
        );
        return out;
    };
    head(&mut out, results);
    let _ = writeln!(out, "\n![{TITLE}]({folder}/{PLOT})\n");
    figures(&mut out, results);
    verdicts(&mut out, &results.goals);
    contestants(&mut out, results);
    out
}

fn head(out: &mut String, results: &Results) {
    let Results { host, setup, .. } = results;
    let Setup {
        rounds, slice_ms, ..
    } = setup;
    let _ = writeln!(
        out,
        "One sender on core {} offers each receiver as much as it can, over the same veth pair\n\
         between two network namespaces. The kernel delivers each frame into the receiver's\n\
         ring within the sender's call, on the sender's core. The receiver's own work runs on\n\
         core {}. All take turns {rounds} times, {slice_ms} ms each. Figures are medians of\n\
         the received frames, and are comparable only within this run.\n\n\
         | | |\n\
         |---|---|",
        setup.sender_core, setup.receiver_core
    );
    let application = if results.shares_core() {
        format!(
            "core {}, which it shares with the lane: it takes the core when it wakes",
            setup.application_core
        )
    } else {
        format!("core {}, alone", setup.application_core)
    };
    let mode = setup.mode.as_ref().map_or_else(
        || "unknown".to_owned(),
        |mode| {
            format!(
                "{} XDP, {}, need_wakeup {}, {} queue, pages of {} bytes; DPDK's is native and \
                 copies too, with pages of 2 MiB",
                mode.xdp,
                if mode.zero_copy { "zero-copy" } else { "copy" },
                mode.need_wakeup,
                mode.queues,
                mode.page_bytes
            )
        },
    );
    let rows = [
        ("machine", host.words()),
        ("mode of the AF_XDP sockets", mode),
        (
            "rings",
            format!(
                "{} descriptors each, bursts of {}",
                setup.ring_slots, setup.burst
            ),
        ),
        ("application of the pipe", application),
        ("mix of frames", setup.mix.clone()),
        ("medians", results.settled().words()),
        ("measured", format!("`{}`", printed_command(&host.command))),
    ];
    for (name, value) in rows {
        let _ = writeln!(out, "| {name} | {value} |");
    }
    daemon(out, &setup.daemon);
}

/// Prints the daemon's configuration without the paths of the run. The last word of its command
/// line in a result holds the configuration file, with its lines joined.
fn daemon(out: &mut String, command: &[String]) {
    let Some(configuration) = command.last() else {
        return;
    };
    let _ = writeln!(
        out,
        "\nThe daemon ran as `covalentd --config FILE` with this file, without its folders:\n\n\
         ```toml"
    );
    let settings = configuration
        .split("; ")
        .filter(|setting| !setting.contains("_dir = ") && !setting.is_empty());
    for setting in settings {
        let _ = writeln!(out, "{setting}");
    }
    let _ = writeln!(out, "```");
}

fn figures(out: &mut String, results: &Results) {
    for size in results.sizes() {
        let _ = writeln!(
            out,
            "| {size} | Mpps | of bare | offered | lost | sender's core | receiver's core | \
             application |\n|---|---:|---:|---:|---:|---:|---:|---:|"
        );
        for entry in &results.contestants {
            let name = if entry.name == OURS {
                format!("**{}**", entry.name)
            } else {
                entry.name.clone()
            };
            let Some(figure) = results.figure(&entry.name, size) else {
                let _ = writeln!(out, "| {name} | not measured | | | | | | |");
                continue;
            };
            let of_bare = results.of_bare(figure);
            let _ = writeln!(
                out,
                "| {name} | {} ({}–{}) | {} | {} | {:.2} % | {:.2} | {:.2} | {} |",
                short(figure.mpps.median),
                short(figure.mpps.min),
                short(figure.mpps.max),
                of_bare.map_or_else(String::new, |part| format!("{part:.3}")),
                short(figure.offered_mpps),
                figure.lost * 100.0,
                figure.sender_cores,
                figure.receiver_cores,
                if entry.name == OURS {
                    format!("{:.2}", figure.application_cores)
                } else {
                    "none".to_owned()
                }
            );
        }
        let _ = writeln!(out);
    }
    let _ = writeln!(out, "Median (least–most), and shares of cores.\n");
}

fn verdicts(out: &mut String, goals: &[Verdict]) {
    let _ = writeln!(
        out,
        "{}.\n\n| goal | | ratio | ours | peer | against |\n|---|---|---:|---:|---:|---|",
        count(goals)
    );
    for verdict in goals {
        let met = cell::met_on_page(verdict.met);
        let _ = writeln!(
            out,
            "| {} | {met} | {:.3} | {} Mpps | {} Mpps | {} |",
            verdict.target,
            verdict.ratio,
            short(verdict.covalent),
            short(verdict.bare),
            verdict.peer
        );
    }
}

fn contestants(out: &mut String, results: &Results) {
    let _ = writeln!(out);
    for entry in &results.contestants {
        let description = &entry.description;
        if let Some(reason) = &entry.absent {
            let _ = writeln!(out, "- **{}**: not measured: {reason}.", entry.name);
            continue;
        }
        let _ = writeln!(
            out,
            "- **{}**: {}; version {}; {}.",
            entry.name, description.what, description.version, description.tuning
        );
        entry.write_runs(out, "slices");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::results::example;

    #[test]
    fn the_section_names_the_better_side_and_the_absent_ones() {
        let section = text(Some(&example()), "performance");
        for words in [
            "## Frames from a virtual cable into a pipe",
            "(performance/rate.svg)",
            "| mode of the AF_XDP sockets | native XDP, copy, need_wakeup true, 1 queue, pages of \
             4096 bytes;",
            "| application of the pipe | core 1, which it shares with the lane",
            "| **covalent-port** | 0.990 (0.980–1.00) | 0.990 | 2.00 | 25.00 % | 1.00 | 0.95 | \
             0.05 |",
            "| dpdk-af_packet | not measured | | | | | | |",
            "| mix into a pipe: at least 0.97 of a bare AF_XDP receiver | **missed** | 0.800 | \
             0.800 Mpps | 1.00 Mpps | af_xdp |",
            "| medians | 3 repeats; the widest spread is 20.0 % |",
            "- **dpdk-af_packet**: not measured: there is no dpdk-testpmd.",
            "  - `dpdk-af_xdp --go`",
            "| measured | `covalent-bench rate` |",
        ] {
            assert!(section.contains(words), "{words:?} is not in\n{section}");
        }
    }

    #[test]
    fn an_application_with_its_own_core_is_shown_so() {
        let mut results = example();
        results.setup.application_core = 2;
        let section = text(Some(&results), "performance");
        assert!(section.contains("| application of the pipe | core 2, alone |"));
    }

    #[test]
    fn places_of_the_run_are_left_out() {
        let command = [
            "/a/covalentd",
            "--config",
            "[node]; name = \"b\"; run_dir = \"/t/x\"; [lane]; ",
        ];
        let mut out = String::new();
        daemon(&mut out, &command.map(str::to_owned));
        assert!(
            out.contains("```toml\n[node]\nname = \"b\"\n[lane]\n```\n"),
            "{out}"
        );
        assert!(out.contains("`covalentd --config FILE`"), "{out}");
    }

    #[test]
    fn without_a_result_the_section_reports_that_and_removes_an_old_plot() {
        let place = tempfile::tempdir().expect("a directory");
        let page = place.path().join("performance.md");
        let plot = place.path().join("performance/rate.svg");
        example().write_to(place.path()).expect("written");
        let printed = section(place.path(), &page).expect("a section");
        assert!(printed.contains("Mpps") && plot.exists());
        let nowhere = place.path().join("nothing/here");
        let printed = section(&nowhere, &page).expect("a section");
        assert!(printed.contains("Not measured: `covalent-bench rate"));
        assert!(!plot.exists());
    }
}
