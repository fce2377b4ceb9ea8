//! The thread that connects to the peer, so that the lane never waits for a socket.
//!
//! The thread first tries to connect to the path. If no process answers, it listens there itself.
//! The connection stays open as long as both processes run, and carries nothing after the greeting.
//! Its end shows that the peer is gone, even if it was killed. Each cable has a generation, so that
//! a late disconnect is not taken for that of a new cable.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use covalent_ipc::{
    event::EventFd,
    seqpacket::{Connection, Listener},
};
use covalent_pipe::cable::CableEnd;
use crossbeam_queue::ArrayQueue;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

use super::greeting;

/// Pause between two attempts that failed for a reason that may pass.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Pause after another process was about to listen at the same moment.
const RACE_PAUSE: Duration = Duration::from_millis(10);

/// How long the peer may take from connecting to its greeting.
const GREETING_PATIENCE: Duration = Duration::from_secs(2);

/// A cable to a peer that was met.
#[derive(Debug)]
pub(super) struct Met {
    /// This process's end.
    pub(super) end: CableEnd,
    /// Counts the cables of this port, from 1.
    pub(super) generation: u64,
}

/// State that the lane and the thread share.
#[derive(Debug)]
struct Shared {
    /// Cables that the lane has not taken yet; a newer one replaces an older one.
    arrivals: ArrayQueue<Met>,
    /// Wakes the lane.
    arrived: EventFd,
    /// The latest generation whose peer is gone.
    lost: AtomicU64,
    /// The latest generation that the lane has released.
    unwanted: AtomicU64,
    stop: AtomicBool,
    /// Wakes the thread.
    command: EventFd,
}

/// The lane's side. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Meeting {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Meeting {
    /// Starts the thread.
    pub(super) fn begin(
        port: &str,
        path: &Path,
        ring_slots: u32,
        frame_bytes_max: u32,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            arrivals: ArrayQueue::new(1),
            arrived: EventFd::new()?,
            lost: AtomicU64::new(0),
            unwanted: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            command: EventFd::new()?,
        });
        let usher = Usher {
            shared: Arc::clone(&shared),
            port: port.to_owned(),
            path: path.to_owned(),
            ring_slots,
            frame_bytes_max,
            generation: 0,
            last_problem: String::new(),
        };
        let thread = thread::Builder::new()
            .name("cable-meeting".to_owned())
            .spawn(move || usher.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// The next cable, if there is a new one.
    pub(super) fn take(&self) -> Option<Met> {
        self.shared.arrivals.pop()
    }

    /// Whether there is a new cable.
    pub(super) fn has_arrivals(&self) -> bool {
        !self.shared.arrivals.is_empty()
    }

    /// Whether the peer of this generation is gone.
    pub(super) fn has_lost(&self, generation: u64) -> bool {
        self.shared.lost.load(Ordering::Acquire) >= generation
    }

    /// The lane is done with the cable of this generation: meet the peer again.
    pub(super) fn meet_again(&self, generation: u64) {
        self.shared
            .unwanted
            .fetch_max(generation, Ordering::Release);
        // It cannot fail while this process holds both ends.
        let _ = self.shared.command.notify();
    }

    /// Readable when something is to be seen here.
    pub(super) fn arrivals(&self) -> BorrowedFd<'_> {
        self.shared.arrived.as_fd()
    }

    /// Makes [`Meeting::arrivals`] unreadable again.
    pub(super) fn drain_arrivals(&self) {
        let _ = self.shared.arrived.drain();
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        let _ = self.shared.command.notify();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened; there is nothing to add.
            let _ = thread.join();
        }
    }
}

/// The thread's side.
struct Usher {
    shared: Arc<Shared>,
    port: String,
    path: PathBuf,
    ring_slots: u32,
    frame_bytes_max: u32,
    generation: u64,
    last_problem: String,
}

/// The reason why a wait ended.
#[derive(Debug, PartialEq, Eq)]
enum Woken {
    Readable,
    Commanded,
    TimedOut,
}

impl Usher {
    fn run(mut self) {
        crate::privilege::forgo_opening();
        while !self.stopped() {
            if let Err(problem) = self.meet() {
                self.log_problem(&problem.to_string());
                self.wait(None, Some(RETRY_PAUSE));
            }
        }
    }

