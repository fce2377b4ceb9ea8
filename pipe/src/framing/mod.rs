//! Where one message ends and the next begins in bytes without gaps.
//!
//! A [`Framing`] looks at bytes that begin with a message and says where that message lies. [`FixedSize`], [`LengthPrefixed`] and
//! [`Delimited`] are supplied; an application may bring its own. [`Messages`] walks over the whole messages and tells what to free. All of them are plain
//! data that any thread may use; the byte order of numbers is in their names.
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
//! # What other people's bytes can do
//!
//! The bytes may come from anybody. Every framing has a limit for one message; bytes that break it, or that no message can begin
//! with, end the walk with a [`FramingError`] instead of waiting for bytes that a ring cannot hold. Each step consumes at least one byte.

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
    /// Looks at `bytes`, which begin where a message begins and are never empty. Takes no state from one call to the next: the same bytes are shown
    /// again, with more behind them, until the message is whole.
    fn frame(&self, bytes: &[u8]) -> Frame;
}

impl<F: Framing + ?Sized> Framing for &F {
    #[inline]
    fn frame(&self, bytes: &[u8]) -> Frame {
        (**self).frame(bytes)
    }
}

/// What a [`Framing`] sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A whole message.
    Whole {
        /// Where the message lies without what frames it; within `total_bytes`.
        payload: Range<usize>,
        /// Bytes to the next message: at least 1, at most as many as were shown.
        total_bytes: usize,
    },
    /// Its beginning only.
    Part {
        /// Bytes that must be there, counted from its start, before another look is worthwhile: more than were shown.
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
        /// Longest message allowed, in bytes, without what frames it.
        limit_bytes: usize,
    },
    /// A [`Framing`] answered what it must not: no progress, or a message outside the bytes it was shown.
    #[error("the framing claims a message outside the bytes that it was shown")]
    Impossible,
}
