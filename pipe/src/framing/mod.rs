//! Message boundaries in bytes without gaps.
//!
//! A [`Framing`] locates the message at the start of a byte slice. [`FixedSize`],
//! [`LengthPrefixed`] and [`Delimited`] are provided, and an application may implement its own.
//! [`Messages`] iterates over the whole messages and returns how many bytes to free. All types are
//! plain data that any thread may use. Type and function names state the byte order of numbers.
//!
//! ```
//! use covalent_pipe::framing::{LengthPrefixed, Messages};
//!
//! let framing = LengthPrefixed::u16_be(1000);
//! let mut messages = Messages::new(b"\x00\x02hi\x00\x03all\x00\x09cut", framing);
//! assert_eq!(messages.by_ref().collect::<Vec<_>>(), [&b"hi"[..], b"all"]);
//! assert_eq!(messages.consumed_bytes(), 9);
//! assert_eq!(messages.needs_bytes(), 11);
//! ```
//!
//! # Untrusted input
//!
//! The bytes may come from an untrusted source. Every framing limits the size of one message. Bytes
//! that exceed the limit, or with which no message can begin, end the iteration with a
//! [`FramingError`]. The iteration never waits for bytes that a ring cannot hold. Each step
//! consumes at least one byte.

mod delimited;
mod fixed;
mod messages;
mod prefixed;

use core::ops::Range;

pub use delimited::Delimited;
pub use fixed::FixedSize;
pub use messages::Messages;
pub use prefixed::{LengthPrefixed, Prefix};

/// How messages lie in bytes.
pub trait Framing {
    /// Examines `bytes`, which begin at a message boundary and are never empty.
    ///
    /// The framing keeps no state between calls. The same bytes are passed again, followed by more,
    /// until the message is whole.
    fn frame(&self, bytes: &[u8]) -> Frame;
}

impl<F: Framing + ?Sized> Framing for &F {
    #[inline]
    fn frame(&self, bytes: &[u8]) -> Frame {
        (**self).frame(bytes)
    }
}

/// Result of a [`Framing`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A whole message.
    Whole {
        /// Range of the message without its framing, within `total_bytes`.
        payload: Range<usize>,
        /// Bytes to the next message: at least 1, at most as many as were shown.
        total_bytes: usize,
    },
    /// Its beginning only.
    Part {
        /// Minimum number of bytes for another attempt, counted from the start of the message. It
        /// exceeds the number passed.
        needs_bytes: usize,
    },
    /// No message can begin so. Nothing behind it can be found.
    Broken(FramingError),
}

/// Why bytes are no messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum FramingError {
    /// A message is longer than allowed.
    #[error("a message of {len} bytes or more, longer than the {limit_bytes} allowed")]
    TooLong {
        /// Its length in bytes, or how many were seen without an end.
        len: u64,
        /// Longest message allowed, in bytes, without its framing.
        limit_bytes: usize,
    },
    /// A [`Framing`] returned an invalid result: no progress, or a message outside the bytes passed
    /// to it.
    #[error("the framing claims a message outside the bytes that it was given")]
    Impossible,
}
