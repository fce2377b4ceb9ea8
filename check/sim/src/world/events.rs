//! One event after the other, as the plan weighs them.

use covalent_protocol::DEFAULT_ETHERTYPE;

use super::World;
use crate::{arbitrary::Near, fact::Fact, journal::LastBatch, mutant::Mutant, node_guid};

/// Something that may happen to a world.
type Event = fn(&mut World);

/// Exchanges that are recent.
const RECENT: u64 = 60;
/// Most events for which something stands still.
const STALL_MAX: u32 = 400;

impl World {
    /// One event.
    pub(super) fn event(&mut self) {
        let weights = &self.plan.weights;
        let events: [(u32, Event); 21] = [
            (weights.submit, Self::submit_somewhere),
            (weights.query_outcome, Self::query_somewhere),
            (weights.transmit, Self::transmit_somewhere),
            (weights.deliver, Self::deliver_somewhere),
            (weights.tick, Self::tick_somewhere),
            (weights.quiet, Self::quiet_somewhere),
            (weights.cut_one_way, Self::cut_one_way),
            (weights.cut_both, Self::cut_both),
            (weights.heal, Self::heal_somewhere),
            (weights.carrier, Self::flip_carrier),
            (weights.transmit_failed, Self::fail_to_transmit),
            (weights.stall, Self::stall),
            (weights.cancel, Self::cancel),
            (weights.crash, Self::crash_somewhere),
            (weights.restart, Self::restart_somewhere),
            (weights.sync, Self::sync_somewhere),
            (weights.plug, Self::plug),
            (weights.noise, Self::noise),
            (weights.hit, Self::hit),
            (weights.forge, Self::forge),
            (weights.lie, Self::lie),
        ];
        let total: u32 = events.iter().map(|(weight, _)| weight).sum();
        let mut draw = self.rng.u32(..total);
        for (weight, event) in events {
            if draw < weight {
                return event(self);
            }
            draw -= weight;
        }
    }

    fn submit_somewhere(&mut self) {
        let from = self.rng.usize(..self.nodes.len());
        // In a large world most other nodes are no neighbors, and requests to them are without
        // result.
        let (cable, end) = self.some_end();
        let ends = self.cables[cable].ends.map(|end| end.node);
        let (from, to) = if self.rng.bool() {
            (ends[end], ends[1 - end])
        } else {
            let further = self.rng.usize(1..self.nodes.len());
            (from, (from + further) % self.nodes.len())
        };
        if from != to && !self.stands_still(from) {
            self.submit_random(from, to);
        }
    }

    /// A program queries by name one of the last exchanges that were in doubt.
    fn query_somewhere(&mut self) {
        let book = &self.witness.book;
        let first = book.next_token().saturating_sub(RECENT);
        let named: Vec<u64> = (first..book.next_token())
            .filter(|token| {
                book.exchange(*token).is_some_and(|exchange| {
                    exchange.name.is_some() && book.is_current(exchange.from)
                })
            })
            .collect();
        // A program that submits everything again does not need names.
        if named.is_empty() || self.options.mutant == Some(Mutant::RetriesBlindly) {
            return;
        }
        let token = named[self.rng.usize(..named.len())];
        self.query_outcome(token);
    }

    fn transmit_somewhere(&mut self) {
        let (cable, end) = self.some_end();
        if !self.stands_still(self.cables[cable].ends[end].node) {
            self.transmit(cable, end);
        }
    }

    fn deliver_somewhere(&mut self) {
        let (cable, end) = self.some_end();
        let stalled = self.cables[cable].stalled_until[end] > self.witness.step;
        if !stalled && !self.stands_still(self.cables[cable].ends[end].node) {
            self.deliver(cable, end);
        }
    }

    fn tick_somewhere(&mut self) {
        let node = self.rng.usize(..self.nodes.len());
        if !self.stands_still(node) {
            self.tick(node);
        }
    }

    /// A hint, which may come at any time: nothing may be wrong because of it.
    fn quiet_somewhere(&mut self) {
        let node = self.rng.usize(..self.nodes.len());
        if !self.stands_still(node) {
            self.quiet(node);
        }
    }

    fn cut_one_way(&mut self) {
        let (cable, end) = self.some_end();
        let mut towards = [false; 2];
        towards[end] = true;
        self.cut_somehow(cable, towards);
    }

    fn cut_both(&mut self) {
        let (cable, _) = self.some_end();
        self.cut_somehow(cable, [true; 2]);
    }

    fn cut_somehow(&mut self, cable: usize, towards: [bool; 2]) {
        let loses = self.rng.bool();
        self.cut(cable, towards, loses);
        // Often, but not always, the ports notice.
        for end in [0, 1] {
            if self.rng.bool() {
                self.set_carrier(cable, end, false);
            }
        }
    }

    fn heal_somewhere(&mut self) {
        let cable = self.rng.usize(..self.cables.len());
        let whole = self.cables[cable].cut == [false; 2]
            && self.cables[cable].ends.iter().all(|end| end.carrier);
        if !whole {
            self.heal(cable);
        }
    }

    fn flip_carrier(&mut self) {
        let (cable, end) = self.some_end();
        let up = !self.cables[cable].ends[end].carrier;
        self.set_carrier(cable, end, up);
    }

