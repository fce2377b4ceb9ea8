//! One verb of a bank client, with its data.

use covalent::{CommitWord, Mode, Verb};

use crate::bank::layout;

/// A verb that owns its data, so that it can wait for a free slot in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Adds to the counter.
    Add {
        /// The delta.
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
        /// The two balances, each with its old and its new value.
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

    /// The mode of the verb: verbs that change the region use two phases, reads use one.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        match self {
            Self::ReadGuarded => Mode::OnePhase,
            _ => Mode::TwoPhase,
        }
    }
}
