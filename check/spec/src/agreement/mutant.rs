//! Ways to build it wrong. They are built around the machines, not in them.

/// The deliberate defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// Nothing.
    None,
    /// The host thread replies "taken" when every lane has prepared, before they commit.
    RepliesWhenPrepared,
    /// The host thread does not check control's belief, and any client may offer.
    BelievesNothing,
    /// Control ignores the incarnation of the dataplane.
    NoIncarnation,
    /// The host thread forgets an exchange when its client disconnects.
    GivesUp,
    /// The daemon commits only while the client that offered is there.
    WaitsForControl,
    /// A control that starts assumes that the file is in force.
    ControlFromFile,
    /// Control reinstates under the revision that was agreed.
    SameEpoch,
    /// A query during an open exchange gets its reply at once.
    AnswersInTheMiddle,
    /// Offers are accepted from any client.
    NoPartner,
    /// Control takes the text in force for a proof that its ports were opened again.
    ReopensByText,
}
