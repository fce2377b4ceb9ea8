//! How near a node is to a root.

use core::fmt;

/// How near a node is to a root. Whoever hangs on another node is further than that one, at every instant.
///
/// Labels of one tree are in a strict order without gaps that matter: between two of them there is nearly always room for
/// another, so a node is put between two others without anybody behind it being told.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Label {
    /// Counted by the root alone. The later wave is the nearer one.
    wave: u64,
    /// Among labels of one wave the smaller one is the nearer. The root's own is 0.
    rank: u64,
}

impl Label {
    /// Of a node that never hung on anybody: every other is nearer.
    pub const FURTHEST: Self = Self::new(0, u64::MAX);
    /// Between a parent and its child in a fresh wave: room for some dozens of repairs at one place before a wave must make more.
    pub const HOP_RANKS: u64 = 1 << 32;
    /// No rank is greater: 2^30 hops. What claims to be is not believed.
    pub const RANK_MAX: u64 = 1 << 62;
    /// No root counts further. What claims to is not believed. At a wave for each pace of 20 ms it lasts 89,000 years.
    pub const WAVE_MAX: u64 = 1 << 47;

    /// The label with this wave and rank.
    #[must_use]
    pub const fn new(wave: u64, rank: u64) -> Self {
        Self { wave, rank }
    }

    /// The root's own in a wave: nothing of that wave or of an earlier one is nearer.
    #[must_use]
    pub const fn of_root(wave: u64) -> Self {
        Self::new(wave, 0)
    }

    /// The wave: 1 to [`Label::WAVE_MAX`] in what a node says, 0 in [`Label::FURTHEST`].
    #[must_use]
    pub const fn wave(self) -> u64 {
        self.wave
    }

    /// The rank in the wave: up to [`Label::RANK_MAX`] in what a node says.
    #[must_use]
    pub const fn rank(self) -> u64 {
        self.rank
    }

    /// Whether a node could say it of itself.
    #[must_use]
    pub const fn is_credible(self) -> bool {
        self.wave <= Self::WAVE_MAX && self.rank <= Self::RANK_MAX
    }

    /// Whether it is nearer than another, which no label is than itself.
    #[must_use]
    pub const fn is_nearer(self, than: Self) -> bool {
        self.wave > than.wave || (self.wave == than.wave && self.rank < than.rank)
    }

    /// The nearer one of two.
    #[must_use]
    pub const fn nearer_of(self, other: Self) -> Self {
        if other.is_nearer(self) { other } else { self }
    }

    /// One hop behind.
    #[must_use]
    pub const fn behind(self) -> Self {
        Self::new(self.wave, self.rank.saturating_add(Self::HOP_RANKS))
    }

    /// A label behind this one and nearer than `bound`, which is further than this one: a quarter of the way, one rank at least, one
    /// hop at most, because those who follow must find room behind it. Where `bound` is of an earlier wave: one hop behind. `None` when no
    /// number lies between.
    #[must_use]
    pub const fn between(self, bound: Self) -> Option<Self> {
        if !self.is_nearer(bound) {
            return None;
        }
        if bound.wave < self.wave {
            return Some(self.behind());
        }
        let way = bound.rank - self.rank;
        if way == 1 {
            return None;
        }
        let quarter = if way < 4 { 1 } else { way / 4 };
        let step = if quarter < Self::HOP_RANKS {
            quarter
        } else {
            Self::HOP_RANKS
        };
        Some(Self::new(self.wave, self.rank + step))
    }

    /// Nearer than everything of `wave` and of those before: what only the root can give, by a new wave.
    #[must_use]
    pub const fn anew(wave: u64) -> Self {
        Self::new(wave + 1, u64::MAX)
    }

    /// The wave in which the root is nearer than this bound: the earliest one.
    #[must_use]
    pub const fn wave_before(self) -> u64 {
        if self.rank > 0 {
            self.wave
        } else {
            self.wave + 1
        }
    }
}

