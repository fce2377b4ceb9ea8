//! The possible next steps, and their effects.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use stateright::{Model, Property};

use super::{invariant, scenario::Scenario, sight, world::World};

/// One thing that happens. An end is 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A node writes its next note.
    Send {
        /// Onto this cable.
        cable: usize,
        /// At this end.
        end: usize,
    },
    /// A node takes the next note.
    Receive {
        /// From this cable.
        cable: usize,
        /// At this end.
        end: usize,
    },
    /// A link fails at an end.
    Fail {
        /// Its cable.
        cable: usize,
        /// The end.
        end: usize,
    },
    /// A link comes up at an end.
    ComeUp {
        /// Its cable.
        cable: usize,
        /// The end.
        end: usize,
    },
    /// A tick, if nothing else happens.
    Tick {
        /// At this node.
        node: usize,
    },
}

/// The search through a scenario.
pub struct Search {
    /// The scenario to search.
    pub scenario: Scenario,
    /// The invariants found broken, a bit for each.
    broken: AtomicU32,
    /// The events that occurred, a bit for each of [`sight::ALL`].
    seen: Arc<AtomicU32>,
}

impl Search {
    /// Returns a search, and the bits in which it records the sights.
    #[must_use]
    pub fn new(scenario: Scenario) -> (Self, Arc<AtomicU32>) {
        let seen = Arc::new(AtomicU32::new(0));
        let search = Self {
            scenario,
            broken: AtomicU32::new(0),
            seen: Arc::clone(&seen),
        };
        (search, seen)
    }

    /// Whether the invariant with this number holds, or is already broken. Only the first run that
    /// breaks it is reported.
    pub fn holds(&self, invariant: u32, holds: impl FnOnce() -> bool) -> bool {
        let bit = 1 << invariant;
        holds() || self.broken.fetch_or(bit, Ordering::Relaxed) & bit != 0
    }

    /// Returns the possible next steps, except for new failures and new recoveries of links.
    #[must_use]
    pub fn consequences(&self, world: &World) -> Vec<Step> {
        let mut steps = Vec::new();
        for (cable, end) in self.ends() {
            if world.can_receive(cable, end) {
                steps.push(Step::Receive { cable, end });
            }
            if world.can_send(&self.scenario, cable, end) {
                steps.push(Step::Send { cable, end });
            }
            let [here, there] = [end, 1 - end].map(|end| world.links[cable][end].up);
            match (here, there) {
                // The other end failed, and this one finds out.
                (Some(_), None) if !world.is_coming_up[cable] => {
                    steps.push(Step::Fail { cable, end });
                }
                (None, Some(_)) if world.is_coming_up[cable] => {
                    steps.push(Step::ComeUp { cable, end });
                }
                _ => {}
            }
        }
        let ticks = self.scenario.budget.ticks;
        if steps.is_empty()
            && let Some(least) = world.ticks.iter().min().filter(|least| **least < ticks)
        {
            let nodes = (0..world.ticks.len()).filter(|node| world.ticks[*node] == *least);
            steps.extend(nodes.map(|node| Step::Tick { node }));
        }
        steps
    }

    fn steps(&self, world: &World) -> Vec<Step> {
        let mut steps = self.consequences(world);
        let budget = &self.scenario.budget;
        for (cable, end) in self.ends() {
            let ends = world.links[cable].each_ref().map(|end| end.up.is_some());
            if ends == [true; 2] && world.spent.cuts < budget.cuts {
                steps.push(Step::Fail { cable, end });
            }
            if ends == [false; 2] && world.spent.mends < budget.mends {
                steps.push(Step::ComeUp { cable, end });
            }
        }
        steps
    }

    fn ends(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        (0..self.scenario.cables.len()).flat_map(|cable| [(cable, 0), (cable, 1)])
    }

    fn record_sights(&self, world: &World) {
        let seen = self.seen.load(Ordering::Relaxed);
        for (bit, sight) in sight::ALL.iter().enumerate() {
            if seen >> bit & 1 == 0 && sight.is_seen(world) {
                self.seen.fetch_or(1 << bit, Ordering::Relaxed);
            }
        }
    }
}

impl Model for Search {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        World::starts(&self.scenario)
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        self.record_sights(world);
        steps.extend(self.steps(world));
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let scenario = &self.scenario;
        let mut next = world.clone();
        match step {
            Step::Send { cable, end } => next.send(scenario, cable, end),
            Step::Receive { cable, end } => next.receive(scenario, cable, end),
            Step::Fail { cable, end } => {
                if world.is_whole(cable) {
                    next.spent.cuts += 1;
                }
                next.fail(scenario, cable, end);
            }
            Step::ComeUp { cable, end } => {
                if world.links[cable][1 - end].up.is_none() {
                    next.spent.mends += 1;
                }
                next.come_up(scenario, cable, end);
            }
            Step::Tick { node } => next.tick(node),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        invariant::all()
    }
}
