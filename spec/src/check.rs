//! Runs the checker and reports the states that it explored.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use stateright::{Checker, HasDiscoveries, Model};

use crate::{
    scenario::Scenario,
    sight,
    step::{Search, Step},
};

/// A search of one kind of model, with the names for its report.
pub(crate) struct Named<M> {
    /// The scenario's name.
    pub name: &'static str,
    /// The model to search.
    pub search: M,
    /// The sights that the search records, a bit for each of `sights`.
    pub seen: Arc<AtomicU32>,
    /// The names of the sights.
    pub sights: Vec<&'static str>,
}

/// The states that the checker explored in a scenario, and its findings.
#[derive(Debug)]
pub struct Explored<S = Step> {
    /// The scenario's name.
    pub name: &'static str,
    /// States, each counted once.
    pub states: usize,
    /// Steps of the longest run without a repetition.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// The sights that the search reached.
    pub seen: BTreeSet<&'static str>,
    /// The invariants that do not hold, each with the steps that break it.
    pub broken: BTreeMap<&'static str, Vec<S>>,
}

impl<S> fmt::Display for Explored<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<26} {:>9} states  depth {:>4} {:>7.2} s   ",
            self.name,
            self.states,
            self.depth,
            self.took.as_secs_f64()
        )
    }
}

/// Explores every run of a scenario. The search stops at a broken invariant. The run that shows it
/// is (nearly) as short as any.
#[must_use]
pub fn explore(scenario: Scenario) -> Explored {
    let name = scenario.name;
    let (search, seen) = Search::new(scenario);
    run(Named {
        name,
        search,
        seen,
        sights: sight::ALL.iter().map(|sight| sight.name).collect(),
    })
}

/// As [`explore`], for any model.
pub(crate) fn run<M>(named: Named<M>) -> Explored<M::Action>
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + PartialEq + Send + Sync,
{
    let start = Instant::now();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let checker = named
        .search
        .checker()
        .threads(threads)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let broken = checker
        .discoveries()
        .into_iter()
        .map(|(name, path)| (name, path.into_actions()))
        .collect();
    let seen = named.seen.load(Ordering::Relaxed);
    let bits = (0..).zip(named.sights);
    Explored {
        name: named.name,
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        took: start.elapsed(),
        seen: bits
            .filter(|(bit, _)| seen >> bit & 1 == 1)
            .map(|(_, sight): (u32, _)| sight)
            .collect(),
        broken,
    }
}
