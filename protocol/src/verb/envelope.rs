//! The envelope of a verb in an application's pipes, one message in each packet.
//!
//! ```text
//!  submit    ├ user data u64 ┼ target GUID u64 ┼ mode u8 ┼ 0 ×7 ┼ verb request… ┤
//!  complete  ├ user data u64 ┼ outcome u8 ┼ refusal, or 1 for up, u8 ┼ 0 ×2 ┼
//!            ├ executor u64 ┼ count u64 ┼ clock u64 ┼ verb reply, or exchange name… ┤
//! ```

use core::fmt;

use super::{
    BufferTooShort, REPLY_BYTES_MAX, REQUEST_BYTES_MAX, Request, doubt::InDoubtId, space, u64_at,
};
use crate::{Mode, Refusal};

pub(super) const SUBMIT_HEADER_BYTES: usize = 24;
/// With the reply to a verb on one word these are 64, as many as a packet in a pipe takes at least.
const COMPLETION_HEADER_BYTES: usize = 36;

/// Longest submission, in bytes.
pub const SUBMIT_BYTES_MAX: usize = SUBMIT_HEADER_BYTES + REQUEST_BYTES_MAX;
/// Longest completion, in bytes.
pub const COMPLETION_BYTES_MAX: usize = COMPLETION_HEADER_BYTES + REPLY_BYTES_MAX;
/// Bytes of a completion that reports doubt.
pub const IN_DOUBT_BYTES: usize = COMPLETION_HEADER_BYTES + InDoubtId::BYTES;

/// A message that an application writes into its verb submission pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submit<'a> {
    /// Returned in the completion; means nothing to the daemon.
    pub user_data: u64,
    /// The target node; 0 for the application's own node.
    pub target: u64,
    /// How the exchange is made.
    pub mode: Mode,
    /// The encoded request: 1 to [`REQUEST_BYTES_MAX`] bytes.
    pub request: &'a [u8],
}

/// A message that the daemon writes into an application's verb completion pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion<'a> {
    /// From the submission; 0 where that could not be read.
    pub user_data: u64,
    /// When it was reported, and the target of the verb.
    pub reported: ReportStamp,
    /// How the verb ended.
    pub outcome: CompletionOutcome<'a>,
}

/// The position of a completion among others, as the application's node knows it. The reply of a
/// committed verb contains the moment of its execution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReportStamp {
    /// The target node; 0 if there was none.
    pub executor: u64,
    /// Number of completions that the lane had reported to its applications, including this one.
    pub count: u64,
    /// The lane's Lamport clock at the report.
    pub clock: u64,
}

/// How a verb ended, or that this is not known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompletionOutcome<'a> {
    /// Executed exactly once; with the encoded reply.
    Committed(&'a [u8]),
    /// Refused before it had any effect.
    Refused(Refusal),
    /// The target lost its memory while the verb was open: it was executed at most once, and the
    /// outcome cannot be determined.
    PeerRestarted,
    /// No link ever led to the target.
    NoSuchPeer,
    /// The outcome of this exchange is not available now. A final completion with the same user
    /// data follows.
    InDoubt(InDoubtId),
    /// The submission could not be read; nothing was done.
    Malformed,
    /// The queried exchange was reversed: nothing was executed and nothing will be.
    Undone,
    /// The target never saw the queried exchange: nothing was executed and nothing will be.
    NeverSeen,
    /// The outcome of the queried exchange cannot be determined. It was executed at most once.
    Forgotten,
    /// The result of a watch: the target is reached now, or lost.
    Path {
        /// It is reached.
        up: bool,
    },
}

