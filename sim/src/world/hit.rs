//! Registers and records under way become anything, and everything comes to its end behind that.

use super::World;
use crate::{arbitrary::Near, book::Life, cable::End, fact::Fact, incarnation, node_guid};

/// Most frames that are planted on a cable in one direction.
const PLANTED_MAX: usize = 5;
/// Most events until the faults stop for a while and everything comes to its end.
const UNSETTLED_EVENTS_MAX: u32 = 300;
/// Paces to come to an end behind arbitrary registers, on top of those after which a silent link is dead.
const PACES_TO_CONVERGE: u32 = 6;
/// Paces at which everything must be at rest behind arbitrary registers: at the second in which a link is idle its ball goes, which shows what a handshake
/// that nobody sent left.
const CALM_PACES: u32 = 3;

impl World {
    /// The world begins from arbitrary registers: its nodes know each other, and have asked for something.
    pub(super) fn begin_arbitrary(&mut self) {
        self.pass_paces(2);
        self.work();
        self.hit();
    }

    /// The registers of some nodes become anything, and so do the records under way to them.
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
        let life = self.witness.book.life(far);
        // And of one that nobody lives: that of the next is a random number, which nobody says before.
        let lives = (0..=life.number).chain([u32::MAX]);
        let incarnations: Vec<u64> = lives
            .map(|number| incarnation(Life { number, ..life }))
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

    /// No fault for as long as it takes until everything has come to its end behind arbitrary registers. From then on
    /// everything is promised again.
    pub(super) fn converge(&mut self) {
        self.unsettled_until = None;
        let often = self.plan.frames.clone();
        self.repair();
        let (paces, unfinished) = self.settle(CALM_PACES);
        if self.witness.violation().is_some() {
            return;
        }
        self.report.paces_to_converge = self.report.paces_to_converge.max(u64::from(paces));
        self.witness.see(Fact::Converged {
            paces,
            paces_max: PACES_TO_CONVERGE + self.plan.silent_paces_max,
            unfinished: unfinished.as_deref(),
        });
        self.plan.frames = often;
    }
}
