//! An application of the demonstration: a child that reports readiness, progress and its result on
//! standard output, one JSON object a line.

use std::{
    process::ExitStatus,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, de::DeserializeOwned};

use super::patience::stretched;
use crate::{
    interrupt::Interrupt,
    process::{Launch, Process},
};

/// Longest time until an application attaches and reports that it is ready.
const READY_PATIENCE: Duration = Duration::from_secs(10);

/// Longest time until an application exits and reports after the request to stop.
const END_PATIENCE: Duration = Duration::from_secs(5);

const RECHECK_INTERVAL: Duration = Duration::from_millis(5);

/// A line of an application whose progress is a `P` and whose report is an `R`.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line<P, R> {
    Ready {},
    Progress(P),
    Report(R),
}

/// A running application.
pub struct Application<P, R> {
    process: Process,
    ready: bool,
    progress: Option<P>,
    report: Option<R>,
}

impl<P: DeserializeOwned, R: DeserializeOwned> Application<P, R> {
    /// Starts it, with JSON as its format.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(launch: Launch) -> Result<Self> {
        let process = launch
            .option("--format", "json")
            .arg("--progress-json")
            .start()?;
        Ok(Self {
            process,
            ready: false,
            progress: None,
            report: None,
        })
    }

    /// Waits until it reports that it is ready.
    ///
    /// # Errors
    /// Fails if it exits instead, or takes too long.
    pub fn wait_ready(&mut self, interrupt: &Interrupt) -> Result<()> {
        let deadline = Instant::now() + stretched(READY_PATIENCE);
        loop {
            self.read()?;
            if self.ready {
                return Ok(());
            }
            self.process.expect_running()?;
            if Instant::now() >= deadline {
                bail!(
                    "{} was not ready within {:?}",
                    self.process.name(),
                    stretched(READY_PATIENCE)
                );
            }
            interrupt.sleep(RECHECK_INTERVAL)?;
        }
    }

    /// Returns its last reported progress. Reads the output that it wrote since the last call.
    ///
    /// # Errors
    /// Fails if it wrote an unexpected line.
    pub fn progress(&mut self) -> Result<Option<&P>> {
        self.read()?;
        Ok(self.progress.as_ref())
    }

    /// Returns whether it has exited.
    ///
    /// # Errors
    /// Fails if the kernel does not return its state.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.exit()?.is_some())
    }

    /// Returns its exit status, if it has exited.
    ///
    /// # Errors
    /// Fails if the kernel does not return its state.
    pub fn exit(&mut self) -> Result<Option<ExitStatus>> {
        self.process.try_exit()
    }

    /// The report of one that has ended; none if it wrote none.
    ///
    /// # Errors
    /// When it wrote something else than was agreed.
    pub fn written_report(&mut self) -> Result<Option<&R>> {
        for line in self.process.remaining_lines(stretched(END_PATIENCE)) {
            self.take(&line)?;
        }
        Ok(self.report.as_ref())
    }

    /// Returns an error with its exit status and the end of its log.
    pub fn failure(&self, status: ExitStatus) -> anyhow::Error {
        self.process.failure(status)
    }

    /// Checks that it is still running.
    ///
    /// # Errors
    /// How it ended, with the end of its log.
    pub fn expect_running(&mut self) -> Result<()> {
        self.process.expect_running()
    }

    /// Requests it to stop and returns its report.
    ///
    /// # Errors
    /// As [`Application::report`].
    pub fn stop(mut self) -> Result<R> {
        self.process.request_end();
        self.report()
    }

    /// Waits for its exit and returns its report. A report with a failed check is no error: the
    /// caller judges it.
    ///
    /// # Errors
    /// Fails if it does not exit, or exited without a report.
    pub fn report(mut self) -> Result<R> {
        let status = self.process.wait_or_kill(stretched(END_PATIENCE))?;
        self.written_report()?;
        self.report.ok_or_else(|| self.process.failure(status))
    }

    fn read(&mut self) -> Result<()> {
        while let Some(line) = self.process.next_line() {
            self.take(&line)?;
        }
        Ok(())
    }

    fn take(&mut self, line: &str) -> Result<()> {
        let parsed = serde_json::from_str(line).with_context(|| {
            format!(
                "{} wrote a line that cannot be parsed: {line}",
                self.process.name()
            )
        })?;
        match parsed {
            Line::Ready {} => self.ready = true,
            Line::Progress(progress) => self.progress = Some(progress),
            Line::Report(report) => self.report = Some(report),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Done {
        verbs: u64,
    }

    fn shell(directory: &std::path::Path, script: &str) -> Application<Done, Done> {
        let launch = Launch::new("sample", "/bin/sh".into())
            .log_to(directory.join("sample.log"))
            .arg("-c")
            .arg(script);
        Application::start(launch).expect("the shell starts")
    }

    #[test]
    fn the_three_kinds_of_line_are_distinguished() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let interrupt = Interrupt::default();
        let mut sample = shell(
            directory.path(),
            r#"echo '{"type":"ready","app":"sample","node":"a"}'; echo '{"type":"progress","verbs":5,"more":true}'; sleep 0.2; echo '{"type":"report","verbs":9}'; exit 1"#,
        );
        sample.wait_ready(&interrupt).expect("ready");
        assert_eq!(
            sample
                .report()
                .expect("a report, though its checks failed")
                .verbs,
            9
        );
    }

    #[test]
    fn an_end_without_a_report_shows_the_log() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let sample = shell(directory.path(), "echo 'the daemon refused' >&2; exit 2");
        let message = sample.report().expect_err("no report").to_string();
        assert!(
            message.contains("the daemon refused") && message.contains("exit status: 2"),
            "{message}"
        );

        let garbled = shell(directory.path(), "echo hello");
        assert!(
            garbled
                .report()
                .expect_err("not JSON")
                .to_string()
                .contains("hello")
        );
    }
}