/// As `WAVE:HOPS.RANKS`.
impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wave, rank } = self;
        let (hops, ranks) = (rank / Self::HOP_RANKS, rank % Self::HOP_RANKS);
        write!(f, "{wave}:{hops}.{ranks:08x}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Labels of which many are equal, next to each other or at an end.
    fn labels() -> impl Strategy<Value = Label> {
        let waves = prop_oneof![0..4u64, Just(Label::WAVE_MAX), 0..=Label::WAVE_MAX];
        let ranks = prop_oneof![
            0..4u64,
            (0..4u64, 0..4u64).prop_map(|(hops, more)| hops * Label::HOP_RANKS + more),
            (0..4u64).prop_map(|less| Label::RANK_MAX - less),
            Just(u64::MAX),
            0..=Label::RANK_MAX,
        ];
        (waves, ranks).prop_map(|(wave, rank)| Label::new(wave, rank))
    }

    proptest! {
        #[test]
        fn the_order_is_total_and_strict(a in labels(), b in labels(), c in labels()) {
            prop_assert!(!a.is_nearer(a));
            let ways = [a.is_nearer(b), b.is_nearer(a), a == b];
            prop_assert_eq!(ways.into_iter().filter(|&way| way).count(), 1);
            if a.is_nearer(b) && b.is_nearer(c) {
                prop_assert!(a.is_nearer(c));
            }
            prop_assert!(!a.is_nearer(a.nearer_of(b)) && !b.is_nearer(a.nearer_of(b)));
        }

        #[test]
        fn what_is_between_lies_between_and_is_missing_where_no_number_does(a in labels(), bound in labels()) {
            prop_assume!(a.is_credible());
            match a.between(bound) {
                Some(between) => {
                    prop_assert!(a.is_nearer(between), "{:?} behind {:?}", between, a);
                    prop_assert!(between.is_nearer(bound), "{:?} before {:?}", between, bound);
                    prop_assert!(!a.behind().is_nearer(between), "one hop at most");
                }
                None => {
                    let next = Label::new(a.wave, a.rank + 1);
                    prop_assert!(!next.is_nearer(bound), "{:?} lies between {:?} and {:?}", next, a, bound);
                }
            }
        }

        #[test]
        fn one_hop_behind_is_further_and_of_the_same_wave(label in labels()) {
            prop_assume!(label.is_credible());
            prop_assert!(label.is_nearer(label.behind()));
            prop_assert_eq!(label.behind().wave, label.wave);
        }

        #[test]
        fn a_wave_gives_what_no_rank_does(label in labels()) {
            let bound = Label::anew(label.wave);
            prop_assert!(bound.is_nearer(label));
            prop_assert!(Label::of_root(bound.wave_before()).is_nearer(bound));
            let wave = label.wave_before();
            prop_assert!(Label::of_root(wave).is_nearer(label));
            prop_assert!(wave == 0 || !Label::of_root(wave - 1).is_nearer(label), "the earliest");
        }
    }

    #[test]
    fn whoever_never_hung_is_the_furthest() {
        assert!(Label::of_root(0).is_nearer(Label::FURTHEST));
        assert!(Label::new(0, Label::RANK_MAX).is_nearer(Label::FURTHEST));
        assert!(!Label::FURTHEST.is_credible());
    }

    /// How often a node can be put between a parent and what lies behind it, above one place or below it, before a wave is
    /// needed.
    #[test]
    fn a_fresh_hop_has_room_for_dozens_of_repairs() {
        let root = Label::of_root(1);
        let mut above = 0;
        let mut bound = root.behind();
        while let Some(nearer) = root.between(bound) {
            (bound, above) = (nearer, above + 1);
        }
        let mut below = 0;
        let mut parent = root;
        while let Some(further) = parent.between(root.behind()) {
            (parent, below) = (further, below + 1);
        }
        assert_eq!((above, below), (16, 77));
    }
}
