//! Messages with their length before them.

use super::{Frame, Framing, FramingError};

/// Messages that each follow an unsigned number: their length in bytes, without the number itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LengthPrefixed {
    width_bytes: usize,
    big_endian: bool,
    limit_bytes: usize,
}

/// The bytes that go before a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    bytes: [u8; 8],
    len: usize,
}

impl Prefix {
    /// The bytes: 2, 4 or 8.
    #[must_use]
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl LengthPrefixed {
    /// Lengths of 2 bytes in network byte order. A message has at most `limit_bytes` bytes, and
    /// never more than 65535, the largest length that fits.
    #[must_use]
    pub const fn u16_be(limit_bytes: usize) -> Self {
        Self::new(2, true, limit_bytes)
    }

    /// As [`LengthPrefixed::u16_be`], little-endian.
    #[must_use]
    pub const fn u16_le(limit_bytes: usize) -> Self {
        Self::new(2, false, limit_bytes)
    }

    /// Lengths of 4 bytes in network byte order. A message has at most `limit_bytes` bytes, and
    /// never more than 4 GiB less 1, the largest length that fits.
    #[must_use]
    pub const fn u32_be(limit_bytes: usize) -> Self {
        Self::new(4, true, limit_bytes)
    }

    /// As [`LengthPrefixed::u32_be`], little-endian.
    #[must_use]
    pub const fn u32_le(limit_bytes: usize) -> Self {
        Self::new(4, false, limit_bytes)
    }

    /// Lengths of 8 bytes in network byte order. A message has at most `limit_bytes` bytes.
    #[must_use]
    pub const fn u64_be(limit_bytes: usize) -> Self {
        Self::new(8, true, limit_bytes)
    }

    /// As [`LengthPrefixed::u64_be`], little-endian.
    #[must_use]
    pub const fn u64_le(limit_bytes: usize) -> Self {
        Self::new(8, false, limit_bytes)
    }

    const fn new(width_bytes: usize, big_endian: bool, limit_bytes: usize) -> Self {
        // Lengths that do not fit into the number are not allowed.
        let most = match width_bytes {
            2 => u16::MAX as usize,
            4 => u32::MAX as usize,
            _ => usize::MAX - 8,
        };
        Self {
            width_bytes,
            big_endian,
            limit_bytes: if limit_bytes < most {
                limit_bytes
            } else {
                most
            },
        }
    }

    /// Returns the prefix of a message of `len` bytes.
    ///
    /// # Errors
    /// [`FramingError::TooLong`] if the reader would refuse the message.
    #[inline]
    pub fn prefix(&self, len: usize) -> Result<Prefix, FramingError> {
        if len > self.limit_bytes {
            return Err(self.too_long(len as u64));
        }
        let mut bytes = [0; 8];
        if self.big_endian {
            let all = (len as u64).to_be_bytes();
            bytes[..self.width_bytes].copy_from_slice(&all[8 - self.width_bytes..]);
        } else {
            bytes = (len as u64).to_le_bytes();
        }
        Ok(Prefix {
            bytes,
            len: self.width_bytes,
        })
    }

    #[inline]
    fn length(&self, bytes: &[u8]) -> Option<u64> {
        Some(match (self.width_bytes, self.big_endian) {
            (2, true) => u64::from(u16::from_be_bytes(*bytes.first_chunk()?)),
            (2, false) => u64::from(u16::from_le_bytes(*bytes.first_chunk()?)),
            (4, true) => u64::from(u32::from_be_bytes(*bytes.first_chunk()?)),
            (4, false) => u64::from(u32::from_le_bytes(*bytes.first_chunk()?)),
            (_, true) => u64::from_be_bytes(*bytes.first_chunk()?),
            (_, false) => u64::from_le_bytes(*bytes.first_chunk()?),
        })
    }

    const fn too_long(&self, len: u64) -> FramingError {
        FramingError::TooLong {
            len,
            limit_bytes: self.limit_bytes,
        }
    }
}

impl Framing for LengthPrefixed {
    #[inline]
    fn frame(&self, bytes: &[u8]) -> Frame {
        let Some(len) = self.length(bytes) else {
            return Frame::Part {
                needs_bytes: self.width_bytes,
            };
        };
        if len > self.limit_bytes as u64 {
            return Frame::Broken(self.too_long(len));
        }
        let total_bytes = self.width_bytes + len as usize;
        if bytes.len() < total_bytes {
            return Frame::Part {
                needs_bytes: total_bytes,
            };
        }
        Frame::Whole {
            payload: self.width_bytes..total_bytes,
            total_bytes,
        }
    }
}
