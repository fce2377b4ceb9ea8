//! Takes every run of a scenario, and reports the explored states.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use stateright::{Checker, HasDiscoveries, Model, Property};

/// A scenario: the states and steps that a search goes through.
pub trait Space: Sized + Send + Sync + 'static {
    /// A state.
    type World: Clone + Hash + PartialEq + Send + Sync + 'static;
    /// One thing that happens.
    type Step: Copy + PartialEq + fmt::Debug + Send + Sync + 'static;

    /// The events that a search must reach. Otherwise it shows nothing about them.
    const SIGHTS: &'static [Sight<Self::World>];
    /// The invariants of every state.
    const INVARIANTS: &'static [Invariant<Self>];

    /// Its name.
    fn name(&self) -> &'static str;

    /// The states at the start.
    fn starts(&self) -> Vec<Self::World>;

    /// Adds the possible next steps.
    fn next_steps(&self, world: &Self::World, steps: &mut Vec<Self::Step>);

    /// The state after a step. `None` if nothing happens.
    fn after(&self, world: &Self::World, step: Self::Step) -> Option<Self::World>;

    /// Whether the search continues from a state.
    fn is_within(&self, _: &Self::World) -> bool {
        true
    }

    /// Invariants that do not hold in this scenario.
    fn excused(&self) -> &[&'static str] {
        &[]
    }

    /// Takes out the sights that a step recorded in the state behind it, a bit for each.
    fn take_observed(_: &mut Self::World) -> u32 {
        0
    }
}

/// The name of an invariant, and whether it holds.
pub type Invariant<S> = (&'static str, fn(&S, &<S as Space>::World) -> bool);

/// Something that happens in a state, or happened on the way to it.
pub struct Sight<World> {
    /// Its name.
    pub name: &'static str,
    happened: fn(&World) -> bool,
}

/// Names a sight.
pub(crate) const fn sight<World>(name: &'static str, happened: fn(&World) -> bool) -> Sight<World> {
    Sight { name, happened }
}

/// Whether the search takes two states for one: it knows a state by its hash alone.
pub(crate) fn is_same(a: &impl Hash, b: &impl Hash) -> bool {
    fn digest(world: &impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        world.hash(&mut hasher);
        hasher.finish()
    }
    digest(a) == digest(b)
}

/// The search through a scenario.
pub struct Search<S> {
    /// The scenario to search.
    pub scenario: S,
    /// The invariants found broken, a bit for each.
    broken: AtomicU32,
    /// The events that occurred, a bit for each of [`Space::SIGHTS`].
    seen: Arc<AtomicU32>,
}

impl<S: Space> Search<S> {
    /// A search that has not begun.
    #[must_use]
    pub fn new(scenario: S) -> Self {
        Self {
            scenario,
            broken: AtomicU32::new(0),
            seen: Arc::default(),
        }
    }

    /// Whether the invariant with a number holds, or is already broken. Only the first run that
    /// breaks it is reported.
    fn holds<const NUMBER: usize>(&self, world: &S::World) -> bool {
        let bit = 1 << NUMBER;
        let (_, holds) = S::INVARIANTS[NUMBER];
        holds(&self.scenario, world) || self.broken.fetch_or(bit, Ordering::Relaxed) & bit != 0
    }

    /// As [`Model`] takes conditions: it has no space for a number in one.
    const CONDITIONS: [fn(&Self, &S::World) -> bool; 8] = [
        Self::holds::<0>,
        Self::holds::<1>,
        Self::holds::<2>,
        Self::holds::<3>,
        Self::holds::<4>,
        Self::holds::<5>,
        Self::holds::<6>,
        Self::holds::<7>,
    ];
}

impl<S: Space> Model for Search<S> {
    type State = S::World;
    type Action = S::Step;

    fn init_states(&self) -> Vec<S::World> {
        self.scenario.starts()
    }

    fn actions(&self, world: &S::World, steps: &mut Vec<S::Step>) {
        let seen = self.seen.load(Ordering::Relaxed);
        for (bit, sight) in S::SIGHTS.iter().enumerate() {
            if seen >> bit & 1 == 0 && (sight.happened)(world) {
                self.seen.fetch_or(1 << bit, Ordering::Relaxed);
            }
        }
        self.scenario.next_steps(world, steps);
    }

    fn next_state(&self, world: &S::World, step: S::Step) -> Option<S::World> {
        let mut next = self.scenario.after(world, step)?;
        let observed = S::take_observed(&mut next);
        if observed != 0 {
            self.seen.fetch_or(observed, Ordering::Relaxed);
        }
        Some(next)
    }

    fn within_boundary(&self, world: &S::World) -> bool {
        self.scenario.is_within(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let all = S::INVARIANTS.iter().zip(Self::CONDITIONS);
        let all = all.filter(|((name, _), _)| !self.scenario.excused().contains(name));
        all.map(|((name, _), condition)| Property::always(name, condition))
            .collect()
    }
}

/// The states that the checker explored in a scenario, and its findings.
#[derive(Debug)]
pub struct Explored<Step> {
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
    pub broken: BTreeMap<&'static str, Vec<Step>>,
}

impl<Step> fmt::Display for Explored<Step> {
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
pub fn explore<S: Space>(scenario: S) -> Explored<S::Step> {
    let name = scenario.name();
    let start = Instant::now();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let search = Search::new(scenario);
    let seen = Arc::clone(&search.seen);
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
        seen: (S::SIGHTS.iter().enumerate())
            .filter(|(bit, _)| seen >> bit & 1 == 1)
            .map(|(_, sight)| sight.name)
            .collect(),
        broken,
    }
}
