//! Verbs: the operations of one node on a region of another, as bytes in a request and its reply.
//!
//! ```text
//!  request  ├ op u8 ┼ flags u8 ┼ count u16 ┼ rkey u32 ┼ offset u32 ┼ operands… ┤
//!  flags    bits 0-3: 0 always, 1 eq, 2 lt, 3 le, 4 gt, 5 ge ┼ bit 4: signed ┼ 0
//!  reply    ├ status u8 ┼ 0 ┼ index u16 ┼ count u64 ┼ clock u64 ┼ value u64, or data… ┤
//! ```
//!
//! | op | | count | operands |
//! |---|---|---|---|
//! | 1 | read | bytes | – |
//! | 2 | write | bytes | data |
//! | 3 | swap | 0 | new u64 |
//! | 4 | compare and swap | 0 | expected u64, new u64 |
//! | 5, 6, 7, 8 | fetch and add, and, or, xor | 0 | operand u64 |
//! | 9 | multi-commit | words | offset u32, expected u64, new u64 for each word |
//! | 10 | lookup | bytes | name |
//! | 11, 12 | fetch and min, max | 0 | operand u64 |
//! | 13 | send | bytes | message |
//! | 2, 3, 5-8, 11, 12, conditional | write, swap, fetch a word | 0 | comparand u64, operand u64 |
//!
//! Count and clock of a reply are the [`Moment`](crate::Moment) at which the verb was executed.
//!
//! Every verb on one word fits the first record of a message, 12 + 16 bytes, and so does its reply,
//! 20 + 8 bytes. An offset has 32 bits, because a region has at most 1 GiB. A compare-and-swap is a
//! swap on the condition *eq*. Both encodings are valid.
//!
//! A request is decoded exactly. Errors are: unknown flags, a nonzero field that the operation does
//! not use, bytes behind the operands, and offsets of words that are not a multiple of 8. Decoding
//! arbitrary bytes never panics.

pub mod doubt;
pub mod envelope;
mod kind;
mod reply;
mod request;
mod update;
pub mod watch;

pub(crate) use reply::write_moment;
pub(crate) use request::HEADER_BYTES as REQUEST_HEADER_BYTES;

pub use self::{
    kind::VerbKind,
    reply::{RegionInfo, Reply, Status},
    request::{DecodeError, MultiCommit, Request, Verb, Word},
    update::{Comparison, Condition, Order, Update},
};

/// Maximum number of bytes that one `Read` may request.
pub const READ_BYTES_MAX: usize = 512;
/// Most bytes of one `Write`.
pub const WRITE_BYTES_MAX: usize = 512;
/// Maximum number of bytes in the message of one `Send`: as many as fit into a request.
pub const SEND_BYTES_MAX: usize = crate::MAX_PAYLOAD_BYTES - request::HEADER_BYTES;
/// Most words of one `MultiCommit`.
pub const MULTI_COMMIT_WORDS_MAX: usize = 64;
/// Longest name of a `Lookup`, in bytes.
pub const LOOKUP_NAME_BYTES_MAX: usize = 32;
/// Longest request, in bytes: a `Send` of [`SEND_BYTES_MAX`] bytes.
pub const REQUEST_BYTES_MAX: usize = request::HEADER_BYTES + SEND_BYTES_MAX;
const _: () = assert!(MULTI_COMMIT_WORDS_MAX * request::WORD_BYTES <= SEND_BYTES_MAX);
/// Longest reply, in bytes: to a `Read` of [`READ_BYTES_MAX`] bytes.
pub const REPLY_BYTES_MAX: usize = reply::HEADER_BYTES + READ_BYTES_MAX;

/// Longest request or reply, in bytes: the minimum limit of a node that serves verbs only
/// ([`NodeConfig::message_bytes_max`](crate::NodeConfig::message_bytes_max)).
pub const VERB_BYTES_MAX: usize = if REQUEST_BYTES_MAX > REPLY_BYTES_MAX {
    REQUEST_BYTES_MAX
} else {
    REPLY_BYTES_MAX
};

const _: () = assert!(VERB_BYTES_MAX <= crate::MAX_PAYLOAD_BYTES);

/// The buffer is too short for the encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferTooShort {
    /// Bytes needed.
    pub needed: usize,
    /// Bytes there.
    pub found: usize,
}

impl core::fmt::Display for BufferTooShort {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "the buffer has {} bytes; {} are needed",
            self.found, self.needed
        )
    }
}

impl core::error::Error for BufferTooShort {}

/// The first `needed` bytes of `out`.
fn space(out: &mut [u8], needed: usize) -> Result<&mut [u8], BufferTooShort> {
    let found = out.len();
    out.get_mut(..needed)
        .ok_or(BufferTooShort { needed, found })
}

/// The little-endian number at `at`; zero beyond the end.
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .map_or(0, |word| u64::from_le_bytes(*word))
}

/// The little-endian number at `at`; zero beyond the end.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .map_or(0, |word| u32::from_le_bytes(*word))
}
