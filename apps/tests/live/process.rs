//! An application as a process, and the JSON lines that it prints.

use std::{
    io::{BufRead, BufReader, Lines, Read},
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    time::Instant,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use crate::nodes::PATIENCE;

/// A running application. Dropping it kills the process, so that a failed test leaves none behind.
pub struct App {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// Closed to end a host.
    pub stdin: Option<ChildStdin>,
}

/// The paths of the applications, built with this test.
pub const ECHO: &str = env!("CARGO_BIN_EXE_covalent-echo");
pub const REPLAY: &str = env!("CARGO_BIN_EXE_covalent-replay");
pub const BANK: &str = env!("CARGO_BIN_EXE_covalent-bank");
pub const REGISTERS: &str = env!("CARGO_BIN_EXE_covalent-registers");

impl App {
    /// Starts it with JSON output.
    pub fn start(path: &str, args: &[&str]) -> Self {
        let mut child = Command::new(path)
            .args(args)
            .args(["--format", "json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let stdin = child.stdin.take();
        Self {
            child,
            lines,
            stdin,
        }
    }

    /// Starts it and waits for its `ready`.
    pub fn ready(path: &str, args: &[&str]) -> Self {
        let mut app = Self::start(path, args);
        let line = app.line();
        assert_eq!(line["type"], "ready", "{line}");
        app
    }

    /// Its next line.
    pub fn line(&mut self) -> Value {
        match self.lines.next() {
            Some(line) => serde_json::from_str(&line.unwrap()).unwrap(),
            None => panic!(
                "the process printed no further line; stderr: {}",
                self.stderr()
            ),
        }
    }

    /// Its report and how it ended. Lines before the report are skipped.
    pub fn report(mut self) -> (Value, ExitStatus) {
        loop {
            let line = self.line();
            if line["type"] == "report" {
                return (line, self.end());
            }
        }
    }

    /// Waits for an exit without a report. Returns the text on stderr and the exit status.
    pub fn failure(mut self) -> (String, ExitStatus) {
        let text = self.stderr();
        (text, self.end())
    }

    /// Sends SIGTERM, as a supervisor does.
    pub fn terminate(&self) {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM).unwrap();
    }

    /// Ends it at once, as a crash does.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn stderr(&mut self) -> String {
        let mut text = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        text
    }

    fn end(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}

impl Drop for App {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A number of a report.
pub fn number(report: &Value, name: &str) -> u64 {
    report[name]
        .as_u64()
        .unwrap_or_else(|| panic!("no number `{name}` in {report}"))
}
