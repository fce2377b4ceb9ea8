//! Messages that end with a byte.

use super::{Frame, Framing, FramingError};

/// Messages that end with a delimiter byte that occurs in none of them, such as lines of text.
///
/// Each call searches an incomplete message again from its start. Messages much longer than one
/// arrival are therefore costly: use a length prefix for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delimited {
    delimiter: u8,
    limit_bytes: usize,
}

impl Delimited {
    /// Messages that end with `delimiter` and have at most `limit_bytes` before it. A message may
    /// be empty.
    #[must_use]
    pub const fn new(delimiter: u8, limit_bytes: usize) -> Self {
        Self {
            delimiter,
            limit_bytes,
        }
    }
}

impl Framing for Delimited {
    #[inline]
    fn frame(&self, bytes: &[u8]) -> Frame {
        let seen = bytes.len().min(self.limit_bytes.saturating_add(1));
        match memchr::memchr(self.delimiter, &bytes[..seen]) {
            Some(end) => Frame::Whole {
                payload: 0..end,
                total_bytes: end + 1,
            },
            None if seen > self.limit_bytes => Frame::Broken(FramingError::TooLong {
                len: seen as u64,
                limit_bytes: self.limit_bytes,
            }),
            None => Frame::Part {
                needs_bytes: bytes.len() + 1,
            },
        }
    }
}
