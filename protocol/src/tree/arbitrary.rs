//! Tables with arbitrary contents, for the proof that trees find back from anywhere.
//!
//! What lies in registers is drawn anew. What one structure says of another stays true, as it does in a program whose memory is its own: berths exist, trees
//! are in the order of their roots, and who is at which berth is the links' to say.

use fastrand::Rng;

use super::{
    Berths, Label, Standing, Trees,
    audit::Audit,
    table::{Origin, Said, Table, Tree},
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
    /// Draws everything that is known of trees, and what is under way to be said, from `seed`. Who is at which berth stays, and what roots are called.
    ///
    /// May be called at any moment.
    pub fn scramble(&mut self, seed: u64) {
        let rng = &mut Rng::with_seed(seed);
        for root in GHOSTS {
            if rng.u8(..4) == 0 && root != self.guid {
                self.table.insert(root);
            }
        }
        let berths = self.berths.len() as u8;
        let some = |rng: &mut Rng| -> Berths { (0..berths).filter(|_| rng.u8(..4) == 0).collect() };
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
                sought: label(rng),
                hops: hops(rng),
                told_hops: hops(rng),
                life: rng.u16(..3),
                standing: [Standing::Hangs, Standing::Seeks, Standing::Lost][rng.usize(..3)],
                parent: (berths > 0 && rng.bool()).then(|| rng.u8(..berths)),
                seekers: some(rng),
                denied: some(rng),
                asked: some(rng),
                unheard: some(rng),
                written: some(rng),
                turned_away: some(rng),
                lost_paces: rng.u8(..),
                origin: Origin {
                    berth: rng.u8(..),
                    ..tree.origin
                },
            };
        }
        for berth in self.up.iter() {
            for said in self.table.said_by_mut(berth) {
                let hangs = rng.bool();
                *said = Said {
                    label: label(rng),
                    hops: hops(rng),
                    life: rng.u16(..3),
                    hangs,
                    child: hangs && rng.bool(),
                    stale: rng.bool(),
                };
            }
            let berth = &mut self.berths[usize::from(berth)];
            let trees = &self.table;
            waiting(&mut berth.adverts, trees, rng);
            waiting(&mut berth.denials, trees, rng);
            waiting(&mut berth.names, trees, rng);
            waiting(&mut berth.seeks, trees, rng);
            berth.audit = Audit {
                digest_due: rng.bool(),
                answers: rng.u8(..3),
                tell_due: false,
                asked: rng.u8(..3),
                asked_last: rng.u8(..),
                left_out: rng.bool(),
            };
        }
        self.waves.scramble(rng);
        self.shares.scramble(rng);
        self.full_told = rng.bool();
        self.nothing_to_forget = rng.bool();
        self.paces = rng.u8(..);
    }
}
