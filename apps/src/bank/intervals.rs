//! The proof that every fetch-and-add happened exactly once.
//!
//! An add of *d* that found the counter at *v* owns the interval [*v*, *v* + *d*). If every add of
//! every client happened exactly once, their intervals tile [0, counter) without gap or overlap.
//! One client detects overlaps among its own intervals. Over all clients, *f*(*v* + *d*) − *f*(*v*)
//! sums to *f*(counter) for every function *f*. With squares and cubes modulo 2⁶⁴ these are two
//! numbers per client. A set of intervals with an overlap in one place and a gap in another does
//! not pass both.

use serde::Serialize;

/// Maximum number of preallocated intervals: 128 MiB. Further intervals allocate on demand.
const PREALLOCATED_MAX: usize = 1 << 24;

/// The intervals that one client was handed: 8 bytes each, all of the same width.
#[derive(Debug, Clone)]
pub struct Intervals {
    width: u64,
    starts: Vec<u64>,
}

/// Sums over a set of intervals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Digest {
    /// Sum of the deltas, which are the widths of the intervals.
    pub delta_sum: u64,
    /// Sum of the differences of squares, modulo 2⁶⁴.
    pub squares: u64,
    /// Sum of the differences of cubes, modulo 2⁶⁴.
    pub cubes: u64,
    /// Intervals that overlap another one of the same client. Must be 0.
    pub overlaps: u64,
    /// The lowest value seen; 0 when there was none.
    pub lowest: u64,
    /// The highest value left behind; 0 when there was none.
    pub highest: u64,
}

impl Intervals {
    /// An empty set with space for `count` intervals of `width`, at least 1.
    #[must_use]
    pub fn new(width: u64, count: usize) -> Self {
        Self {
            width: width.max(1),
            starts: Vec::with_capacity(count.min(PREALLOCATED_MAX)),
        }
    }

    /// One more, starting where the counter was found.
    pub fn add(&mut self, start: u64) {
        self.starts.push(start);
    }

    /// Sorts and checks them.
    #[must_use]
    pub fn digest(mut self) -> Digest {
        self.starts.sort_unstable();
        let mut digest = Digest {
            lowest: self.starts.first().copied().unwrap_or(0),
            highest: self
                .starts
                .last()
                .map_or(0, |start| start.wrapping_add(self.width)),
            ..Digest::default()
        };
        for start in &self.starts {
            let end = start.wrapping_add(self.width);
            digest.delta_sum = digest.delta_sum.wrapping_add(self.width);
            digest.squares = digest
                .squares
                .wrapping_add(square(end).wrapping_sub(square(*start)));
            digest.cubes = digest
                .cubes
                .wrapping_add(cube(end).wrapping_sub(cube(*start)));
        }
        digest.overlaps = self
            .starts
            .windows(2)
            .filter(|pair| pair[1] - pair[0] < self.width)
            .count() as u64;
        digest
    }
}

impl Digest {
    /// Both clients' intervals together. Overlaps between the two show in [`Digest::tiles`].
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self {
            delta_sum: self.delta_sum.wrapping_add(other.delta_sum),
            squares: self.squares.wrapping_add(other.squares),
            cubes: self.cubes.wrapping_add(other.cubes),
            overlaps: self.overlaps + other.overlaps,
            lowest: if self.lowest < other.lowest {
                self.lowest
            } else {
                other.lowest
            },
            highest: if self.highest > other.highest {
                self.highest
            } else {
                other.highest
            },
        }
    }

    /// Whether the intervals tile [0, `counter`): every add happened exactly once.
    #[must_use]
    pub const fn tiles(self, counter: u64) -> bool {
        self.overlaps == 0
            && self.delta_sum == counter
            && self.squares == square(counter)
            && self.cubes == cube(counter)
    }
}

const fn square(value: u64) -> u64 {
    value.wrapping_mul(value)
}

const fn cube(value: u64) -> u64 {
    square(value).wrapping_mul(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(width: u64, starts: &[u64]) -> Digest {
        let mut intervals = Intervals::new(width, starts.len());
        for start in starts {
            intervals.add(*start);
        }
        intervals.digest()
    }

    #[test]
    fn adds_executed_exactly_once_tile_in_any_order_and_distribution() {
        let one = digest(3, &[9, 0, 15]);
        let other = digest(3, &[6, 12, 3]);
        assert!(one.with(other).tiles(18));
        // Different widths.
        assert!(digest(1, &[0, 1]).with(digest(5, &[2])).tiles(7));
        assert!(digest(1, &[]).tiles(0));
    }

    #[test]
    fn a_doubled_a_lost_and_a_swapped_add_are_each_seen() {
        assert!(
            !digest(1, &[0, 1, 3]).tiles(4),
            "2 was executed and not reported"
        );
        assert!(!digest(1, &[0, 1, 2, 2]).tiles(4), "2 was handed out twice");
        assert_eq!(digest(1, &[0, 1, 2, 2]).overlaps, 1);
        // Same sum and no overlap within either client: only the powers detect it.
        let one = digest(1, &[0, 1, 2]);
        let other = digest(1, &[2, 4]);
        assert_eq!(one.with(other).delta_sum, 5);
        assert!(!one.with(other).tiles(5));
    }
}
