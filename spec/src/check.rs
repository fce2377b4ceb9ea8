//! Runs the checker and says what it explored.

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

/// What a search of one kind of model is to be told by.
pub(crate) struct Named<M> {
    /// The scenario's name.
    pub name: &'static str,
    /// What is searched.
    pub search: M,
    /// Where it notes what it sees, a bit for each of `sights`.
    pub seen: Arc<AtomicU32>,
    /// What may be seen.
    pub sights: Vec<&'static str>,
}

/// What the checker explored of a scenario, and what it found.
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
    /// What was seen of all that a search is to come by.
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

/// Takes every run of a scenario. If an invariant is broken the search stops, and the run that shows it is (nearly) as short as any.
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
