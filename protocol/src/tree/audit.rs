//! Audit: with each tick it checks that the recorded state of each neighbor matches what the
//! neighbor sends, and that the local table is consistent. Trees therefore recover from any state.
//!
//! ```text
//!  a ─── Digest ──► b     number of trees that a is attached to, sum of its records for b
//!  a ◄── Resync ─── b     it differs from the record of b: send everything again
//!  a ─── Advert… ─► b     b drops its entries that are not repeated before the answering digest
//!  a ─── Digest ──► b
//! ```
//!
//! A digest is computed and written when nothing else waits. It therefore covers exactly the
//! messages sent before it on the link.

use super::{Label, NeighborSet, Standing, Trees, Watch, note::Digest, table::Advertised};
use crate::mix::mix;

/// Ticks between two requests to a neighbor some of whose trees were left out for lack of space.
const LEFT_OUT_TICKS: u8 = 64;

/// The state of the comparison with one neighbor.
#[derive(Debug, Clone, Default, Hash)]
pub(super) struct Audit {
    /// A digest is due.
    pub digest_due: bool,
    /// The number of the neighbor's question that the next digest answers; 0 for none.
    pub answers: u8,
    /// A request to the neighbor to send everything again is due.
    pub resync_due: bool,
    /// The number of the question to it that is not answered; 0 for none.
    pub requested: u8,
    /// The number of the last question to it.
    pub requested_last: u8,
    /// Some of its trees were left out for lack of space.
    pub left_out: bool,
}

/// The checksum over all adverts of a neighbor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    items: u32,
    sum: u64,
}

impl Sum {
    /// Adds the advert of a tree. Only attached nodes count: an unreachable tree need not be known.
    fn add(&mut self, root: u64, advertised: &Advertised) {
        if !advertised.attached {
            return;
        }
        let rest = u64::from(advertised.hops) << 32
            | u64::from(advertised.incarnation) << 8
            | u64::from(advertised.child);
        let words = [advertised.label.wave(), advertised.label.rank(), rest];
        let mixed = words
            .into_iter()
            .fold(mix(root), |sum, word| mix(sum ^ word));
        self.items += 1;
        self.sum = self.sum.wrapping_add(mixed);
    }
}

impl Trees {
    /// The checksum of what this node sends to a neighbor.
    fn sum_sent_to(&self, neighbor: u8) -> Sum {
        let mut sum = Sum::default();
        for at in self.table.indices() {
            sum.add(
                self.table.root(at),
                &Advertised::of(&self.advert_of(at, neighbor)),
            );
        }
        sum
    }

    /// The checksum of what this node recorded from a neighbor.
    fn sum_received_from(&self, neighbor: u8) -> Sum {
        let mut sum = Sum::default();
        for at in self.table.indices() {
            sum.add(self.table.root(at), self.advertised(at, neighbor));
        }
        sum
    }

    /// The digest of the adverts sent to a neighbor, if it is due. Nothing else may wait for that
    /// neighbor.
    pub(super) fn take_digest(&mut self, neighbor: u8) -> Option<Digest> {
        let audit = &mut self.neighbors.get_mut(usize::from(neighbor))?.audit;
        if !core::mem::take(&mut audit.digest_due) {
            return None;
        }
        let answers = core::mem::take(&mut audit.answers);
        let Sum { items, sum } = self.sum_sent_to(neighbor);
        Some(Digest {
            answers,
            items,
            sum,
        })
    }

    /// A neighbor sends the digest of all that it sent.
    pub(super) fn on_digest(&mut self, neighbor: u8, digest: &Digest, watch: &mut impl Watch) {
        let audit = &mut self.neighbors[usize::from(neighbor)].audit;
        let is_answer = digest.answers != 0;
        if is_answer && digest.answers == audit.requested {
            audit.requested = 0;
            self.drop_stale(neighbor, watch);
        }
        let recorded = self.sum_received_from(neighbor);
        let is_same = (recorded.items, recorded.sum) == (digest.items, digest.sum);
        // One request per tick.
        if is_same || is_answer || self.is_left_out(neighbor) {
            return;
        }
        for advertised in self.table.advertised_by_mut(neighbor) {
            advertised.stale = advertised.attached;
        }
        let audit = &mut self.neighbors[usize::from(neighbor)].audit;
        audit.resync_due = true;
        audit.requested = audit.requested_last.checked_add(1).unwrap_or(1);
        audit.requested_last = audit.requested;
    }

    /// Whether the difference consists of trees without space, and the next request is not due yet.
    fn is_left_out(&self, neighbor: u8) -> bool {
        let audit = &self.neighbors[usize::from(neighbor)].audit;
        self.is_full() && audit.left_out && !self.ticks.is_multiple_of(LEFT_OUT_TICKS)
    }

    /// Drops the entries that a neighbor did not send again.
    fn drop_stale(&mut self, neighbor: u8, watch: &mut impl Watch) {
        for at in self.table.places() {
            let advertised = self.table.advertised_mut(at, neighbor);
            if advertised.stale {
                *advertised = Advertised::NOTHING;
                self.settle(at, watch);
            }
        }
    }

    /// The records of a neighbor differ from what was sent: everything is sent again, then the
    /// digest.
    pub(super) fn on_resync(&mut self, neighbor: u8, number: u8) {
        let Self {
            table, neighbors, ..
        } = self;
        let place = &mut neighbors[usize::from(neighbor)];
        for at in table.indices() {
            if table[at].standing != Standing::Lost {
                place.adverts.insert(at);
            }
        }
        place.audit.answers = number;
        place.audit.digest_due = true;
    }

    /// Corrects an inconsistent tree of another root to the nearest consistent state. A consistent
    /// tree does not change.
    pub(super) fn mend(&mut self, at: usize, watch: &mut impl Watch) {
        let up = self.up;
        for neighbor in up.iter() {
            let advertised = self.table.advertised_mut(at, neighbor);
            if advertised.attached && !advertised.label.is_credible() {
                *advertised = Advertised::NOTHING;
            }
        }
        let is_roomy = !self.is_full();
        let tree = &mut self.table[at];
        if tree.label != Label::FURTHEST && !tree.label.is_credible() {
            // No neighbor accepts such a label.
            tree.label = Label::FURTHEST;
        }
        tree.searchers = tree.searchers.and(up);
        tree.denied = tree.denied.and(up);
        tree.unconfirmed = tree.unconfirmed.and(up);
        tree.written = tree.written.and(up);
        if is_roomy {
            // An evicted neighbor sends it again on request.
            tree.turned_away = NeighborSet::NONE;
        }
        if tree.searchers.is_empty() {
            tree.want_nothing();
        } else if !tree.is_wanted() || tree.wanted.wave() > Label::WAVE_MAX {
            self.deny_searchers(at);
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
            Label::of_root(super::root::first_wave(self.incarnation))
        };
        let incarnation = self.incarnation;
        let tree = &mut self.table[own];
        let changes = tree.label != root
            || tree.incarnation != incarnation
            || tree.standing != Standing::Attached
            || tree.advertised_hops != 0;
        tree.label = root;
        tree.incarnation = incarnation;
        tree.standing = Standing::Attached;
        tree.parent = None;
        (tree.hops, tree.advertised_hops) = (0, 0);
        tree.want_nothing();
        (tree.denied, tree.requested) = (NeighborSet::NONE, NeighborSet::NONE);
        if changes {
            self.advert(own, self.up);
        }
    }
}
