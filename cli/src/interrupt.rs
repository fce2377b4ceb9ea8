//! Reports SIGINT, SIGTERM, SIGHUP and the loss of the output's reader as a value that every wait
//! of a command checks.
//!
//! All threads block the signals, and one thread takes them with `sigwait`. No code runs in a
//! signal handler, and a command returns through its ordinary path: `Drop` releases its resources.
//! A command that does not return in time is killed.

use std::{
    io::{self, IsTerminal},
    os::fd::AsFd,
    process,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::{SigSet, Signal},
};
use procfs::process::Process;

/// Longest time for a command to release the resources that it created.
pub const GIVES_BACK: Duration = Duration::from_secs(30);

/// How long a command that only has to stop may take for it.
pub const STOPS: Duration = Duration::from_secs(1);

/// Signals that come within this time are one.
const ONE_SIGNAL: Duration = Duration::from_millis(100);

/// A sleep that lasts until a signal comes.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// A request to stop the command.
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

/// A handle for checking whether this command was requested to stop. Clones share one state.
/// Thread-safe.
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
    /// Takes over the three signals for this process. An ignored SIGHUP (nohup) stays ignored. The
    /// process is killed `grace` after the first signal, or on a second one. Call this once, before
    /// any other thread exists: threads inherit the mask. Child processes inherit it too and must
    /// get an empty one ([`Launch`](crate::process::Launch) does this).
    ///
    /// # Errors
    /// Fails if the system refuses the mask or a thread.
    pub fn install(grace: Duration) -> io::Result<Self> {
        let interrupt = Self::default();
        let mut signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
        if !is_ignored(Signal::SIGHUP) {
            signals.add(Signal::SIGHUP);
        }
        signals.thread_block()?;
        let thread = |name: &str| thread::Builder::new().name(name.into());
        let shared = Arc::clone(&interrupt.shared);
        thread("signals").spawn(move || {
            let mut first: Option<Instant> = None;
            while let Ok(signal) = signals.wait() {
                // timeout(1) sends its signal to the process and at the same time to its group:
                // these count as one.
                let is_second_signal = first.is_some_and(|first| first.elapsed() > ONE_SIGNAL);
                if !shared.raise(signal) && is_second_signal {
                    end(signal);
                }
                first.get_or_insert_with(Instant::now);
            }
        })?;
        let shared = Arc::clone(&interrupt.shared);
        thread("output").spawn(move || {
            if let Some(signal) = wait_until_unread(io::stdout()) {
                shared.raise(signal);
            }
        })?;
        let late = interrupt.clone();
        thread("grace").spawn(move || {
            loop {
                if let Err(Interrupted(signal)) = late.sleep(FOREVER) {
                    thread::sleep(grace);
                    end(signal);
                }
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
        // The value is one word and is always consistent, even after a panic of the holder.
        self.signal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether it is the first.
    fn raise(&self, signal: Signal) -> bool {
        let mut raised = self.lock();
        let is_first = raised.is_none();
        raised.get_or_insert(signal);
        self.arrived.notify_all();
        is_first
    }
}

/// Exits this process now. Its child processes exit with it ([`Launch`](crate::process::Launch)).
fn end(signal: Signal) -> ! {
    process::exit(Interrupted(signal).exit_code().into())
}

/// Waits until `output` has no reader: its terminal was closed, or the pipe's reader is gone. A
/// command without output to write would not notice. Returns `None` if waiting is not possible.
fn wait_until_unread(output: impl AsFd + IsTerminal) -> Option<Signal> {
    let signal = if output.is_terminal() {
        Signal::SIGHUP
    } else {
        Signal::SIGPIPE
    };
    loop {
        // `POLLERR` and `POLLHUP` are reported even if not requested.
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
fn is_ignored(signal: Signal) -> bool {
    let status = Process::myself().and_then(|process| process.status());
    status.is_ok_and(|status| status.sigign & (1 << (signal as u64 - 1)) != 0)
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;

    #[test]
    fn a_signal_ends_a_sleep_and_the_first_one_is_remembered() {
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
        assert!(
            !interrupt.shared.raise(Signal::SIGHUP),
            "it is not the first"
        );
        assert_eq!(
            interrupt.sleep(Duration::ZERO),
            Err(Interrupted(Signal::SIGTERM))
        );
        assert_eq!(Interrupted(Signal::SIGTERM).exit_code(), 143);
    }

    #[test]
    fn loss_of_the_reader_is_noticed_without_writing() {
        let (reader, writer) = io::pipe().expect("a pipe");
        let waiter = thread::spawn(move || wait_until_unread(OwnedFd::from(writer)));
        thread::sleep(Duration::from_millis(20));
        assert!(!waiter.is_finished(), "a reader exists");
        drop(reader);
        assert_eq!(waiter.join().expect("it ends"), Some(Signal::SIGPIPE));
    }
}
