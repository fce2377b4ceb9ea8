//! Faults and other actions on the world.

use covalent_protocol::group::{Group, GroupConfig};

use super::{Event, Repair, World};
use crate::group::{
    book::MembershipId, fact::Fact, mutant::Mutant, net::node_of, options::Fault, plan::Gap,
};

/// Round trips without a deed until everything able to come to rest has done so, after the longest
/// repair time.
const CALM_ROUND_TRIPS: u64 = 16;
/// Eighths of a round trip until something is repaired, at most.
const REPAIR_EIGHTHS: u64 = 160;
/// Times that a path flaps, at most.
const FLAPS: u8 = 4;

impl World {
    /// Everything that the plan has.
    pub(super) fn do_deeds(&mut self) {
        // The group has some time to itself first, or none.
        let first = self.rng.u64(0..=4) * self.round_trip_units();
        self.run_until(first);
        for deed in self.plan.deeds.clone() {
            match deed.behind {
                Gap::Eighths(eighths) => {
                    let until = self.now() + eighths * self.round_trip_units() / 8;
                    self.run_until(until);
                }
                Gap::Calm => self.calm(),
            }
            if self.witness.violation().is_some() {
                return;
            }
            self.do_deed(deed.fault);
        }
        let until = self.now() + REPAIR_EIGHTHS * self.round_trip_units() / 8;
        self.run_until(until);
    }

    /// Waits without a deed until everything able to come to rest has done so.
    fn calm(&mut self) {
        // An envelope that is late takes eight times as long.
        let late = if self.plan.envelopes.late > 0 { 4 } else { 1 };
        let round_trips = REPAIR_EIGHTHS / 8 + CALM_ROUND_TRIPS * late;
        // An idle group detects a dead member by a keepalive of the next tick.
        let units = round_trips * self.longest_round_trip_units() + 2 * self.longest_tick_units();
        let mut until = self.now() + units;
        self.run_until(until);
        // A doomed member may have died meanwhile, at one of the few envelopes that an idle group
        // sends.
        while self.died_at + units > until && self.witness.violation().is_none() {
            until = self.died_at + units;
            self.run_until(until);
        }
        let odd = self.lies.contains(&true)
            || (self.members.iter()).any(|member| member.halted || member.application.sated);
        if !odd && self.witness.violation().is_none() {
            self.witness.see(&Fact::Calm, &self.graph);
        }
        for repair in std::mem::take(&mut self.later) {
            self.repair(repair);
        }
    }

    /// Round trip with all cut paths mended, or the current one, whichever is longer.
    fn longest_round_trip_units(&self) -> u64 {
        let nodes = self.graph.nodes() as u64;
        self.round_trip_units()
            .max(2 * (nodes * super::HOP_UNITS + self.plan.lag_units))
    }

    /// Tick interval with that round trip.
    pub(super) fn longest_tick_units(&self) -> u64 {
        self.plan.tick_round_trips * self.longest_round_trip_units()
    }

    fn do_deed(&mut self, fault: Fault) {
        match fault {
            Fault::Cut => {
                let cable = self.rng.usize(..self.graph.cables().len());
                self.cut(cable);
                self.later(Repair::Mend(cable));
            }
            Fault::Partition => {
                let parts = if self.rng.u8(..4) == 0 { 3 } else { 2 };
                let nodes = self.graph.nodes();
                let part: Vec<u8> = (0..nodes).map(|_| self.rng.u8(..parts)).collect();
                self.divide(&part);
                self.later(Repair::MendAll);
            }
            Fault::Kill => {
                if let Some(membership) = self.pick_member() {
                    self.kill(membership);
                }
            }
            Fault::Crash => {
                if let Some(membership) = self.pick_member() {
                    let node = self.members[membership].node;
                    self.crash(node);
                    self.later(Repair::Start(node));
                }
            }
            Fault::Midway => {
                if let Some(membership) = self.pick_member() {
                    let most = 4 * self.graph.nodes() as u32;
                    self.members[membership].doomed = Some(self.rng.u32(0..most));
                }
                if self.rng.bool()
                    && let Some(other) = self.pick_member()
                {
                    self.kill(other);
                }
            }
            Fault::Halt => {
                if let Some(membership) = self.pick_member() {
                    self.set_halted(membership, true);
                    self.later(Repair::GoOn(membership));
                }
            }
            Fault::Accuse => {
                let nodes = self.graph.nodes();
                let at = self.rng.usize(..nodes);
                let about = (at + self.rng.usize(1..nodes)) % nodes;
                self.lies[at * nodes + about] = true;
                self.notice_soon(at, about);
                self.later(Repair::Believe { at, about });
            }
            Fault::Flap => {
                let node = self.rng.usize(..self.graph.nodes());
                let times = self.rng.u8(1..=FLAPS);
                self.repair(Repair::Flap { node, times });
            }
            Fault::Full => {
                if let Some(membership) = self.pick_member() {
                    self.set_sated(membership, true);
                    self.later(Repair::Eat(membership));
                }
            }
            Fault::Join => self.join_somewhere(),
            Fault::Leave => {
                if let Some(membership) = self.pick_member() {
                    self.leave(membership);
                }
            }
            Fault::Suspect => {
                if let (Some(by), Some(target)) = (self.pick_member(), self.pick_member())
                    && by != target
                {
                    self.suspect(by, target);
                }
            }
            Fault::Forge => self.inject_forgery(),
            // These are done to envelopes.
            Fault::Late | Fault::Duplicate | Fault::Unclear | Fault::Refuse => {}
        }
    }