    /// Connects or listens, and serves the peer until it is gone.
    fn meet(&mut self) -> io::Result<()> {
        match Connection::connect(&self.path) {
            Ok(connection) => self.join(&connection),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                ) =>
            {
                match Listener::bind(&self.path) {
                    Ok(listener) => self.receive_guests(&listener),
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                        self.wait(None, Some(RACE_PAUSE));
                        Ok(())
                    }
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// The peer listens: take the end that it gives.
    fn join(&mut self, connection: &Connection) -> io::Result<()> {
        greeting::check_peer(connection)?;
        match self.wait(Some(connection.as_fd()), Some(GREETING_PATIENCE)) {
            Woken::Readable => {}
            Woken::Commanded => return Ok(()),
            Woken::TimedOut => return Err(io::ErrorKind::TimedOut.into()),
        }
        let end = greeting::receive(connection, self.frame_bytes_max)?;
        let generation = self.hand_over(end);
        while !self.is_over(generation) {
            // The peer sends nothing more: readable means that it has closed.
            if self.wait(Some(connection.as_fd()), None) == Woken::Readable {
                break;
            }
        }
        self.lose(generation);
        Ok(())
    }

    /// This process listens: give each peer that comes an end, one at a time.
    fn receive_guests(&mut self, listener: &Listener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let mut guest: Option<(Connection, u64)> = None;
        while !self.stopped() {
            if let Some((_, generation)) = guest
                && self.is_over(generation)
            {
                self.lose(generation);
                guest = None;
            }
            let (came, left) =
                self.wait_for_guests(listener, guest.as_ref().map(|(connection, _)| connection))?;
            if let Some((_, generation)) = guest
                && left
            {
                self.lose(generation);
                guest = None;
            }
            if !came {
                continue;
            }
            let connection = match listener.accept() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                accepted => accepted?,
            };
            if guest.is_some() {
                // Closing the connection informs the third process, which retries later.
                self.log_problem("a third process connected to a cable that has two ends");
                continue;
            }
            let made = greeting::check_peer(&connection)
                .and_then(|()| greeting::give(&connection, self.ring_slots, self.frame_bytes_max));
            match made {
                Ok(end) => guest = Some((connection, self.hand_over(end))),
                Err(problem) => self.log_problem(&problem.to_string()),
            }
        }
        if let Some((_, generation)) = guest {
            self.lose(generation);
        }
        Ok(())
    }

    fn hand_over(&mut self, end: CableEnd) -> u64 {
        self.generation += 1;
        self.last_problem.clear();
        let generation = self.generation;
        self.shared.arrivals.force_push(Met { end, generation });
        let _ = self.shared.arrived.notify();
        generation
    }

    fn lose(&self, generation: u64) {
        self.shared.lost.fetch_max(generation, Ordering::Release);
        let _ = self.shared.arrived.notify();
    }

    fn is_over(&self, generation: u64) -> bool {
        self.stopped() || self.shared.unwanted.load(Ordering::Acquire) >= generation
    }

    fn stopped(&self) -> bool {
        self.shared.stop.load(Ordering::Acquire)
    }

    /// Waits for a descriptor, a command, or for time to pass.
    fn wait(&self, on: Option<BorrowedFd<'_>>, patience: Option<Duration>) -> Woken {
        let mut fds = vec![PollFd::new(self.shared.command.as_fd(), PollFlags::POLLIN)];
        fds.extend(on.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        let woken = wait_for(&mut fds, patience);
        let commanded = fds[0].any().unwrap_or(false);
        if commanded {
            let _ = self.shared.command.drain();
        }
        match (commanded, woken) {
            (true, _) => Woken::Commanded,
            (false, true) => Woken::Readable,
            (false, false) => Woken::TimedOut,
        }
    }

    /// Waits, then returns whether a peer connected, and whether the present peer disconnected.
    fn wait_for_guests(
        &self,
        listener: &Listener,
        guest: Option<&Connection>,
    ) -> io::Result<(bool, bool)> {
        let mut fds = vec![
            PollFd::new(self.shared.command.as_fd(), PollFlags::POLLIN),
            PollFd::new(listener.as_fd(), PollFlags::POLLIN),
        ];
        fds.extend(guest.map(|connection| PollFd::new(connection.as_fd(), PollFlags::POLLIN)));
        wait_for(&mut fds, None);
        let ready = |index: usize| fds.get(index).and_then(PollFd::any).unwrap_or(false);
        let (commanded, came, left) = (ready(0), ready(1), ready(2));
        if commanded {
            self.shared.command.drain()?;
        }
        Ok((came, left))
    }

    /// Logs a problem once, not at each retry.
    fn log_problem(&mut self, problem: &str) {
        if problem != self.last_problem {
            tracing::warn!(port = %self.port, path = %self.path.display(), problem, "no cable");
            self.last_problem.clear();
            self.last_problem.push_str(problem);
        }
    }
}

/// Whether a descriptor became ready.
fn wait_for(fds: &mut [PollFd<'_>], patience: Option<Duration>) -> bool {
    let timeout = match patience {
        None => PollTimeout::NONE,
        Some(patience) => PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX),
    };
    match poll(fds, timeout) {
        Ok(ready) => ready > 0,
        Err(Errno::EINTR) => false,
        Err(errno) => {
            // Only a lack of kernel memory is left; spinning on it would make it worse.
            tracing::warn!(%errno, "poll failed");
            thread::sleep(RETRY_PAUSE);
            false
        }
    }
}
