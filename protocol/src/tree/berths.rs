//! Sets of berths.

/// Most berths of a node.
pub const BERTHS_MAX: usize = 16;

/// A set of berths. A *berth* is the place of a link that is up, by which trees know the neighbour at its end: a number below
/// [`BERTHS_MAX`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Berths(u16);

const _: () = assert!(BERTHS_MAX == u16::BITS as usize);

impl Berths {
    /// No berth.
    pub const NONE: Self = Self(0);

    /// Whether a berth is among them.
    #[must_use]
    pub const fn contains(self, berth: u8) -> bool {
        (berth as usize) < BERTHS_MAX && self.0 & 1 << berth != 0
    }

    /// Adds one. A number that no berth has is left out.
    pub const fn insert(&mut self, berth: u8) {
        if (berth as usize) < BERTHS_MAX {
            self.0 |= 1 << berth;
        }
    }

    /// Takes one out.
    pub const fn remove(&mut self, berth: u8) {
        if (berth as usize) < BERTHS_MAX {
            self.0 &= !(1 << berth);
        }
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many there are.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Those that are in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those that are in one of them.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are not in the other.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Each, from the lowest.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        let mut left = self.0;
        core::iter::from_fn(move || {
            let berth = left.trailing_zeros() as u8;
            // Takes the lowest one out, and nothing where none is left.
            left &= left.wrapping_sub(1);
            (usize::from(berth) < BERTHS_MAX).then_some(berth)
        })
    }
}

impl FromIterator<u8> for Berths {
    fn from_iter<I: IntoIterator<Item = u8>>(berths: I) -> Self {
        let mut all = Self::NONE;
        berths.into_iter().for_each(|berth| all.insert(berth));
        all
    }
}
