//! Words that one side writes as a whole, again and again, and another reads as a whole.
//!
//! The first word is the sequence: odd while the others are being written, one more than before when they are. The reader takes what it read if
//! the sequence was even before and is the same afterwards. A writer that never finishes, or lies, costs the reader a bounded number of looks.

use crate::sync::{AtomicU64, Ordering, fence};

/// Looks before the reader gives up: the writer is at it, and comes back to it much later.
const LOOKS: usize = 8;

/// Begins to write the words of `sequence`, by relaxed stores; [`end`] takes what it returns. One thread at a time.
pub fn begin(sequence: &AtomicU64) -> u64 {
    // Whoever died in the middle left it odd.
    let found = sequence.load(Ordering::Relaxed);
    let even = found.wrapping_add(found % 2);
    sequence.store(even.wrapping_add(1), Ordering::Relaxed);
    // A reader that sees anything of what follows sees the odd number too, if it looks once more.
    mutated!(PublishWithoutFence: fence(Ordering::Release) => ());
    even.wrapping_add(2)
}

/// Shows what was written since [`begin`] returned `next`.
pub fn end(sequence: &AtomicU64, next: u64) {
    sequence.store(next, Ordering::Release);
}

/// A sequence and the words behind it.
#[derive(Debug, Clone, Copy)]
pub struct Published<'a>(&'a [AtomicU64]);

impl<'a> Published<'a> {
    /// The words: one for the sequence, the rest for what is published.
    #[must_use]
    pub const fn new(words: &'a [AtomicU64]) -> Self {
        Self(words)
    }

    /// Publishes `contents`; words beyond the shorter of both stay. One thread at a time.
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

    /// Reads what was published last into `contents`, words beyond the shorter of both excepted. `false`: nothing was published yet, or it could not
    /// be read as a whole; `contents` means nothing then.
    #[must_use]
    pub fn read(self, contents: &mut [u64]) -> bool {
        let Some((sequence, words)) = self.0.split_first() else {
            return false;
        };
        for _ in 0..LOOKS {
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
            // What was read was read before the second look.
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
    fn what_was_published_last_is_read_and_nothing_before() {
        let words = words::<4>();
        let (mut contents, board) = ([9; 3], Published::new(&words));
        assert!(!board.read(&mut contents));
        board.publish(&[1, 2, 3]);
        board.publish(&[4, 5, 6]);
        assert!(board.read(&mut contents));
        assert_eq!(contents, [4, 5, 6]);
    }

    #[test]
    fn a_writer_that_stopped_in_the_middle_is_not_believed_and_its_successor_is() {
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
