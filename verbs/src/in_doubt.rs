//! Verbs in doubt, by a name that outlives the queue they were posted to.

use covalent_protocol::verb::doubt::ExchangeName;

use crate::{
    error::{Error, Result},
    outstanding::Answer,
};

/// The name of a verb in doubt, by which [`Verbs::ask`](crate::Verbs::ask) learns its end: from any program of the same user
/// on the same node, also when the one that posted the verb is gone. Good for as long as the node's daemon lives.
///
/// It may be written down as its bytes, which mean nothing to anybody else.
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

    /// The name that was written down as `bytes`. If it was not one, asking for it says that it is forgotten.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        Self(ExchangeName::from_bytes(bytes))
    }

    /// The name that the daemon told of a verb with such an answer.
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
                    "the name of a verb in doubt has {note} at byte 11: it was not written down as it was told"
                )));
            }
        })
    }
}
