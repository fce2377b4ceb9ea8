//! Ending on request: SIGINT and SIGTERM finish the work in hand and print the report.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use signal_hook::consts::{SIGINT, SIGTERM};

/// Longest time that a loop waits before it asks again whether to stop.
pub const ASK_EVERY: Duration = Duration::from_millis(50);

/// Whether somebody asked the process to end. Clones see the same request; any thread may ask.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Listens for SIGINT and SIGTERM. A second SIGINT or SIGTERM ends the process at once, should the first find it
    /// stuck.
    ///
    /// # Errors
    /// What the system says when it does not let us.
    pub fn on_signals() -> io::Result<Self> {
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM] {
            // In this order: the second signal finds the flag set by the first.
            signal_hook::flag::register_conditional_shutdown(
                signal,
                128 + signal,
                Arc::clone(&stop.0),
            )?;
            signal_hook::flag::register(signal, Arc::clone(&stop.0))?;
        }
        Ok(stop)
    }

    /// Asks.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
