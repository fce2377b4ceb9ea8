//! Ways to build it wrong. Each must be found by a checker: one that finds none of them proves nothing.

use std::{fmt, str::FromStr};

use crate::options::UnknownName;

/// Something broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// Frames overtake each other on their cable.
    Reordering,
    /// A program executes a two-phase request at message 1.
    ExecutesAtMessageOne,
    /// A program asks blindly once more when a link fails, and takes the first answer.
    RetriesBlindly,
    /// A program takes what is in doubt for done.
    GuessesInDoubt,
    /// A program keeps what was reserved for a request that is reversed.
    KeepsReservations,
    /// Bits flip in payloads and the CRC still fits.
    CorruptsUnnoticed,
    /// A transfer's second half is left out now and then.
    HalvesTransfers,
    /// A node is restarted and does not say so: its incarnation is that of before.
    HidesRestarts,
    /// A program with a journal lets be told what is not on disk.
    AcknowledgesEarly,
    /// Of the last commit in a journal only a part is replayed.
    TearsCommits,
    /// A program stamps what it executes with a clock of its own, which hears nobody.
    StampsByItself,
    /// A program that asks for an exchange by its name takes "forgotten" for "not executed".
    DeniesForgotten,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Reordering,
        Self::ExecutesAtMessageOne,
        Self::RetriesBlindly,
        Self::GuessesInDoubt,
        Self::KeepsReservations,
        Self::CorruptsUnnoticed,
        Self::HalvesTransfers,
        Self::HidesRestarts,
        Self::AcknowledgesEarly,
        Self::TearsCommits,
        Self::StampsByItself,
        Self::DeniesForgotten,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reordering => "reordering",
            Self::ExecutesAtMessageOne => "executes-at-message-1",
            Self::RetriesBlindly => "retries-blindly",
            Self::GuessesInDoubt => "guesses-in-doubt",
            Self::KeepsReservations => "keeps-reservations",
            Self::CorruptsUnnoticed => "corrupts-unnoticed",
            Self::HalvesTransfers => "halves-transfers",
            Self::HidesRestarts => "hides-restarts",
            Self::AcknowledgesEarly => "acknowledges-early",
            Self::TearsCommits => "tears-commits",
            Self::StampsByItself => "stamps-by-itself",
            Self::DeniesForgotten => "denies-forgotten",
        }
    }
}

impl FromStr for Mutant {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL
            .into_iter()
            .find(|mutant| mutant.as_str() == text)
            .ok_or_else(|| {
                let names = Self::ALL.map(Self::as_str).to_vec();
                UnknownName::new("mutant", text.to_owned(), names)
            })
    }
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
