//! Ways to build it wrong. Each must be found by a checker: one that finds none of them proves nothing.

use crate::named::named;

named! {
    "mutant of a mesh":
    /// Something broken on purpose.
    MeshMutant {
        /// A program asks blindly once more when a link fails, and takes the first answer.
        RetriesBlindly = "retries-blindly",
        /// A program takes what is in doubt for done.
        GuessesInDoubt = "guesses-in-doubt",
        /// A node starts again and does not say so: its incarnation is that of before.
        HidesRestarts = "hides-restarts",
        /// A node says that it did what it was asked for, and does it not, now and then.
        LosesUpdates = "loses-updates",
        /// A node does not let go of the words of an exchange that is reversed.
        KeepsWords = "keeps-words",
        /// What a node hears of a tree is shown with a nearer label than it has.
        TakesAnybody = "takes-anybody",
        /// A node does not hear that there is no way to a root.
        DeafToLost = "deaf-to-lost",
        /// A node does not hear what its neighbour said of a tree before.
        NeverSaysAgain = "never-says-again",
        /// A node does not hear that a neighbour cannot come nearer.
        DeafToDenied = "deaf-to-denied",
        /// A node that hangs does not hear that a neighbour hangs on it no more.
        KeepsChildren = "keeps-children",
        /// Whoever announces roots first takes all the room for them.
        SharesNothing = "shares-nothing",
    }
}

impl MeshMutant {
    /// Whether it is broken by a lens between cables and nodes.
    pub(super) const fn is_lens(self) -> bool {
        matches!(
            self,
            Self::TakesAnybody
                | Self::DeafToLost
                | Self::NeverSaysAgain
                | Self::DeafToDenied
                | Self::KeepsChildren
        )
    }
}
