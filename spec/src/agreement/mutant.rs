//! Ways to build it wrong. They are built around the machines, not in them.

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// Nothing.
    None,
    /// The host thread says "taken" when every lane is ready, before they settle.
    RepliesWhenReady,
    /// Neither joint nor lanes compare what control believes, and whoever comes may offer.
    BelievesNothing,
    /// Control does not look at the life of the dataplane.
    NoIncarnation,
    /// The host thread drops an exchange when its client hangs up.
    GivesUp,
    /// Lanes that are ready do not undo when another one refused.
    NoUndo,
    /// A control that starts takes the file for what is in force.
    ControlFromFile,
    /// Control reinstates under the epoch that was agreed.
    SameEpoch,
    /// Who asks while an exchange is open is told at once.
    AnswersInTheMiddle,
    /// Offers are taken of whoever comes.
    NoPartner,
    /// Control takes the text in force for a proof that its ports were opened again.
    ReopensByText,
}
