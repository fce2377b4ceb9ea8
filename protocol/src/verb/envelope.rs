//! What stands around a verb in an application's pipes, one message for each packet.
//!
//! ```text
//!  submit    ├ user data u64 ┼ target GUID u64 ┼ mode u8 ┼ 0 ×7 ┼ verb request… ┤
//!  complete  ├ user data u64 ┼ outcome u8 ┼ refusal u8 ┼ 0 ×6 ┼ verb reply, or the name of an exchange in doubt… ┤
//!  name      ├ peer u64 ┼ port u16 ┼ slot u8 ┼ 0 ┼ epoch u32 ┼ sequence u32 ┼ 0 ×4 ┤
//! ```

use core::fmt;

use super::{BufferTooShort, VERB_BYTES_MAX, space, u64_at};
use crate::{ExchangeId, Mode, Refusal};

const SUBMIT_HEADER_BYTES: usize = 24;
const COMPLETION_HEADER_BYTES: usize = 16;
const EXCHANGE_BYTES: usize = 24;

/// Longest submission, in bytes.
pub const SUBMIT_BYTES_MAX: usize = SUBMIT_HEADER_BYTES + VERB_BYTES_MAX;
/// Longest completion, in bytes.
pub const COMPLETION_BYTES_MAX: usize = COMPLETION_HEADER_BYTES + VERB_BYTES_MAX;
/// Bytes of a completion that tells of doubt.
pub const IN_DOUBT_BYTES: usize = COMPLETION_HEADER_BYTES + EXCHANGE_BYTES;

/// What an application writes into its verb submission pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submit<'a> {
    /// Returned in the completion; means nothing to the daemon.
    pub user_data: u64,
    /// The node that is asked; 0 for the application's own.
    pub target: u64,
    /// How the exchange is made.
    pub mode: Mode,
    /// The encoded request: 1 to [`VERB_BYTES_MAX`] bytes.
    pub request: &'a [u8],
}

/// What the daemon writes into an application's verb completion pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion<'a> {
    /// From the submission; 0 where that could not be read.
    pub user_data: u64,
    /// How the verb ended.
    pub outcome: CompletionOutcome<'a>,
}

/// How a verb ended, or that this is not known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompletionOutcome<'a> {
    /// Executed exactly once; with the encoded reply.
    Committed(&'a [u8]),
    /// Refused before it had any effect.
    Refused(Refusal),
    /// The target lost its memory while the verb was open: it was executed at most once, and nobody can tell.
    PeerRestarted,
    /// No link ever led to the target.
    NoSuchPeer,
    /// The outcome of this exchange cannot be learned now. A final completion with the same user data follows.
    InDoubt(ExchangeId),
    /// The submission could not be read; nothing was done.
    Malformed,
}

/// Why bytes are not an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvelopeError {
    /// Shorter than the header, or without a request, or longer than any request.
    Length,
    /// A mode or an outcome that this version does not know.
    Unknown(u8),
}

impl<'a> Submit<'a> {
    /// Bytes that [`Submit::encode`] writes.
    #[must_use]
    pub const fn encoded_bytes(&self) -> usize {
        SUBMIT_HEADER_BYTES + self.request.len()
    }

    /// Writes the submission to the start of `out` and returns its length.
    ///
    /// # Errors
    /// `out` is shorter than [`Submit::encoded_bytes`].
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, BufferTooShort> {
        let needed = self.encoded_bytes();
        let (header, request) = space(out, needed)?.split_at_mut(SUBMIT_HEADER_BYTES);
        header.fill(0);
        header[0..8].copy_from_slice(&self.user_data.to_le_bytes());
        header[8..16].copy_from_slice(&self.target.to_le_bytes());
        header[16] = match self.mode {
            Mode::OnePhase => 1,
            Mode::TwoPhase => 2,
        };
        request.copy_from_slice(self.request);
        Ok(needed)
    }

    /// Reads a submission that fills `bytes`. The request is not decoded.
    ///
    /// # Errors
    /// [`EnvelopeError`] says what is wrong with it.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, EnvelopeError> {
        let (header, request) = bytes
            .split_at_checked(SUBMIT_HEADER_BYTES)
            .ok_or(EnvelopeError::Length)?;
        if !(1..=VERB_BYTES_MAX).contains(&request.len()) {
            return Err(EnvelopeError::Length);
        }
        let mode = match header[16] {
            1 => Mode::OnePhase,
            2 => Mode::TwoPhase,
            unknown => return Err(EnvelopeError::Unknown(unknown)),
        };
        Ok(Self {
            user_data: u64_at(header, 0),
            target: u64_at(header, 8),
            mode,
            request,
        })
    }
}