/// Why bytes are not an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvelopeError {
    /// Shorter than the header, or without a request, or longer than any request.
    Length,
    /// A mode or an outcome that this version does not know.
    Unknown(u8),
    /// A reserved byte is not zero.
    Reserved,
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
        write_submit_header(header, self.user_data, self.target, self.mode);
        request.copy_from_slice(self.request);
        Ok(needed)
    }

    /// Bytes that [`Submit::encode_request`] writes.
    #[must_use]
    pub fn encoded_bytes_of(request: &Request<'_>) -> usize {
        SUBMIT_HEADER_BYTES + request.encoded_bytes()
    }

    /// Writes a submission of `request` to the start of `out` and returns its length. Equals
    /// [`Submit::encode`] of the encoded request, but encodes the request in place.
    ///
    /// # Errors
    /// `out` is shorter than [`Submit::encoded_bytes_of`].
    pub fn encode_request(
        out: &mut [u8],
        user_data: u64,
        target: u64,
        mode: Mode,
        request: &Request<'_>,
    ) -> Result<usize, BufferTooShort> {
        let needed = Self::encoded_bytes_of(request);
        let (header, space) = space(out, needed)?.split_at_mut(SUBMIT_HEADER_BYTES);
        write_submit_header(header, user_data, target, mode);
        request.encode(space)?;
        Ok(needed)
    }

    /// Decodes a submission that fills `bytes`. The request is not decoded.
    ///
    /// # Errors
    /// [`EnvelopeError`] if the bytes are not a submission.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, EnvelopeError> {
        let (header, request) = bytes
            .split_at_checked(SUBMIT_HEADER_BYTES)
            .ok_or(EnvelopeError::Length)?;
        if !(1..=REQUEST_BYTES_MAX).contains(&request.len()) {
            return Err(EnvelopeError::Length);
        }
        let mode = match header[16] {
            1 => Mode::OnePhase,
            2 => Mode::TwoPhase,
            unknown => return Err(EnvelopeError::Unknown(unknown)),
        };
        if header[17..] != [0; 7] {
            return Err(EnvelopeError::Reserved);
        }
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
                CompletionOutcome::InDoubt(_) => InDoubtId::BYTES,
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
            CompletionOutcome::InDoubt(name) => {
                space.copy_from_slice(&name.to_bytes());
                (4, 0)
            }
            CompletionOutcome::Malformed => (5, 0),
            CompletionOutcome::Undone => (6, 0),
            CompletionOutcome::NeverSeen => (7, 0),
            CompletionOutcome::Forgotten => (8, 0),
            CompletionOutcome::Path { up } => (9, u8::from(up)),
        };
        header[8] = outcome;
        header[9] = refusal;
        header[12..20].copy_from_slice(&self.reported.executor.to_le_bytes());
        header[20..28].copy_from_slice(&self.reported.count.to_le_bytes());
        header[28..36].copy_from_slice(&self.reported.clock.to_le_bytes());
        Ok(needed)
    }

    /// Decodes a completion that fills `bytes`. The reply is not decoded.
    ///
    /// # Errors
    /// [`EnvelopeError`] if the bytes are not a completion.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, EnvelopeError> {
        let (header, reply) = bytes
            .split_at_checked(COMPLETION_HEADER_BYTES)
            .ok_or(EnvelopeError::Length)?;
        let outcome = match header[8] {
            0 => CompletionOutcome::Committed(reply),
            1 => CompletionOutcome::Refused(Refusal::from_byte(header[9])),
            2 => CompletionOutcome::PeerRestarted,
            3 => CompletionOutcome::NoSuchPeer,
            4 => {
                let in_doubt = reply.try_into().map_err(|_| EnvelopeError::Length)?;
                CompletionOutcome::InDoubt(InDoubtId::from_bytes(in_doubt))
            }
            5 => CompletionOutcome::Malformed,
            6 => CompletionOutcome::Undone,
            7 => CompletionOutcome::NeverSeen,
            8 => CompletionOutcome::Forgotten,
            9 => CompletionOutcome::Path {
                up: match header[9] {
                    0 => false,
                    1 => true,
                    _ => return Err(EnvelopeError::Reserved),
                },
            },
            unknown => return Err(EnvelopeError::Unknown(unknown)),
        };
        let longest = match outcome {
            CompletionOutcome::Committed(_) => REPLY_BYTES_MAX,
            CompletionOutcome::InDoubt(_) => InDoubtId::BYTES,
            _ => 0,
        };
        if reply.len() > longest {
            return Err(EnvelopeError::Length);
        }
        let detail = match outcome {
            CompletionOutcome::Refused(_) => header[9] != 0,
            CompletionOutcome::Path { .. } => true,
            _ => header[9] == 0,
        };
        if header[10..12] != [0; 2] || !detail {
            return Err(EnvelopeError::Reserved);
        }
        Ok(Self {
            user_data: u64_at(header, 0),
            reported: ReportStamp {
                executor: u64_at(header, 12),
                count: u64_at(header, 20),
                clock: u64_at(header, 28),
            },
            outcome,
        })
    }
}

fn write_submit_header(header: &mut [u8], user_data: u64, target: u64, mode: Mode) {
    header.fill(0);
    header[0..8].copy_from_slice(&user_data.to_le_bytes());
    header[8..16].copy_from_slice(&target.to_le_bytes());
    header[16] = match mode {
        Mode::OnePhase => 1,
        Mode::TwoPhase => 2,
    };
}

impl fmt::Display for EnvelopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length => f.write_str("the length is not that of an envelope with a request"),
            Self::Unknown(code) => write!(f, "mode or outcome {code} is not known"),
            Self::Reserved => f.write_str("a reserved byte is not zero"),
        }
    }
}

impl core::error::Error for EnvelopeError {}
