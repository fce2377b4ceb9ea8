//! Deliberate defects. A checker must find each of them: a checker that finds none proves nothing.

use crate::named::named;

named! {
    "mutant":
    /// Something broken on purpose.
    Mutant {
        /// Frames overtake each other on their cable.
        Reordering = "reordering",
        /// A program executes a two-phase request at message 1.
        ExecutesAtMessageOne = "executes-at-message-1",
        /// A program blindly submits once more when a link fails, and takes the first reply.
        RetriesBlindly = "retries-blindly",
        /// A program takes an exchange in doubt for committed.
        GuessesInDoubt = "guesses-in-doubt",
        /// A program keeps the reservation of a reversed request.
        KeepsReservations = "keeps-reservations",
        /// Bits flip in payloads and the CRC still fits.
        CorruptsUnnoticed = "corrupts-unnoticed",
        /// A transfer's second half is left out now and then.
        HalvesTransfers = "halves-transfers",
        /// A node restarts and does not report it: it keeps its incarnation.
        HidesRestarts = "hides-restarts",
        /// A program with a journal allows reports of outcomes that are not on disk.
        AcknowledgesEarly = "acknowledges-early",
        /// Of the last commit in a journal only a part is replayed.
        TearsCommits = "tears-commits",
        /// A program stamps its executions with a clock of its own, which ignores other nodes.
        StampsByItself = "stamps-by-itself",
        /// A program that queries an exchange by its name takes "forgotten" for "not executed".
        DeniesForgotten = "denies-forgotten",
        /// First epochs are not drawn, so that a sender that receives nothing can guess them.
        GuessableEpochs = "guessable-epochs",
        /// A node takes the liar beside the world for another node of it.
        TrustsAnyName = "trusts-any-name",
    }
}
