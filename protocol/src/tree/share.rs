//! Which trees give way when neighbours announce more roots than there is room for.
//!
//! A node cannot tell a root that a neighbour invents from one that is far away. So nothing is
//! refused while there is room, for the only neighbour may announce the whole fabric. In a full table
//! a new root finds room if its neighbour has fewer trees here than another one: the neighbour with
//! the most loses its newest. So one neighbour that invents roots keeps no more than others leave,
//! over however many cables: what its berths take is counted together.
//!
//! A tree that gives way is *turned away*: it is lost like one whose root is gone, told as lost, and
//! forgotten when everybody has heard that. Until then the new one takes a spare place. A node that
//! is nearer to the liar turns away earlier ([`patience_paces`]), so honest nodes behind it hear that
//! roots are gone before they would choose among an honest neighbour's.

use core::{
    cmp::Reverse,
    hash::{Hash, Hasher},
};

use super::{BERTHS_MAX, Berths, Neighbors, Standing, Trees, Watch, table::Said};

/// Spare places: one for so many that are configured, within these bounds.
const TREES_PER_SPARE: u16 = 8;
const SPARE_MIN: u16 = 2;
const SPARE_MAX: u16 = 128;
/// Most trees that are turned away at one pace.
const TURNED_AWAY_MAX: usize = 4;
/// Paces that a node waits for each cable between it and the root: in that time a nearer node turns
/// it away, and that is heard.
const PACES_PER_HOP: u16 = 2;
/// Cables of the longest path. What is farther cannot be used.
const HOPS_MAX: u16 = 64;

/// What the neighbours take of the table.
#[derive(Debug, Clone)]
pub(super) struct Shares {
    /// Trees that a node keeps. In between there may be some more.
    roots_max: u16,
    /// Trees for the sake of each berth: counted at each pace, and noted in between.
    taken: [u16; BERTHS_MAX],
    /// Those of them that do not go by themselves, at the last pace.
    kept: [u16; BERTHS_MAX],
    neighbors: Neighbors,
    /// Refusals that were not asked for yet, by berth.
    refused: [u32; BERTHS_MAX],
    /// More trees than there may be, at the last pace, and the paces since that became no fewer.
    surplus: usize,
    surplus_paces: u16,
    /// Nobody gives way.
    is_off: bool,
}

/// Where there is room they decide nothing.
impl Hash for Shares {
    fn hash<H: Hasher>(&self, _state: &mut H) {}
}

impl Shares {
    pub const fn new(roots_max: u16) -> Self {
        Self {
            roots_max,
            taken: [0; BERTHS_MAX],
            kept: [0; BERTHS_MAX],
            neighbors: Neighbors::NONE,
            refused: [0; BERTHS_MAX],
            surplus: 0,
            surplus_paces: 0,
            is_off: false,
        }
    }

    #[cfg(feature = "arbitrary-state")]
    pub fn scramble(&mut self, rng: &mut fastrand::Rng) {
        for taken in &mut self.taken {
            *taken = rng.u16(..100);
        }
        self.surplus = rng.usize(..10);
        self.surplus_paces = rng.u16(..);
    }

    /// Trees that there must be places for.
    pub fn trees_max(&self) -> u16 {
        let spare = (self.roots_max / TREES_PER_SPARE).clamp(SPARE_MIN, SPARE_MAX);
        self.roots_max.saturating_add(spare)
    }

    /// Whether another tree may be taken in beside so many, whoever announces it.
    pub fn is_roomy(&self, trees: usize) -> bool {
        trees < usize::from(self.roots_max)
    }

    /// Something that the neighbour at a berth announces is not taken.
    pub const fn refuse(&mut self, berth: u8) {
        let refused = &mut self.refused[berth as usize % BERTHS_MAX];
        *refused = refused.saturating_add(1);
    }

    /// The sum of what the berths of the neighbor at one have.
    fn sum(&self, of: &[u16; BERTHS_MAX], berth: u8) -> u32 {
        let berths = self.neighbors.berths_of(berth).iter();
        berths.map(|berth| u32::from(of[usize::from(berth)])).sum()
    }

    /// The berths of the neighbor whose trees give way: the one that keeps the most.
    fn greediest(&self) -> Berths {
        let kept = |berth: &u8| (self.sum(&self.kept, *berth), Reverse(*berth));
        let most = (0..BERTHS_MAX as u8).max_by_key(kept);
        self.neighbors.berths_of(most.unwrap_or_default())
    }

    /// Notes how many trees are too many. Tells how many paces passed since they became no fewer.
    fn note_surplus(&mut self, surplus: usize) -> u16 {
        let shrinks = surplus < self.surplus || surplus == 0;
        self.surplus = surplus;
        self.surplus_paces = if shrinks {
            0
        } else {
            self.surplus_paces.saturating_add(1)
        };
        self.surplus_paces
    }
}

/// Paces for which a tree of so many hops may be one too many: more with each hop.
const fn patience_paces(hops: u16) -> u16 {
    if hops > HOPS_MAX {
        1
    } else {
        PACES_PER_HOP * hops
    }
}

impl Trees {
    /// Whoever comes first takes all the room that there is: for mutants of simulations.
    #[cfg(feature = "arbitrary-state")]
    pub const fn share_nothing_out(&mut self) {
        self.shares.is_off = true;
    }

    /// These are all the berths at which the same neighbour is: together they have one share.
    pub fn are_of_one(&mut self, berths: Berths) {
        self.shares.neighbors.join(berths);
    }

