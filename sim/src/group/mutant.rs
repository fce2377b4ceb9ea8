//! Ways to build it wrong. Each must be found by a checker: one that finds none of them proves nothing.

use crate::named::named;

named! {
    "mutant of a group":
    /// Something broken on purpose.
    Mutant {
        /// A member says that it holds what was said and has not arrived.
        AcksBeforeHeld = "acks-before-held",
        /// A batch behind skipped rounds is taken for that of the first of them.
        SkipsNull = "skips-null",
        /// A message is told as soon as a member holds all up to it itself.
        DeliversWhenReceived = "delivers-when-received",
        /// What a quorum of those who stay holds is delivered, and not what all of them hold.
        TrimsByQuorum = "trims-by-quorum",
        /// What one of those who stay holds is delivered.
        TakesMaxTrim = "takes-max-trim",
        /// A member goes on telling messages when it holds the view for ended.
        KeepsDeliveringWedged = "keeps-delivering-wedged",
        /// A member takes batches in when it holds the view for ended.
        UnfreezesReceived = "unfreezes-received",
        /// Half of the voters are a quorum without the oldest too.
        AnyMajority = "any-majority",
        /// A member accepts what is below its promise.
        BreaksPromise = "breaks-promise",
        /// A member tells nobody how the view ended.
        NoDecidedFirst = "no-decided-first",
        /// In a new view a member says again what was delivered in the one before.
        ResendsDelivered = "resends-delivered",
        /// A member believes of another the first accusation that it heard, and no later word.
        FollowsFirstClaim = "follows-first-claim",
        /// Whoever joins votes before it has the state.
        JoinerVotes = "joiner-votes",
        /// An application that begins anew is the same stay as before.
        RejoinsWithOldLife = "rejoins-with-old-life",
        /// Rounds are closed though not all applications took those before.
        NoCredit = "no-credit",
        /// Whatever comes from a node is believed to be of whom it names.
        TrustsStrangers = "trusts-strangers",
        /// Whoever owns a queue is taken in under the life of another one.
        TakesCopiedLives = "takes-copied-lives",
        /// Founders do not name the group that they are about to found to those who are not in it.
        FoundsNameless = "founds-nameless",
        /// Whoever is taken in by two groups does not answer the one that it is not in.
        SilentToOtherGroups = "silent-to-other-groups",
        /// A member does not learn from the end of a later view that it was left behind.
        WaitsForItsEnd = "waits-for-its-end",
        /// Of a stay that never spoke it is told that nothing of it was delivered, whatever another group did.
        TellsUnknownFates = "tells-unknown-fates",
    }
}
