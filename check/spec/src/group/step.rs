//! The possible next steps, and their effects.

use std::sync::Arc;

use covalent_protocol::group::Group;

use super::{
    invariant,
    scenario::Scenario,
    sight,
    world::{Held, World, incarnation},
};
use crate::check::{Invariant, Sight, Space};

/// One thing that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A member multicasts its next message of [`Scenario::multicasts`].
    Multicast {
        /// Its place among them.
        request: usize,
    },
    /// An envelope arrives.
    Deliver {
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
        /// How many it overtakes.
        place: usize,
    },
    /// The envelope that was held back arrives.
    Release {
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
    },
    /// A member dies.
    Die {
        /// Which.
        member: usize,
        /// Its envelopes in flight are lost.
        mute: bool,
    },
    /// A member that was in no view at the start begins.
    Begin {
        /// Which.
        member: usize,
    },
    /// A member of [`Scenario::leavers`] is requested to leave.
    Leave {
        /// Its place among them.
        leaver: usize,
    },
    /// An application suspects another member.
    Suspect {
        /// The place among [`Scenario::suspicions`].
        suspicion: usize,
    },
    /// A tick of all members, if nothing is in flight.
    Tick,
    /// A link layer reports the state of a path.
    ReportPath {
        /// The node of the link layer.
        at: usize,
        /// The other end of the path.
        about: usize,
    },
    /// A link layer takes a way for lost that is there.
    Accuse {
        /// The node of the link layer.
        at: usize,
        /// The other end of the path.
        about: usize,
    },
    /// It finds it again.
    Believe {
        /// The node of the link layer.
        at: usize,
        /// The other end of the path.
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
    const fn is_fault(&self) -> bool {
        matches!(
            self,
            Self::Die { .. } | Self::Accuse { .. } | Self::Divide { .. }
        )
    }
}

impl Scenario {
    /// Returns the possible next steps.
    #[must_use]
    pub fn steps(&self, world: &World) -> Vec<Step> {
        let Scenario { budget, .. } = self;
        let members = self.members;
        let mut steps = Vec::new();
        for (request, &member) in self.multicasts.iter().enumerate() {
            // Of one member in their order.
            let first = |&(other, by): &(usize, &usize)| *by == member && !world.requested[other];
            let next = self.multicasts.iter().enumerate().find(first);
            if world.is_alive(member) && next.is_some_and(|(next, _)| next == request) {
                steps.push(Step::Multicast { request });
            }
        }
        let alone = self.members_die_alone();
        // Members multicast their messages first: then their windows are as the scenario requires.
        let all_requested = world.requested.iter().all(|requested| *requested);
        let arriving = self.arriving(world);
        if alone && !arriving.is_empty() {
            // An application takes its time.
            steps.clear();
        }
        for member in 0..members {
            let mortal = self.mortal.is_empty() || self.mortal.contains(&member);
            let may_now = arriving.is_empty() || !self.unhurried;
            let waits = alone && !(all_requested && may_now);
            let may_die = mortal && !waits && world.spent.deaths < budget.deaths;
            if may_die && world.is_alive(member) {
                let mute = false;
                steps.push(Step::Die { member, mute });
            }
            // This includes a member that is out already: its node dies.
            let mut paths = member * members..(member + 1) * members;
            let sent = |path: usize| {
                !world.in_flight[path].is_empty() || matches!(world.held[path], Held::Envelope(_))
            };
            if may_die && alone && paths.any(sent) {
                let mute = true;
                steps.push(Step::Die { member, mute });
            }
        }
        if arriving.is_empty() || !self.unhurried {
            self.of_themselves(world, &mut steps);
        }
        let mut quiet = arriving.is_empty();
        if quiet && all_requested {
            let before = steps.len();
            steps.extend(self.held(world));
            quiet = steps.len() == before;
        }
        steps.extend(arriving);
        let before = steps.len();
        for (at, about) in pairs(members) {
            let place = at * members + about;
            let in_flight = &world.in_flight[place];
            // A dead member sent its envelopes in flight before it died.
            let arrives = world.is_alive(about) && world.part[at] == world.part[about];
            if arrives && !alone {
                let places = in_flight.len().min(self.reorder);
                steps.extend((0..places).map(|place| Step::Deliver {
                    from: at,
                    to: about,
                    place,
                }));
            }
            if !world.is_alive(at) {
                continue;
            }
            if world.reported[place] != world.stands(at, about) {
                steps.push(Step::ReportPath { at, about });
            }
            if world.accused[place] {
                steps.push(Step::Believe { at, about });
            } else if self.doubters.contains(&[at, about])
                && world.is_path(at, about)
                && world.spent.accusations < budget.accusations
            {
                steps.push(Step::Accuse { at, about });
            }
        }
        let unaware = steps[before..]
            .iter()
            .any(|step| matches!(step, Step::ReportPath { .. }));
        let divided = world.part.iter().any(|part| *part != 0);
        if divided && self.mended {
            steps.push(Step::Mend);
        }
        if !divided && world.spent.divisions < budget.divisions {
            let divisions = 0..self.divisions.len();
            steps.extend(divisions.map(|division| Step::Divide { division }));
        }
        // By then, unhurried members have taken their spontaneous steps.
        let may_tick = alone && quiet && !unaware && world.spent.ticks < budget.ticks;
        let is_idle = steps.iter().all(Step::is_fault);
        if may_tick && (is_idle || !self.unhurried) {
            steps.push(Step::Tick);
        }
        steps
    }