impl<'a> Completion<'a> {
    /// Bytes that [`Completion::encode`] writes.
    #[must_use]
    pub const fn encoded_bytes(&self) -> usize {
        COMPLETION_HEADER_BYTES
            + match self.outcome {
                CompletionOutcome::Committed(reply) => reply.len(),
                CompletionOutcome::InDoubt(_) => EXCHANGE_BYTES,
                _ => 0,
            }
    }

    /// Writes the completion to the start of `out` and returns its length.
    ///
    /// # Errors
    /// `out` is shorter than [`Completion::encoded_bytes`].
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, BufferTooShort> {
        let needed = self.encoded_bytes();
        let (header, space) = space(out, needed)?.split_at_mut(COMPLETION_HEADER_BYTES);
        header.fill(0);
        header[0..8].copy_from_slice(&self.user_data.to_le_bytes());
        let (outcome, refusal) = match self.outcome {
            CompletionOutcome::Committed(reply) => {
                space.copy_from_slice(reply);
                (0, 0)
            }
            CompletionOutcome::Refused(refusal) => (1, refusal.to_byte()),
            CompletionOutcome::PeerRestarted => (2, 0),
            CompletionOutcome::NoSuchPeer => (3, 0),
            CompletionOutcome::InDoubt(id) => {
                space.copy_from_slice(&exchange_to_bytes(&id));
                (4, 0)
            }
            CompletionOutcome::Malformed => (5, 0),
        };
        header[8] = outcome;
        header[9] = refusal;
        Ok(needed)
    }

    /// Reads a completion that fills `bytes`. The reply is not decoded.
    ///
    /// # Errors
    /// [`EnvelopeError`] says what is wrong with it.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, EnvelopeError> {
        let (header, reply) = bytes
            .split_at_checked(COMPLETION_HEADER_BYTES)
            .ok_or(EnvelopeError::Length)?;
        let outcome = match header[8] {
            0 if reply.len() <= VERB_BYTES_MAX => CompletionOutcome::Committed(reply),
            0 => return Err(EnvelopeError::Length),
            1 => CompletionOutcome::Refused(Refusal::from_byte(header[9])),
            2 => CompletionOutcome::PeerRestarted,
            3 => CompletionOutcome::NoSuchPeer,
            4 => {
                CompletionOutcome::InDoubt(exchange_from_bytes(reply).ok_or(EnvelopeError::Length)?)
            }
            5 => CompletionOutcome::Malformed,
            unknown => return Err(EnvelopeError::Unknown(unknown)),
        };
        Ok(Self {
            user_data: u64_at(header, 0),
            outcome,
        })
    }
}

fn exchange_to_bytes(id: &ExchangeId) -> [u8; EXCHANGE_BYTES] {
    let mut bytes = [0; EXCHANGE_BYTES];
    bytes[0..8].copy_from_slice(&id.peer.to_le_bytes());
    bytes[8..10].copy_from_slice(&id.port.to_le_bytes());
    bytes[10] = id.slot;
    bytes[12..16].copy_from_slice(&id.epoch.to_le_bytes());
    bytes[16..20].copy_from_slice(&id.sequence.to_le_bytes());
    bytes
}

fn exchange_from_bytes(bytes: &[u8]) -> Option<ExchangeId> {
    let bytes: &[u8; EXCHANGE_BYTES] = bytes.try_into().ok()?;
    let (words, _) = bytes.as_chunks::<4>();
    let [port_low, port_high, slot, _] = words[2];
    Some(ExchangeId {
        peer: u64_at(bytes, 0),
        port: u16::from_le_bytes([port_low, port_high]),
        epoch: u32::from_le_bytes(words[3]),
        slot,
        sequence: u32::from_le_bytes(words[4]),
    })
}

impl fmt::Display for EnvelopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length => f.write_str("the length is not that of an envelope with a request"),
            Self::Unknown(code) => write!(f, "mode or outcome {code} is not known"),
        }
    }
}

impl core::error::Error for EnvelopeError {}
