//! Which trees give way when neighbors announce more roots than there is space for.
//!
//! A node cannot distinguish an invented root from a distant one. It therefore refuses nothing
//! while there is space, because its only neighbor may announce the whole fabric. In a full table a
//! new root gets a slot if its neighbor has fewer trees here than another one: the neighbor with
//! the most loses its newest. A neighbor that invents roots therefore keeps no more than the others
//! leave. All its cables count together.
//!
//! A tree that gives way is *turned away*: it is treated and advertised as unreachable, and
//! forgotten once all neighbors know that. Until then the new one takes a spare slot. A node nearer
//! to the liar turns trees away earlier ([`patience_ticks`]). Honest nodes behind it learn that
//! these roots are gone before they would evict roots of an honest neighbor.

use core::{
    cmp::Reverse,
    hash::{Hash, Hasher},
};

use super::{Bundles, NEIGHBORS_MAX, NeighborSet, Standing, Trees, Watch, table::Advertised};

/// Spare places: one for so many that are configured, within these bounds.
const TREES_PER_SPARE: u16 = 8;
const SPARE_MIN: u16 = 2;
const SPARE_MAX: u16 = 128;
/// Maximum number of trees turned away per tick.
const TURNED_AWAY_MAX: usize = 4;
/// Ticks that a node waits for each hop to the root. In that time a nearer node turns the tree
/// away, and its advert arrives.
const TICKS_PER_HOP: u16 = 2;
/// Hops of the longest path. A farther root cannot be used.
const HOPS_MAX: u16 = 64;

/// The share of each neighbor in the table.
#[derive(Debug, Clone)]
pub(super) struct Shares {
    /// Trees that a node keeps. In between there may be some more.
    roots_max: u16,
    /// Trees held for each neighbor index: counted at each tick, and updated in between.
    taken: [u16; NEIGHBORS_MAX],
    /// Those of them that do not expire by themselves, at the last tick.
    kept: [u16; NEIGHBORS_MAX],
    bundles: Bundles,
    /// Refusals not collected yet, by neighbor index.
    refused: [u32; NEIGHBORS_MAX],
    /// Excess trees at the last tick, and the ticks since their number shrank.
    surplus: usize,
    surplus_ticks: u16,
    /// No tree gives way.
    is_off: bool,
}

/// While there is space, shares have no effect.
impl Hash for Shares {
    fn hash<H: Hasher>(&self, _state: &mut H) {}
}

impl Shares {
    pub const fn new(roots_max: u16) -> Self {
        Self {
            roots_max,
            taken: [0; NEIGHBORS_MAX],
            kept: [0; NEIGHBORS_MAX],
            bundles: Bundles::NONE,
            refused: [0; NEIGHBORS_MAX],
            surplus: 0,
            surplus_ticks: 0,
            is_off: false,
        }
    }

    #[cfg(feature = "arbitrary-state")]
    pub fn scramble(&mut self, rng: &mut fastrand::Rng) {
        for taken in &mut self.taken {
            *taken = rng.u16(..100);
        }
        self.surplus = rng.usize(..10);
        self.surplus_ticks = rng.u16(..);
    }

    /// Trees that there must be places for.
    pub fn trees_max(&self) -> u16 {
        let spare = (self.roots_max / TREES_PER_SPARE).clamp(SPARE_MIN, SPARE_MAX);
        self.roots_max.saturating_add(spare)
    }

    /// Whether another tree of any neighbor fits beside `trees` trees.
    pub fn is_roomy(&self, trees: usize) -> bool {
        trees < usize::from(self.roots_max)
    }

    /// Counts a tree that this neighbor announces and that is not taken.
    pub const fn refuse(&mut self, neighbor: u8) {
        let refused = &mut self.refused[neighbor as usize % NEIGHBORS_MAX];
        *refused = refused.saturating_add(1);
    }

