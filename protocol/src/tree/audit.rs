//! What a node noted is what its neighbour says, and its own table makes sense: with each pace, so that trees find back from anything.
//!
//! ```text
//!  a ─── Digest ──► b     how many trees a hangs in, and the sum of what it says of them to b
//!  a ◄── Tell ───── b     it is not what b noted: everything once more
//!  a ─── Advert… ─► b     what b noted and is not said again is no more, once the digest came that answers the question
//!  a ─── Digest ──► b
//! ```
//!
//! A digest is written when nothing else waits, and computed then. So it is about what was said before it on the link, and nothing else.

use super::{Berths, Label, Standing, Trees, Watch, note::Digest, table::Said};
use crate::mix::mix;

/// Paces between two questions to a neighbour of whom something was left out because there is no room for it.
const LEFT_OUT_PACES: u8 = 64;

/// What is compared with one neighbour, and where that stands.
#[derive(Debug, Clone, Default, Hash)]
pub(super) struct Audit {
    /// A digest is to be said.
    pub digest_due: bool,
    /// The number of the neighbour's question that the next digest answers; 0 for none.
    pub answers: u8,
    /// The neighbour is to be asked to say everything again.
    pub tell_due: bool,
    /// The number of the question to it that is not answered; 0 for none.
    pub asked: u8,
    /// The number of the last question to it.
    pub asked_last: u8,
    /// Something that it says was left out, because there is no room.
    pub left_out: bool,
}

/// What all that is said of trees comes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    items: u32,
    sum: u64,
}

impl Sum {
    /// Adds what is said of a tree. Only that somebody hangs counts, for of what is lost nothing need be known.
    fn add(&mut self, root: u64, said: &Said) {
        if !said.hangs {
            return;
        }
        let rest = u64::from(said.hops) << 32 | u64::from(said.life) << 8 | u64::from(said.child);
        let words = [said.label.wave(), said.label.rank(), rest];
        let mixed = words
            .into_iter()
            .fold(mix(root), |sum, word| mix(sum ^ word));
        self.items += 1;
        self.sum = self.sum.wrapping_add(mixed);
    }
}

impl Trees {
    /// What this node says to a neighbour.
    fn sum_said_to(&self, berth: u8) -> Sum {
        let mut sum = Sum::default();
        for at in self.table.indices() {
            sum.add(self.table.root(at), &Said::of(&self.advert_of(at, berth)));
        }
        sum
    }

    /// What this node noted of what a neighbour said.
    fn sum_said_by(&self, berth: u8) -> Sum {
        let mut sum = Sum::default();
        for at in self.table.indices() {
            sum.add(self.table.root(at), self.said(at, berth));
        }
        sum
    }

    /// The digest of what was said to a neighbour, if it is due. Nothing else may wait for it.
    pub(super) fn take_digest(&mut self, berth: u8) -> Option<Digest> {
        let audit = &mut self.berths.get_mut(usize::from(berth))?.audit;
        if !core::mem::take(&mut audit.digest_due) {
            return None;
        }
        let answers = core::mem::take(&mut audit.answers);
        let Sum { items, sum } = self.sum_said_to(berth);
        Some(Digest {
            answers,
            items,
            sum,
        })
    }

    /// A neighbour says what all that it said comes to.
    pub(super) fn on_digest(&mut self, berth: u8, digest: &Digest, watch: &mut impl Watch) {
        let audit = &mut self.berths[usize::from(berth)].audit;
        let is_answer = digest.answers != 0;
        if is_answer && digest.answers == audit.asked {
            audit.asked = 0;
            self.drop_stale(berth, watch);
        }
        let noted = self.sum_said_by(berth);
        let is_same = (noted.items, noted.sum) == (digest.items, digest.sum);
        // One question for each pace.
        if is_same || is_answer || self.is_left_out(berth) {
            return;
        }
        for said in self.table.said_by_mut(berth) {
            said.stale = said.hangs;
        }
        let audit = &mut self.berths[usize::from(berth)].audit;
        audit.tell_due = true;
        audit.asked = audit.asked_last.checked_add(1).unwrap_or(1);
        audit.asked_last = audit.asked;
    }

    /// Whether the difference is what there was no room for, and it is not yet time to ask again.
    fn is_left_out(&self, berth: u8) -> bool {
        let audit = &self.berths[usize::from(berth)].audit;
        self.is_full() && audit.left_out && !self.paces.is_multiple_of(LEFT_OUT_PACES)
    }

    /// What a neighbour did not say again is no more.
    fn drop_stale(&mut self, berth: u8, watch: &mut impl Watch) {
        for at in self.table.places() {
            let said = self.table.said_mut(at, berth);
            if said.stale {
                *said = Said::NOTHING;
                self.settle(at, watch);
            }
        }
    }

    /// A neighbour noted something else than was said: everything is said again, and then the digest.
    pub(super) fn on_tell(&mut self, berth: u8, number: u8) {
        let Self { table, berths, .. } = self;
        let place = &mut berths[usize::from(berth)];
        for at in table.indices() {
            if table[at].standing != Standing::Lost {
                place.adverts.insert(at);
            }
        }
        place.audit.answers = number;
        place.audit.digest_due = true;
    }

    /// Brings a tree of another root that makes no sense to the nearest one that does. In one that does, nothing changes.
    pub(super) fn mend(&mut self, at: usize, watch: &mut impl Watch) {
        let up = self.up;
        for berth in up.iter() {
            let said = self.table.said_mut(at, berth);
            if said.hangs && !said.label.is_credible() {
                *said = Said::NOTHING;
            }
        }
        let is_roomy = !self.is_full();
        let tree = &mut self.table[at];
        if tree.label != Label::FURTHEST && !tree.label.is_credible() {
            // Nobody believes it.
            tree.label = Label::FURTHEST;
        }
        tree.seekers = tree.seekers.and(up);
        tree.denied = tree.denied.and(up);
        tree.unheard = tree.unheard.and(up);
        tree.written = tree.written.and(up);
        if is_roomy {
            // Whoever was turned away says it again when it is asked.
            tree.turned_away = Berths::NONE;
        }
        if tree.seekers.is_empty() {
            tree.want_nothing();
        } else if !tree.is_wanted() || tree.wanted.wave() > Label::WAVE_MAX {
            self.deny_seekers(at);
        }
        self.settle(at, watch);
    }

    /// The same for the own one.
    pub(super) fn mend_own(&mut self) {
        let Some(own) = self.own else {
            return;
        };
        let wave = self.table[own].label.wave();
        let root = if (1..=Label::WAVE_MAX).contains(&wave) {
            Label::of_root(wave)
        } else {
            Label::of_root(super::root::first_wave(self.life))
        };
        let life = self.life;
        let tree = &mut self.table[own];
        let changes = tree.label != root
            || tree.life != life
            || tree.standing != Standing::Hangs
            || tree.told_hops != 0;
        tree.label = root;
        tree.life = life;
        tree.standing = Standing::Hangs;
        tree.parent = None;
        (tree.hops, tree.told_hops) = (0, 0);
        tree.want_nothing();
        (tree.denied, tree.asked) = (Berths::NONE, Berths::NONE);
        if changes {
            self.advert(own, self.up);
        }
    }
}
