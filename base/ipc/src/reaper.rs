//! Closing objects that other processes may have made slow to close.
//!
//! Dropping the last reference to a TCP socket with `SO_LINGER` blocks the thread until the peer
//! has the unsent data. The socket's creator chose how long. Such a socket can lie unread in a
//! connection, and is dropped with it. A thread that serves other users must not drop it.

use std::{
    collections::{HashMap, VecDeque},
    io,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::AtomicBool,
        mpsc::{self, SyncSender},
    },
    thread,
    time::Duration,
};

use nix::{
    sys::{
        signal::{SigEvent, SigevNotify, Signal},
        time::TimeSpec,
        timer::{Expiration, Timer, TimerSetTimeFlags},
    },
    time::ClockId,
    unistd::gettid,
};

/// How long closing one object may wait for other processes. A signal then interrupts the wait,
/// repeatedly.
const PATIENCE: Duration = Duration::from_micros(200);

/// How long the end of a [`Reaper`] waits until everything is closed.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// Interrupts the waits. Every program ignores this signal unless it requests it.
const SIGNAL: Signal = Signal::SIGURG;

/// One thread that closes the objects given to it, in turn among the users who own them. The thread
/// runs from the start, so closing needs no new thread. `Send` and `Sync`.
///
/// A wait for a peer is interrupted after 200 µs. An object whose close ignores signals (a file of
/// a server that does not answer) delays the objects closed after it, and nothing else. Use
/// [`Reaper::waiting_of`] to limit how much one user can give.
#[derive(Debug)]
pub struct Reaper {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// There is something to close, or the end has come.
    work_or_end: Condvar,
    /// Something was closed, or the thread has ended.
    closed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Users in turn. One that is here has something in `things`.
    turns: VecDeque<u32>,
    things: HashMap<u32, VecDeque<Thing>>,
    /// User of the object that is being closed.
    closing: Option<u32>,
    waiting: usize,
    ending: bool,
    ended: bool,
}

/// Something to drop.
struct Thing(Box<dyn Send>);

impl std::fmt::Debug for Thing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Thing").finish_non_exhaustive()
    }
}

impl Reaper {
    /// Starts the thread. Takes `SIGURG` for itself, in the whole process.
    ///
    /// # Errors
    /// If the system gives no thread, timer or signal handler.
    pub fn start() -> io::Result<Self> {
        // Install a handler: an ignored signal interrupts nothing.
        signal_hook::flag::register(SIGNAL as i32, Arc::new(AtomicBool::new(false)))?;
        let shared = Arc::new(Shared::default());
        let (ready, started) = mpsc::sync_channel(1);
        let of_thread = Arc::clone(&shared);
        thread::Builder::new()
            .name("covalent-close".to_owned())
            .spawn(move || of_thread.run(&ready))?;
        started
            .recv()
            .map_err(|_| io::Error::other("the closing thread ended at once"))??;
        Ok(Self { shared })
    }

    /// Closes `thing`, which came from user `uid`, and interrupts every wait for other processes
    /// meanwhile. Returns at once.
    pub fn close(&self, uid: u32, thing: impl Send + 'static) {
        let mut state = self.shared.state();
        state.waiting += 1;
        let things = state.things.entry(uid).or_default();
        things.push_back(Thing(Box::new(thing)));
        if things.len() == 1 {
            state.turns.push_back(uid);
        }
        drop(state);
        self.shared.work_or_end.notify_one();
    }

    /// Things of user `uid` that are not closed yet.
    #[must_use]
    pub fn waiting_of(&self, uid: u32) -> usize {
        let state = self.shared.state();
        let waiting = state.things.get(&uid).map_or(0, VecDeque::len);
        waiting + usize::from(state.closing == Some(uid))
    }

    /// Things of all users that are not closed yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.state().waiting
    }
}