    /// The sum over all indices of this neighbor.
    fn sum(&self, of: &[u16; NEIGHBORS_MAX], neighbor: u8) -> u32 {
        let neighbors = self.bundles.bundle_of(neighbor).iter();
        neighbors
            .map(|neighbor| u32::from(of[usize::from(neighbor)]))
            .sum()
    }

    /// All indices of the neighbor whose trees give way: the one that keeps the most.
    fn greediest(&self) -> NeighborSet {
        let kept = |neighbor: &u8| (self.sum(&self.kept, *neighbor), Reverse(*neighbor));
        let most = (0..NEIGHBORS_MAX as u8).max_by_key(kept);
        self.bundles.bundle_of(most.unwrap_or_default())
    }

    /// Records the number of excess trees. Returns the ticks since it last shrank.
    fn record_surplus(&mut self, surplus: usize) -> u16 {
        let shrinks = surplus < self.surplus || surplus == 0;
        self.surplus = surplus;
        self.surplus_ticks = if shrinks {
            0
        } else {
            self.surplus_ticks.saturating_add(1)
        };
        self.surplus_ticks
    }
}

/// Ticks for which a tree at this distance may be in excess: more with each hop.
const fn patience_ticks(hops: u16) -> u16 {
    if hops > HOPS_MAX {
        1
    } else {
        TICKS_PER_HOP * hops
    }
}

impl Trees {
    /// Gives all space to the first neighbor that takes it: for mutants of simulations.
    #[cfg(feature = "arbitrary-state")]
    pub const fn share_nothing_out(&mut self) {
        self.shares.is_off = true;
    }

    /// Declares that these are all the indices of one neighbor: together they have one share.
    pub fn set_bundle(&mut self, neighbors: NeighborSet) {
        self.shares.bundles.join(neighbors);
    }

    /// A neighbor index is unused again.
    pub(super) fn part(&mut self, neighbor: u8) {
        self.shares.bundles.leave(neighbor);
    }

    /// Number of trees that this neighbor announced and that were not taken in, or not kept, since
    /// the last call.
    pub fn take_refused(&mut self, neighbor: u8) -> u64 {
        let refused = self.shares.refused.get_mut(usize::from(neighbor));
        refused.map_or(0, |refused| u64::from(core::mem::take(refused)))
    }

    /// Whether every place is taken but for the spare ones.
    pub(super) fn is_full(&self) -> bool {
        !self.shares.is_roomy(self.table.len())
    }

    /// Takes in a tree that this neighbor announces. Without space it takes the slot of an
    /// unreachable tree, or a spare one if another neighbor has more.
    pub(super) fn take_in(&mut self, neighbor: u8, root: u64) -> Option<usize> {
        if self.is_full() {
            self.make_room();
        }
        if self.is_full() && !self.has_less(neighbor) {
            return None;
        }
        let at = self.table.insert(root)?;
        self.table[at].origin.neighbor = neighbor;
        self.shares.taken[usize::from(neighbor)] += 1;
        Some(at)
    }

    /// Whether another neighbor has so many more trees that it gives way to this one.
    fn has_less(&self, neighbor: u8) -> bool {
        if self.shares.is_off {
            return false;
        }
        let taken = |neighbor: u8| self.shares.sum(&self.shares.taken, neighbor);
        let most = (0..NEIGHBORS_MAX as u8).map(taken).max();
        taken(neighbor) + 1 < most.unwrap_or_default()
    }

    /// The neighbor for which a tree is held, and whether the tree does not expire by itself: its
    /// parent; else a neighbor whose advert prevents the tree from being forgotten; else its last
    /// parent.
    fn sponsor(&self, at: usize) -> Option<(u8, bool)> {
        if self.own == Some(at) {
            return None;
        }
        let tree = &self.table[at];
        let last = tree.origin.neighbor;
        let one_of = |among: NeighborSet| match among.contains(last) {
            true => Some(last),
            false => among.iter().next(),
        };
        // Children come last: an honest one has the tree from here.
        let keeper = (tree.parent)
            .or_else(|| one_of(self.candidates(at)))
            .or_else(|| one_of(self.children_at(at)));
        match keeper {
            Some(neighbor) => Some((neighbor, true)),
            None => Some((last, false)),
        }
    }

