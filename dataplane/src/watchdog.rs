//! Waits for the end of the daemon, and reports its progress to the service manager meanwhile.

use std::{
    io,
    os::fd::AsFd,
    thread,
    time::{Duration, Instant},
};

use covalent_dataplane::Daemon;
use covalent_dataplane::progress::Progress;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
    },
};
use sd_notify::NotifyState;
use tracing::{error, warn};

/// How long to wait before another wait, if the kernel had no memory for one.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// Progress checks per watchdog interval of the service manager.
const POLLS_PER_WATCHDOG: u32 = 4;

/// Why the daemon is to stop.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// A signal requested it.
    Signal(Signal),
    /// A thread has ended without a request to stop; its name.
    Thread(String),
}

/// Waits for one of `signals`, which are blocked, or for the end of a thread of `daemon`. If the
/// service manager's watchdog is enabled, the function notifies it if and only if each thread has
/// made progress.
///
/// # Errors
/// The signals cannot be waited for.
pub fn until_end(signals: &SigSet, daemon: &Daemon) -> io::Result<End> {
    let mut progress = daemon.progress();
    let waiting = SignalFd::with_flags(signals, SfdFlags::SFD_CLOEXEC)?;
    let every = sd_notify::watchdog_enabled();
    let poll_timeout = every.map_or(PollTimeout::NONE, |every| {
        PollTimeout::try_from(every / POLLS_PER_WATCHDOG).unwrap_or(PollTimeout::MAX)
    });
    let mut moved = Instant::now();
    let mut warned = false;
    loop {
        let mut fds = [
            PollFd::new(waiting.as_fd(), PollFlags::POLLIN),
            PollFd::new(daemon.ended(), PollFlags::POLLIN),
        ];
        match poll(&mut fds, poll_timeout) {
            Ok(0) => {}
            Err(Errno::EINTR) => continue,
            // It passes, and the daemon must not end for it.
            Err(Errno::ENOMEM | Errno::EAGAIN) => {
                thread::sleep(RETRY_PAUSE);
                continue;
            }
            Err(error) => return Err(error.into()),
            Ok(_) => {
                if let Some(thread) = daemon.thread_that_ended() {
                    return Ok(End::Thread(thread));
                }
                if fds[0].any() != Some(true) {
                    continue;
                }
                let Some(signal_info) = waiting.read_signal()? else {
                    continue;
                };
                return Ok(End::Signal(Signal::try_from(
                    signal_info.ssi_signo.cast_signed(),
                )?));
            }
        }
        if progress.have_all_moved() {
            notify(NotifyState::Watchdog);
            moved = Instant::now();
            warned = false;
        } else if !warned && every.is_some_and(|every| moved.elapsed() > every / 2) {
            warn_of(&progress, moved.elapsed());
            warned = true;
        }
    }
}

fn warn_of(progress: &Progress, since: Duration) {
    let still: Vec<String> = progress.still().collect();
    warn!(
        still = still.join(", "),
        "no progress for {since:?}: the service manager is not notified, and will stop this daemon \
         soon"
    );
}

/// Notifies the service manager. Does nothing if there is none.
pub fn notify(state: NotifyState<'_>) {
    if let Err(problem) = sd_notify::notify(&[state]) {
        error!(%problem, "cannot notify the service manager");
    }
}
