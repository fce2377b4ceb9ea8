//! The faults stop and everything comes to its end.

use covalent_protocol::LinkState;

use super::World;
use crate::{book::Life, cable::End, fact::Fact, plan::FrameFaults};

/// Paces within which a world comes to rest after the last fault.
pub const PACES_TO_REST: u32 = 8;
/// Paces after which nobody waits any longer.
const PACES_MAX: u32 = 200;
/// Frames between two paces beyond which the nodes are held to talk for ever.
const FRAMES_PER_PACE_MAX: u32 = 20_000;

impl World {
    /// Stops the faults and lets everything come to its end, `rounds` times, with work before each. Those behind the second
    /// see a world that is whole, was at rest and has nothing but work: no link fails in it.
    pub(crate) fn come_to_rest(&mut self, rounds: u32) {
        self.witness.see(Fact::FaultsStopped);
        self.part_liar();
        self.repair();
        for _ in 0..rounds {
            self.work();
            let (paces, unfinished) = self.settle(1);
            if self.witness.violation().is_some() {
                return;
            }
            self.report.paces = self.report.paces.max(u64::from(paces));
            self.witness.see(Fact::Rested {
                paces,
                paces_max: PACES_TO_REST,
                unfinished: unfinished.as_deref(),
            });
            if self.witness.violation().is_some() {
                return;
            }
        }
    }

    /// Stops the faults and makes every cable whole.
    pub(super) fn repair(&mut self) {
        let frames = &mut self.plan.frames;
        // What was broken on purpose stays so.
        *frames = FrameFaults {
            reordered: frames.reordered,
            forged: frames.forged,
            ..FrameFaults::default()
        };
        self.stalled_until.fill(0);
        if self.swapped {
            self.swap();
        }
        for cable in 0..self.cables.len() {
            self.cables[cable].stalled_until = [0; 2];
            self.heal(cable);
        }
    }

    /// Those that are cabled ask each other for more than they have slots.
    pub(super) fn work(&mut self) {
        for cable in 0..self.cables.len() {
            let [a, b] = self.cables[cable].ends.map(|end| end.node);
            for _ in 0..=self.plan.slots.min(4) {
                self.ask(a, b);
                self.ask(b, a);
            }
        }
    }

    /// Lets paces pass until everything is at rest at so many of them, one behind the other. Gives how many it took until it was, and
    /// what has not come to its end.
    pub(super) fn settle(&mut self, calm_paces: u32) -> (u32, Option<String>) {
        let mut paces = 0;
        let mut calm = 0;
        loop {
            for node in 0..self.nodes.len() {
                self.tick(node);
            }
            paces += 1;
            let talks = self.carry_everything();
            let unfinished = talks.or_else(|| self.unfinished());
            calm = if unfinished.is_none() { calm + 1 } else { 0 };
            let is_over = paces == PACES_MAX || self.witness.violation().is_some();
            if calm == calm_paces || is_over {
                return (paces - calm.saturating_sub(1), unfinished);
            }
        }
    }

    /// Carries every frame. Says so if they do not end.
    pub(super) fn carry_everything(&mut self) -> Option<String> {
        for _ in 0..FRAMES_PER_PACE_MAX {
            let mut moved = false;
            for cable in 0..self.cables.len() {
                for end in [0, 1] {
                    moved |= self.transmit(cable, end);
                    let stalled = self.cables[cable].stalled_until[end] > self.witness.step;
                    moved |= !stalled && self.deliver(cable, end);
                }
            }
            for node in 0..self.nodes.len() {
                moved |= self.sync(node);
            }
            if !moved || self.witness.violation().is_some() {
                return None;
            }
        }
        Some(format!(
            "more than {FRAMES_PER_PACE_MAX} rounds of frames between two paces"
        ))
    }

    /// What has not come to its end: every link must be up, both ends must hold the same epoch, and nothing may be open.
    fn unfinished(&self) -> Option<String> {
        let link = |end: &End| {
            self.nodes[end.node]
                .links()
                .find(|link| link.port == end.port)
        };
        for (at, cable) in self.cables.iter().enumerate() {
            let [a, b] = &cable.ends;
            let (Some(a), Some(b)) = (link(a), link(b)) else {
                continue;
            };
            if a.state != LinkState::Up || b.state != LinkState::Up || a.epoch != b.epoch {
                return Some(format!(
                    "the link of cable {at} is {:?} in epoch {} and {:?} in epoch {}",
                    a.state, a.epoch, b.state, b.epoch
                ));
            }
        }
        if let Some(left) = (0..self.nodes.len()).find_map(|node| self.left_over(node)) {
            return Some(left);
        }
        let keeps = |node: &usize| {
            let mut invented = self.witness.inventions.iter();
            self.witness.regions[*node].reserved_words() > 0 || invented.any(|(at, _)| at == node)
        };
        if let Some(node) = (0..self.nodes.len()).find(keeps) {
            return Some(format!(
                "node {} keeps what it has not executed",
                crate::node_name(node)
            ));
        }
        let book = &self.witness.book;
        let waits = book.exchanges().iter().position(|exchange| {
            book.is_waited_for(exchange)
                && Self::cabled(&self.cables, exchange.from.node, exchange.to.node)
        });
        if let Some(token) = waits {
            return Some(format!("exchange {token} has not ended"));
        }
        // Who asked for one that ended without a word to anybody is told at the next pace.
        let asks = book.questions().iter().position(|question| {
            let asked = book.exchange(question.token);
            question.is_open
                && book.lives(question.by)
                && asked.is_some_and(|exchange| {
                    Self::cabled(&self.cables, exchange.from.node, exchange.to.node)
                })
        });
        asks.map(|number| format!("question {number} is not answered"))
    }