    /// Handles a tick: counts the share of each neighbor and turns excess trees away.
    pub(super) fn tick_shares(&mut self, watch: &mut impl Watch) {
        let (mut taken, mut kept) = ([0; NEIGHBORS_MAX], [0; NEIGHBORS_MAX]);
        let mut kept_in_all = usize::from(self.own.is_some());
        for at in self.table.indices() {
            if let Some((neighbor, is_kept)) = self.sponsor(at) {
                taken[usize::from(neighbor) % NEIGHBORS_MAX] += 1;
                kept[usize::from(neighbor) % NEIGHBORS_MAX] += u16::from(is_kept);
                kept_in_all += usize::from(is_kept);
            }
        }
        (self.shares.taken, self.shares.kept) = (taken, kept);
        let surplus = kept_in_all.saturating_sub(usize::from(self.shares.roots_max));
        let ticks = self.shares.record_surplus(surplus);
        for _ in 0..surplus.min(TURNED_AWAY_MAX) {
            let greediest = self.shares.greediest();
            match self.least_entitled(greediest) {
                Some((at, neighbor)) if ticks >= patience_ticks(self.table[at].hops) => {
                    self.turn_away(at, neighbor, watch);
                    // That it becomes less by this node's doing is no reason to wait.
                    self.shares.surplus -= 1;
                }
                _ => return,
            }
        }
    }

    /// The tree of a neighbor with the indices `of` that gives way first: preferably one that no
    /// other neighbor knows, not the neighbor's own, the newest.
    fn least_entitled(&self, of: NeighborSet) -> Option<(usize, u8)> {
        let sponsored = |at: usize| match self.sponsor(at) {
            Some((neighbor, true)) if of.contains(neighbor) => Some((at, neighbor)),
            _ => None,
        };
        let order = |&(at, neighbor): &(usize, u8)| {
            let attested = self.shares.bundles.count(self.candidates(at));
            let is_own = self.advertised(at, neighbor).hops == 0;
            (attested, is_own, Reverse(self.table[at].origin.serial))
        };
        let all = self.table.indices().filter_map(sponsored);
        all.min_by_key(order)
    }

    /// A tree has a parent again: the next digest of an ignored neighbor triggers a request for its
    /// advert.
    pub(super) fn readmit_turned_away(&mut self, at: usize) {
        let turned_away = core::mem::take(&mut self.table[at].turned_away);
        for neighbor in turned_away.iter() {
            if let Some(place) = self.neighbors.get_mut(usize::from(neighbor)) {
                place.audit.left_out = false;
            }
        }
    }

    /// Ignores all further adverts of a tree, except those of children that report it as
    /// unreachable.
    fn turn_away(&mut self, at: usize, sponsor: u8, watch: &mut impl Watch) {
        // Else the sponsor would announce on its next cable what is ignored on this one.
        let sponsors = self.shares.bundles.bundle_of(sponsor).and(self.up);
        let turned_away = self.candidates(at).or(sponsors);
        for neighbor in turned_away.iter() {
            let place = &mut self.neighbors[usize::from(neighbor)];
            *self.table.advertised_mut(at, neighbor) = Advertised::NOTHING;
            place.audit.left_out = true;
        }
        self.shares.refuse(sponsor);
        let kept = &mut self.shares.kept[usize::from(sponsor)];
        *kept = kept.saturating_sub(1);
        let tree = &mut self.table[at];
        tree.turned_away = turned_away;
        if tree.standing != Standing::Lost {
            self.settle(at, watch);
        }
    }
}
