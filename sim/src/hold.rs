//! Which words an exchange holds while it is open: what the engine's reservations are held against, told a second time.

use std::ops::Range;

use crate::{
    ask::{Ask, Update},
    region::{COUNTER, FIRST_ACCOUNT, WORD_BYTES},
};

/// What an exchange does to the words that it touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// It reads them. Nothing is held.
    Read,
    /// It changes them in a way that goes with others of the same kind, in whatever order.
    Together(Update),
    /// It changes them, and nobody else may touch them meanwhile.
    Alone,
}

impl Hold {
    /// How `ask` touches its words.
    #[must_use]
    pub const fn of(ask: &Ask) -> Self {
        match ask {
            Ask::Count { .. } => Self::Together(Update::Add),
            Ask::Update {
                how: Update::Swap, ..
            }
            | Ask::Transfer(_)
            | Ask::Conditional { .. }
            | Ask::CompareAndSwap { .. }
            | Ask::Write { .. } => Self::Alone,
            Ask::Update { how, .. } => Self::Together(*how),
            Ask::Read { .. } | Ask::Lookup { .. } | Ask::Mistake(_) => Self::Read,
        }
    }

    /// Whether words held so let an exchange come in that touches them as `other`.
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

/// The words that `ask` touches.
#[must_use]
pub fn touched(ask: &Ask) -> Vec<usize> {
    match ask {
        Ask::Count { .. } => vec![COUNTER],
        Ask::Transfer(changes) => changes
            .iter()
            .map(|change| FIRST_ACCOUNT + change.account)
            .collect(),
        Ask::Update { word, .. }
        | Ask::Conditional { word, .. }
        | Ask::CompareAndSwap { word, .. } => vec![*word],
        Ask::Read { offset, len } => words_of(*offset, *len).collect(),
        Ask::Write { offset, data } => words_of(*offset, data.len()).collect(),
        Ask::Lookup { .. } | Ask::Mistake(_) => Vec::new(),
    }
}

/// The words that some bytes lie in.
const fn words_of(offset: usize, len: usize) -> Range<usize> {
    offset / WORD_BYTES..(offset + len).div_ceil(WORD_BYTES)
}
