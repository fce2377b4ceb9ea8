//! Deliberate defects. A checker must find each of them: a checker that finds none proves nothing.

use crate::named::named;

named! {
    "mutant of a mesh":
    /// Something broken on purpose.
    MeshMutant {
        /// A program blindly submits once more when a link fails, and takes the first reply.
        RetriesBlindly = "retries-blindly",
        /// A program takes an exchange in doubt for committed.
        GuessesInDoubt = "guesses-in-doubt",
        /// A node restarts and does not report it: it keeps its incarnation.
        HidesRestarts = "hides-restarts",
        /// A node sometimes reports an execution that it did not perform.
        LosesUpdates = "loses-updates",
        /// A node does not release the words of a reversed exchange.
        KeepsWords = "keeps-words",
        /// A node receives tree items with a nearer label than their sender has.
        TakesAnybody = "takes-anybody",
        /// A node does not receive reports that a root is unreachable.
        DeafToLost = "deaf-to-lost",
        /// A node does not receive a tree item that repeats its neighbor's last one.
        NeverRepeats = "never-repeats",
        /// A node does not receive denials of neighbors that cannot come nearer.
        DeafToDenied = "deaf-to-denied",
        /// An attached node does not receive that a neighbor is no longer its child.
        KeepsChildren = "keeps-children",
        /// The node that announces roots first takes all the space for them.
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
                | Self::NeverRepeats
                | Self::DeafToDenied
                | Self::KeepsChildren
        )
    }
}
