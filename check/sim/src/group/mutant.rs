//! Deliberate defects. A checker must find each of them: a checker that finds none proves nothing.

use crate::named::named;

named! {
    "mutant of a group":
    /// Something broken on purpose.
    Mutant {
        /// A member reports that it holds a batch that was sent and has not arrived.
        AcksBeforeHeld = "acks-before-held",
        /// A batch behind skipped rounds is taken for the batch of the first skipped round.
        SkipsNull = "skips-null",
        /// A message is delivered as soon as the member itself holds all messages up to it.
        DeliversWhenReceived = "delivers-when-received",
        /// The batches that a quorum of the staying members holds are delivered, instead of those
        /// that all of them hold.
        TrimsByQuorum = "trims-by-quorum",
        /// The batches that any one staying member holds are delivered.
        TakesMaxTrim = "takes-max-trim",
        /// A member continues to deliver messages after it considers the view ended.
        KeepsDeliveringWedged = "keeps-delivering-wedged",
        /// A member takes batches in when it holds the view for ended.
        UnfreezesReceived = "unfreezes-received",
        /// Half of the voters are a quorum without the oldest too.
        AnyMajority = "any-majority",
        /// A member accepts a ballot below its promise.
        BreaksPromise = "breaks-promise",
        /// A member does not report how the view ended.
        NoDecidedFirst = "no-decided-first",
        /// A member resends in a new view what was delivered in the previous one.
        ResendsDelivered = "resends-delivered",
        /// A member believes the first claim that it receives from another member, and no later
        /// one.
        FollowsFirstClaim = "follows-first-claim",
        /// A joiner votes before it has the state.
        JoinerVotes = "joiner-votes",
        /// An application that begins again reuses its previous incarnation.
        RejoinsWithOldLife = "rejoins-with-old-life",
        /// Rounds are closed though not all applications took those before.
        NoCredit = "no-credit",
        /// An envelope from a node is attributed to the member that it names, without a check.
        TrustsStrangers = "trusts-strangers",
        /// The owner of a queue is admitted under the incarnation of another application.
        TakesCopiedLives = "takes-copied-lives",
        /// Founders do not name their future group to applications outside it.
        FoundsNameless = "founds-nameless",
        /// An application that two groups admit does not reply to the one that it is not in.
        SilentToOtherGroups = "silent-to-other-groups",
        /// A member does not learn from the end of a later view that it was left behind.
        WaitsForItsEnd = "waits-for-its-end",
        /// Of an incarnation that never sent, it is reported that no message was delivered, even if
        /// another group delivered some.
        ReportsUnknownFates = "reports-unknown-fates",
    }
}
