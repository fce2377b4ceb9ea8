//! A hunt: it begins, is waited for, and sums up.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{
    case::{Broken, Case},
    crew::{Crew, Done, cores},
    queue::{Kind, Queue, Share},
};

/// An invariant that was broken, and the first case that broke it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The case.
    pub case: Case,
    /// The broken invariant.
    pub broken: Broken,
    /// Runs of the hunt that broke the same.
    pub times: u64,
}

/// A run that was in flight when the hunt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// The command that makes it again.
    pub command: String,
    /// For how long it had run.
    pub for_how_long: Duration,
}

/// Fresh seeds of simulators on all cores.
pub struct Hunt {
    crew: Crew,
    shared: Arc<Mutex<Shared>>,
    findings: Vec<Finding>,
    stops_at_first: bool,
    start: Instant,
}

#[derive(Debug)]
struct Shared {
    queue: Queue,
    /// Commands of runs in flight, and when they began.
    running: HashMap<String, Instant>,
}

impl Hunt {
    /// Starts at the seed `base` of each simulator and makes at most `runs_max` runs of each. Stops
    /// at the first finding, if `stops_at_first`.
    #[must_use]
    pub fn start(kinds: Vec<Kind>, base: u64, runs_max: u64, stops_at_first: bool) -> Self {
        let shared = Arc::new(Mutex::new(Shared {
            queue: Queue::new(kinds, base, runs_max),
            running: HashMap::new(),
        }));
        let cases = Arc::clone(&shared);
        let next = move || {
            let mut shared = lock(&cases);
            let case = shared.queue.next()?;
            shared.running.insert(case.command(), Instant::now());
            Some(case)
        };
        Self {
            crew: Crew::start(cores(), Arc::new(next)),
            shared,
            findings: Vec::new(),
            stops_at_first,
            start: Instant::now(),
        }
    }

    /// Collects the runs that end within `wait`. Returns whether runs are in flight or pending.
    pub fn wait(&mut self, wait: Duration) -> bool {
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Some(done) = self.crew.wait(left) else {
                return !self.crew.is_idle();
            };
            self.take(done);
            if left.is_zero() {
                return true;
            }
        }
    }

    fn take(&mut self, done: Done) {
        let mut shared = lock(&self.shared);
        shared.queue.done(done.case.simulation(), done.took);
        shared.running.remove(&done.case.command());
        let Some(broken) = done.broken else {
            return;
        };
        if self.stops_at_first {
            shared.queue.close();
        }
        let same = self.findings.iter_mut().find(|finding| {
            finding.case.simulation() == done.case.simulation()
                && finding.broken.invariant == broken.invariant
        });
        match same {
            Some(finding) => finding.times += 1,
            None => self.findings.push(Finding {
                case: done.case,
                broken,
                times: 1,
            }),
        }
    }

    /// Begins no more runs.
    pub fn close(&self) {
        lock(&self.shared).queue.close();
    }

    /// Returns the share of each simulator so far.
    #[must_use]
    pub fn shares(&self) -> Vec<Share> {
        lock(&self.shared).queue.shares().to_vec()
    }

    /// Returns the findings so far, each invariant of a simulator once.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// For how long it has run.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Returns the runs in flight, the longest first.
    #[must_use]
    pub fn unfinished(&self) -> Vec<Unfinished> {
        let shared = lock(&self.shared);
        let running = shared.running.iter().map(|(command, since)| Unfinished {
            command: command.clone(),
            for_how_long: since.elapsed(),
        });
        let mut unfinished: Vec<_> = running.collect();
        unfinished.sort_by_key(|run| std::cmp::Reverse(run.for_how_long));
        unfinished
    }
}

/// Locks `shared`. A run that panicked held no lock.
fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
