//! Journals in separate processes: this test program again, started to run one of its ignored
//! tests.

use std::{
    env,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

const DIRECTORY: &str = "COVALENT_TEST_JOURNAL";
const REPORT_PREFIX: &str = "report: ";

/// A child process, killed when this is dropped.
#[derive(Debug)]
pub struct Writer {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Writer {
    /// Starts the ignored test `role` for the journal in `directory`.
    pub fn start(role: &str, directory: &Path) -> Self {
        let mut process = Command::new(env::current_exe().expect("this test"))
            .args([
                "--exact",
                role,
                "--ignored",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(DIRECTORY, directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("a child");
        let output = BufReader::new(process.stdout.take().expect("its output"));
        Self { process, output }
    }

    /// Returns the next number that the child printed completely. `None` if it exited.
    pub fn next_report(&mut self) -> Option<u64> {
        let mut line = String::new();
        loop {
            line.clear();
            self.output.read_line(&mut line).ok()?;
            // One that it was killed in has no end.
            let whole = line.strip_suffix('\n')?;
            if let Some((_, reported)) = whole.split_once(REPORT_PREFIX) {
                return reported.parse().ok();
            }
        }
    }

    /// Kills it with SIGKILL and waits until it exits. Returns the last number that it printed.
    pub fn kill(mut self) -> Option<u64> {
        self.process.kill().expect("SIGKILL");
        self.process.wait().expect("it ends");
        std::iter::from_fn(|| self.next_report()).last()
    }

    /// Waits until it exits, which must be successful. Returns all numbers that it printed.
    pub fn end(mut self) -> Vec<u64> {
        let reported = std::iter::from_fn(|| self.next_report()).collect();
        assert!(self.process.wait().expect("it ends").success());
        reported
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the directory given to a child. `None` in a process that is not a child and has nothing
/// to do.
pub fn orders() -> Option<PathBuf> {
    env::var_os(DIRECTORY).map(Into::into)
}

/// Prints a number to the parent.
#[allow(clippy::print_stdout, reason = "the parent reads it")]
pub fn report(what: u64) {
    println!("{REPORT_PREFIX}{what}");
}
