//! Registers and records in flight become arbitrary, and everything completes after that.

use super::World;
use crate::{
    arbitrary::Near, book::NodeIncarnation, cable::End, fact::Fact, incarnation, node_guid,
};

/// Most frames that are planted on a cable in one direction.
const PLANTED_MAX: usize = 5;
/// Maximum events until the faults pause and everything completes.
const UNSETTLED_EVENTS_MAX: u32 = 300;
/// Ticks to converge from arbitrary registers, in addition to those after which a silent link is
/// dead.
const TICKS_TO_CONVERGE: u32 = 6;
/// Ticks at which everything must be at rest after arbitrary registers. At the second tick of an
/// idle link its keepalive is sent, which reveals the effect of a handshake that no node sent.
const CALM_TICKS: u32 = 3;

impl World {
    /// The world begins from arbitrary registers: its nodes know each other and have submitted
    /// requests.
    pub(super) fn begin_arbitrary(&mut self) {
        self.pass_ticks(2);
        self.work();
        self.hit();
    }

    /// The registers of some nodes become arbitrary, and so do the records in flight to them.
    pub(super) fn hit(&mut self) {
        let all = self.rng.bool();
        let one = self.rng.usize(..self.nodes.len());
        let near = self.number_in_use(one);
        for node in 0..self.nodes.len() {
            if node == one || all || self.rng.u8(..3) == 0 {
                self.scramble(node, near);
            }
        }
        self.unsettled_until
            .get_or_insert(self.witness.step + self.rng.u32(..UNSETTLED_EVENTS_MAX));
    }

    /// A serial number that the arbitrary ones are near to: often one that is in use.
    fn number_in_use(&mut self, node: usize) -> u32 {
        let anywhere = self.rng.u32(..);
        let epoch = self.nodes[node].links().next().map(|link| link.epoch);
        match self.rng.u8(..6) {
            0 => anywhere,
            1 => [0, 1, 1 << 31, u32::MAX][self.rng.usize(..4)],
            _ => epoch.unwrap_or(anywhere),
        }
    }

    fn scramble(&mut self, node: usize, common: u32) {
        self.report.hits += 1;
        let at = self.cables_of(node);
        self.witness.see(Fact::Scrambled { node, cables: &at });
        let seed = self.rng.u64(..);
        self.with(node, |node, program| node.scramble(seed, common, program));
        for cable in at {
            for end in [0, 1] {
                if self.cables[cable].ends[end].node == node {
                    self.plant(cable, end, common);
                }
            }
        }
    }

    fn plant(&mut self, cable: usize, to: usize, common: u32) {
        let at = self.place(cable, to);
        let End { node: far, .. } = self.cables[cable].ends[1 - to];
        let node_incarnation = self.witness.book.node_incarnation(far);
        // Add an incarnation that no node has. The next real one is random, so no frame names it in
        // advance.
        let numbers = (0..=node_incarnation.number).chain([u32::MAX]);
        let incarnations: Vec<u64> = numbers
            .map(|number| {
                incarnation(NodeIncarnation {
                    number,
                    ..node_incarnation
                })
            })
            .collect();
        for _ in 0..self.rng.usize(..=PLANTED_MAX) {
            let exchanges = self.witness.book.exchanges().iter();
            let recent = exchanges
                .rev()
                .filter(|exchange| exchange.to.node == at.node && exchange.from.node == far)
                .take(8);
            let requests: Vec<&[u8]> = recent.map(|exchange| &exchange.request[..]).collect();
            let near = Near {
                common,
                slots: self.plan.slots,
                guid: node_guid(far),
                incarnations: &incarnations,
                requests: &requests,
            };
            let frame = near.frame(&mut self.rng);
            self.witness.see(Fact::Planted { at, frame: &frame });
            self.cables[cable].plant(to, frame, &mut self.rng);
        }
    }

    /// Pauses the faults until everything has completed after arbitrary registers. From then on all
    /// guarantees hold again.
    pub(super) fn converge(&mut self) {
        self.unsettled_until = None;
        let often = self.plan.frames.clone();
        self.repair();
        let (paces, unfinished) = self.settle(CALM_TICKS);
        if self.witness.violation().is_some() {
            return;
        }
        self.report.paces_to_converge = self.report.paces_to_converge.max(u64::from(paces));
        self.witness.see(Fact::Converged {
            paces,
            paces_max: TICKS_TO_CONVERGE + self.plan.keepalive_misses_max,
            unfinished: unfinished.as_deref(),
        });
        self.plan.frames = often;
    }
}
