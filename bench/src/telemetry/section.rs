//! The section of the page about performance.

use std::{fmt::Write as _, path::Path};

use anyhow::Result;

use super::{lanes, scrape};
use crate::{cell, kept::Kept as _, streams::printed_command};

/// Builds the section from the last results beside `results`. The section states if there are none.
pub fn section(results: &Path) -> Result<String> {
    let lanes = lanes::Results::last_beside(results)?;
    let scrape = scrape::Results::last_beside(results)?;
    Ok(text(lanes.as_ref(), scrape.as_ref()))
}

fn text(lanes: Option<&lanes::Results>, scrape: Option<&scrape::Results>) -> String {
    let mut out = "\n## What telemetry costs\n\n".to_owned();
    // Writing to a string cannot fail, here and below.
    match lanes {
        Some(results) => of_lanes(&mut out, results),
        None => {
            let _ = writeln!(
                out,
                "Lanes were not measured: `covalent-bench counters --results bench/results` does.\n"
            );
        }
    }
    match scrape {
        Some(results) => of_scrape(&mut out, results),
        None => {
            let _ = writeln!(
                out,
                "Scrapes were not measured: `covalent-bench scrape --results bench/results` does."
            );
        }
    }
    out
}

fn of_lanes(out: &mut String, results: &lanes::Results) {
    let _ = writeln!(
        out,
        "A polling lane carries frames of {} bytes from a pipe over an in-memory cable into\n\
         another pipe, as fast as it can, beside {} idle pipes: with counters in shared memory\n\
         every {} ms, and without. Both take turns of {} ms, {} in a repeat, and alternate in\n\
         which begins.\n\n\
         | | M frames/s | least | most |\n\
         |---|---:|---:|---:|",
        lanes::FRAME_BYTES,
        results.pipes,
        results.counters_ms,
        results.slice_ms,
        lanes::PAIRS
    );
    for (name, side) in [("with counters", &results.on), ("without", &results.off)] {
        let _ = writeln!(
            out,
            "| {name} | {:.3} | {:.3} | {:.3} |",
            side.median, side.min, side.max
        );
    }
    let _ = writeln!(
        out,
        "\n\
         | goal | | measured |\n\
         |---|---|---:|\n\
         | with counters at least {} of the rate without | {} | {:.4} ({:.4}–{:.4}; median of the \
         ratios of {} repeats) |\n\n\
         `{}`\n\n\
         Measured on {} by `{}`.\n",
        lanes::RATIO_MIN,
        cell::met_on_page(results.met),
        results.ratio.median,
        results.ratio.min,
        results.ratio.max,
        results.ratio.repeats.len(),
        printed_command(&results.command),
        results.host.words(),
        printed_command(&results.host.command)
    );
}

fn of_scrape(out: &mut String, results: &scrape::Results) {
    let _ = writeln!(
        out,
        "| goal | | median ms | 99 of 100 | longest | status requests meanwhile |\n\
         |---|---|---:|---:|---:|---:|\n\
         | 99 of 100 scrapes of a node with {} pipes in less than {} ms, without a request to a \
         lane | {} | {:.2} | {:.2} | {:.2} | {} |\n\n\
         {} scrapes of {} bytes over a kept connection, on {}, by `{}`.",
        results.pipes,
        scrape::MS_MAX,
        cell::met_on_page(results.met),
        results.scrape_ms.median,
        results.p99_ms,
        results.scrape_ms.max,
        results.status_requests,
        results.scrape_ms.repeats.len(),
        results.page_bytes,
        results.host.words(),
        printed_command(&results.host.command)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_measurement_names_its_command() {
        let section = text(None, None);
        for suite in ["covalent-bench counters", "covalent-bench scrape"] {
            assert!(section.contains(suite), "{section}");
        }
    }
}
