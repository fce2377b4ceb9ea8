//! What may happen next, and what it does.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use stateright::{Model, Property};

use covalent_protocol::group::Group;

use super::{
    invariant,
    scenario::Scenario,
    sight,
    world::{Held, World, life},
};

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
    /// The envelope that was held back arrives.
    Release {
        /// Whose.
        from: usize,
        /// To whom.
        to: usize,
    },
    /// A member dies.
    Die {
        /// Which.
        member: usize,
        /// What it said and has not arrived is lost.
        mute: bool,
    },
    /// A member that was in no view at the start begins.
    Begin {
        /// Which.
        member: usize,
    },
    /// The next one of [`Scenario::leavers`] is asked to leave.
    Leave {
        /// Its place among them.
        leaver: usize,
    },
    /// An application says of another one that it should go.
    Suspect {
        /// The place among [`Scenario::suspicions`].
        suspicion: usize,
    },
    /// A tick of everybody, where nothing is under way.
    Tick,
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

impl Step {
    /// Whether it is something that goes wrong. It may happen, and a run may end without it.
    const fn goes_wrong(&self) -> bool {
        matches!(
            self,
            Self::Die { .. } | Self::Accuse { .. } | Self::Divide { .. }
        )
    }
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
        let alone = self.scenario.members_die_alone();
        // What members asked for comes first: then their windows are as the scenario wants them.
        let all_asked = world.asked.iter().all(|asked| *asked);
        let arriving = self.arriving(world);
        if alone && !arriving.is_empty() {
            // An application takes its time.
            steps.clear();
        }
        for member in 0..members {
            let mortal = self.scenario.mortal.is_empty() || self.scenario.mortal.contains(&member);
            let may_now = arriving.is_empty() || !self.scenario.unhurried;
            let waits = alone && !(all_asked && may_now);
            let may_die = mortal && !waits && world.spent.deaths < budget.deaths;
            if may_die && world.lives(member) {
                let mute = false;
                steps.push(Step::Die { member, mute });
            }
            // Also where it is out already: its node dies.
            let mut ways = member * members..(member + 1) * members;
            let said = |way: usize| {
                !world.under_way[way].is_empty() || matches!(world.held[way], Held::Envelope(_))
            };
            if may_die && alone && ways.any(said) {
                let mute = true;
                steps.push(Step::Die { member, mute });
            }
        }
        if arriving.is_empty() || !self.scenario.unhurried {
            self.of_themselves(world, &mut steps);
        }
        let mut quiet = arriving.is_empty();
        if quiet && all_asked {
            let before = steps.len();
            steps.extend(self.held(world));
            quiet = steps.len() == before;
        }
        steps.extend(arriving);
        let before = steps.len();
        for (at, about) in pairs(members) {
            let place = at * members + about;
            let under_way = &world.under_way[place];
            // Whoever died said what is under way before.
            let arrives = world.lives(about) && world.part[at] == world.part[about];
            if arrives && !alone {
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
        let unaware = steps[before..]
            .iter()
            .any(|step| matches!(step, Step::Tell { .. }));
        let divided = world.part.iter().any(|part| *part != 0);
        if divided && self.scenario.mended {
            steps.push(Step::Mend);
        }
        if !divided && world.spent.divisions < budget.divisions {
            let divisions = 0..self.scenario.divisions.len();
            steps.extend(divisions.map(|division| Step::Divide { division }));
        }
        // Members that do not hurry have done by then what they do of themselves.
        let may_tick = alone && quiet && !unaware && world.spent.ticks < budget.ticks;
        let is_idle = steps.iter().all(Step::goes_wrong);
        if may_tick && (is_idle || !self.scenario.unhurried) {
            steps.push(Step::Tick);
        }
        steps
    }

    /// Whether nothing is left to happen but what goes wrong. The run may end here.
    #[must_use]
    pub fn is_at_rest(&self, world: &World) -> bool {
        world.spent.ticks == self.scenario.budget.ticks
            && self.steps(world).iter().all(Step::goes_wrong)
    }

    /// Envelopes that may arrive next where a member dies alone.
    fn arriving(&self, world: &World) -> Vec<Step> {
        let members = self.scenario.members;
        let mut steps = Vec::new();
        if let Some(way) = world.next_way() {
            let (from, to) = (way / members, way % members);
            steps.push(Step::Deliver { from, to, place: 0 });
        }
        if !self.scenario.members_die_alone() {
            return steps;
        }
        for (from, to) in pairs(members) {
            let way = from * members + to;
            if self.scenario.is_slow([from, to]) && world.part[from] == world.part[to] {
                let places = world.under_way[way].len().min(self.scenario.reorder);
                steps.extend((0..places).map(|place| Step::Deliver { from, to, place }));
            }
        }
        steps
    }

    /// Envelopes that are held back.
    fn held(&self, world: &World) -> impl Iterator<Item = Step> {
        let members = self.scenario.members;
        pairs(members)
            .filter(move |(from, to)| matches!(world.held[from * members + to], Held::Envelope(_)))
            .map(|(from, to)| Step::Release { from, to })
    }

    /// What members do of themselves.
    fn of_themselves(&self, world: &World, steps: &mut Vec<Step>) {
        let unbegun = (0..self.scenario.members).filter(|&member| !world.began[member]);
        let at_once = if self.scenario.unhurried {
            1
        } else {
            usize::MAX
        };
        steps.extend(unbegun.take(at_once).map(|member| Step::Begin { member }));
        let all_asked = world.asked.iter().all(|asked| *asked);
        for (leaver, &member) in self.scenario.leavers.iter().enumerate() {
            if all_asked && !world.leaves[leaver] && world.is_member(member) {
                steps.push(Step::Leave { leaver });
            }
        }
        for (suspicion, &[by, whom]) in self.scenario.suspicions.iter().enumerate() {
            if all_asked && !world.suspected[suspicion] && world.is_with(by, whom) {
                steps.push(Step::Suspect { suspicion });
            }
        }
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
        if !matches!(
            step,
            Step::Tick | Step::Deliver { .. } | Step::Release { .. } | Step::Tell { .. }
        ) {
            next.spent.ticks = 0;
        }
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
            Step::Release { from, to } => next.release(from, to),
            Step::Die { member, mute } => {
                next.spent.deaths += 1;
                next.die(member, mute);
            }
            Step::Begin { member } => next.begin(member),
            Step::Leave { leaver } => {
                next.leaves[leaver] = true;
                next.input(self.scenario.leavers[leaver], Group::leave);
            }
            Step::Suspect { suspicion } => {
                next.suspected[suspicion] = true;
                let [by, whom] = self.scenario.suspicions[suspicion];
                next.input(by, |group| group.suspect(life(whom)));
            }
            Step::Tick => {
                next.spent.ticks += 1;
                next.tick();
            }
            Step::Tell { at, about } => next.tell(at, about),
            Step::Accuse { at, about } => {
                next.spent.accusations += 1;
                next.accused[at * members + about] = true;
                next.tell(at, about);
            }
            Step::Believe { at, about } => {
                let place = at * members + about;
                next.accused[place] = false;
                // Nothing is news where the other one died meanwhile.
                if next.told[place] != next.stands(at, about) {
                    next.tell(at, about);
                }
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
