//! How near a node is to a root.

use core::fmt;

/// How near a node is to a root. A node is always further than its parent.
///
/// The labels of one tree have a strict order. Between two labels there is nearly always space for
/// another, so a node can move between two others without notice to the nodes behind it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Label {
    /// Counted by the root alone. The later wave is the nearer one.
    wave: u64,
    /// Among labels of one wave the smaller one is the nearer. The root's own is 0.
    rank: u64,
}

impl Label {
    /// The label of a node that was never attached: every other label is nearer.
    pub const FURTHEST: Self = Self::new(0, u64::MAX);
    /// Distance between a parent and its child in a new wave: space for some dozens of repairs at
    /// one position before a new wave is necessary.
    pub const HOP_RANKS: u64 = 1 << 32;
    /// The maximum rank: 2^30 hops. A greater one is not accepted.
    pub const RANK_MAX: u64 = 1 << 62;
    /// The maximum wave of a root. A greater one is not accepted. At eight waves per tick of 20 ms
    /// it lasts 11,000 years.
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

    /// The wave: 1 to [`Label::WAVE_MAX`] in a message, 0 in [`Label::FURTHEST`].
    #[must_use]
    pub const fn wave(self) -> u64 {
        self.wave
    }

    /// The rank in the wave: up to [`Label::RANK_MAX`] in a message.
    #[must_use]
    pub const fn rank(self) -> u64 {
        self.rank
    }

    /// Whether a node could have this label.
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

    /// A label behind this one and nearer than `bound`, which is further than this one. It takes a
    /// quarter of the distance, at least one rank and at most one hop, because later nodes need
    /// space behind it. If `bound` is of an earlier wave, it is one hop behind. `None` when no
    /// number lies between.
    #[must_use]
    pub const fn between(self, bound: Self) -> Option<Self> {
        if !self.is_nearer(bound) {
            return None;
        }
        if bound.wave < self.wave {
            return Some(self.behind());
        }
        let gap = bound.rank - self.rank;
        if gap == 1 {
            return None;
        }
        let quarter = if gap < 4 { 1 } else { gap / 4 };
        let step = if quarter < Self::HOP_RANKS {
            quarter
        } else {
            Self::HOP_RANKS
        };
        Some(Self::new(self.wave, self.rank + step))
    }

    /// Nearer than every label of `wave` and of earlier waves. Only the root can provide it, by a
    /// new wave.
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
            let cases = [a.is_nearer(b), b.is_nearer(a), a == b];
            prop_assert_eq!(cases.into_iter().filter(|&gap| gap).count(), 1);
            if a.is_nearer(b) && b.is_nearer(c) {
                prop_assert!(a.is_nearer(c));
            }
            prop_assert!(!a.is_nearer(a.nearer_of(b)) && !b.is_nearer(a.nearer_of(b)));
        }

        #[test]
        fn between_returns_a_label_in_between_if_one_exists(a in labels(), bound in labels()) {
            prop_assume!(a.is_credible());
            match a.between(bound) {
                Some(between) => {
                    prop_assert!(a.is_nearer(between), "{:?} behind {:?}", between, a);
                    prop_assert!(between.is_nearer(bound), "{:?} before {:?}", between, bound);
                    prop_assert!(!a.behind().is_nearer(between), "one hop at most");
                }
                None => {
                    let next = Label::new(a.wave, a.rank + 1);
                    prop_assert!(
                        !next.is_nearer(bound),
                        "{:?} lies between {:?} and {:?}",
                        next,
                        a,
                        bound,
                    );
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
        fn a_new_wave_makes_room_where_no_rank_does(label in labels()) {
            let bound = Label::anew(label.wave);
            prop_assert!(bound.is_nearer(label));
            prop_assert!(Label::of_root(bound.wave_before()).is_nearer(bound));
            let wave = label.wave_before();
            prop_assert!(Label::of_root(wave).is_nearer(label));
            prop_assert!(wave == 0 || !Label::of_root(wave - 1).is_nearer(label), "the earliest");
        }
    }

    #[test]
    fn a_node_that_never_attached_is_the_furthest() {
        assert!(Label::of_root(0).is_nearer(Label::FURTHEST));
        assert!(Label::new(0, Label::RANK_MAX).is_nearer(Label::FURTHEST));
        assert!(!Label::FURTHEST.is_credible());
    }

    /// How often a node fits between a parent and the next node, above or below one position,
    /// before a new wave is needed.
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