    /// Whether nothing is left to happen except faults. The run may end here.
    #[must_use]
    pub fn is_at_rest(&self, world: &World) -> bool {
        world.spent.ticks == self.budget.ticks && self.steps(world).iter().all(Step::is_fault)
    }

    /// Returns the envelopes that may arrive next, if members die alone.
    fn arriving(&self, world: &World) -> Vec<Step> {
        let members = self.members;
        let mut steps = Vec::new();
        if let Some(path) = world.next_path() {
            let (from, to) = (path / members, path % members);
            steps.push(Step::Deliver { from, to, place: 0 });
        }
        if !self.members_die_alone() {
            return steps;
        }
        for (from, to) in pairs(members) {
            let path = from * members + to;
            if self.is_slow([from, to]) && world.part[from] == world.part[to] {
                let places = world.in_flight[path].len().min(self.reorder);
                steps.extend((0..places).map(|place| Step::Deliver { from, to, place }));
            }
        }
        steps
    }

    /// Envelopes that are held back.
    fn held(&self, world: &World) -> impl Iterator<Item = Step> {
        let members = self.members;
        pairs(members)
            .filter(move |(from, to)| matches!(world.held[from * members + to], Held::Envelope(_)))
            .map(|(from, to)| Step::Release { from, to })
    }

    /// Adds the spontaneous steps of members.
    fn of_themselves(&self, world: &World, steps: &mut Vec<Step>) {
        let unbegun = (0..self.members).filter(|&member| !world.began[member]);
        let at_once = if self.unhurried { 1 } else { usize::MAX };
        steps.extend(unbegun.take(at_once).map(|member| Step::Begin { member }));
        let all_requested = world.requested.iter().all(|requested| *requested);
        for (leaver, &member) in self.leavers.iter().enumerate() {
            if all_requested && !world.leaves[leaver] && world.is_member(member) {
                steps.push(Step::Leave { leaver });
            }
        }
        for (suspicion, &[by, target]) in self.suspicions.iter().enumerate() {
            if all_requested && !world.suspected[suspicion] && world.is_with(by, target) {
                steps.push(Step::Suspect { suspicion });
            }
        }
    }
}

/// Each member with each other.
fn pairs(members: usize) -> impl Iterator<Item = (usize, usize)> {
    let all = (0..members).flat_map(move |a| (0..members).map(move |b| (a, b)));
    all.filter(|(a, b)| a != b)
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
        vec![World::new(self)]
    }

    fn next_steps(&self, world: &World, steps: &mut Vec<Step>) {
        steps.extend(self.steps(world));
    }

    fn after(&self, world: &World, step: Step) -> Option<World> {
        let members = self.members;
        let mut next = world.clone();
        if !matches!(
            step,
            Step::Tick | Step::Deliver { .. } | Step::Release { .. } | Step::ReportPath { .. }
        ) {
            next.spent.ticks = 0;
        }
        match step {
            Step::Multicast { request } => {
                next.requested[request] = true;
                let member = self.multicasts[request];
                let mut taken = false;
                next.input(member, |group| {
                    taken = group.multicast(&[request as u8 + 1]).is_ok();
                });
                if taken {
                    Arc::make_mut(&mut next.sides[member]).reported.requested += 1;
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
                next.input(self.leavers[leaver], Group::leave);
            }
            Step::Suspect { suspicion } => {
                next.suspected[suspicion] = true;
                let [by, target] = self.suspicions[suspicion];
                next.input(by, |group| group.suspect(incarnation(target)));
            }
            Step::Tick => {
                next.spent.ticks += 1;
                next.tick();
            }
            Step::ReportPath { at, about } => next.report_path(at, about),
            Step::Accuse { at, about } => {
                next.spent.accusations += 1;
                next.accused[at * members + about] = true;
                next.report_path(at, about);
            }
            Step::Believe { at, about } => {
                let place = at * members + about;
                next.accused[place] = false;
                // Nothing is news where the other one died meanwhile.
                if next.reported[place] != next.stands(at, about) {
                    next.report_path(at, about);
                }
            }
            Step::Divide { division } => {
                next.spent.divisions += 1;
                next.part.clone_from(&self.divisions[division]);
            }
            Step::Mend => next.part.fill(0),
        }
        Some(next)
    }
}
