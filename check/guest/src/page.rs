//! `docs/supported-kernels.md`: the runs on each kernel and driver, from the stored results.

use std::fmt::Write;

use anyhow::Result;

use crate::{
    job, netem,
    outcome::{Outcome, Verdict},
    retry, roce,
};

const HEAD: &str = "# Supported kernels\n\n\
`make guest-test` boots stock Debian kernels under QEMU, without KVM, and runs programs in\n\
them that were built on the host. `covalent-guest page` generates this page from the results\n\
in `check/guest/results`. An emulated processor shows nothing about the speed of a real one. So\n\
figures appear only beside another system that was measured in the same guest, and only\n\
their ratio has a meaning.\n";

/// The page.
///
/// # Errors
/// When a result has figures that cannot be read.
pub fn of(outcomes: &[Outcome]) -> Result<String> {
    let mut page = HEAD.to_owned();
    page += "\n## Runs\n\n| kernel | driver | job | mode | outcome |\n|---|---|---|---|---|\n";
    let mut jobs = job::all();
    jobs.sort_by_key(|job| (job.line, job.nic, job.script, job.name()));
    for job in &jobs {
        let driver = job.nic.map_or("–", |nic| nic.driver());
        let outcome = outcomes.iter().find(|outcome| outcome.job == job.name());
        let (kernel, mode, ended) = match outcome {
            Some(outcome) => (
                outcome.kernel.as_str(),
                outcome.fact("mode"),
                verdict(outcome),
            ),
            None => (job.line.name(), String::new(), "not run".to_owned()),
        };
        let _ = writeln!(
            page,
            "| {kernel} | {driver} | {} | {} | {ended} |",
            job.script,
            if mode.is_empty() { "–" } else { &mode },
        );
    }
    page += &retry::section(outcomes)?;
    page += &roce::section(outcomes)?;
    page += &netem::section(outcomes)?;
    Ok(page)
}

fn verdict(outcome: &Outcome) -> String {
    match outcome.verdict {
        Verdict::Passed => {
            let tests = outcome.fact("tests");
            if tests.is_empty() {
                "passed".to_owned()
            } else {
                format!("passed, {tests} tests")
            }
        }
        Verdict::Skipped => format!("not run: {}", outcome.fact("skipped")),
        Verdict::Failed => {
            let failed = outcome.fact("failed");
            let why = if failed.is_empty() { "" } else { ": " };
            format!("**failed**{why}{failed}")
        }
        Verdict::Overdue => "**not done in time**".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::{outcome::kept, place::Place};

    #[test]
    fn the_page_is_that_of_the_results() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let place = Place::at(&root);
        let page = fs::read_to_string(place.page()).expect("the page");
        let made = of(&kept(&place.results()).expect("results")).expect("figures");
        assert!(
            page == made,
            "docs/supported-kernels.md differs from check/guest/results: run `covalent-guest page`"
        );
    }
}
