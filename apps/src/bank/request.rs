//! One verb of a bank's client, with what it carries.

use covalent_verbs::{CommitWord, Mode, Verb};

use crate::bank::layout;

/// A verb that owns its data, so that it can wait for room in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Adds to the counter.
    Add {
        /// What to add.
        delta: u64,
    },
    /// Takes the lock.
    Acquire {
        /// The client's number.
        holder: u64,
    },
    /// Reads the guarded pair.
    ReadGuarded,
    /// Writes the guarded pair: both words.
    WriteGuarded {
        /// The pair as it lies in the region.
        pair: [u8; layout::GUARDED_BYTES as usize],
    },
    /// Gives the lock back.
    Release {
        /// The client's number.
        holder: u64,
    },
    /// Moves money between two accounts.
    Transfer {
        /// The two balances, old and new.
        words: [CommitWord; 2],
    },
}

impl Request {
    /// The verb.
    #[must_use]
    pub const fn verb(&self) -> Verb<'_> {
        match self {
            Self::Add { delta } => Verb::FetchAdd {
                offset_bytes: layout::COUNTER,
                delta: *delta,
            },
            Self::Acquire { holder } => Verb::CompareAndSwap {
                offset_bytes: layout::LOCK,
                expected: 0,
                new: *holder,
            },
            Self::ReadGuarded => Verb::Read {
                offset_bytes: layout::GUARDED,
                len_bytes: layout::GUARDED_BYTES,
            },
            Self::WriteGuarded { pair } => Verb::Write {
                offset_bytes: layout::GUARDED,
                data: pair,
            },
            Self::Release { holder } => Verb::CompareAndSwap {
                offset_bytes: layout::LOCK,
                expected: *holder,
                new: 0,
            },
            Self::Transfer { words } => Verb::MultiCommit { words },
        }
    }

    /// How it travels: what changes something in two phases, what only looks in one.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        match self {
            Self::ReadGuarded => Mode::OnePhase,
            _ => Mode::TwoPhase,
        }
    }
}
