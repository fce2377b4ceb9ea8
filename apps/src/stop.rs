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

/// Longest time that a loop waits before it checks for a stop request.
pub const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A request to stop the process. Clones share it. Any thread may set it.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Sets the request on SIGINT and SIGTERM. A second SIGINT or SIGTERM exits the process at
    /// once, in case the first finds it stuck.
    ///
    /// # Errors
    /// The system refuses to register the signal handlers.
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

    /// Requests the stop.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether a stop is requested.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
