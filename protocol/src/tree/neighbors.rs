//! Which berths are of one neighbor.

use super::{BERTHS_MAX, Berths};

/// For each berth those of the same neighbor. So one with several cables to a node has one share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Neighbors([Berths; BERTHS_MAX]);

impl Neighbors {
    /// Each berth is of a neighbor of its own.
    pub const NONE: Self = Self([Berths::NONE; BERTHS_MAX]);

    /// The berths of the neighbor at one, which is among them.
    pub fn berths_of(&self, berth: u8) -> Berths {
        let joined = self.0.get(usize::from(berth)).copied();
        let mut all = joined.unwrap_or_default();
        all.insert(berth);
        all
    }

    /// Of how many neighbors some berths are.
    pub fn count(&self, berths: Berths) -> usize {
        let mut left = berths;
        let mut neighbors = 0;
        while let Some(berth) = left.iter().next() {
            left = left.without(self.berths_of(berth));
            neighbors += 1;
        }
        neighbors
    }

    /// These are all the berths of one neighbor.
    pub fn join(&mut self, berths: Berths) {
        for berth in berths.iter() {
            self.0[usize::from(berth)] = berths;
        }
    }

    /// Nobody is at a berth any more.
    pub fn leave(&mut self, berth: u8) {
        for berths in &mut self.0 {
            berths.remove(berth);
        }
        if let Some(berths) = self.0.get_mut(usize::from(berth)) {
            *berths = Berths::NONE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn berths<const N: usize>(of: [u8; N]) -> Berths {
        of.into_iter().collect()
    }

    /// Whoever comes to a berth that one of several cables had is nobody's but its own.
    #[test]
    fn a_berth_that_was_left_is_of_whoever_comes_there() {
        let mut neighbors = Neighbors::NONE;
        neighbors.join(berths([0, 3]));
        neighbors.join(berths([0, 3, 5]));
        for berth in [0, 3, 5] {
            assert_eq!(neighbors.berths_of(berth), berths([0, 3, 5]));
        }
        assert_eq!(neighbors.count(berths([0, 1, 2, 3, 5])), 3);
        neighbors.leave(0);
        assert_eq!(neighbors.berths_of(0), berths([0]));
        assert_eq!(neighbors.berths_of(3), berths([3, 5]));
        assert_eq!(neighbors.count(berths([0, 3, 5])), 2);
    }
}
