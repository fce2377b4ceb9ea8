//! Queues of outgoing messages: one bit for each tree, so that nothing can pile up.

use alloc::{boxed::Box, vec};

const WORD: usize = u64::BITS as usize;

/// A set of trees, by index, that is walked in turn.
#[derive(Debug, Clone, Hash)]
pub(super) struct Waiting {
    words: Box<[u64]>,
    count: u32,
    /// Where the walk continues.
    next: u32,
}

impl Waiting {
    /// None of so many trees.
    pub fn new(trees: usize) -> Self {
        Self {
            words: vec![0; trees.div_ceil(WORD)].into_boxed_slice(),
            count: 0,
            next: 0,
        }
    }

    pub fn insert(&mut self, tree: usize) {
        let (word, bit) = (tree / WORD, 1 << (tree % WORD));
        self.count += u32::from(self.words[word] & bit == 0);
        self.words[word] |= bit;
    }

    pub fn remove(&mut self, tree: usize) {
        let (word, bit) = (tree / WORD, 1 << (tree % WORD));
        self.count -= u32::from(self.words[word] & bit != 0);
        self.words[word] &= !bit;
    }

    pub fn contains(&self, tree: usize) -> bool {
        self.words[tree / WORD] & 1 << (tree % WORD) != 0
    }

    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn clear(&mut self) {
        self.words.fill(0);
        self.count = 0;
    }

    /// Takes the next one out, from where the last one was.
    pub fn take(&mut self) -> Option<usize> {
        if self.count == 0 {
            return None;
        }
        let start = self.next as usize / WORD;
        // Bits of the first word below the start come last.
        let behind = u64::MAX << (self.next as usize % WORD);
        let words = self.words.len();
        for step in 0..=words {
            let at = (start + step) % words;
            let among = match step {
                0 => self.words[at] & behind,
                _ => self.words[at],
            };
            if among != 0 {
                let tree = at * WORD + among.trailing_zeros() as usize;
                self.remove(tree);
                self.next = ((tree + 1) % (words * WORD)) as u32;
                return Some(tree);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn each_waits_once_and_they_take_turns() {
        let mut waiting = Waiting::new(130);
        for tree in [129, 3, 64, 3, 63] {
            waiting.insert(tree);
        }
        assert_eq!(waiting.take(), Some(3));
        assert_eq!(waiting.take(), Some(63));
        waiting.insert(5);
        waiting.insert(64);
        assert!(waiting.contains(64) && !waiting.contains(63));
        let rest: Vec<usize> = core::iter::from_fn(|| waiting.take()).collect();
        assert_eq!(
            rest,
            [64, 129, 5],
            "an entry that is inserted again waits for the others"
        );
        assert!(waiting.is_empty());
        waiting.insert(129);
        waiting.remove(129);
        waiting.remove(129);
        assert_eq!((waiting.take(), waiting.is_empty()), (None, true));
    }
}
