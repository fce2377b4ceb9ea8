//! The section of the page about performance.

use std::{fmt::Write as _, path::Path};

use anyhow::Result;

use super::{
    plot,
    results::{Cuts, Results},
};
use crate::{kept::Kept as _, plot_files, streams::printed_command};

/// The plot.
const PLOT: &str = "loss.svg";

/// Builds the section from the last result beside `results`. The section states if there is no
/// result. Its plot is written to the plot folder of `page`.
pub fn section(results: &Path, page: &Path) -> Result<String> {
    let results = Results::last_beside(results)?;
    let plots = page.with_extension("");
    let folder = plots
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let svg = results.as_ref().map(plot::tails).transpose()?.flatten();
    plot_files::keep(&plots.join(PLOT), svg.as_deref())?;
    Ok(text(results.as_ref(), &folder, svg.is_some()))
}

fn text(results: Option<&Results>, folder: &str, with_plot: bool) -> String {
    let mut out = "\n## When frames are lost\n\n".to_owned();
    // Writing to a string cannot fail, here and below.
    let Some(results) = results else {
        let _ = writeln!(
            out,
            "Not measured: `covalent-bench loss --results bench/results` does, as root."
        );
        return out;
    };
    let setup = &results.setup;
    let _ = writeln!(
        out,
        "A request of {} bytes and its reply use one cable that loses frames. nftables rules\n\
         between the two ends drop each frame with the same probability, regardless of its\n\
         content, and count the drops ([decision 32](decisions.md#32-who-loses-the-frames)).\n\
         TCP retransmits after a timeout, or when later segments were acknowledged. Covalent\n\
         detects the gap, resolves the open exchanges and continues. Requests are due at fixed\n\
         times: {}. {} repeats of {} ms.\n",
        setup.bytes, setup.pacing, setup.repeats, setup.slice_ms
    );
    if with_plot {
        let _ = writeln!(out, "![When frames are lost]({folder}/{PLOT})\n");
    }
    let _ = writeln!(
        out,
        "| frames lost | | p50 µs | p99 | p99.9 | p99.99 | max | not answered | lost on the way \
         |\n|---|---|---:|---:|---:|---:|---:|---:|---:|"
    );
    for parts in results.parts() {
        for side in results.sides() {
            let Some(one) = results.lossy(side, parts) else {
                continue;
            };
            let times = &one.figures.times_us;
            let behind = if one.figures.kept_up(setup.pacing) {
                String::new()
            } else {
                format!(" (did not keep up: {:.0}/s)", one.figures.rate_per_s)
            };
            let _ = writeln!(
                out,
                "| {} | {}{behind} | {:.1} | {:.1} | {:.1} | {:.1} | {:.0} | {} | {} + {} |",
                one.percent(),
                bold(side),
                times.typical,
                times.p99,
                times.p999,
                times.p9999,
                times.max,
                one.figures.lost,
                one.lost_frames[0],
                one.lost_frames[1]
            );
        }
    }
    out.push_str(&cuts(setup.cut_ms, &results.cuts));
    if !results.cuts.is_empty() {
        let _ = writeln!(
            out,
            "\nWhat Covalent does with a second link is [above](#a-link-is-cut)."
        );
    }
    let _ = writeln!(out);
    for entry in &results.contestants {
        let description = &entry.description;
        let _ = match &entry.absent {
            Some(reason) => writeln!(out, "- **{}** took no part: {reason}.", entry.name),
            None => writeln!(
                out,
                "- **{}**: {}; {}. {}.",
                entry.name, description.what, description.version, description.tuning
            ),
        };
        for command in &description.commands {
            let _ = writeln!(out, "  - `{command}`");
        }
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
    out
}

/// Formats the figures for a cable that is cut. Empty if it was not cut.
pub fn cuts(cut_ms: u64, cuts: &[Cuts]) -> String {
    let mut out = String::new();
    if !cuts.is_empty() {
        let _ = writeln!(
            out,
            "\nThe same cable is cut for {} ms, repeatedly, and there is no other link. *To\n\
             recover* is the time from the request to repair the cable until the first reply;\n\
             it includes the time that the repair itself takes. *Longest wait* is that of a\n\
             request around a cut. *Never* counts the cuts after which no reply arrived in\n\
             time; such a cut counts as the longest permitted wait for a reply. *Lost* counts\n\
             the requests without a reply in time.\n\n\
             | cut | | cuts | never | to recover, ms | longest wait, ms | p50 µs | p99 | p99.9 | \
             max | lost |\n\
             |---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
            cut_ms
        );
    }
    for cut in cuts {
        let (recovered, longest, times) =
            (&cut.recovered_ms, &cut.longest_ms, &cut.figures.times_us);
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {:.1} ({:.1}–{:.1}) | {:.1} ({:.1}–{:.1}) | {:.1} | {:.0} | \
             {:.0} | {:.0} | {} |",
            cut.way.words(),
            bold(&cut.figures.side),
            recovered.repeats.len(),
            cut.unrecovered,
            recovered.median,
            recovered.min,
            recovered.max,
            longest.median,
            longest.min,
            longest.max,
            times.typical,
            times.p99,
            times.p999,
            times.max,
            cut.figures.lost
        );
    }
    out
}

fn bold(side: &str) -> String {
    if side.starts_with("covalent") {
        format!("**{side}**")
    } else {
        side.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::results::example, *};

    #[test]
    fn the_section_has_tails_and_recoveries_side_by_side() {
        let section = text(Some(&example::results()), "performance", true);
        for words in [
            "\n## When frames are lost\n",
            "![When frames are lost](performance/loss.svg)",
            "| 1 % | **covalent-message** |",
            "| 0 | 100 + 200 |",
            "| silent | tcp | 3 | 1 | 400.0 (200.0–600.0) | 300.0 (300.0–300.0) |",
        ] {
            assert!(section.contains(words), "{words:?} is not in\n{section}");
        }
    }

    #[test]
    fn the_plot_of_an_earlier_result_is_removed_with_it() {
        let place = tempfile::tempdir().expect("a directory");
        let page = place.path().join("performance.md");
        example::results().write_to(place.path()).expect("written");
        section(place.path(), &page).expect("made");
        let plot = place.path().join("performance/loss.svg");
        assert!(plot.exists());
        let empty = tempfile::tempdir().expect("a directory");
        let text = section(empty.path(), &page).expect("made");
        assert!(text.contains("Not measured: `covalent-bench loss") && !plot.exists());
    }
}
