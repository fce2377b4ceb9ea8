//! Ending on request: SIGINT and SIGTERM end a measurement early but in order, so that its daemons end and its directories go.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
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
    for signal in [SIGINT, SIGTERM] {
        let number = usize::try_from(signal).context("a signal's number")?;
        flag::register_usize(signal, Arc::clone(asked_by), number)
            .context("listening for signals")?;
    }
    Ok(())
}

/// Whether somebody asked. Cheap enough for each turn of a measuring loop.
pub fn is_asked() -> bool {
    signal() != 0
}

/// [`Stopped`] once somebody has asked.
pub fn check() -> Result<()> {
    match signal() {
        0 => Ok(()),
        signal => Err(Stopped(i32::try_from(signal).unwrap_or(0)).into()),
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
