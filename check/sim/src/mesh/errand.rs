//! A request from one node to another: a verb on the memory that the applications there share,
//! behind the token of the initiator.
//!
//! ```text
//!  request  ├ token u64 ┼ verb… ┤
//!  reply    ├ mark u64 ┼ reply of the engine… ┤
//! ```

use std::fmt;

use covalent_protocol::verb::{self, Request, SEND_BYTES_MAX, Verb};
use fastrand::Rng;

use super::share::{COUNTER_AT, QUEUE_RKEY, RKEY, WORD_AT};

/// Bytes of a request before its verb, and of a reply before the engine's part.
const MARK_BYTES: usize = 8;
/// Bytes of a request besides the message: the token, and the verb up to its data.
const BEFORE_DATA_BYTES: usize = MARK_BYTES + 12;
/// Of so many messages one is long.
const LONG_ONE_IN: u8 = 8;

/// A verb, with its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errand {
    /// Adds to the counter.
    Add { delta: u64 },
    /// Swaps the word if it still has the value that the initiator read last.
    Swap {
        expected: u64,
        /// The new value, which no other node writes.
        new: u64,
    },
    /// Sends a message, which begins with the token.
    Send {
        /// Of so many bytes.
        bytes: u16,
    },
}

/// Answer of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// No other node answers with the same, and none does to another token.
    pub mark: u64,
    /// Value that was found in the word; 0 for a message.
    pub found: u64,
}

impl Errand {
    /// Draws an errand. `seen` is the value that the initiator last read in the word.
    /// `request_bytes_max` is the longest request.
    pub(super) fn draw(rng: &mut Rng, token: u64, seen: u64, request_bytes_max: usize) -> Self {
        match rng.u8(..4) {
            0 | 1 => Self::Add {
                delta: rng.u64(1..10),
            },
            2 => Self::Swap {
                expected: seen,
                new: token + 1,
            },
            _ => {
                let most = (request_bytes_max - BEFORE_DATA_BYTES).min(SEND_BYTES_MAX);
                let long = rng.u8(..LONG_ONE_IN) == 0;
                let most = if long { most } else { most.min(40) };
                Self::Send {
                    bytes: rng.usize(MARK_BYTES..=most) as u16,
                }
            }
        }
    }

    /// The request with a token.
    pub(super) fn request(self, token: u64) -> Vec<u8> {
        let data = match self {
            Self::Send { bytes } => message(token, usize::from(bytes)),
            Self::Add { .. } | Self::Swap { .. } => Vec::new(),
        };
        let (rkey, offset, verb) = match self {
            Self::Add { delta } => (RKEY, COUNTER_AT, Verb::FetchAdd { delta }),
            Self::Swap { expected, new } => (RKEY, WORD_AT, Verb::CompareAndSwap { expected, new }),
            Self::Send { .. } => (QUEUE_RKEY, 0, Verb::Send { data: &data }),
        };
        let request = Request {
            rkey,
            offset: offset as u32,
            verb,
        };
        let mut bytes = token.to_le_bytes().to_vec();
        bytes.resize(MARK_BYTES + request.encoded_bytes(), 0);
        let written = request.encode(&mut bytes[MARK_BYTES..]);
        debug_assert!(written.is_ok());
        bytes
    }
}

impl fmt::Display for Errand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add { delta } => write!(f, "add {delta}"),
            Self::Swap { expected, new } => write!(f, "swap {expected:#x} for {new:#x}"),
            Self::Send { bytes } => write!(f, "a message of {bytes} bytes"),
        }
    }
}

/// The message with a token: every byte of it follows from that.
pub(super) fn message(token: u64, bytes: usize) -> Vec<u8> {
    let mut message = token.to_le_bytes().to_vec();
    message.extend((MARK_BYTES..bytes).map(|at| (token as u8).wrapping_mul(31) ^ (at as u8)));
    message
}

/// Returns the token at the start of a request or a message, or an unused one if there is none.
pub(super) fn token_of(bytes: &[u8]) -> u64 {
    bytes
        .first_chunk()
        .map_or(u64::MAX, |token| u64::from_le_bytes(*token))
}

/// The verb of a request.
pub(super) fn verb_of(request: &[u8]) -> &[u8] {
    request.get(MARK_BYTES..).unwrap_or_default()
}

/// Builds a reply: the mark, then the engine's reply.
pub(super) fn reply(mark: u64, body: &[u8]) -> Vec<u8> {
    [&mark.to_le_bytes(), body].concat()
}

/// Decodes a reply.
pub(super) fn answer_of(reply: &[u8]) -> Answer {
    let body = verb::Reply::decode(verb_of(reply)).ok();
    let found = body.and_then(|body| body.data.first_chunk().copied());
    Answer {
        mark: token_of(reply),
        found: found.map_or(0, u64::from_le_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_errand_fits_and_carries_its_token() {
        let mut rng = Rng::with_seed(1);
        let mut longest = 0;
        for token in 0..10_000 {
            let errand = Errand::draw(&mut rng, token, 7, 1600);
            let request = errand.request(token);
            assert_eq!(token_of(&request), token);
            assert!(Request::decode(verb_of(&request)).is_ok(), "{errand}");
            longest = longest.max(request.len());
        }
        assert!((1500..=1600).contains(&longest), "{longest}");
    }
}
