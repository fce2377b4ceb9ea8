//! Words that an exchange holds while it is open: an independent model of the engine's
//! reservations.

use std::ops::Range;

use crate::{
    operation::{Operation, Update},
    region::{COUNTER, FIRST_ACCOUNT, WORD_BYTES},
};

/// Effect of an exchange on the words that it touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// It reads them. Nothing is held.
    Read,
    /// It changes them by an operation that commutes with others of the same kind.
    Together(Update),
    /// It changes them, and no other exchange may touch them meanwhile.
    Alone,
}

impl Hold {
    /// Returns how `operation` holds its words.
    #[must_use]
    pub const fn of(operation: &Operation) -> Self {
        match operation {
            Operation::Count { .. } => Self::Together(Update::Add),
            Operation::Update {
                how: Update::Swap, ..
            }
            | Operation::Transfer(_)
            | Operation::Conditional { .. }
            | Operation::CompareAndSwap { .. }
            | Operation::Write { .. } => Self::Alone,
            Operation::Update { how, .. } => Self::Together(*how),
            Operation::Read { .. } | Operation::Lookup { .. } | Operation::Mistake(_) => Self::Read,
        }
    }

    /// Whether words with this hold admit an exchange that touches them as `other`.
    #[must_use]
    pub fn lets(self, other: Self) -> bool {
        match (self, other) {
            (Self::Read, _) => true,
            (Self::Alone, _) | (Self::Together(_), Self::Alone) => false,
            (Self::Together(_), Self::Read) => true,
            (Self::Together(held), Self::Together(wanted)) => held == wanted,
        }
    }
}

/// The words that `operation` touches.
#[must_use]
pub fn touched(operation: &Operation) -> Vec<usize> {
    match operation {
        Operation::Count { .. } => vec![COUNTER],
        Operation::Transfer(changes) => changes
            .iter()
            .map(|change| FIRST_ACCOUNT + change.account)
            .collect(),
        Operation::Update { word, .. }
        | Operation::Conditional { word, .. }
        | Operation::CompareAndSwap { word, .. } => vec![*word],
        Operation::Read { offset, len } => words_of(*offset, *len).collect(),
        Operation::Write { offset, data } => words_of(*offset, data.len()).collect(),
        Operation::Lookup { .. } | Operation::Mistake(_) => Vec::new(),
    }
}

/// The words that some bytes lie in.
const fn words_of(offset: usize, len: usize) -> Range<usize> {
    offset / WORD_BYTES..(offset + len).div_ceil(WORD_BYTES)
}
