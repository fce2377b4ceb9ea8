//! Stop requests: SIGINT, SIGTERM and SIGHUP end a measurement early but gracefully, so that its
//! daemons stop and its directories are removed. The closing of its terminal, or of the reader of
//! its output, does the same.

use std::{
    io::{self, IsTerminal},
    os::fd::AsFd,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use procfs::process::Process;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM},
    flag,
};

/// Longest time that a wait continues after a stop request.
const RECHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The signal of the stop request; 0 until there is one.
static STOPPED_BY: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// The measurement was ended by this signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped(pub i32);

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stopped by signal {}", self.0)
    }
}

impl std::error::Error for Stopped {}

impl Stopped {
    /// The exit status that a shell gives a process ended by this signal.
    pub fn exit_code(self) -> u8 {
        u8::try_from(self.0).unwrap_or(0).saturating_add(128)
    }
}

/// Listens from now on.
pub fn listen() -> Result<()> {
    let stopped_by = STOPPED_BY.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // A process started by nohup(1) continues without its terminal.
        if signal == SIGHUP && is_ignored(signal) {
            continue;
        }
        let number = usize::try_from(signal).context("a signal's number")?;
        flag::register_usize(signal, Arc::clone(stopped_by), number)
            .context("listening for signals")?;
    }
    let stopped_by = Arc::clone(stopped_by);
    let wait = move || {
        let signal = wait_until_unread(io::stdout()).map(usize::try_from);
        if let Some(Ok(signal)) = signal {
            // An earlier signal stays the reason.
            let _ = stopped_by.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
        }
    };
    let thread = thread::Builder::new().name("output".into());
    thread.spawn(wait).context("starting a thread")?;
    Ok(())
}

/// Waits until `output` has no reader, and returns the corresponding signal. A measurement writes
/// only at its end, and would not detect this earlier. Returns `None` if waiting is not possible.
fn wait_until_unread(output: impl AsFd + IsTerminal) -> Option<i32> {
    let signal = if output.is_terminal() {
        SIGHUP
    } else {
        SIGPIPE
    };
    loop {
        // poll(2) always reports POLLERR and POLLHUP, even with no events requested.
        let mut polled = [PollFd::new(output.as_fd(), PollFlags::empty())];
        match poll(&mut polled, PollTimeout::NONE) {
            Err(Errno::EINTR) => {}
            Err(_) => return None,
            Ok(_) => {
                let events = polled[0].revents().unwrap_or(PollFlags::empty());
                let ended = PollFlags::POLLERR | PollFlags::POLLHUP;
                return events.intersects(ended).then_some(signal);
            }
        }
    }
}

/// Whether this process was started with the signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = Process::myself().and_then(|process| process.status());
    status.is_ok_and(|status| status.sigign & (1 << (signal - 1)) != 0)
}

/// Returns whether a stop was requested. Cheap enough for each iteration of a measuring loop.
pub fn is_requested() -> bool {
    signal() != 0
}

/// Returns the error [`Stopped`] once a stop was requested.
pub fn check() -> Result<()> {
    requested().map_or(Ok(()), |stopped| Err(stopped.into()))
}

/// Returns the signal of the stop request.
pub fn requested() -> Option<Stopped> {
    match signal() {
        0 => None,
        signal => Some(Stopped(i32::try_from(signal).unwrap_or(0))),
    }
}

/// Sleeps, or ends at once with [`Stopped`].
pub fn sleep(duration: Duration) -> Result<()> {
    let end = Instant::now() + duration;
    loop {
        check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(RECHECK_INTERVAL));
    }
}

fn signal() -> usize {
    STOPPED_BY
        .get()
        .map_or(0, |stopped_by| stopped_by.load(Ordering::Relaxed))
}