impl Drop for Reaper {
    /// Waits at most one second until everything is closed. The exit of the process closes the rest
    /// without waiting.
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.ending = true;
        self.shared.work_or_end.notify_one();
        // A poisoned lock has been left by the thread, which has ended then.
        let _ = self
            .shared
            .closed
            .wait_timeout_while(state, LAST_PATIENCE, |state| !state.ended);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, ready: &SyncSender<io::Result<()>>) {
        let timer = Timer::new(
            ClockId::CLOCK_MONOTONIC,
            SigEvent::new(SigevNotify::SigevThreadId {
                signal: SIGNAL,
                thread_id: gettid().as_raw(),
                si_value: 0,
            }),
        );
        let mut timer = match timer {
            Ok(timer) => timer,
            Err(error) => {
                // No request is pending yet: report the error to the caller of `start`.
                let _ = ready.send(Err(error.into()));
                return;
            }
        };
        let _ = ready.send(Ok(()));
        while let Some(thing) = self.next() {
            close(thing, &mut timer);
            let mut state = self.state();
            state.closing = None;
            state.waiting -= 1;
        }
        self.state().ended = true;
        self.closed.notify_all();
    }

    /// The next thing to close; `None` when there is none and will be none.
    fn next(&self) -> Option<Thing> {
        let mut state = self
            .work_or_end
            .wait_while(self.state(), |state| {
                state.turns.is_empty() && !state.ending
            })
            .unwrap_or_else(PoisonError::into_inner);
        let uid = state.turns.pop_front()?;
        let things = state.things.get_mut(&uid)?;
        let thing = things.pop_front();
        if things.is_empty() {
            state.things.remove(&uid);
        } else {
            state.turns.push_back(uid);
        }
        state.closing = Some(uid);
        thing
    }
}

fn close(thing: Thing, timer: &mut Timer) {
    // A timer that the system refuses costs the bound on the time and nothing else.
    let every = TimeSpec::from_duration(PATIENCE);
    let _ = timer.set(
        Expiration::IntervalDelayed(every, every),
        TimerSetTimeFlags::empty(),
    );
    drop(thing.0);
    let never = TimeSpec::from_duration(Duration::ZERO);
    let _ = timer.set(Expiration::OneShot(never), TimerSetTimeFlags::empty());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{
        net::{TcpListener, TcpStream},
        sync::mpsc,
        time::Instant,
    };

    use nix::sys::socket::{setsockopt, sockopt};

    use super::*;

    /// Linger time of the test's sockets, in seconds.
    const LINGER_S: i32 = 60;

    /// Returns a socket with unsent data whose peer reads nothing, and that peer.
    fn slow_to_close() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let slow = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, _) = listener.accept().unwrap();
        let linger = nix::libc::linger {
            l_onoff: 1,
            l_linger: LINGER_S,
        };
        setsockopt(&slow, sockopt::Linger, &linger).unwrap();
        slow.set_nonblocking(true).unwrap();
        while std::io::Write::write(&mut &slow, &[0; 1 << 16]).is_ok() {}
        (slow, peer)
    }

    #[test]
    fn sockets_that_linger_are_closed_at_once() {
        let reaper = Reaper::start().unwrap();
        let begun = Instant::now();
        let peers: Vec<_> = (0..20)
            .map(|_| {
                let (slow, peer) = slow_to_close();
                reaper.close(7, slow);
                peer
            })
            .collect();
        while reaper.waiting() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(10), "they linger");
            thread::sleep(Duration::from_millis(1));
        }
        // The sockets are closed: each peer reads the data up to its end.
        for mut peer in peers {
            std::io::copy(&mut peer, &mut std::io::sink()).unwrap();
        }
    }

    #[test]
    fn users_take_turns_and_waiting_closes_are_counted() {
        let reaper = Reaper::start().unwrap();
        let (release, held) = mpsc::channel::<()>();
        let (order, dropped) = mpsc::channel();
        struct DropRecorder(mpsc::Sender<u32>, u32);
        impl Drop for DropRecorder {
            fn drop(&mut self) {
                self.0.send(self.1).unwrap();
            }
        }
        struct Gate(mpsc::Receiver<()>);
        impl Drop for Gate {
            fn drop(&mut self) {
                self.0.recv().unwrap();
            }
        }
        reaper.close(0, Gate(held));
        for uid in [1, 1, 1, 2] {
            reaper.close(uid, DropRecorder(order.clone(), uid));
        }
        assert_eq!((reaper.waiting_of(1), reaper.waiting_of(2)), (3, 1));
        assert_eq!(reaper.waiting(), 5);
        release.send(()).unwrap();
        let order: Vec<u32> = dropped.iter().take(4).collect();
        assert_eq!(order, [1, 2, 1, 1], "one that gave much waits for its turn");
        drop(reaper);
    }
}
