//! Which neighbor indices belong to the same neighbor.

use super::{NEIGHBORS_MAX, NeighborSet};

/// For each neighbor index, all indices of the same neighbor. A neighbor with several cables
/// therefore has one share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Bundles([NeighborSet; NEIGHBORS_MAX]);

impl Bundles {
    /// Each neighbor index belongs to a neighbor of its own.
    pub const NONE: Self = Self([NeighborSet::NONE; NEIGHBORS_MAX]);

    /// All indices of the neighbor at this index, including this one.
    pub fn bundle_of(&self, neighbor: u8) -> NeighborSet {
        let joined = self.0.get(usize::from(neighbor)).copied();
        let mut all = joined.unwrap_or_default();
        all.insert(neighbor);
        all
    }

    /// The number of neighbors to which these indices belong.
    pub fn count(&self, neighbors: NeighborSet) -> usize {
        let mut left = neighbors;
        let mut bundles = 0;
        while let Some(neighbor) = left.iter().next() {
            left = left.without(self.bundle_of(neighbor));
            bundles += 1;
        }
        bundles
    }

    /// Declares that these are all the indices of one neighbor.
    pub fn join(&mut self, neighbors: NeighborSet) {
        for neighbor in neighbors.iter() {
            self.0[usize::from(neighbor)] = neighbors;
        }
    }

    /// A neighbor index is unused again.
    pub fn leave(&mut self, neighbor: u8) {
        for neighbors in &mut self.0 {
            neighbors.remove(neighbor);
        }
        if let Some(neighbors) = self.0.get_mut(usize::from(neighbor)) {
            *neighbors = NeighborSet::NONE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbors<const N: usize>(of: [u8; N]) -> NeighborSet {
        of.into_iter().collect()
    }

    /// A neighbor that takes an index released by one of several cables shares it with no other
    /// neighbor.
    #[test]
    fn a_freed_index_belongs_to_its_next_neighbor_alone() {
        let mut bundles = Bundles::NONE;
        bundles.join(neighbors([0, 3]));
        bundles.join(neighbors([0, 3, 5]));
        for neighbor in [0, 3, 5] {
            assert_eq!(bundles.bundle_of(neighbor), neighbors([0, 3, 5]));
        }
        assert_eq!(bundles.count(neighbors([0, 1, 2, 3, 5])), 3);
        bundles.leave(0);
        assert_eq!(bundles.bundle_of(0), neighbors([0]));
        assert_eq!(bundles.bundle_of(3), neighbors([3, 5]));
        assert_eq!(bundles.count(neighbors([0, 3, 5])), 2);
    }
}
