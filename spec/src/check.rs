//! Runs the checker and says what it explored.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use stateright::{Checker, HasDiscoveries, Model};

use crate::{
    scenario::Scenario,
    sight,
    step::{Search, Step},
};

/// What the checker explored of a scenario, and what it found.
#[derive(Debug)]
pub struct Explored {
    /// The scenario's name.
    pub name: &'static str,
    /// States, each counted once.
    pub states: usize,
    /// Steps of the longest run without a repetition.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// What was seen of [`sight::ALL`].
    pub seen: BTreeSet<&'static str>,
    /// The invariants that do not hold, each with the steps that break it.
    pub broken: BTreeMap<&'static str, Vec<Step>>,
}

impl fmt::Display for Explored {
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
    let start = Instant::now();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let (search, seen) = Search::new(scenario);
    let checker = search
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
    let seen = seen.load(Ordering::Relaxed);
    Explored {
        name,
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        took: start.elapsed(),
        seen: sight::ALL
            .iter()
            .enumerate()
            .filter(|(bit, _)| seen >> bit & 1 == 1)
            .map(|(_, sight)| sight.name)
            .collect(),
        broken,
    }
}
