//! An application of the demonstration: a child that tells on standard output, one JSON object a line, that it is ready, how
//! far it is, and at last what it did.

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

/// How long an application may take to attach and say that it is ready.
const READY_PATIENCE: Duration = Duration::from_secs(10);

/// How long it may take to end and report when it is asked to.
const END_PATIENCE: Duration = Duration::from_secs(5);

const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A line of an application whose progress is a `P` and whose report an `R`.
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

    /// Waits until it says that it is ready.
    ///
    /// # Errors
    /// When it ends instead, or takes too long.
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
            interrupt.sleep(LOOK_AGAIN)?;
        }
    }

    /// How far it is, as far as it told; reads what it wrote since.
    ///
    /// # Errors
    /// When it wrote something else than was agreed.
    pub fn progress(&mut self) -> Result<Option<&P>> {
        self.read()?;
        Ok(self.progress.as_ref())
    }

    /// Whether it has ended.
    ///
    /// # Errors
    /// When the system refuses to tell.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.exit()?.is_some())
    }

    /// How it has ended, if it has.
    ///
    /// # Errors
    /// When the system refuses to tell.
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

    /// An error that tells how it ended, with the end of its log.
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

    /// Asks it to end and gives its report.
    ///
    /// # Errors
    /// As [`Application::report`].
    pub fn stop(mut self) -> Result<R> {
        self.process.ask_to_end();
        self.report()
    }

    /// Waits for its end and gives its report. A report in which a check failed is a report: the caller judges it.
    ///
    /// # Errors
    /// When it does not end, or ended without a report.
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
                "{} wrote a line that nobody understands: {line}",
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
    fn the_three_kinds_of_line_are_told_apart() {
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
