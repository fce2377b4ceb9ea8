//! A child process that cannot outlive the command that started it.
//!
//! * The kernel kills it when its parent exits (`PR_SET_PDEATHSIG`), so even `kill -9` of the
//!   command leaves none behind.
//! * It has its own process group, so Ctrl-C on the terminal reaches only the command, which then
//!   stops its children gracefully.
//! * It is signaled through its handle: until it is reaped, its number cannot belong to another
//!   process.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read},
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use covalent_api::former;
use nix::{
    sched::{CloneFlags, setns},
    sys::{
        prctl,
        signal::{self, SigSet, Signal},
    },
    unistd::{Pid, getppid, setsid},
};

/// How often a wait for a child looks again.
const RECHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Longest time for a dropped child to exit.
const DROP_PATIENCE: Duration = Duration::from_secs(1);

/// Lines of a child's log shown when it fails.
const LOG_TAIL_LINES: usize = 12;

/// How to start a child.
#[derive(Debug)]
pub struct Launch {
    name: String,
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(&'static str, OsString)>,
    namespace: Option<OwnedFd>,
    log: Option<PathBuf>,
}

impl Launch {
    /// A launch of `program`, called `name` in messages.
    pub fn new(name: impl Into<String>, program: PathBuf) -> Self {
        Self {
            name: name.into(),
            program,
            arguments: Vec::new(),
            environment: Vec::new(),
            namespace: None,
            log: None,
        }
    }

    /// Truncates this file and sends the child's standard error to it. Default: the standard error
    /// of this command.
    pub fn log_to(mut self, log: PathBuf) -> Self {
        self.log = Some(log);
        self
    }

    /// Adds one argument.
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds an option and its value.
    pub fn option(self, name: &str, value: impl Into<OsString>) -> Self {
        self.arg(name).arg(value)
    }

    /// Adds an option once for each of its values.
    pub fn options<V: Into<OsString>>(
        self,
        name: &str,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        values
            .into_iter()
            .fold(self, |launch, value| launch.option(name, value))
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// Runs the child in this network namespace.
    ///
    /// # Errors
    /// When the descriptor cannot be duplicated.
    pub fn in_namespace(mut self, namespace: Option<BorrowedFd<'_>>) -> io::Result<Self> {
        self.namespace = namespace.map(|fd| fd.try_clone_to_owned()).transpose()?;
        Ok(self)
    }

    /// Starts the child. Call it from a thread that exists as long as the child must: the kernel
    /// kills the child when the *thread* that created it exits.
    ///
    /// # Errors
    /// Names the program and the system's error.
    pub fn start(self) -> Result<Process> {
        let mut command = self.command()?;
        // The child's standard input stays open as long as its handle exists. End of file means
        // that the child is no longer needed.
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0);
        let parent = Pid::this();
        let namespace = self.namespace;
        // SAFETY: between fork and exec only async-signal-safe calls are allowed. The closure makes
        // four system calls (sigprocmask, setns, prctl, getppid) through nix. They neither allocate
        // nor lock. It builds errors from plain numbers.
        unsafe {
            command.pre_exec(move || {
                unblock_signals()?;
                if let Some(namespace) = &namespace {
                    setns(namespace, CloneFlags::CLONE_NEWNET)?;
                }
                prctl::set_pdeathsig(Signal::SIGKILL)?;
                // The parent may have died before the line above took hold.
                if getppid() == parent {
                    Ok(())
                } else {
                    Err(io::Error::from(nix::Error::ESRCH))
                }
            });
        }
        let mut child = spawn(&mut command, &self.name)?;
        let stdout = child.stdout.take();
        let (sender, lines) = mpsc::channel();
        // From here on, dropping `process` stops the child, whatever else fails.
        let process = Process {
            name: self.name,
            child,
            log: self.log,
            lines,
        };
        if let Some(stdout) = stdout {
            thread::Builder::new()
                .name(format!("{}-out", process.name))
                .spawn(move || forward_lines(stdout, &sender))
                .context("cannot start a thread")?;
        }
        Ok(process)
    }

    /// Starts a process that outlives this command and the terminal: in its own session, with
    /// standard output in the log.
    ///
    /// # Errors
    /// Names the program and the system's error.
    pub fn start_detached(self) -> Result<Child> {
        let mut command = self.command()?;
        if let Some(log) = &self.log {
            command.stdout(append_to(log)?);
        }
        // SAFETY: as above; the closure makes two system calls, sigprocmask and setsid.
        unsafe {
            command.pre_exec(|| {
                unblock_signals()?;
                setsid()?;
                Ok(())
            });
        }
        spawn(&mut command, &self.name)
    }

    fn command(&self) -> Result<Command> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        if let Some(log) = &self.log {
            command.stderr(create(log)?);
        }
        Ok(command)
    }
}

/// Unblocks all signals. This command blocks its signals for `sigwait`; a child would inherit the
/// mask, but must receive signals.
fn unblock_signals() -> io::Result<()> {
    Ok(SigSet::empty().thread_set_mask()?)
}

/// Starts a new log. The former contents are [kept](former::kept).
fn create(log: &Path) -> Result<File> {
    former::keep(log).with_context(|| {
        format!(
            "cannot keep the log before as {}",
            former::kept(log).display()
        )
    })?;
    append_to(log)
}

/// Opens a log in append mode, so that two streams do not overwrite each other.
fn append_to(log: &Path) -> Result<File> {
    let opened = File::options().create(true).append(true).open(log);
    opened.with_context(|| format!("cannot write the log {}", log.display()))
}