    /// Picks a running application, the leader of a change more often than another. Never picks the
    /// last one.
    fn pick_member(&mut self) -> Option<MembershipId> {
        let living: Vec<MembershipId> = self.at_node.iter().flatten().copied().collect();
        if living.len() < 2 {
            return None;
        }
        let oldest = self.book().newest().and_then(|order| {
            let members = &order.view.members;
            let mut at = members
                .iter()
                .map(|member| (member, self.at_node[node_of(member)]));
            at.find_map(|(member, membership)| {
                membership.filter(|membership| self.members[*membership].contact == *member)
            })
        });
        let lead = self.rng.u8(..3) == 0;
        oldest
            .filter(|_| lead)
            .or_else(|| Some(living[self.rng.usize(..living.len())]))
    }

    /// Schedules a repair, or leaves it until the world was calm.
    fn later(&mut self, repair: Repair) {
        if self.rng.u8(..3) == 0 {
            self.later.push(repair);
        } else {
            let eighths = self.rng.u64(1..=REPAIR_EIGHTHS);
            let at = self.now() + eighths * self.round_trip_units() / 8;
            self.queue.add(at, Event::Repair(repair));
        }
    }

    pub(super) fn repair(&mut self, repair: Repair) {
        match repair {
            Repair::Mend(cable) => self.mend(cable),
            Repair::MendAll => {
                for cable in 0..self.graph.cables().len() {
                    self.mend(cable);
                }
            }
            Repair::Start(node) => self.start(node),
            Repair::Join(node) => {
                if self.graph.runs(node) && self.is_free(node) {
                    self.join(node);
                }
            }
            Repair::GoOn(membership) => self.set_halted(membership, false),
            Repair::Eat(membership) => self.set_sated(membership, false),
            Repair::Believe { at, about } => {
                self.lies[at * self.graph.nodes() + about] = false;
                self.notice_soon(at, about);
            }
            Repair::Flap { node, times } => {
                let nodes = self.graph.nodes();
                for at in (0..nodes).filter(|at| *at != node) {
                    let lie = &mut self.lies[at * nodes + node];
                    *lie = times > 0 && !*lie;
                    self.notice_soon(at, node);
                }
                if times > 0 {
                    let eighths = self.rng.u64(1..=24);
                    let at = self.now() + eighths * self.round_trip_units() / 8;
                    let times = times - 1;
                    let next_flap = Repair::Flap { node, times };
                    self.queue.add(at, Event::Repair(next_flap));
                }
            }
        }
    }

    /// Cuts a cable.
    pub fn cut(&mut self, cable: usize) {
        self.set_cut(cable, true);
    }

    /// Mends a cable.
    pub fn mend(&mut self, cable: usize) {
        self.set_cut(cable, false);
    }

    fn set_cut(&mut self, cable: usize, cut: bool) {
        if self.graph.is_cut(cable) != cut {
            self.graph.set_cut(cable, cut);
            let ends = self.graph.cables()[cable];
            self.witness.see(&Fact::Cable { ends, cut }, &self.graph);
            self.paths_changed();
        }
    }

    /// Cuts all cables between nodes of different parts.
    pub fn divide(&mut self, part: &[u8]) {
        let before: Vec<bool> = (0..self.graph.cables().len())
            .map(|cable| self.graph.is_cut(cable))
            .collect();
        self.graph.divide(part);
        for (cable, before) in before.into_iter().enumerate() {
            if !before && self.graph.is_cut(cable) {
                let ends = self.graph.cables()[cable];
                self.witness
                    .see(&Fact::Cable { ends, cut: true }, &self.graph);
            }
        }
        self.paths_changed();
    }

