//! Payload of exchanges in a simulation: a verb, with a header that identifies its exchange to the
//! checkers.
//!
//! ```text
//!  request  ├ token u64 ┼ bytes of the verb u16 ┼ verb… ┼ filler… ┤
//!  reply    ├ token u64 ┼ life u32 ┼ bytes of the reply u16 ┼ reply… ┼ filler… ┤
//! ```
//!
//! The filler brings messages to every length that a link carries.

use covalent_protocol::{MAX_PAYLOAD_BYTES, Moment, Reply, verb};

use crate::book::NodeIncarnation;

/// Bytes of a request before its verb.
pub const REQUEST_HEADER_BYTES: usize = 10;
const REPLY_HEADER_BYTES: usize = 14;

/// A request for `verb`, of `len` bytes or as many as it needs.
#[must_use]
pub fn request(token: u64, verb: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = token.to_le_bytes().to_vec();
    bytes.extend((verb.len() as u16).to_le_bytes());
    bytes.extend(verb);
    fill(&mut bytes, token, len);
    bytes
}

/// The token in a request.
#[must_use]
pub fn token_of(request: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(*request.first_chunk()?))
}

/// The verb in a request.
#[must_use]
pub fn verb_of(request: &[u8]) -> Option<&[u8]> {
    counted(request, 8, REQUEST_HEADER_BYTES)
}

/// Puts the header before the engine's answer, and pads the reply to `len` bytes.
pub fn finish_reply(reply: &mut Reply, token: u64, node_incarnation: NodeIncarnation, len: usize) {
    let mut bytes = token.to_le_bytes().to_vec();
    bytes.extend(node_incarnation.number.to_le_bytes());
    bytes.extend((reply.as_bytes().len() as u16).to_le_bytes());
    bytes.extend(reply.as_bytes());
    fill(&mut bytes, token, len);
    let fits = reply.set(&bytes);
    debug_assert!(fits);
}

/// Returns the engine's answer in a reply.
#[must_use]
pub fn answer_of(reply: &[u8]) -> Option<&[u8]> {
    counted(reply, 12, REPLY_HEADER_BYTES)
}

/// The stamp in a reply.
#[must_use]
pub fn moment_of(reply: &[u8]) -> Option<Moment> {
    Some(verb::Reply::decode(answer_of(reply)?).ok()?.moment)
}

fn counted(bytes: &[u8], count_at: usize, header_bytes: usize) -> Option<&[u8]> {
    let count = u16::from_le_bytes(*bytes.get(count_at..)?.first_chunk()?);
    bytes.get(header_bytes..header_bytes + usize::from(count))
}

fn fill(bytes: &mut Vec<u8>, token: u64, len: usize) {
    let from = bytes.len();
    let len = len.min(MAX_PAYLOAD_BYTES);
    bytes.extend((from..len).map(|at| (token as u8).wrapping_mul(31) ^ (at as u8)));
}
