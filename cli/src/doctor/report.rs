//! All findings: their totals, and their output.

use std::{process::ExitCode, time::Duration};

use anyhow::Result;
use serde::Serialize;

use super::finding::{Finding, Level};
use crate::output::{self, Cell, Color, Table, Theme, counted};

/// The report of the doctor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// How long the examination took, in milliseconds.
    pub took_ms: u64,
    /// Number of failed findings.
    pub failed: usize,
    /// Number of warnings.
    pub warnings: usize,
    /// All that was looked at.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Makes a report of the findings of an examination that lasted `took`.
    pub fn new(findings: Vec<Finding>, took: Duration) -> Self {
        let count = |level| findings.iter().filter(|it| it.level == level).count();
        Self {
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            failed: count(Level::Failed),
            warnings: count(Level::Warning),
            findings,
        }
    }

    /// Returns the exit status: 1 if a finding failed, or with `strict` if there is a warning.
    pub fn exit_code(&self, strict: bool) -> ExitCode {
        ExitCode::from(u8::from(self.failed > 0 || strict && self.warnings > 0))
    }

    /// Prints it as text.
    ///
    /// # Errors
    /// Fails if the reader of standard output is gone.
    pub fn print(&self) -> Result<()> {
        output::line(&self.table(Theme::of_stdout()).to_string())?;
        output::line(&self.summary())
    }

    fn table(&self, theme: Theme) -> Table {
        let mut table = theme.new_table(["", "check", "found"]);
        for finding in &self.findings {
            let (mark, color) = match finding.level {
                Level::Fine => ("✓", Color::Green),
                Level::Warning => ("!", Color::Yellow),
                Level::Failed => ("✗", Color::Red),
            };
            table.add_row([
                theme.cell(mark, color),
                Cell::new(&finding.check),
                Cell::new(found_and_cure(finding)),
            ]);
        }
        table
    }

    fn summary(&self) -> String {
        match (self.failed, self.warnings) {
            (0, 0) => "No errors, no warnings.".to_owned(),
            (0, warnings) => format!("No errors, {}.", counted(warnings as u64, "warning")),
            (failed, warnings) => format!(
                "{}, {}.",
                counted(failed as u64, "error"),
                counted(warnings as u64, "warning")
            ),
        }
    }
}

/// Returns the finding and, in a line of its own, its cure. A column each would leave too little
/// width for both.
fn found_and_cure(finding: &Finding) -> String {
    match finding.cure.as_str() {
        "" => finding.found.clone(),
        cure => format!("{}\ncure: {cure}", finding.found),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::output::walk;

    /// The widest report.
    pub fn widest(theme: Theme) -> String {
        let findings = vec![
            Finding::fine("AF_XDP and BPF", "in this kernel"),
            Finding::warning(
                format!("port {}: interrupts", walk::NAME),
                format!(
                    "the interrupts of {} are on core 127: \
                     /sys/class/net/{}/queues/rx-127/rps_cpus is ffffffff,ffffffff",
                    walk::INTERFACE,
                    walk::INTERFACE
                ),
                "echo 0 > /sys/class/net/enp175s0f1np127/queues/rx-127/rps_cpus, or `covalent \
                 configure init`",
            ),
            Finding::failed(
                format!("link {}", walk::NAME),
                format!(
                    "`{}` and `{}` are joined to one node",
                    walk::NAME,
                    walk::NAME
                ),
                "see /run/systemd/system/covalent-control.service.d/override.conf",
            ),
        ];
        Report::new(findings, Duration::ZERO)
            .table(theme)
            .to_string()
    }

    fn report(findings: &[fn() -> Finding]) -> Report {
        let findings = findings.iter().map(|finding| finding());
        Report::new(findings.collect(), Duration::from_millis(7))
    }

    #[test]
    fn the_exit_status_shows_faults_and_on_request_warnings() {
        let fine: fn() -> Finding = || Finding::fine("a", "x");
        let warning: fn() -> Finding = || Finding::warning("b", "x", "y");
        let failed: fn() -> Finding = || Finding::failed("c", "x", "y");
        for (findings, faults, strictly) in [
            ([fine, fine], 0, 0),
            ([fine, warning], 0, 1),
            ([warning, failed], 1, 1),
            ([fine, failed], 1, 1),
        ] {
            let report = report(&findings);
            assert_eq!(report.exit_code(false), ExitCode::from(faults));
            assert_eq!(report.exit_code(true), ExitCode::from(strictly));
        }
    }

    #[test]
    fn a_cure_has_its_own_line_below_its_finding() {
        let findings = vec![
            Finding::fine("kernel", "6.18"),
            Finding::warning("port p0: interrupts", "they are on core 3", "move them"),
        ];
        let table = Report::new(findings, Duration::ZERO).table(Theme::of_width(100));
        let text = table.to_string();
        let lines: Vec<_> = text.lines().map(str::trim_end).collect();
        assert_eq!(
            lines[1..lines.len() - 1],
            [
                "      check                 found",
                lines[2],
                "  ✓   kernel                6.18",
                "  !   port p0: interrupts   they are on core 3",
                "                            cure: move them",
            ],
            "{text}"
        );
    }

    #[test]
    fn a_long_finding_has_most_of_the_width() {
        let text = widest(Theme::of_width(100));
        let finding = text.lines().position(|line| line.contains("interrupts of"));
        let cure = text.lines().position(|line| line.contains("cure: echo"));
        assert!(
            finding
                .zip(cure)
                .is_some_and(|(finding, cure)| cure - finding <= 3),
            "{text}"
        );
    }

    #[test]
    fn the_last_line_counts() {
        assert_eq!(report(&[]).summary(), "No errors, no warnings.");
        let warned = report(&[|| Finding::warning("b", "x", "y")]);
        assert_eq!(warned.summary(), "No errors, 1 warning.");
        let both = report(&[
            || Finding::failed("c", "x", "y"),
            || Finding::warning("b", "x", "y"),
        ]);
        assert_eq!(both.summary(), "1 error, 1 warning.");
        assert_eq!(both.took_ms, 7);
    }
}
