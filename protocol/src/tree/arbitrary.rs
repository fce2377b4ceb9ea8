//! Tables with arbitrary contents, for the proof that trees recover from any state.
//!
//! The contents of registers are drawn at random. References between structures stay valid, as in a
//! program whose memory is private: neighbor indices exist, trees are sorted by their roots, and
//! the links determine which neighbor has which index.

use fastrand::Rng;

use super::{
    Label, NeighborSet, Standing, Trees,
    audit::Audit,
    table::{Advertised, Origin, Table, Tree},
    waiting::Waiting,
};

/// Roots that no node has, of which any node may believe anything.
const GHOSTS: [u64; 3] = [0x0dea_d000, 0x0dea_d100, u64::MAX];

fn label(rng: &mut Rng) -> Label {
    let wave = match rng.u8(..8) {
        0 => rng.u64(..1 << 46),
        // A wave a few below the most would use the counter up.
        1 => rng.u64(Label::WAVE_MAX..),
        _ => rng.u64(..5),
    };
    let rank = match rng.u8(..4) {
        0 => rng.u64(..),
        1 => rng.u64(..5),
        _ => rng.u64(..12) * Label::HOP_RANKS,
    };
    Label::new(wave, rank)
}

fn hops(rng: &mut Rng) -> u16 {
    if rng.bool() {
        rng.u16(..)
    } else {
        rng.u16(..12)
    }
}

fn waiting(waiting: &mut Waiting, trees: &Table, rng: &mut Rng) {
    waiting.clear();
    for tree in trees.indices() {
        if rng.u8(..4) == 0 {
            waiting.insert(tree);
        }
    }
}

impl Trees {
    /// Draws all state of trees, and all queued messages, from `seed`. The assignment of neighbor
    /// indices and the names of roots stay.
    ///
    /// May be called at any moment.
    pub fn scramble(&mut self, seed: u64) {
        let rng = &mut Rng::with_seed(seed);
        for root in GHOSTS {
            if rng.u8(..4) == 0 && root != self.guid {
                self.table.insert(root);
            }
        }
        let neighbors = self.neighbors.len() as u8;
        let some = |rng: &mut Rng| -> NeighborSet {
            (0..neighbors).filter(|_| rng.u8(..4) == 0).collect()
        };
        for at in self.table.places() {
            if !self.table.is_known(at) {
                continue;
            }
            let tree = &mut self.table[at];
            *tree = Tree {
                root: tree.root,
                name: tree.name,
                label: label(rng),
                wanted: label(rng),
                requested_bound: label(rng),
                hops: hops(rng),
                advertised_hops: hops(rng),
                incarnation: rng.u16(..3),
                standing: [Standing::Attached, Standing::Searches, Standing::Lost][rng.usize(..3)],
                parent: (neighbors > 0 && rng.bool()).then(|| rng.u8(..neighbors)),
                searchers: some(rng),
                denied: some(rng),
                requested: some(rng),
                unconfirmed: some(rng),
                written: some(rng),
                turned_away: some(rng),
                lost_ticks: rng.u8(..),
                origin: Origin {
                    neighbor: rng.u8(..),
                    ..tree.origin
                },
            };
        }
        for neighbor in self.up.iter() {
            for advertised in self.table.advertised_by_mut(neighbor) {
                let attached = rng.bool();
                *advertised = Advertised {
                    label: label(rng),
                    hops: hops(rng),
                    incarnation: rng.u16(..3),
                    attached,
                    child: attached && rng.bool(),
                    stale: rng.bool(),
                };
            }
            let neighbor = &mut self.neighbors[usize::from(neighbor)];
            let trees = &self.table;
            waiting(&mut neighbor.adverts, trees, rng);
            waiting(&mut neighbor.denials, trees, rng);
            waiting(&mut neighbor.names, trees, rng);
            waiting(&mut neighbor.searches, trees, rng);
            neighbor.audit = Audit {
                digest_due: rng.bool(),
                answers: rng.u8(..3),
                resync_due: false,
                requested: rng.u8(..3),
                requested_last: rng.u8(..),
                left_out: rng.bool(),
            };
        }
        self.waves.scramble(rng);
        self.shares.scramble(rng);
        self.full_reported = rng.bool();
        self.nothing_to_forget = rng.bool();
        self.ticks = rng.u8(..);
    }
}
