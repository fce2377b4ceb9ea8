//! Verbs in doubt, by a name that outlives the queue they were posted to.

use covalent_protocol::verb::doubt::ExchangeName;

use crate::{
    error::{Error, Result},
    outstanding::Answer,
};

/// The name of a verb in doubt. [`query_in_doubt`](crate::Verbs::query_in_doubt) queries the verb's
/// outcome by it, from any program of the same user on the same node, even if the program that
/// posted the verb is gone. Valid while the node's daemon runs.
///
/// It may be stored as bytes, which have no meaning for other users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InDoubtId(ExchangeName);

impl InDoubtId {
    /// Its length, in bytes.
    pub const BYTES: usize = ExchangeName::BYTES;

    /// The bytes to write down.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        self.0.to_bytes()
    }

    /// Returns the name that was stored as `bytes`. If they were never a name, a query for it
    /// completes as forgotten.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        Self(ExchangeName::from_bytes(bytes))
    }

    /// The name that the daemon sent for a verb with such a reply.
    pub(crate) const fn new(mut name: ExchangeName, answer: Answer) -> Self {
        name.note = match answer {
            Answer::Nothing => 0,
            Answer::Word => 1,
            // A watch is never in doubt.
            Answer::Data | Answer::Path => 2,
        };
        Self(name)
    }

    pub(crate) const fn name(&self) -> ExchangeName {
        self.0
    }

    /// How the reply to the verb is to be read.
    pub(crate) fn answer(&self) -> Result<Answer> {
        Ok(match self.0.note {
            0 => Answer::Nothing,
            1 => Answer::Word,
            2 => Answer::Data,
            note => {
                return Err(Error::Invalid(format!(
                    "the name of a verb in doubt has {note} at byte 11: it was not stored as it \
                     was returned"
                )));
            }
        })
    }
}
