//! Sets of neighbor indices.

/// Maximum number of neighbor indices of a node.
pub const NEIGHBORS_MAX: usize = 16;

/// A set of neighbor indices. A *neighbor index* is the number of a link that is up, by which trees
/// identify the neighbor at its other end. It is below [`NEIGHBORS_MAX`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct NeighborSet(u16);

const _: () = assert!(NEIGHBORS_MAX == u16::BITS as usize);

impl NeighborSet {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Whether the set contains a neighbor index.
    #[must_use]
    pub const fn contains(self, neighbor: u8) -> bool {
        (neighbor as usize) < NEIGHBORS_MAX && self.0 & 1 << neighbor != 0
    }

    /// Adds a neighbor index. An invalid index is ignored.
    pub const fn insert(&mut self, neighbor: u8) {
        if (neighbor as usize) < NEIGHBORS_MAX {
            self.0 |= 1 << neighbor;
        }
    }

    /// Takes one out.
    pub const fn remove(&mut self, neighbor: u8) {
        if (neighbor as usize) < NEIGHBORS_MAX {
            self.0 &= !(1 << neighbor);
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
            let neighbor = left.trailing_zeros() as u8;
            // Takes the lowest one out, and nothing where none is left.
            left &= left.wrapping_sub(1);
            (usize::from(neighbor) < NEIGHBORS_MAX).then_some(neighbor)
        })
    }
}

impl FromIterator<u8> for NeighborSet {
    fn from_iter<I: IntoIterator<Item = u8>>(neighbors: I) -> Self {
        let mut all = Self::NONE;
        neighbors
            .into_iter()
            .for_each(|neighbor| all.insert(neighbor));
        all
    }
}
