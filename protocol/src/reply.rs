//! A bounded reply.

use core::fmt;

use crate::wire::MAX_PAYLOAD_BYTES;

/// What executing a request answers: 0 to [`MAX_PAYLOAD_BYTES`] bytes, kept until the initiator's slot moves on.
#[derive(Clone)]
pub struct Reply {
    bytes: [u8; MAX_PAYLOAD_BYTES],
    len: usize,
}

impl Reply {
    /// An empty reply.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            bytes: [0; MAX_PAYLOAD_BYTES],
            len: 0,
        }
    }

    /// Makes it empty.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Replaces the content by what `write` puts into the buffer; `write` returns the length. A length beyond the
    /// buffer is cut to it.
    pub fn write_with(&mut self, write: impl FnOnce(&mut [u8; MAX_PAYLOAD_BYTES]) -> usize) {
        self.len = write(&mut self.bytes).min(MAX_PAYLOAD_BYTES);
    }

    /// Replaces the content by `bytes`. Returns `false`, and leaves the content alone, when they are longer than
    /// [`MAX_PAYLOAD_BYTES`].
    #[must_use]
    pub fn set(&mut self, bytes: &[u8]) -> bool {
        let Some(space) = self.bytes.get_mut(..bytes.len()) else {
            return false;
        };
        space.copy_from_slice(bytes);
        self.len = bytes.len();
        true
    }

    /// The content.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Default for Reply {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reply").field(&self.as_bytes()).finish()
    }
}
