//! Ways to build it wrong. Each must be found by a checker: one that finds none of them proves nothing.

use std::{fmt, str::FromStr};

use crate::options::UnknownName;

/// Something broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeshMutant {
    /// A program asks blindly once more when a link fails, and takes the first answer.
    RetriesBlindly,
    /// A program takes what is in doubt for done.
    GuessesInDoubt,
    /// A node starts again and does not say so: its incarnation is that of before.
    HidesRestarts,
    /// What a node hears of a tree is shown with a nearer label than it has.
    TakesAnybody,
    /// A node does not hear that there is no way to a root.
    DeafToLost,
    /// A node does not hear what its neighbour said of a tree before.
    NeverSaysAgain,
    /// A node does not hear that a neighbour cannot come nearer.
    DeafToDenied,
}

impl MeshMutant {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::RetriesBlindly,
        Self::GuessesInDoubt,
        Self::HidesRestarts,
        Self::TakesAnybody,
        Self::DeafToLost,
        Self::NeverSaysAgain,
        Self::DeafToDenied,
    ];

    /// Whether it is broken by a lens between cables and nodes.
    pub(super) const fn is_lens(self) -> bool {
        matches!(
            self,
            Self::TakesAnybody | Self::DeafToLost | Self::NeverSaysAgain | Self::DeafToDenied
        )
    }

    /// Its name on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RetriesBlindly => "retries-blindly",
            Self::GuessesInDoubt => "guesses-in-doubt",
            Self::HidesRestarts => "hides-restarts",
            Self::TakesAnybody => "takes-anybody",
            Self::DeafToLost => "deaf-to-lost",
            Self::NeverSaysAgain => "never-says-again",
            Self::DeafToDenied => "deaf-to-denied",
        }
    }
}

impl FromStr for MeshMutant {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL
            .into_iter()
            .find(|mutant| mutant.as_str() == text)
            .ok_or_else(|| {
                let names = Self::ALL.map(Self::as_str).to_vec();
                UnknownName::new("mutant of a mesh", text.to_owned(), names)
            })
    }
}

impl fmt::Display for MeshMutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
