//! Journals in processes of their own: this test program again, told to run one of its ignored tests.

use std::{
    env,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

const DIRECTORY: &str = "COVALENT_TEST_JOURNAL";
const TOLD: &str = "told: ";

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

    /// The next number that it told whole; `None` if it ended.
    pub fn hear(&mut self) -> Option<u64> {
        let mut line = String::new();
        loop {
            line.clear();
            self.output.read_line(&mut line).ok()?;
            // One that it was killed in has no end.
            let whole = line.strip_suffix('\n')?;
            if let Some((_, told)) = whole.split_once(TOLD) {
                return told.parse().ok();
            }
        }
    }

    /// Kills it with SIGKILL, waits for its end, and gives the last number that it told.
    pub fn kill(mut self) -> Option<u64> {
        self.process.kill().expect("SIGKILL");
        self.process.wait().expect("it ends");
        std::iter::from_fn(|| self.hear()).last()
    }

    /// Waits for its end, which must be a good one, and gives everything that it told.
    pub fn end(mut self) -> Vec<u64> {
        let told = std::iter::from_fn(|| self.hear()).collect();
        assert!(self.process.wait().expect("it ends").success());
        told
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The directory that a child was told. `None` in a process that is no child, which has nothing to do.
pub fn orders() -> Option<PathBuf> {
    env::var_os(DIRECTORY).map(Into::into)
}

/// Says a number to the parent.
#[allow(clippy::print_stdout, reason = "the parent reads it")]
pub fn tell(what: u64) {
    println!("{TOLD}{what}");
}
