//! The name of an exchange in doubt, as applications hold it, and the submission that asks for its end.
//!
//! ```text
//!  ask   ├ user data u64 ┼ 0 u64 ┼ 3 u8 ┼ 0 ×7 ┼ name ┤
//!  name  ├ peer u64 ┼ port u16 ┼ slot u8 ┼ note u8 ┼ epoch u32 ┼ sequence u32 ┼ seal u32 ┤
//! ```

use super::{
    BufferTooShort,
    envelope::{EnvelopeError, SUBMIT_HEADER_BYTES, Submit},
    space, u64_at,
    watch::{self, Watch},
};
use crate::ExchangeId;

/// The mode byte of a submission that asks.
const ASK: u8 = 3;

/// An exchange in doubt, as the daemon told its name to an application. May be kept outside the application's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExchangeName {
    /// The exchange.
    pub id: ExchangeId,
    /// The application's own; 0 as the daemon tells it, and the daemon does not look at it.
    pub note: u8,
    /// By which the daemon knows, within its life, that it told this name to this user.
    pub seal: u32,
}

impl ExchangeName {
    /// Its length, in bytes.
    pub const BYTES: usize = 24;

    /// The bytes that stand for it.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0..8].copy_from_slice(&self.id.peer.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.id.port.to_le_bytes());
        bytes[10] = self.id.slot;
        bytes[11] = self.note;
        bytes[12..16].copy_from_slice(&self.id.epoch.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.id.sequence.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.seal.to_le_bytes());
        bytes
    }

    /// The name that `bytes` stand for. Any bytes do for some name.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let (words, _) = bytes.as_chunks::<4>();
        let [port_low, port_high, slot, note] = words[2];
        Self {
            id: ExchangeId {
                peer: u64_at(bytes, 0),
                port: u16::from_le_bytes([port_low, port_high]),
                epoch: u32::from_le_bytes(words[3]),
                slot,
                sequence: u32::from_le_bytes(words[4]),
            },
            note,
            seal: u32::from_le_bytes(words[5]),
        }
    }
}

/// Asks what became of an exchange that was in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Returned in the completion; means nothing to the daemon.
    pub user_data: u64,
    /// The exchange.
    pub name: ExchangeName,
}

impl Ask {
    /// Its length, in bytes.
    pub const BYTES: usize = SUBMIT_HEADER_BYTES + ExchangeName::BYTES;

    /// Writes it to the start of `out` and returns its length.
    ///
    /// # Errors
    /// `out` is shorter than [`Ask::BYTES`].
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, BufferTooShort> {
        let (header, name) = space(out, Self::BYTES)?.split_at_mut(SUBMIT_HEADER_BYTES);
        header.fill(0);
        header[0..8].copy_from_slice(&self.user_data.to_le_bytes());
        header[16] = ASK;
        name.copy_from_slice(&self.name.to_bytes());
        Ok(Self::BYTES)
    }
}

/// Anything that an application writes into its verb submission pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submission<'a> {
    /// A verb.
    Verb(Submit<'a>),
    /// What became of one.
    Ask(Ask),
    /// Whether a path leads to a node.
    Watch(Watch),
}

impl<'a> Submission<'a> {
    /// Reads a submission that fills `bytes`. The request of a verb is not decoded.
    ///
    /// # Errors
    /// [`EnvelopeError`] says what is wrong with it.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, EnvelopeError> {
        match bytes.get(16) {
            Some(&ASK) => {}
            Some(&watch::WATCH) => return Watch::decode(bytes).map(Self::Watch),
            _ => return Submit::decode(bytes).map(Self::Verb),
        }
        let (header, name) = bytes
            .split_at_checked(SUBMIT_HEADER_BYTES)
            .ok_or(EnvelopeError::Length)?;
        if header[8..16] != [0; 8] || header[17..] != [0; 7] {
            return Err(EnvelopeError::Reserved);
        }
        let name = name.try_into().map_err(|_| EnvelopeError::Length)?;
        Ok(Self::Ask(Ask {
            user_data: u64_at(bytes, 0),
            name: ExchangeName::from_bytes(name),
        }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_ask_reads_as_it_was_written(user_data: u64, bytes: [u8; ExchangeName::BYTES]) {
            let name = ExchangeName::from_bytes(&bytes);
            prop_assert_eq!(name.to_bytes(), bytes);
            let ask = Ask { user_data, name };
            let mut out = [0xee; Ask::BYTES + 1];
            prop_assert_eq!(ask.encode(&mut out[..Ask::BYTES - 1]).is_err(), true);
            prop_assert_eq!(ask.encode(&mut out), Ok(Ask::BYTES));
            prop_assert_eq!(Submission::decode(&out[..Ask::BYTES]), Ok(Submission::Ask(ask)));
            prop_assert_eq!(Submission::decode(&out), Err(EnvelopeError::Length));
            for at in (8..16).chain(17..24) {
                let mut reserved = out;
                reserved[at] = 1;
                let decoded = Submission::decode(&reserved[..Ask::BYTES]);
                prop_assert_eq!(decoded, Err(EnvelopeError::Reserved), "{}", at);
            }
            prop_assert!(Submit::decode(&out[..Ask::BYTES]).is_err(), "no verb");
        }
    }
}
