//! The identity of a process: its number together with its start time, because numbers are reused.

use std::{fmt, os::fd::AsFd, str::FromStr, time::Duration};

use anyhow::{Context, Result, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use procfs::process::Process;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A process. Written as `PID-START`, where START is in clock ticks since boot
/// (`proc_pid_stat(5)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Process id.
    pub pid: i32,
    start_ticks: u64,
}

/// How a process that was ended went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It was gone already.
    Gone,
    /// It exited on request.
    OnRequest,
    /// It had to be killed.
    Killed,
}

impl Identity {
    /// The process with this number now.
    ///
    /// # Errors
    /// When there is none.
    pub fn of(pid: i32) -> Result<Self> {
        let stat = Process::new(pid)
            .and_then(|process| process.stat())
            .with_context(|| format!("there is no process {pid}"))?;
        Ok(Self {
            pid,
            start_ticks: stat.starttime,
        })
    }

    /// This process.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn own() -> Result<Self> {
        Self::of(nix::unistd::Pid::this().as_raw())
    }

    /// Whether that very process still runs. One that ended and was not waited for yet does not.
    pub fn is_alive(self) -> bool {
        Process::new(self.pid)
            .and_then(|process| process.stat())
            .is_ok_and(|stat| stat.starttime == self.start_ticks && stat.state != 'Z')
    }

    /// Requests it to stop (SIGTERM), kills it after `patience` (SIGKILL), and waits. Does nothing
    /// if it is gone.
    ///
    /// # Errors
    /// Fails if this user may not signal it.
    pub fn end(self, patience: Duration) -> Result<End> {
        let Some(pid) = Pid::from_raw(self.pid) else {
            bail!("{} is not a process id", self.pid)
        };
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else {
            return Ok(End::Gone);
        };
        // Check the identity after opening the handle: from here on the handle cannot refer to
        // another process.
        if !self.is_alive() {
            return Ok(End::Gone);
        }
        for (signal, patience, end) in [
            (Signal::TERM, patience, End::OnRequest),
            (Signal::KILL, Duration::from_secs(5), End::Killed),
        ] {
            match pidfd_send_signal(&handle, signal) {
                Ok(()) => {}
                Err(rustix::io::Errno::SRCH) => return Ok(end),
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot end process {}", self.pid));
                }
            }
            if ended_within(handle.as_fd(), patience)? {
                return Ok(end);
            }
        }
        bail!("process {} does not end", self.pid)
    }
}

/// A process handle becomes readable when its process has ended.
fn ended_within(handle: std::os::fd::BorrowedFd<'_>, patience: Duration) -> Result<bool> {
    let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
    let ready = poll(&mut [PollFd::new(handle, PollFlags::POLLIN)], timeout)
        .context("cannot wait for a process")?;
    Ok(ready > 0)
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.pid, self.start_ticks)
    }
}

/// The text is not a process's number and start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected PID-START, two numbers")]
pub struct BadIdentity;

impl FromStr for Identity {
    type Err = BadIdentity;

    fn from_str(text: &str) -> Result<Self, BadIdentity> {
        let (pid, start) = text.trim().split_once('-').ok_or(BadIdentity)?;
        match (pid.parse(), start.parse()) {
            (Ok(pid), Ok(start_ticks)) if pid > 0 => Ok(Self { pid, start_ticks }),
            _ => Err(BadIdentity),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_number_that_was_re_used_is_another_process() {
        let own = Identity::own().expect("procfs");
        assert!(own.is_alive());
        assert_eq!(own.to_string().parse(), Ok(own));
        let reused = Identity {
            start_ticks: own.start_ticks + 1,
            ..own
        };
        assert!(!reused.is_alive());
        let end = reused
            .end(Duration::ZERO)
            .expect("no process to end, and certainly not this one");
        assert_eq!(end, End::Gone);
        for text in ["", "12", "a-b", "-1-2", "0-5"] {
            assert_eq!(text.parse::<Identity>(), Err(BadIdentity), "{text}");
        }
    }

    #[test]
    fn a_process_is_ended_through_its_handle() {
        let mut child = Command::new("sleep")
            .arg("1000")
            .spawn()
            .expect("sleep is everywhere");
        let identity = Identity::of(i32::try_from(child.id()).expect("small")).expect("it runs");
        let end = identity.end(Duration::from_secs(10)).expect("it is ours");
        assert_eq!(end, End::OnRequest);
        assert!(!identity.is_alive());
        child.wait().expect("waited for");
    }

    #[test]
    fn a_process_that_ignores_the_request_is_reported_as_killed() {
        let mut child = Command::new("sh")
            .args(["-c", "trap '' TERM; echo ready; while :; do sleep 1; done"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("sh is everywhere");
        let mut ready = [0; 6];
        let mut stdout = child.stdout.take().expect("piped");
        std::io::Read::read_exact(&mut stdout, &mut ready).expect("it is up");
        let identity = Identity::of(i32::try_from(child.id()).expect("small")).expect("it runs");
        let end = identity.end(Duration::from_millis(50)).expect("it is ours");
        assert_eq!(end, End::Killed);
        child.wait().expect("waited for");
    }
}