    fn fail_to_transmit(&mut self) {
        let (cable, end) = self.some_end();
        let at = self.place(cable, end);
        self.witness.see(Fact::TransmitFailed { at });
        self.with(at.node, |node, program| {
            node.on_transmit_failed(at.port, program);
        });
    }

    fn stall(&mut self) {
        self.report.stalls += 1;
        let events = self.rng.u32(1..=STALL_MAX);
        let until = self.witness.step + events;
        if self.rng.bool() {
            let node = self.rng.usize(..self.nodes.len());
            self.witness.see(Fact::NodeStalled { node, events });
            self.stalled_until[node] = until;
        } else {
            let (cable, end) = self.some_end();
            self.witness.see(Fact::CableStalled { cable, end, events });
            self.cables[cable].stalled_until[end] = until;
        }
    }

    fn stands_still(&self, node: usize) -> bool {
        self.stalled_until[node] > self.witness.step
    }

    fn cancel(&mut self) {
        let Some(last) = self.witness.book.next_token().checked_sub(1) else {
            return;
        };
        let token = self.rng.u64(last.saturating_sub(20)..=last);
        let Some(node) = self
            .witness
            .book
            .exchange(token)
            .map(|exchange| exchange.from.node)
        else {
            return;
        };
        self.witness.see(Fact::Canceled { token });
        self.nodes[node].cancel_interest(|open| open == token);
    }

    fn crash_somewhere(&mut self) {
        let node = self.rng.usize(..self.nodes.len());
        self.crash(node);
    }

    fn restart_somewhere(&mut self) {
        let node = self.rng.usize(..self.nodes.len());
        let last = [LastBatch::Whole, LastBatch::Torn][self.rng.usize(..2)];
        self.restart(node, last);
    }

    fn sync_somewhere(&mut self) {
        let node = self.rng.usize(..self.nodes.len());
        if !self.stands_still(node) {
            self.sync(node);
        }
    }

    fn plug(&mut self) {
        if self.spares.is_empty() {
            self.swap();
        } else {
            self.replug();
        }
    }

    /// Two cables are swapped at one end.
    pub(super) fn swap(&mut self) {
        let Some([first, second]) = self.plan.swap else {
            return;
        };
        for cable in [first, second] {
            for end in [0, 1] {
                self.set_carrier(cable, end, false);
            }
            self.cables[cable].lose();
        }
        let ends = [self.cables[first].ends[1], self.cables[second].ends[1]];
        (self.cables[first].ends[1], self.cables[second].ends[1]) = (ends[1], ends[0]);
        self.swapped = !self.swapped;
        self.see_moved();
        for cable in [first, second] {
            for end in [0, 1] {
                self.set_carrier(cable, end, true);
            }
        }
    }

    /// The far end of cable 0 goes to another node.
    fn replug(&mut self) {
        let spare = self.rng.usize(..self.spares.len());
        for end in [0, 1] {
            self.set_carrier(0, end, false);
        }
        self.cables[0].lose();
        std::mem::swap(&mut self.cables[0].ends[1], &mut self.spares[spare]);
        self.see_moved();
        for end in [0, 1] {
            self.set_carrier(0, end, true);
        }
    }

    fn see_moved(&mut self) {
        let cables: Vec<_> = self
            .cables
            .iter()
            .map(|cable| cable.ends.map(|end| end.node))
            .collect();
        self.witness.see(Fact::Moved { cables: &cables });
    }

    fn noise(&mut self) {
        let (cable, end) = self.some_end();
        let at = self.place(cable, end);
        let len = self.rng.usize(..1600);
        let mut frame: Vec<u8> = (0..len).map(|_| self.rng.u8(..)).collect();
        if let Some(ethertype) = frame.get_mut(12..14) {
            ethertype.copy_from_slice(&DEFAULT_ETHERTYPE.to_be_bytes());
        }
        self.witness.see(Fact::Noise { at });
        self.with(at.node, |node, program| {
            node.on_frame(at.port, &frame, program);
        });
    }

    /// A sender that receives nothing claims that another node is at the end of a cable, or sends
    /// anything in an epoch that it guesses.
    fn forge(&mut self) {
        let (cable, end) = self.some_end();
        let at = self.place(cable, end);
        let far = self.cables[cable].ends[1 - end].node;
        // Real incarnations are odd.
        let incarnations: [u64; 2] = [(); 2].map(|()| self.rng.u64(..) & !1);
        let guid = if self.rng.bool() {
            node_guid(far)
        } else {
            self.rng.u64(100..)
        };
        // The forger knows where a world begins to count, as every reader of this code does of a
        // node.
        let first = self.plan.first_sequence.wrapping_add(2);
        let near = Near {
            common: [first, self.rng.u32(..)][self.rng.usize(..2)],
            slots: self.plan.slots,
            guid,
            incarnations: &incarnations,
            requests: &[],
        };
        let frame = near.forged(&mut self.rng);
        self.witness.see(Fact::Forged { at });
        self.with(at.node, |node, program| {
            node.on_frame(at.port, &frame, program);
        });
    }

    fn some_end(&mut self) -> (usize, usize) {
        (self.rng.usize(..self.cables.len()), self.rng.usize(..2))
    }
}
