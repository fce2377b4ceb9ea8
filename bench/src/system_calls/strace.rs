//! `strace -c` on one thread of another process.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{host::field, stop};

/// How long it may take to attach, and to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Calls of a thread, by name.
pub type Calls = BTreeMap<String, u64>;

/// A running `strace`. It ends with this value.
#[derive(Debug)]
pub struct Trace {
    child: Child,
    summary: PathBuf,
}

impl Trace {
    /// Counts the calls of `thread` of `process` from now on. strace writes the counts to `folder`.
    pub fn attach(process: u32, thread: u32, folder: &Path) -> Result<Self> {
        let summary = folder.join(thread.to_string());
        let child = Command::new("strace")
            .args(["-c", "-q", "-p", &thread.to_string(), "-o"])
            .arg(&summary)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = match child {
            Ok(child) => child,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                bail!("there is no strace: install the Debian package strace")
            }
            Err(error) => return Err(error).context("starting strace"),
        };
        let trace = Self { child, summary };
        let status = format!("/proc/{process}/task/{thread}/status");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = fs::read_to_string(&status).with_context(|| format!("reading {status}"))?;
            if field(&text, "TracerPid").as_deref() == Some(&trace.child.id().to_string()) {
                return Ok(trace);
            }
            ensure!(
                Instant::now() < deadline,
                "strace does not attach to thread {thread}"
            );
            stop::sleep(Duration::from_millis(1))?;
        }
    }

    /// Detaches and returns the counts.
    pub fn finish(mut self) -> Result<Calls> {
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGINT)
            .context("ending strace")?;
        let deadline = Instant::now() + PATIENCE;
        while self
            .child
            .try_wait()
            .context("waiting for strace")?
            .is_none()
        {
            ensure!(Instant::now() < deadline, "strace does not end");
            stop::sleep(Duration::from_millis(1))?;
        }
        let text = fs::read_to_string(&self.summary).context("reading the counts of strace")?;
        Ok(counts(&text))
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // It has ended, unless something failed before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Of a summary's lines: the fourth field is how often, the last one which call.
fn counts(summary: &str) -> Calls {
    summary
        .lines()
        .filter_map(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            let &[share, _, _, calls, .., name] = &fields[..] else {
                return None;
            };
            share.parse::<f64>().ok()?;
            (name != "total").then_some((name.to_owned(), calls.parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_with_and_without_errors() {
        let summary = "% time     seconds  usecs/call     calls    errors syscall\n\
             ------ ----------- ----------- --------- --------- ----------------\n \
             61.20    0.500000           5    100000           sched_yield\n \
             38.80    0.300000           7     40000        12 sendto\n\
             ------ ----------- ----------- --------- --------- ----------------\n\
             100.00    0.800000           5    140000        12 total\n";
        let calls = counts(summary);
        assert_eq!(calls.len(), 2);
        assert_eq!((calls["sched_yield"], calls["sendto"]), (100_000, 40_000));
    }
}
