//! Messages of one size.

use super::{Frame, Framing};

/// Messages that all have the same size, back to back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedSize {
    bytes: usize,
}

impl FixedSize {
    /// Messages of `bytes` bytes; `None` for 0.
    #[must_use]
    pub const fn new(bytes: usize) -> Option<Self> {
        if bytes == 0 {
            return None;
        }
        Some(Self { bytes })
    }
}

impl Framing for FixedSize {
    #[inline]
    fn frame(&self, bytes: &[u8]) -> Frame {
        if bytes.len() < self.bytes {
            return Frame::Part {
                needs_bytes: self.bytes,
            };
        }
        Frame::Whole {
            payload: 0..self.bytes,
            total_bytes: self.bytes,
        }
    }
}
