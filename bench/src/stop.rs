//! Ending on request: SIGINT, SIGTERM and SIGHUP end a measurement early but in order, so that its
//! daemons end and its directories go. So does the end of its terminal, or of who reads its output.

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

/// Longest time that a wait goes on after somebody has asked.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The signal that asked; 0 until one has.
static ASKED_BY: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

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
    let asked_by = ASKED_BY.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // What nohup(1) started goes on without its terminal.
        if signal == SIGHUP && is_ignored(signal) {
            continue;
        }
        let number = usize::try_from(signal).context("a signal's number")?;
        flag::register_usize(signal, Arc::clone(asked_by), number)
            .context("listening for signals")?;
    }
    let asked_by = Arc::clone(asked_by);
    let wait = move || {
        let signal = until_nobody_reads(io::stdout()).map(usize::try_from);
        if let Some(Ok(signal)) = signal {
            // A signal that came before is why.
            let _ = asked_by.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
        }
    };
    let thread = thread::Builder::new().name("output".into());
    thread.spawn(wait).context("starting a thread")?;
    Ok(())
}

/// Waits until nobody can read what is written to `output`, and gives the signal that tells of it: a
/// measurement writes when it is done, and would not notice before. `None` if that cannot be waited for.
fn until_nobody_reads(output: impl AsFd + IsTerminal) -> Option<i32> {
    let signal = if output.is_terminal() {
        SIGHUP
    } else {
        SIGPIPE
    };
    loop {
        // Errors and hang-ups are reported without being asked for.
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

/// Whether somebody asked. Cheap enough for each turn of a measuring loop.
pub fn is_asked() -> bool {
    signal() != 0
}

/// [`Stopped`] once somebody has asked.
pub fn check() -> Result<()> {
    asked().map_or(Ok(()), |stopped| Err(stopped.into()))
}

/// By what somebody asked.
pub fn asked() -> Option<Stopped> {
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
        thread::sleep(left.min(LOOK_AGAIN));
    }
}

fn signal() -> usize {
    ASKED_BY
        .get()
        .map_or(0, |asked_by| asked_by.load(Ordering::Relaxed))
}
