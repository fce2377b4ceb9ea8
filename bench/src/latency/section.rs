//! The section of the page about performance.

use std::{fmt::Write as _, path::Path};

use anyhow::Result;

use super::{plot, results::Results};
use crate::{cell, kept::Kept as _, streams::printed_command};

/// The name of the plot of requests of `bytes`.
fn file_of(bytes: usize) -> String {
    format!("latency-{bytes}.svg")
}

/// Builds the section from the last result beside `results`. The section states if there is no
/// result. Its plots are written to the plot folder of `page`.
pub fn section(results: &Path, page: &Path) -> Result<String> {
    let plots = page.with_extension("");
    let results = Results::last_beside(results)?;
    let folder = plots
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    if let Some(results) = &results {
        for bytes in results.sizes() {
            crate::plot_files::write(&plots.join(file_of(bytes)), &plot::curves(results, bytes)?)?;
        }
    }
    Ok(text(results.as_ref(), &folder))
}

fn text(results: Option<&Results>, folder: &str) -> String {
    let mut out = "\n## Latency\n\n".to_owned();
    // Writing to a string cannot fail, here and below.
    let Some(results) = results else {
        let _ = writeln!(
            out,
            "Not measured: `covalent-bench latency --results bench/results` does, as root."
        );
        return out;
    };
    let setup = &results.setup;
    let _ = writeln!(
        out,
        "Round trips of a request and a reply of the same size: {}. A request without a reply\n\
         within {} ms counts as lost, and the quantiles include the time that it waited. All\n\
         sides take turns, {} ms each; {}. p50 is the median of the repeats' medians, and the\n\
         spread is the width of its 93 % interval. The other quantiles are of all requests.\n\
         The last columns show the load of the requester's and the responder's core, with\n\
         everything that ran there. Covalent has a lane on each.\n",
        setup.pacing,
        setup.patience_ms,
        setup.slice_ms,
        results.settled.words()
    );
    for bytes in results.sizes() {
        let _ = writeln!(
            out,
            "![Latency of {bytes} bytes]({folder}/{})\n\n\
             | {bytes} bytes | min µs | p50 | spread | p90 | p99 | p99.9 | p99.99 | max | mean | \
             lost | requester's core | responder's core |\n\
             |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
            file_of(bytes)
        );
        for figures in results.of_size(bytes) {
            let times = &figures.times_us;
            let name = if figures.side.starts_with("covalent") {
                format!("**{}**", figures.label())
            } else {
                figures.label()
            };
            let behind = if figures.kept_up(setup.pacing) {
                String::new()
            } else {
                format!(" (did not keep up: {:.0}/s)", figures.rate_per_s)
            };
            let _ = writeln!(
                out,
                "| {name}{behind} | {:.1} | {:.1} | {:.1} % | {:.1} | {:.1} | {:.1} | {:.1} | \
                 {:.0} | {:.1} | {} | {:.2} | {:.2} |",
                times.min,
                times.typical,
                figures.p50_us.spread() * 100.0,
                times.p90,
                times.p99,
                times.p999,
                times.p9999,
                times.max,
                times.mean,
                figures.lost,
                figures.asking_core,
                figures.answering_core
            );
        }
        let _ = writeln!(out);
    }
    if !results.goals.is_empty() {
        let _ = writeln!(out, "| goal | | ratio |\n|---|---|---:|");
        for verdict in &results.goals {
            let met = cell::met_on_page(verdict.met);
            let _ = writeln!(out, "| {} | {met} | {:.2} |", verdict.target, verdict.ratio);
        }
        let _ = writeln!(out);
    }
    for entry in &results.contestants {
        let description = &entry.description;
        if let Some(reason) = &entry.absent {
            let _ = writeln!(out, "- **{}** took no part: {reason}.", entry.name);
            continue;
        }
        let _ = writeln!(
            out,
            "- **{}**: {}; {}. {}.",
            entry.name, description.what, description.version, description.tuning
        );
        entry.write_runs(&mut out, "repeats");
    }
    let _ = writeln!(
        out,
        "\n| | |\n\
         |---|---|\n\
         | cores | requester on core {}, responder on core {} |\n\
         | machine | {} |\n\
         | measured | `{}` |",
        setup.near_core,
        setup.far_core,
        results.host.words(),
        printed_command(&results.host.command)
    );
    for trouble in results.troubles() {
        let _ = writeln!(out, "| busy | {trouble} |");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{super::results::example, *};

    #[test]
    fn the_section_has_both_sides_and_their_command_lines() {
        let section = text(Some(&example::results()), "performance");
        for words in [
            "\n## Latency\n",
            "![Latency of 64 bytes](performance/latency-64.svg)",
            "| **covalent-message** | 10.0 | 10.6 |",
            "| udp (as a test) | 20.0 | 20.6 |",
            "- **udp**: the side udp; 1. as in its manual.",
            "  - `udp --go`",
            "- **ucx** took no part: it is not installed.",
            "open loop, 10000 requests/s",
        ] {
            assert!(section.contains(words), "{words:?} is not in\n{section}");
        }
    }

    #[test]
    fn plots_are_written_beside_the_page() {
        let place = tempfile::tempdir().expect("a directory");
        example::results().write_to(place.path()).expect("written");
        let page = place.path().join("performance.md");
        let text = section(place.path(), &page).expect("made");
        let plots = place.path().join("performance");
        assert!(text.contains("performance/latency-8.svg"));
        assert!(plots.join("latency-8.svg").exists() && plots.join("latency-64.svg").exists());
    }

    #[test]
    fn without_a_result_the_section_names_the_command() {
        assert!(text(None, "performance").contains("Not measured: `covalent-bench latency"));
    }
}
