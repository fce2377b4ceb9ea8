//! The in-doubt id of a verb, as applications store it, and the submission that queries the
//! outcome.
//!
//! ```text
//!  ask   ├ user data u64 ┼ 0 u64 ┼ 3 u8 ┼ 0 ×7 ┼ in-doubt id ┤
//!  id    ├ peer u64 ┼ port u16 ┼ slot u8 ┼ note u8 ┼ epoch u32 ┼ sequence u32 ┼ seal u32 ┤
//! ```

use super::{
    BufferTooShort,
    envelope::{EnvelopeError, SUBMIT_HEADER_BYTES, Submit},
    space, u64_at,
    watch::{self, Watch},
};
use crate::ExchangeId;

/// The mode byte of a submission that is a query.
const DOUBT_QUERY: u8 = 3;

/// The in-doubt id of a verb, as the daemon sent it to an application: the id of its exchange, and
/// a token. May be stored outside the application's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InDoubtId {
    /// The exchange.
    pub id: ExchangeId,
    /// For use by the application. The daemon sends 0 and does not read it.
    pub note: u8,
    /// The token by which the daemon recognizes, within its incarnation, that it issued this id to
    /// this user.
    pub seal: u32,
}

impl InDoubtId {
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

    /// The id that `bytes` stand for. Any bytes do for some id.
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

/// Queries the outcome of a verb that was in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DoubtQuery {
    /// Returned in the completion; means nothing to the daemon.
    pub user_data: u64,
    /// The verb.
    pub in_doubt: InDoubtId,
}

impl DoubtQuery {
    /// Its length, in bytes.
    pub const BYTES: usize = SUBMIT_HEADER_BYTES + InDoubtId::BYTES;

    /// Writes it to the start of `out` and returns its length.
    ///
    /// # Errors
    /// `out` is shorter than [`DoubtQuery::BYTES`].
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, BufferTooShort> {
        let (header, in_doubt) = space(out, Self::BYTES)?.split_at_mut(SUBMIT_HEADER_BYTES);
        header.fill(0);
        header[0..8].copy_from_slice(&self.user_data.to_le_bytes());
        header[16] = DOUBT_QUERY;
        in_doubt.copy_from_slice(&self.in_doubt.to_bytes());
        Ok(Self::BYTES)
    }
}

/// Anything that an application writes into its verb submission pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submission<'a> {
    /// A verb.
    Verb(Submit<'a>),
    /// A query of the outcome of a verb.
    DoubtQuery(DoubtQuery),
    /// Whether a path leads to a node.
    Watch(Watch),
}

impl<'a> Submission<'a> {
    /// Decodes a submission that fills `bytes`. The request of a verb is not decoded.
    ///
    /// # Errors
    /// [`EnvelopeError`] if the bytes are not a submission.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, EnvelopeError> {
        match bytes.get(16) {
            Some(&DOUBT_QUERY) => {}
            Some(&watch::WATCH) => return Watch::decode(bytes).map(Self::Watch),
            _ => return Submit::decode(bytes).map(Self::Verb),
        }
        let (header, in_doubt) = bytes
            .split_at_checked(SUBMIT_HEADER_BYTES)
            .ok_or(EnvelopeError::Length)?;
        if header[8..16] != [0; 8] || header[17..] != [0; 7] {
            return Err(EnvelopeError::Reserved);
        }
        let in_doubt = in_doubt.try_into().map_err(|_| EnvelopeError::Length)?;
        Ok(Self::DoubtQuery(DoubtQuery {
            user_data: u64_at(bytes, 0),
            in_doubt: InDoubtId::from_bytes(in_doubt),
        }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_doubt_query_reads_as_it_was_written(user_data: u64, bytes: [u8; InDoubtId::BYTES]) {
            let in_doubt = InDoubtId::from_bytes(&bytes);
            prop_assert_eq!(in_doubt.to_bytes(), bytes);
            let query = DoubtQuery { user_data, in_doubt };
            let mut out = [0xee; DoubtQuery::BYTES + 1];
            prop_assert_eq!(query.encode(&mut out[..DoubtQuery::BYTES - 1]).is_err(), true);
            prop_assert_eq!(query.encode(&mut out), Ok(DoubtQuery::BYTES));
            prop_assert_eq!(
                Submission::decode(&out[..DoubtQuery::BYTES]),
                Ok(Submission::DoubtQuery(query)),
            );
            prop_assert_eq!(Submission::decode(&out), Err(EnvelopeError::Length));
            for at in (8..16).chain(17..24) {
                let mut reserved = out;
                reserved[at] = 1;
                let decoded = Submission::decode(&reserved[..DoubtQuery::BYTES]);
                prop_assert_eq!(decoded, Err(EnvelopeError::Reserved), "{}", at);
            }
            prop_assert!(Submit::decode(&out[..DoubtQuery::BYTES]).is_err(), "no verb");
        }
    }
}