fn spawn(command: &mut Command, name: &str) -> Result<Child> {
    command
        .spawn()
        .with_context(|| format!("cannot start {name} ({})", command.get_program().display()))
}

/// Sends each line to `sender` until the writer closes its end or the receiver is gone.
fn forward_lines(output: impl Read, sender: &Sender<String>) {
    for line in BufReader::new(output).lines() {
        let Ok(line) = line else { return };
        if sender.send(line).is_err() {
            return;
        }
    }
}

/// A running child. Dropping it requests the child to stop, waits at most one second, then kills
/// it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: Option<PathBuf>,
    lines: Receiver<String>,
}

impl Process {
    /// Returns its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its process id, valid as long as this handle exists.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line that it wrote to standard output, if one is there.
    pub fn next_line(&self) -> Option<String> {
        self.lines.try_recv().ok()
    }

    /// Every line until it closes standard output, waiting at most `patience` in all.
    pub fn remaining_lines(&self, patience: Duration) -> Vec<String> {
        let deadline = Instant::now() + patience;
        let mut lines = Vec::new();
        while let Ok(line) = self
            .lines
            .recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            lines.push(line);
        }
        lines
    }

    /// Returns its exit status if it has exited.
    ///
    /// # Errors
    /// Fails if the kernel does not return it.
    pub fn try_exit(&mut self) -> Result<Option<ExitStatus>> {
        self.child
            .try_wait()
            .with_context(|| format!("cannot wait for {}", self.name))
    }

    /// Checks that it is still running.
    ///
    /// # Errors
    /// Its exit status and the end of its log.
    pub fn expect_running(&mut self) -> Result<()> {
        match self.try_exit()? {
            None => Ok(()),
            Some(status) => Err(self.failure(status)),
        }
    }

    /// Requests it to stop (SIGTERM). Does nothing if the child has exited.
    pub fn request_end(&mut self) {
        if let (Ok(None), Ok(pid)) = (self.child.try_wait(), i32::try_from(self.child.id())) {
            // The child was not reaped, so the number is still its own. If it just exited, the
            // signal has no effect.
            let _ = signal::kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
    }

    /// Waits up to `patience` for it to end, then ends it (SIGKILL).
    ///
    /// # Errors
    /// When it had to be killed, or the system refuses.
    pub fn wait_or_kill(&mut self, patience: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.try_exit()? {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                self.kill();
                return Err(anyhow!(
                    "{} did not end within {patience:?} and was killed{}",
                    self.name,
                    self.log_tail()
                ));
            }
            thread::sleep(RECHECK_INTERVAL);
        }
    }

    /// Returns an error with its exit status and the end of its log.
    pub fn failure(&self, status: ExitStatus) -> anyhow::Error {
        anyhow!("{} ended with {status}{}", self.name, self.log_tail())
    }

    fn log_tail(&self) -> String {
        self.log.as_deref().map(log_tail).unwrap_or_default()
    }

    fn kill(&mut self) {
        // Both fail only if the child is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.request_end();
        // Ignore the result: a caller that must know about a kill stops the process itself.
        let _ = self.wait_or_kill(DROP_PATIENCE);
    }
}

/// The last lines of a log, ready to stand under an error; empty if there are none.
pub fn log_tail(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let tail = &lines[lines.len().saturating_sub(LOG_TAIL_LINES)..];
    if tail.is_empty() {
        String::new()
    } else {
        format!("; its last words:\n    {}", tail.join("\n    "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(directory: &Path, script: &str) -> Process {
        Launch::new("shell", "/bin/sh".into())
            .log_to(directory.join("shell.log"))
            .arg("-c")
            .arg(script)
            .start()
            .expect("the shell starts")
    }

    #[test]
    fn lines_and_exit_status_arrive() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let mut process = shell(
            directory.path(),
            "echo one; echo two; echo sorry >&2; exit 3",
        );
        assert_eq!(
            process.remaining_lines(Duration::from_secs(10)),
            ["one", "two"]
        );
        let status = process
            .wait_or_kill(Duration::from_secs(10))
            .expect("it exits by itself");
        assert_eq!(status.code(), Some(3));
        let message = process.failure(status).to_string();
        assert!(
            message.contains("exit status: 3") && message.contains("sorry"),
            "{message}"
        );
    }

    #[test]
    fn a_child_receives_the_signals_that_this_process_blocks() {
        let directory = tempfile::tempdir().expect("temporary directory");
        SigSet::from_iter([Signal::SIGTERM])
            .thread_block()
            .expect("blocked in this test's thread");
        let mut child = shell(directory.path(), "echo ready; exec sleep 1000");
        assert!(wait_for_line(&child), "it must come up");
        child.request_end();
        let status = child
            .wait_or_kill(Duration::from_secs(10))
            .expect("SIGTERM ends it");
        assert_eq!(status.code(), None, "ended by the signal");
    }

    #[test]
    fn a_child_that_ignores_the_request_is_killed_and_none_survives_its_handle() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let mut stubborn = shell(
            directory.path(),
            "trap '' TERM; echo ready; while :; do sleep 1; done",
        );
        assert!(wait_for_line(&stubborn), "it must come up");
        stubborn.request_end();
        assert!(stubborn.wait_or_kill(Duration::from_millis(50)).is_err());
        assert!(stubborn.try_exit().expect("known").is_some());

        let dropped = shell(directory.path(), "echo ready; exec sleep 1000");
        assert!(wait_for_line(&dropped), "it must come up");
        let pid = dropped.pid();
        drop(dropped);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    fn wait_for_line(process: &Process) -> bool {
        process.lines.recv_timeout(Duration::from_secs(10)).is_ok()
    }
}
