//! SIGINT, SIGTERM and SIGHUP as a value that every wait of a command looks at.
//!
//! The signals are blocked in all threads and taken by one thread with `sigwait`, so no code runs in a signal handler and a
//! command is always left through its ordinary return path: what it owns is given back by `Drop`.

use std::{
    io,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::{SigSet, Signal};

/// The command was asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stopped by {0}")]
pub struct Interrupted(pub Signal);

impl Interrupted {
    /// The exit status that a shell gives a process ended by this signal: 128 plus its number.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        128u8.saturating_add(u8::try_from(self.0 as i32).unwrap_or(0))
    }
}

/// A handle on "was this command asked to end?". Clones share one answer. Thread-safe.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    signal: Mutex<Option<Signal>>,
    arrived: Condvar,
}

impl Interrupt {
    /// Takes the three signals over for this process. Call it once, before any other thread exists: threads inherit the mask,
    /// and so do child processes, who must be given an empty one ([`crate::process::Launch`] does).
    ///
    /// # Errors
    /// When the mask or the thread is refused by the system.
    pub fn install() -> io::Result<Self> {
        let interrupt = Self::default();
        let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
        signals.thread_block()?;
        let shared = Arc::clone(&interrupt.shared);
        thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                while let Ok(signal) = signals.wait() {
                    shared.raise(signal);
                }
            })?;
        Ok(interrupt)
    }

    /// Sleeps for `duration`, or until a signal comes.
    ///
    /// # Errors
    /// [`Interrupted`] at once when a signal has come or comes.
    pub fn sleep(&self, duration: Duration) -> Result<(), Interrupted> {
        let deadline = Instant::now() + duration;
        let mut signal = self.shared.lock();
        loop {
            if let Some(signal) = *signal {
                return Err(Interrupted(signal));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            signal = self
                .shared
                .arrived
                .wait_timeout(signal, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Signal>> {
        // The value is one word and always whole, whatever a panicking holder did.
        self.signal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn raise(&self, signal: Signal) {
        self.lock().get_or_insert(signal);
        self.arrived.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_ends_when_a_signal_comes_and_the_first_signal_is_remembered() {
        let interrupt = Interrupt::default();
        assert_eq!(interrupt.sleep(Duration::from_millis(1)), Ok(()));
        let raiser = interrupt.clone();
        let thread = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            raiser.shared.raise(Signal::SIGTERM);
            raiser.shared.raise(Signal::SIGINT);
        });
        let began = Instant::now();
        assert_eq!(
            interrupt.sleep(Duration::from_secs(20)),
            Err(Interrupted(Signal::SIGTERM))
        );
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "the sleep must not run to its end"
        );
        thread.join().expect("the raiser does not panic");
        assert_eq!(
            interrupt.sleep(Duration::ZERO),
            Err(Interrupted(Signal::SIGTERM))
        );
        assert_eq!(Interrupted(Signal::SIGTERM).exit_code(), 143);
    }
}
