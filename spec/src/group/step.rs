//! What may happen next, and what it does.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use stateright::{Model, Property};

use super::{invariant, scenario::Scenario, sight, world::World};

/// One thing that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The next one of [`Scenario::asks`] that is a member's asks.
    Ask {
        /// Its place among them.
        ask: usize,
    },
    /// An envelope arrives.
    Deliver {
        /// Whose.
        from: usize,
        /// To whom.
        to: usize,
        /// How many it overtakes.
        place: usize,
    },
    /// A member dies.
    Die {
        /// Which.
        member: usize,
    },
    /// A link layer says what stands.
    Tell {
        /// Whose.
        at: usize,
        /// Of whom.
        about: usize,
    },
    /// A link layer takes a way for lost that is there.
    Accuse {
        /// Whose.
        at: usize,
        /// To whom.
        about: usize,
    },
    /// It finds it again.
    Believe {
        /// Whose.
        at: usize,
        /// To whom.
        about: usize,
    },
    /// The nodes are divided.
    Divide {
        /// How, of [`Scenario::divisions`].
        division: usize,
    },
    /// All are together again.
    Mend,
}

/// The search through a scenario.
pub struct Search {
    /// What is searched.
    pub scenario: Scenario,
    /// The invariants found broken, a bit for each.
    broken: AtomicU32,
    /// What was seen, a bit for each of [`sight::ALL`].
    seen: Arc<AtomicU32>,
}

impl Search {
    /// A search, and where it notes what it sees.
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

    /// Whether the invariant with this number holds, or was found broken already: the first run that breaks it is the one to be shown.
    pub fn holds(&self, invariant: u32, holds: impl FnOnce() -> bool) -> bool {
        let bit = 1 << invariant;
        holds() || self.broken.fetch_or(bit, Ordering::Relaxed) & bit != 0
    }

    /// What may happen next.
    #[must_use]
    pub fn steps(&self, world: &World) -> Vec<Step> {
        let Scenario { budget, .. } = &self.scenario;
        let members = self.scenario.members;
        let mut steps = Vec::new();
        for (ask, &member) in self.scenario.asks.iter().enumerate() {
            // Of one member in their order.
            let first = |&(other, by): &(usize, &usize)| *by == member && !world.asked[other];
            let next = self.scenario.asks.iter().enumerate().find(first);
            if world.lives(member) && next.is_some_and(|(next, _)| next == ask) {
                steps.push(Step::Ask { ask });
            }
        }
        for member in 0..members {
            let mortal = self.scenario.mortal.is_empty() || self.scenario.mortal.contains(&member);
            if mortal && world.lives(member) && world.spent.deaths < budget.deaths {
                steps.push(Step::Die { member });
            }
        }
        for (at, about) in pairs(members) {
            let place = at * members + about;
            let under_way = &world.under_way[place];
            // Whoever died said what is under way before.
            let arrives = world.lives(about) && world.part[at] == world.part[about];
            if arrives {
                let places = under_way.len().min(self.scenario.reorder);
                steps.extend((0..places).map(|place| Step::Deliver {
                    from: at,
                    to: about,
                    place,
                }));
            }
            if !world.lives(at) {
                continue;
            }
            if world.told[place] != world.stands(at, about) {
                steps.push(Step::Tell { at, about });
            }
            if world.accused[place] {
                steps.push(Step::Believe { at, about });
            } else if self.scenario.doubters.contains(&[at, about])
                && world.is_way(at, about)
                && world.spent.accusations < budget.accusations
            {
                steps.push(Step::Accuse { at, about });
            }
        }
        let divided = world.part.iter().any(|part| *part != 0);
        if divided && self.scenario.mended {
            steps.push(Step::Mend);
        }
        if !divided && world.spent.divisions < budget.divisions {
            let divisions = 0..self.scenario.divisions.len();
            steps.extend(divisions.map(|division| Step::Divide { division }));
        }
        steps
    }

    fn look(&self, world: &World) {
        let seen = self.seen.load(Ordering::Relaxed);
        for (bit, sight) in sight::ALL.iter().enumerate() {
            if seen >> bit & 1 == 0 && sight.is_seen(world) {
                self.seen.fetch_or(1 << bit, Ordering::Relaxed);
            }
        }
    }
}

/// Each member with each other.
fn pairs(members: usize) -> impl Iterator<Item = (usize, usize)> {
    let all = (0..members).flat_map(move |a| (0..members).map(move |b| (a, b)));
    all.filter(|(a, b)| a != b)
}

impl Model for Search {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.scenario)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        self.look(world);
        steps.extend(self.steps(world));
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let members = self.scenario.members;
        let mut next = world.clone();
        match step {
            Step::Ask { ask } => {
                next.asked[ask] = true;
                let member = self.scenario.asks[ask];
                let mut taken = false;
                next.input(member, |group| {
                    taken = group.multicast(&[ask as u8 + 1]).is_ok();
                });
                if taken {
                    Arc::make_mut(&mut next.sides[member]).told.asked += 1;
                }
            }
            Step::Deliver { from, to, place } => next.deliver(from, to, place),
            Step::Die { member } => {
                next.spent.deaths += 1;
                next.die(member);
            }
            Step::Tell { at, about } => next.tell(at, about),
            Step::Accuse { at, about } => {
                next.spent.accusations += 1;
                next.accused[at * members + about] = true;
                next.tell(at, about);
            }
            Step::Believe { at, about } => {
                next.accused[at * members + about] = false;
                next.tell(at, about);
            }
            Step::Divide { division } => {
                next.spent.divisions += 1;
                next.part.clone_from(&self.scenario.divisions[division]);
            }
            Step::Mend => next.part.fill(0),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        invariant::all()
    }
}
