//! Words that one side writes repeatedly as a whole and the other side reads as a whole.
//!
//! The first word is the sequence: odd during a write, and one more than that after it. A reader
//! accepts its copy if the sequence was even before and is unchanged afterwards. A writer that
//! never finishes, or misbehaves, costs the reader a bounded number of attempts.

use crate::{
    mutated,
    sync::{AtomicU64, Ordering, fence},
};

/// Looks before the reader gives up: the writer is at it, and comes back to it much later.
const ATTEMPTS: usize = 8;

/// Begins a write of the words of `sequence` with relaxed stores. Pass the result to [`end`]. One
/// thread at a time.
pub fn begin(sequence: &AtomicU64) -> u64 {
    // A writer that died during a write left it odd.
    let found = sequence.load(Ordering::Relaxed);
    let even = found.wrapping_add(found % 2);
    sequence.store(even.wrapping_add(1), Ordering::Relaxed);
    // A reader that sees any of the following stores also sees the odd number when it reads the
    // sequence again.
    mutated!(PublishWithoutFence: fence(Ordering::Release) => ());
    even.wrapping_add(2)
}

/// Publishes the data written since [`begin`] returned `next`.
pub fn end(sequence: &AtomicU64, next: u64) {
    sequence.store(next, Ordering::Release);
}

/// A sequence and the words behind it.
#[derive(Debug, Clone, Copy)]
pub struct Published<'a>(&'a [AtomicU64]);

impl<'a> Published<'a> {
    /// Wraps the words: one for the sequence, the rest for the published data.
    #[must_use]
    pub const fn new(words: &'a [AtomicU64]) -> Self {
        Self(words)
    }

    /// Publishes `contents`. Words beyond the shorter of the two lengths stay unchanged. One thread
    /// at a time.
    pub fn publish(self, contents: &[u64]) {
        let Some((sequence, words)) = self.0.split_first() else {
            return;
        };
        let next = begin(sequence);
        for (word, &content) in words.iter().zip(contents) {
            word.store(content, Ordering::Relaxed);
        }
        end(sequence, next);
    }

    /// Reads the last published data into `contents`, up to the shorter of the two lengths. Returns
    /// `false` if nothing was published yet, or if no consistent copy was possible. Then `contents`
    /// is unspecified.
    #[must_use]
    pub fn read(self, contents: &mut [u64]) -> bool {
        let Some((sequence, words)) = self.0.split_first() else {
            return false;
        };
        for _ in 0..ATTEMPTS {
            let before = sequence.load(Ordering::Acquire);
            if before == 0 {
                return false;
            }
            if before % 2 == 1 {
                continue;
            }
            for (content, word) in contents.iter_mut().zip(words) {
                *content = word.load(Ordering::Relaxed);
            }
            // Orders the reads above before the second read of the sequence.
            mutated!(ReadWithoutFence: fence(Ordering::Acquire) => ());
            if sequence.load(Ordering::Relaxed) == before {
                return true;
            }
        }
        false
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn words<const N: usize>() -> [AtomicU64; N] {
        core::array::from_fn(|_| AtomicU64::new(0))
    }

    #[test]
    fn the_last_published_words_are_read() {
        let words = words::<4>();
        let (mut contents, board) = ([9; 3], Published::new(&words));
        assert!(!board.read(&mut contents));
        board.publish(&[1, 2, 3]);
        board.publish(&[4, 5, 6]);
        assert!(board.read(&mut contents));
        assert_eq!(contents, [4, 5, 6]);
    }

    #[test]
    fn an_unfinished_write_is_not_read_and_that_of_a_successor_is() {
        let words = words::<3>();
        let (mut contents, board) = ([0; 2], Published::new(&words));
        board.publish(&[1, 2]);
        words[0].store(3, Ordering::Relaxed);
        assert!(!board.read(&mut contents));
        board.publish(&[3, 4]);
        assert!(board.read(&mut contents));
        assert_eq!(contents, [3, 4]);
        // At the end of all numbers too.
        words[0].store(u64::MAX - 1, Ordering::Relaxed);
        board.publish(&[5, 6]);
        board.publish(&[7, 8]);
        assert!(board.read(&mut contents));
        assert_eq!(contents, [7, 8]);
    }

    #[test]
    fn no_words_are_nothing() {
        Published::new(&[]).publish(&[1]);
        assert!(!Published::new(&[]).read(&mut [0]));
    }
}