    /// Nobody is at a berth any more.
    pub(super) fn part(&mut self, berth: u8) {
        self.shares.neighbors.leave(berth);
    }

    /// Trees that the neighbour at a berth announced and that were not taken in, or not kept, since
    /// this was asked last.
    pub fn take_refused(&mut self, berth: u8) -> u64 {
        let refused = self.shares.refused.get_mut(usize::from(berth));
        refused.map_or(0, |refused| u64::from(core::mem::take(refused)))
    }

    /// Whether every place is taken but for the spare ones.
    pub(super) fn is_full(&self) -> bool {
        !self.shares.is_roomy(self.table.len())
    }

    /// Takes in a tree that the neighbour at a berth announces. Where there is no room it takes the
    /// place of one that is lost, or a spare one if another neighbour has more.
    pub(super) fn take_in(&mut self, berth: u8, root: u64) -> Option<usize> {
        if self.is_full() {
            self.make_room();
        }
        if self.is_full() && !self.has_less(berth) {
            return None;
        }
        let at = self.table.insert(root)?;
        self.table[at].origin.berth = berth;
        self.shares.taken[usize::from(berth)] += 1;
        Some(at)
    }

    /// Whether another neighbour has so much more than the one at a berth that it gives way to it.
    fn has_less(&self, berth: u8) -> bool {
        if self.shares.is_off {
            return false;
        }
        let taken = |berth: u8| self.shares.sum(&self.shares.taken, berth);
        let most = (0..BERTHS_MAX as u8).map(taken).max();
        taken(berth) + 1 < most.unwrap_or_default()
    }

    /// The neighbour for whose sake a tree is there, and whether it does not go by itself: its
    /// parent; else one whose word keeps it from being forgotten; else its last parent.
    fn sponsor(&self, at: usize) -> Option<(u8, bool)> {
        if self.own == Some(at) {
            return None;
        }
        let tree = &self.table[at];
        let last = tree.origin.berth;
        let one_of = |among: Berths| match among.contains(last) {
            true => Some(last),
            false => among.iter().next(),
        };
        // Children come last: an honest one has the tree from here.
        let keeper = (tree.parent)
            .or_else(|| one_of(self.candidates(at)))
            .or_else(|| one_of(self.children_at(at)));
        match keeper {
            Some(berth) => Some((berth, true)),
            None => Some((last, false)),
        }
    }

    /// A pace passed: counts what each neighbour takes, and turns away what is too much.
    pub(super) fn pace_shares(&mut self, watch: &mut impl Watch) {
        let (mut taken, mut kept) = ([0; BERTHS_MAX], [0; BERTHS_MAX]);
        let mut kept_in_all = usize::from(self.own.is_some());
        for at in self.table.indices() {
            if let Some((berth, is_kept)) = self.sponsor(at) {
                taken[usize::from(berth) % BERTHS_MAX] += 1;
                kept[usize::from(berth) % BERTHS_MAX] += u16::from(is_kept);
                kept_in_all += usize::from(is_kept);
            }
        }
        (self.shares.taken, self.shares.kept) = (taken, kept);
        let surplus = kept_in_all.saturating_sub(usize::from(self.shares.roots_max));
        let paces = self.shares.note_surplus(surplus);
        for _ in 0..surplus.min(TURNED_AWAY_MAX) {
            let greediest = self.shares.greediest();
            match self.least_entitled(greediest) {
                Some((at, berth)) if paces >= patience_paces(self.table[at].hops) => {
                    self.turn_away(at, berth, watch);
                    // That it becomes less by this node's doing is no reason to wait.
                    self.shares.surplus -= 1;
                }
                _ => return,
            }
        }
    }

    /// Of the trees that are there for the sake of a neighbour the one that gives way first: one of
    /// which no other neighbour knows, not the neighbour's own, the newest. `of`: its berths.
    fn least_entitled(&self, of: Berths) -> Option<(usize, u8)> {
        let sponsored = |at: usize| match self.sponsor(at) {
            Some((berth, true)) if of.contains(berth) => Some((at, berth)),
            _ => None,
        };
        let order = |&(at, berth): &(usize, u8)| {
            let attested = self.shares.neighbors.count(self.candidates(at));
            let is_own = self.said(at, berth).hops == 0;
            (attested, is_own, Reverse(self.table[at].origin.born))
        };
        let all = self.table.indices().filter_map(sponsored);
        all.min_by_key(order)
    }

    /// A tree has a parent again: whoever was turned away is asked for its word with its next digest.
    pub(super) fn hear_all_again(&mut self, at: usize) {
        let turned_away = core::mem::take(&mut self.table[at].turned_away);
        for berth in turned_away.iter() {
            if let Some(place) = self.berths.get_mut(usize::from(berth)) {
                place.audit.left_out = false;
            }
        }
    }

    /// No neighbour's word on a tree is taken any more, but that of children that it is lost.
    fn turn_away(&mut self, at: usize, sponsor: u8, watch: &mut impl Watch) {
        // Else the sponsor would say on its next cable what is not taken on this one.
        let sponsors = self.shares.neighbors.berths_of(sponsor).and(self.up);
        let turned_away = self.candidates(at).or(sponsors);
        for berth in turned_away.iter() {
            let place = &mut self.berths[usize::from(berth)];
            *self.table.said_mut(at, berth) = Said::NOTHING;
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
