//! Ways to build it wrong. Each must be found by a checker: one that finds none of them proves nothing.

use crate::named::named;

named! {
    "mutant":
    /// Something broken on purpose.
    Mutant {
        /// Frames overtake each other on their cable.
        Reordering = "reordering",
        /// A program executes a two-phase request at message 1.
        ExecutesAtMessageOne = "executes-at-message-1",
        /// A program asks blindly once more when a link fails, and takes the first answer.
        RetriesBlindly = "retries-blindly",
        /// A program takes what is in doubt for done.
        GuessesInDoubt = "guesses-in-doubt",
        /// A program keeps what was reserved for a request that is reversed.
        KeepsReservations = "keeps-reservations",
        /// Bits flip in payloads and the CRC still fits.
        CorruptsUnnoticed = "corrupts-unnoticed",
        /// A transfer's second half is left out now and then.
        HalvesTransfers = "halves-transfers",
        /// A node is restarted and does not say so: its incarnation is that of before.
        HidesRestarts = "hides-restarts",
        /// A program with a journal lets be told what is not on disk.
        AcknowledgesEarly = "acknowledges-early",
        /// Of the last commit in a journal only a part is replayed.
        TearsCommits = "tears-commits",
        /// A program stamps what it executes with a clock of its own, which hears nobody.
        StampsByItself = "stamps-by-itself",
        /// A program that asks for an exchange by its name takes "forgotten" for "not executed".
        DeniesForgotten = "denies-forgotten",
        /// First epochs are not drawn, so that somebody who hears nothing on a cable guesses them.
        GuessableEpochs = "guessable-epochs",
        /// A node takes the liar beside the world for another node of it.
        TrustsAnyName = "trusts-any-name",
    }
}
