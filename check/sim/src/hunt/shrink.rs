//! Fewer nodes, then fewer classes of faults, then fewer events: the smallest case that still
//! breaks the same invariant, as far as a bounded search finds it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use super::{
    case::{Broken, Case, Size},
    crew::{Crew, cores},
    search::Finding,
};

/// Sizes that are tried, from the smallest.
const NODES: [usize; 8] = [2, 3, 4, 5, 6, 8, 12, 25];
/// Parts of the time in which one candidate is looked for.
const PARTS: u32 = 20;
/// How long a search waits at once.
const WAIT: Duration = Duration::from_millis(50);

/// How long a search may take.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// In all.
    pub time: Duration,
    /// Seeds for each candidate.
    pub seeds: u64,
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Smallest {
    /// The smallest case that breaks the same invariant.
    pub case: Case,
    /// The broken invariant.
    pub broken: Broken,
    /// Its size.
    pub size: Size,
    /// Runs that it took.
    pub runs: u64,
}

/// Searches for the smallest case. `go_on` is called repeatedly and may end the search.
///
/// Other options change the world of a seed, so each candidate also runs under fresh seeds. With
/// fewer events a seed makes the same world, up to the last event.
pub fn shrink(finding: &Finding, bounds: Bounds, go_on: &mut dyn FnMut() -> bool) -> Smallest {
    let size = finding.case.size().unwrap_or(Size {
        nodes: 0,
        faults: 0,
        events: 0,
    });
    let mut search = Search {
        smallest: Smallest {
            case: finding.case.clone(),
            broken: finding.broken.clone(),
            size,
            runs: 0,
        },
        bounds,
        until: Instant::now(),
        next_seed: finding.case.seed(),
        ended: false,
        go_on,
    };
    let start = Instant::now();
    search.until = start + bounds.time * 2 / 5;
    search.nodes();
    search.until = start + bounds.time * 4 / 5;
    search.faults();
    search.until = start + bounds.time;
    search.events();
    search.smallest
}

struct Search<'a> {
    smallest: Smallest,
    bounds: Bounds,
    /// When this pass ends.
    until: Instant,
    /// The last seed that was tried.
    next_seed: u64,
    /// No thread waits for it any more.
    ended: bool,
    go_on: &'a mut dyn FnMut() -> bool,
}

impl Search<'_> {
    fn nodes(&mut self) {
        for nodes in NODES {
            if nodes >= self.smallest.size.nodes {
                return;
            }
            let candidate = self.smallest.case.with_nodes(nodes);
            if candidate.is_some_and(|candidate| self.try_seeds(&candidate)) {
                return;
            }
        }
    }

    /// Leaves out one class after the other, and keeps each without which it was not found.
    fn faults(&mut self) {
        let mut kept = 0;
        loop {
            let candidates = self.smallest.case.without_a_class();
            let Some(candidate) = candidates.get(kept) else {
                return;
            };
            if !self.try_seeds(candidate) {
                kept += 1;
            }
        }
    }

    /// Halves the events while that breaks it too, and then takes a smaller part of them.
    fn events(&mut self) {
        let mut part = 2;
        while part <= 16 && !self.ended {
            let events = self.smallest.size.events;
            let fewer = events - events.div_ceil(part);
            let candidate = self.smallest.case.with_events(fewer);
            if fewer == events || !self.try_seeds(&candidate) {
                part *= 2;
            }
        }
    }

    /// Whether the candidate breaks the invariant under its seed or a fresh one. Then it is the
    /// smallest.
    fn try_seeds(&mut self, candidate: &Case) -> bool {
        let until = self.until.min(Instant::now() + self.bounds.time / PARTS);
        if self.ended || Instant::now() >= self.until {
            return false;
        }
        // Once a thread has found it, none begins another run.
        let left = Arc::new(AtomicU64::new(self.bounds.seeds));
        let next = {
            let (left, candidate) = (Arc::clone(&left), candidate.clone());
            let first = self.next_seed;
            let own = candidate.seed();
            let seeds = self.bounds.seeds;
            move || {
                let take = |left: u64| left.checked_sub(1);
                let left = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
                let nth = seeds - left.ok()?;
                Some(if nth == 0 {
                    candidate.with_seed(own)
                } else {
                    candidate.with_seed(first.wrapping_add(nth))
                })
            }
        };
        let mut crew = Crew::start(cores(), Arc::new(next));
        let mut found = false;
        while !found && !crew.is_idle() && Instant::now() < until {
            if !(self.go_on)() {
                self.ended = true;
                break;
            }
            let Some(done) = crew.wait(WAIT) else {
                continue;
            };
            self.smallest.runs += 1;
            if let Some(broken) = done.broken
                && broken.invariant == self.smallest.broken.invariant
                && let Some(size) = done.case.size()
                && size < self.smallest.size
            {
                self.smallest.case = done.case;
                self.smallest.broken = broken;
                self.smallest.size = size;
                found = true;
            }
        }
        let tried = self.bounds.seeds - left.swap(0, Ordering::Relaxed);
        self.next_seed = self.next_seed.wrapping_add(tried);
        found
    }
}
