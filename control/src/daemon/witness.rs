//! Liveness of the process at the other end of a connection.
//!
//! A connection closes with the last descriptor of it, and another process may hold a copy of the
//! daemon's descriptor. A pidfd shows the end of the process itself immediately.

use std::{
    future,
    os::fd::{AsFd, OwnedFd},
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{getsockopt, sockopt::PeerPidfd},
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::{
    net::unix::pipe::Receiver,
    time::{Duration, timeout},
};
use tracing::debug;

use crate::channel::Channel;

/// Time limit for a process to exit after its connection has closed. It closes its descriptors
/// before the kernel reports its end.
const LAST_STEPS: Duration = Duration::from_millis(100);

/// Knows when the process ends that listened at the other end of a connection.
pub(super) struct Witness {
    /// A pidfd. tokio waits for it as for a pipe: both become readable.
    process: Option<Receiver>,
}

impl Witness {
    /// Watches the peer process of `channel`. Without a pidfd, which a system call filter may
    /// refuse, it never detects an end.
    pub(super) fn of(channel: &Channel) -> Self {
        let process = pidfd(channel).and_then(|fd| Receiver::from_owned_fd_unchecked(fd).ok());
        if process.is_none() {
            debug!("no pidfd of the daemon: only the connection shows its end");
        }
        Self { process }
    }

    /// Waits until the process has ended. Nothing is lost if the future is dropped.
    pub(super) async fn ended(&self) {
        if let Some(process) = &self.process
            && process.readable().await.is_ok()
        {
            return;
        }
        future::pending().await
    }

    /// How the process is, in words, once its connection has ended.
    pub(super) async fn last_word(&self) -> &'static str {
        if self.process.is_none() {
            return "whether its process still runs is unknown";
        }
        match timeout(LAST_STEPS, self.ended()).await {
            Ok(()) => "its process has ended",
            Err(_) => "its process still runs",
        }
    }
}

/// A pidfd of the process at the other end.
fn pidfd(channel: &Channel) -> Option<OwnedFd> {
    // Linux 6.5.
    if let Ok(fd) = getsockopt(&channel, PeerPidfd) {
        return Some(fd);
    }
    // A process of another pid namespace has no number here.
    let pid = Pid::from_raw(channel.peer_pid()?)?;
    let fd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    // While it is connected, no other process can have had this number.
    is_connected(channel).then_some(fd)
}

fn is_connected(channel: &Channel) -> bool {
    let mut fds = [PollFd::new(channel.as_fd(), PollFlags::empty())];
    poll(&mut fds, PollTimeout::ZERO) == Ok(0)
}
