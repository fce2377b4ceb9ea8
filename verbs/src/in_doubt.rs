//! Verbs in doubt, by an in-doubt id, which outlives the queue they were posted to.

use covalent_protocol::verb::doubt;

/// The in-doubt id of a verb. [`query_in_doubt`](crate::Verbs::query_in_doubt) queries the verb's
/// outcome by it, from any program of the same user on the same node, even if the program that
/// posted the verb is gone. Valid while the node's daemon runs.
///
/// It may be stored as bytes, which have no meaning for other users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InDoubtId(doubt::InDoubtId);

impl InDoubtId {
    /// Its length, in bytes.
    pub const BYTES: usize = doubt::InDoubtId::BYTES;

    /// The bytes to write down.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        self.0.to_bytes()
    }

    /// Returns the in-doubt id that was stored as `bytes`. If they were never an id, a query for it
    /// completes as forgotten.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        Self(doubt::InDoubtId::from_bytes(bytes))
    }

    /// The id that the daemon sent for a verb. `note` is how to read the reply to it.
    pub(crate) const fn new(mut id: doubt::InDoubtId, note: u8) -> Self {
        id.note = note;
        Self(id)
    }

    pub(crate) const fn on_the_wire(&self) -> doubt::InDoubtId {
        self.0
    }

    pub(crate) const fn note(&self) -> u8 {
        self.0.note
    }
}
