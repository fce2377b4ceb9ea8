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
}

impl MeshMutant {
    /// All of them.
    pub const ALL: [Self; 3] = [
        Self::RetriesBlindly,
        Self::GuessesInDoubt,
        Self::HidesRestarts,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RetriesBlindly => "retries-blindly",
            Self::GuessesInDoubt => "guesses-in-doubt",
            Self::HidesRestarts => "hides-restarts",
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
