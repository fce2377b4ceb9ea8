//! The possible next steps, and their effects.

use super::{invariant, scenario::Scenario, sight, world::World};
use crate::check::{Invariant, Sight, Space};

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

impl Scenario {
    /// Returns the possible next steps, except for new failures and new recoveries of links.
    #[must_use]
    pub fn consequences(&self, world: &World) -> Vec<Step> {
        let mut steps = Vec::new();
        for (cable, end) in self.ends() {
            if world.can_receive(cable, end) {
                steps.push(Step::Receive { cable, end });
            }
            if world.can_send(self, cable, end) {
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
        let ticks = self.budget.ticks;
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
        let budget = &self.budget;
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
        (0..self.cables.len()).flat_map(|cable| [(cable, 0), (cable, 1)])
    }
}

impl Space for Scenario {
    type World = World;
    type Step = Step;

    const SIGHTS: &'static [Sight<World>] = sight::ALL;
    const INVARIANTS: &'static [Invariant<Self>] = invariant::ALL;

    fn name(&self) -> &'static str {
        self.name
    }

    fn starts(&self) -> Vec<World> {
        World::starts(self)
    }

    fn next_steps(&self, world: &World, steps: &mut Vec<Step>) {
        steps.extend(self.steps(world));
    }

    fn after(&self, world: &World, step: Step) -> Option<World> {
        let scenario = self;
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
}