    /// What is left at a node that must have come to its end. Only what nobody can bring to it stays: exchanges with peers to which no cable leads,
    /// those that a caller waits for and those that are kept for their names. Each that was sent holds its slot.
    fn left_over(&self, at: usize) -> Option<String> {
        let node = &self.nodes[at];
        let name = crate::node_name(at);
        let (mut queued, mut unresolved) = (0, 0);
        for peer in node.peers() {
            let held = (peer.queued + peer.unresolved) as usize;
            let cabled = |to: &usize| {
                crate::node_guid(*to) == peer.guid && Self::cabled(&self.cables, at, *to)
            };
            if held > 0 && (0..self.nodes.len()).any(|to| cabled(&to)) {
                return Some(format!(
                    "node {name} holds {held} exchanges with {:#x}, to which a cable leads",
                    peer.guid
                ));
            }
            queued += peer.queued as usize;
            unresolved += peer.unresolved as usize;
        }
        let book = &self.witness.book;
        let stranded = book.exchanges().iter().filter(|exchange| {
            let Life { node, .. } = exchange.from;
            node == at && !Self::cabled(&self.cables, at, exchange.to.node)
        });
        let (mut waiting, mut named) = (0, 0);
        for exchange in stranded {
            let is_named = exchange.name.is_some() && exchange.ended.is_none();
            waiting += usize::from(book.is_waited_for(exchange));
            named += usize::from(is_named && exchange.cancelled && book.lives(exchange.from));
        }
        let open: u32 = node.links().map(|link| link.open_transactions).sum();
        let (open, room) = (open as usize, node.room() as usize);
        let kept = (queued + unresolved).checked_sub(waiting);
        let adds_up = open == unresolved
            && room + waiting == self.plan.transactions_max
            && node.in_doubt() as usize <= waiting
            && kept.is_some_and(|kept| kept <= named);
        (!adds_up).then(|| {
            format!(
                "node {name} holds {queued} queued and {unresolved} unresolved exchanges, {open} slots and room for {room} \
                 more; {waiting} wait for peers without a cable and {named} have names"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use covalent_protocol::Mode;

    use super::*;
    use crate::{ask::Ask, node_guid, plan::Plan};

    /// The first of two nodes asks one to which its cable leads for a while, and is in doubt when the cable is back. Gives the token.
    fn strand(world: &mut World) -> u64 {
        world.swap();
        world.pass_paces(3);
        let token = world.submit(0, 3, Mode::TwoPhase, Ask::Count { delta: 1 }, 0, 0);
        while world.transmit(0, 0) {}
        world.swap();
        world.pass_paces(3);
        token.expect("there is room")
    }

    fn world() -> World {
        let mut plan = Plan::led(4, vec![[0, 1], [2, 3]]);
        plan.swap = Some([0, 1]);
        World::led(plan, 1)
    }

    fn cancel(world: &mut World, token: u64) {
        world.witness.see(Fact::Cancelled { token });
        world.nodes[0].cancel_interest(|open| open == token);
    }

    #[test]
    fn what_is_kept_for_its_name_may_stay_where_no_cable_leads() {
        for is_waited_for in [true, false] {
            let mut world = world();
            let token = strand(&mut world);
            if !is_waited_for {
                cancel(&mut world, token);
            }
            let open: u32 = world.nodes[0]
                .links()
                .map(|link| link.open_transactions)
                .sum();
            assert_eq!(open, 1, "it is kept");
            world.conclude().expect("nobody can bring it to its end");
        }
    }

    #[test]
    fn what_nobody_knows_of_is_left_over_although_something_else_waits() {
        for waits in [true, false] {
            let mut world = world();
            let token = strand(&mut world);
            if !waits {
                cancel(&mut world, token);
            }
            assert_eq!(world.left_over(0), None);
            let taken = world.nodes[0].submit(node_guid(3), Mode::OnePhase, &[1], u64::MAX);
            assert_eq!(taken, Ok(()));
            assert!(world.left_over(0).is_some(), "waits: {waits}");
        }
    }
}
