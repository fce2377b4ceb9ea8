//! Threads that run cases. A panic ends one run and is a finding.

use std::{
    cell::RefCell,
    panic::{self, PanicHookInfo},
    sync::{
        Arc, Once,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use super::case::{Broken, Case};

/// Panics after which no thread takes the place of one that panicked: each keeps its memory.
const PANICS_MAX: usize = 64;

/// A run that has ended.
#[derive(Debug)]
pub(super) struct Done {
    pub case: Case,
    pub took: Duration,
    pub broken: Option<Broken>,
}

enum Report {
    Ran(Done),
    /// The thread that ran it has stopped in its panic.
    Panicked(Done),
    /// The thread found no case left.
    Idle,
}

/// Where the next case is taken from.
type Next = Arc<dyn Fn() -> Option<Case> + Send + Sync>;

/// Threads that take cases until there is none.
pub(super) struct Crew {
    next: Next,
    sender: Sender<Report>,
    reports: Receiver<Report>,
    /// Threads that take cases.
    working: usize,
    panics: usize,
}

thread_local! {
    /// The run of this thread, for its panic.
    static RUN: RefCell<Option<(Case, Instant, Sender<Report>)>> = const { RefCell::new(None) };
}

impl Crew {
    /// Starts a thread for each core, at most `threads`. `next` gives each its cases.
    pub(super) fn start(threads: usize, next: Next) -> Self {
        report_panics();
        let (sender, reports) = mpsc::channel();
        let mut crew = Self {
            next,
            sender,
            reports,
            working: 0,
            panics: 0,
        };
        for _ in 0..threads.clamp(1, cores()) {
            crew.add();
        }
        crew
    }

    fn add(&mut self) {
        let (next, sender) = (Arc::clone(&self.next), self.sender.clone());
        thread::spawn(move || work(&*next, &sender));
        self.working += 1;
    }

    /// Waits for a run that ends, not longer than `wait`. `None` if none did, or no thread works.
    pub(super) fn wait(&mut self, wait: Duration) -> Option<Done> {
        let until = Instant::now() + wait;
        while self.working > 0 {
            let left = until.saturating_duration_since(Instant::now());
            match self.reports.recv_timeout(left) {
                Ok(Report::Ran(done)) => return Some(done),
                Ok(Report::Panicked(done)) => {
                    self.working -= 1;
                    self.panics += 1;
                    if self.panics < PANICS_MAX {
                        self.add();
                    }
                    return Some(done);
                }
                Ok(Report::Idle) => self.working -= 1,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
        None
    }

    /// Whether no thread works any more.
    pub(super) const fn is_idle(&self) -> bool {
        self.working == 0
    }
}

/// Threads that run at once.
#[must_use]
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn work(next: &dyn Fn() -> Option<Case>, sender: &Sender<Report>) {
    while let Some(case) = next() {
        let start = Instant::now();
        RUN.set(Some((case.clone(), start, sender.clone())));
        let broken = case.run();
        RUN.set(None);
        let done = Done {
            case,
            took: start.elapsed(),
            broken,
        };
        if sender.send(Report::Ran(done)).is_err() {
            return;
        }
    }
    // Without a receiver, the report is not needed.
    let _ = sender.send(Report::Idle);
}

/// Reports panics of runs. A release build ends the process when the panic hook returns, so the
/// hook of a run never returns: its thread stays in it.
fn report_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| match RUN.take() {
            None => before(panic),
            Some((case, start, sender)) => {
                let done = Done {
                    case,
                    took: start.elapsed(),
                    broken: Some(broken(panic)),
                };
                let _ = sender.send(Report::Panicked(done));
                loop {
                    thread::park();
                }
            }
        }));
    });
}

fn broken(panic: &PanicHookInfo<'_>) -> Broken {
    let invariant = match panic.location() {
        Some(location) => format!("panic at {}:{}", location.file(), location.line()),
        None => "panic".to_owned(),
    };
    let what = panic.payload_as_str().unwrap_or("without a message");
    Broken {
        invariant,
        what: what.to_owned(),
    }
}