    /// An application starts where none runs or one is over.
    fn join_somewhere(&mut self) {
        let free: Vec<usize> = (0..self.graph.nodes())
            .filter(|node| self.graph.runs(*node) && self.is_free(*node))
            .collect();
        if !free.is_empty() {
            let node = free[self.rng.usize(..free.len())];
            self.join(node);
        }
    }

    /// Whether no application runs on a node but one that was left out.
    pub(super) fn is_free(&self, node: usize) -> bool {
        self.at_node[node].is_none_or(|membership| self.book().stays[membership].is_over())
    }

    /// Starts an application, which queries the outcome of its predecessor's messages.
    pub(super) fn join(&mut self, node: usize) {
        let stays = self.book().stays.iter();
        let former = stays.rev().find(|membership| membership.node == node);
        let former = former.map(|membership| membership.contact);
        if let Some(membership) = self.at_node[node] {
            self.kill(membership);
        }
        let mut me = super::contact(node, self.members.len());
        if let Some(former) = former
            && self.options.mutant == Some(Mutant::RejoinsWithOldLife)
        {
            me = former;
        }
        // Once a group exists, a new application joins it.
        let is_founded = !self.book().orders.is_empty();
        let config = GroupConfig {
            former: former.map(|former| former.incarnation),
            founders: if is_founded { 0 } else { self.plan.founders },
            ..super::config(me, self.graph.nodes())
        };
        self.begin(config, Group::new(config));
    }

    /// An application leaves.
    fn leave(&mut self, membership: MembershipId) {
        if let Some(group) = &mut self.members[membership].group {
            group.leave();
            self.witness
                .see(&Fact::Leaves { by: membership }, &self.graph);
            self.wake(membership);
        }
    }

    /// An application whose incarnation is over releases its queue. It starts again if the plan has
    /// `Join` faults.
    pub(super) fn retire(&mut self, membership: MembershipId) {
        let member = &mut self.members[membership];
        let node = member.node;
        if member.group.take().is_none() {
            return;
        }
        member.inbox.clear();
        self.at_node[node] = None;
        if self.plan.faults.has(Fault::Join) {
            let eighths = self.rng.u64(0..=REPAIR_EIGHTHS / 4);
            let at = self.now() + eighths * self.round_trip_units() / 8;
            self.queue.add(at, Event::Repair(Repair::Join(node)));
        }
    }

    /// Kills an application.
    pub fn kill(&mut self, membership: MembershipId) {
        let member = &mut self.members[membership];
        if member.group.take().is_none() {
            return;
        }
        member.inbox.clear();
        let node = member.node;
        self.at_node[node] = None;
        self.died_at = self.now();
        self.witness.see(&Fact::Died { membership }, &self.graph);
    }

    /// Crashes a node with everything that runs there.
    pub fn crash(&mut self, node: usize) {
        if !self.graph.runs(node) {
            return;
        }
        if let Some(membership) = self.at_node[node] {
            self.kill(membership);
        }
        self.graph.set_running(node, false);
        self.net.lose_half_of(node, &mut self.rng);
        self.witness
            .see(&Fact::Node { node, runs: false }, &self.graph);
        self.paths_changed();
    }

    /// Starts a node that died.
    fn start(&mut self, node: usize) {
        if self.graph.runs(node) {
            return;
        }
        self.graph.set_running(node, true);
        // Its link layer knows no other node yet.
        let nodes = self.graph.nodes();
        self.reported[node * nodes..(node + 1) * nodes].fill(true);
        self.witness
            .see(&Fact::Node { node, runs: true }, &self.graph);
        self.paths_changed();
    }

    pub(super) fn set_halted(&mut self, membership: MembershipId, still: bool) {
        let member = &mut self.members[membership];
        if member.group.is_some() && member.halted != still {
            member.halted = still;
            self.witness
                .see(&Fact::Halted { membership, still }, &self.graph);
            self.wake(membership);
        }
    }

    pub(super) fn set_sated(&mut self, membership: MembershipId, sated: bool) {
        let member = &mut self.members[membership];
        if member.group.is_some() && member.application.sated != sated {
            member.application.sated = sated;
            self.witness
                .see(&Fact::Sated { membership, sated }, &self.graph);
            self.wake(membership);
        }
    }
}
