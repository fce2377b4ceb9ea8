//! The page about performance, from the result of every suite.

use std::fs;

use anyhow::{Context, Result};

use crate::{
    arguments::Page,
    atomics, exchanges, failover, instructions,
    kept::{Kept as _, maker},
    latency, loss, multicast, opening, perftest, plot_files, rate,
    report::{on_page, section, section_of},
    restart, streams, system_calls, telemetry,
};

/// The chart of the opening.
const OPENING: &str = "opening.svg";

/// Writes the page, and its plots into a folder beside it.
///
/// # Errors
/// The folder has no result of `streams`, or a file cannot be read or written.
pub fn write(page: &Page) -> Result<()> {
    let (results, out) = (&page.results, &page.out);
    let streams = streams::Results::read_from(results)?.with_context(|| {
        let (maker, folder) = (maker::<streams::Results>(), results.display());
        format!("there is no result of `{maker}` in {folder}\n  cure: {maker} --results {folder}")
    })?;
    let opening = opening::comparisons(&streams, results)?;
    let plots = out.with_extension("");
    let chart = opening::chart(&opening)?;
    plot_files::keep(&plots.join(OPENING), chart.as_deref())?;
    let folder = plots.file_name().unwrap_or_default().to_string_lossy();
    let sections = [
        head(&streams),
        opening::text(&opening, &format!("{folder}/{OPENING}")),
        section_of(Some(&streams), out)?,
        section::<rate::Run>(results, out)?,
        section::<latency::Run>(results, out)?,
        section::<exchanges::Run>(results, out)?,
        section::<atomics::Run>(results, out)?,
        section::<multicast::Run>(results, out)?,
        section::<failover::Run>(results, out)?,
        section::<loss::Run>(results, out)?,
        section::<perftest::Run>(results, out)?,
        section::<system_calls::Run>(results, out)?,
        section::<telemetry::lanes::Run>(results, out)?,
        section::<telemetry::scrape::Run>(results, out)?,
        section::<restart::Run>(results, out)?,
        instructions::section(results)?,
        on_page(&streams::contestants(&streams), &folder),
    ];
    fs::write(out, sections.concat()).with_context(|| format!("writing {}", out.display()))
}

fn head(streams: &streams::Results) -> String {
    format!(
        "# Performance\n\n\
         <!-- Made by `covalent-bench page` from a result of `covalent-bench streams`. Do not \
         edit: measure again. -->\n\n\
         Covalent beside other systems on one machine of {} cores. Each row compares two medians of\n\
         one run, in which both sides took turns. The sections below have the spreads, the\n\
         command lines and the cores of either side; the daemon's core counts. soft-RoCE needs\n\
         a kernel with `rdma_rxe`: [guests](supported-kernels.md) compare it.\n\n",
        streams.host.cores
    )
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::*;
    use crate::{
        idle,
        report::{Goal, Report, Suite},
    };

    fn in_repository(path: &str) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join(path)
    }

    /// Judges the result of a suite again.
    fn judge_again<S: Suite>() {
        let last = Report::<S>::read_from(&in_repository("bench/results")).expect("readable");
        let Some(report) = last else { return };
        let again = report.judge();
        assert_eq!(again.len(), report.goals.len(), "{}", S::NAME);
        for (now, then) in again.iter().zip(&report.goals) {
            let words = |goal: &Goal| (goal.goal.clone(), goal.target.clone(), goal.met);
            assert_eq!(words(now), words(then), "judge {} again", S::NAME);
            assert_eq!(now.limit, then.limit, "judge {} again", S::NAME);
            assert!((now.measured - then.measured).abs() < 1e-9, "{then:?}");
        }
    }

    #[test]
    fn kept_verdicts_follow_from_kept_figures() {
        judge_again::<atomics::Run>();
        judge_again::<exchanges::Run>();
        judge_again::<failover::Run>();
        judge_again::<idle::Run>();
        judge_again::<latency::Run>();
        judge_again::<loss::Run>();
        judge_again::<multicast::Run>();
        judge_again::<rate::Run>();
        judge_again::<streams::Run>();
        judge_again::<system_calls::Run>();
    }

    #[test]
    fn the_page_in_the_repository_is_made_from_the_results_there() {
        let place = tempfile::tempdir().expect("a directory");
        let page = Page {
            results: in_repository("bench/results"),
            out: place.path().join("performance.md"),
        };
        write(&page).expect("written");
        let made = fs::read_to_string(&page.out).expect("written");
        let kept = fs::read_to_string(in_repository("docs/performance.md")).expect("kept");
        let differ = made
            .lines()
            .zip(kept.lines())
            .find(|(one, other)| one != other);
        assert_eq!(differ, None, "run `make bench-page`");
        assert_eq!(made.len(), kept.len(), "run `make bench-page`");
        for plot in fs::read_dir(place.path().join("performance")).expect("plots") {
            let plot = plot.expect("readable");
            let kept = in_repository("docs/performance").join(plot.file_name());
            let [made, kept] = [plot.path(), kept].map(|file| fs::read(file).expect("a plot"));
            assert!(made == kept, "run `make bench-page`: {plot:?}");
        }
    }

    #[test]
    fn without_a_result_of_streams_the_command_that_makes_one_is_named() {
        let folder = tempfile::tempdir().expect("a directory");
        let page = Page {
            results: folder.path().to_owned(),
            out: folder.path().join("performance.md"),
        };
        let problem = write(&page).expect_err("no result").to_string();
        assert!(
            problem.contains("covalent-bench streams --results"),
            "{problem}"
        );
    }

    #[test]
    fn page_and_plots_are_written_together_and_old_plots_removed() {
        let folder = tempfile::tempdir().expect("a directory");
        let page = Page {
            results: folder.path().to_owned(),
            out: folder.path().join("performance.md"),
        };
        let plots = folder.path().join("performance");
        fs::create_dir(&plots).expect("made");
        for file in ["one-way.svg", "pipe-count.svg"] {
            fs::write(plots.join(file), "of an earlier run").expect("written");
        }
        let example = streams::results::example();
        example.write_to(folder.path()).expect("written");
        write(&page).expect("written");
        let text = fs::read_to_string(&page.out).expect("written");
        let (before, after) = text.split_once("\n## Latency\n").expect("another section");
        assert!(before.contains("## Echo") && after.contains("## Contestants"));
        assert!(plots.join("echo.svg").exists());
        assert!(!plots.join("one-way.svg").exists());
        assert!(!plots.join("pipe-count.svg").exists());
        let with_sweeps = streams::session::example::with_sweeps();
        with_sweeps.write_to(folder.path()).expect("written");
        write(&page).expect("written");
        assert!(plots.join("pipe-count.svg").exists());
        let page = fs::read_to_string(page.out).expect("read");
        assert!(page.contains("## Number of pipes"), "{page}");
    }
}
