//! The faults stop and everything completes.

use covalent_protocol::LinkState;

use super::World;
use crate::{book::NodeIncarnation, cable::End, fact::Fact, plan::FrameFaults};

/// Ticks within which a world comes to rest after the last fault.
pub const TICKS_TO_REST: u32 = 8;
/// Ticks after which a wait gives up.
const TICKS_MAX: u32 = 200;
/// Frames between two ticks beyond which the nodes are considered to send forever.
const FRAMES_PER_TICK_MAX: u32 = 20_000;

impl World {
    /// Stops the faults and lets everything complete, `rounds` times, with work before each. Rounds
    /// after the second find a world that is whole, was at rest and has only work: no link fails in
    /// them.
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
                paces_max: TICKS_TO_REST,
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
        // Deliberate defects remain.
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

    /// Cabled nodes submit to each other one request more than they have slots, five at most.
    pub(super) fn work(&mut self) {
        for cable in 0..self.cables.len() {
            let [a, b] = self.cables[cable].ends.map(|end| end.node);
            for _ in 0..=self.plan.slots.min(4) {
                self.submit_random(a, b);
                self.submit_random(b, a);
            }
        }
    }

    /// Lets ticks pass until everything is at rest at `calm_ticks` consecutive ticks. Returns the
    /// number of ticks until then, and what has not completed.
    pub(super) fn settle(&mut self, calm_ticks: u32) -> (u32, Option<String>) {
        let mut paces = 0;
        let mut calm = 0;
        loop {
            for node in 0..self.nodes.len() {
                self.tick(node);
            }
            paces += 1;
            let talks = self.deliver_everything();
            let unfinished = talks.or_else(|| self.unfinished());
            calm = if unfinished.is_none() { calm + 1 } else { 0 };
            let is_over = paces == TICKS_MAX || self.witness.violation().is_some();
            if calm == calm_ticks || is_over {
                return (paces - calm.saturating_sub(1), unfinished);
            }
        }
    }

    /// Delivers every frame. Returns an error text if the frames do not end.
    pub(super) fn deliver_everything(&mut self) -> Option<String> {
        for _ in 0..FRAMES_PER_TICK_MAX {
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
            "more than {FRAMES_PER_TICK_MAX} rounds of frames between two ticks"
        ))
    }

    /// Returns what has not completed: every link must be up, with the same epoch at both ends, and
    /// nothing may be open.
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
                "node {} keeps a request that it has not executed",
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
        // A query about an exchange that ended without a report gets its reply at the next tick.
        let unanswered = book.questions().iter().position(|question| {
            let requested = book.exchange(question.token);
            question.is_open
                && book.is_current(question.by)
                && requested.is_some_and(|exchange| {
                    Self::cabled(&self.cables, exchange.from.node, exchange.to.node)
                })
        });
        unanswered.map(|number| format!("query {number} has no reply"))
    }

    /// Returns what is left over at a node where everything must have completed. Only exchanges
    /// with peers that no cable reaches may remain, if a caller waits for them or they are kept for
    /// their names. Each that was sent holds its slot.
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
            let NodeIncarnation { node, .. } = exchange.from;
            node == at && !Self::cabled(&self.cables, at, exchange.to.node)
        });
        let (mut waiting, mut named) = (0, 0);
        for exchange in stranded {
            let is_named = exchange.name.is_some() && exchange.ended.is_none();
            waiting += usize::from(book.is_waited_for(exchange));
            named += usize::from(is_named && exchange.canceled && book.is_current(exchange.from));
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
                "node {name} holds {queued} queued and {unresolved} unresolved exchanges, {open} \
                 slots and room for {room} \
                 more; {waiting} wait for peers without a cable and {named} have names"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use covalent_protocol::Mode;

    use super::*;
    use crate::{node_guid, operation::Operation, plan::Plan};

    /// The first of two nodes submits to one that its cable reaches for a while, and is in doubt
    /// when the cable is back. Returns the token.
    fn strand(world: &mut World) -> u64 {
        world.swap();
        world.pass_ticks(3);
        let token = world.submit(0, 3, Mode::TwoPhase, Operation::Count { delta: 1 }, 0, 0);
        while world.transmit(0, 0) {}
        world.swap();
        world.pass_ticks(3);
        token.expect("there is room")
    }

    fn world() -> World {
        let mut plan = Plan::led(4, vec![[0, 1], [2, 3]]);
        plan.swap = Some([0, 1]);
        World::led(plan, 1)
    }

    fn cancel(world: &mut World, token: u64) {
        world.witness.see(Fact::Canceled { token });
        world.nodes[0].cancel_interest(|open| open == token);
    }

    #[test]
    fn an_exchange_kept_for_its_name_may_remain_without_a_cable() {
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
            world.conclude().expect("no node can complete it");
        }
    }

    #[test]
    fn an_unknown_exchange_is_left_over_even_if_others_wait() {
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
