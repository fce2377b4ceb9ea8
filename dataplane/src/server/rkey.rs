//! The keys of regions.

use std::hash::{BuildHasher, RandomState};

/// Turns of the shuffle. Four are enough for a permutation that looks random to who sees some of its values.
const TURNS: u16 = 4;

/// Draws keys: each number but 0 once, in an order that the system's randomness chose when the daemon started.
///
/// A key is never given twice by one daemon, so a verb that was sent to a region of the past does not reach one of the present. A
/// client that still holds a key of the daemon before a restart meets another region under it as seldom as by guessing.
#[derive(Debug)]
pub struct RkeySequence {
    secret: RandomState,
    drawn: u32,
}

impl RkeySequence {
    /// A sequence of its own.
    pub fn new() -> Self {
        Self {
            secret: RandomState::new(),
            drawn: 0,
        }
    }

    /// The next key, never 0.
    pub fn draw(&mut self) -> u32 {
        loop {
            let rkey = self.shuffled(self.drawn);
            self.drawn = self.drawn.wrapping_add(1);
            if rkey != 0 {
                return rkey;
            }
        }
    }

    /// A Feistel network over two halves: whatever its turns mix in, different numbers stay different.
    fn shuffled(&self, number: u32) -> u32 {
        let (mut high, mut low) = ((number >> 16) as u16, number as u16);
        for turn in 0..TURNS {
            let mixed = high ^ self.secret.hash_one((turn, low)) as u16;
            (high, low) = (low, mixed);
        }
        u32::from(high) << 16 | u32::from(low)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn keys_differ_within_a_sequence_and_between_sequences() {
        const DRAWN: usize = 10_000;
        let (mut one, mut other) = (RkeySequence::new(), RkeySequence::new());
        let keys: HashSet<u32> = (0..DRAWN).map(|_| one.draw()).collect();
        assert_eq!(keys.len(), DRAWN);
        assert!(!keys.contains(&0));
        // By chance, 10 000 of 2^32 keys meet 10 000 others 0.02 times.
        let met = (0..DRAWN).filter(|_| keys.contains(&other.draw())).count();
        assert!(
            met < 5,
            "{met} keys of one daemon mean something at the next"
        );
    }
}
