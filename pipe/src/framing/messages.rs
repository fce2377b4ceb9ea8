//! Walking over messages.

use core::iter::FusedIterator;

use super::{Frame, Framing, FramingError};

/// Iterator over the whole messages at the start of a byte slice, oldest first, without their
/// framing.
#[derive(Debug, Clone)]
pub struct Messages<'b, F> {
    bytes: &'b [u8],
    framing: F,
    consumed_bytes: usize,
    needs_bytes: usize,
    error: Option<FramingError>,
}

impl<'b, F: Framing> Messages<'b, F> {
    /// Walks over `bytes`, which begin where a message begins.
    #[must_use]
    #[inline]
    pub const fn new(bytes: &'b [u8], framing: F) -> Self {
        Self {
            bytes,
            framing,
            consumed_bytes: 0,
            needs_bytes: 0,
            error: None,
        }
    }

    /// Returns the bytes of the messages returned so far, including their framing. Free this number
    /// after processing the messages.
    #[must_use]
    #[inline]
    pub const fn consumed_bytes(&self) -> usize {
        self.consumed_bytes
    }

    /// After the last whole message: returns the minimum length of the next message in bytes,
    /// counted from its start, or 0 if none of it is present. If this exceeds the pipe's capacity,
    /// the message never completes: set a limit in the framing.
    #[must_use]
    pub const fn needs_bytes(&self) -> usize {
        self.needs_bytes
    }

    /// Returns why the iteration stopped early, if the bytes are not valid messages. All bytes
    /// before [`Messages::consumed_bytes`] are valid.
    #[must_use]
    pub const fn error(&self) -> Option<FramingError> {
        self.error
    }
}

impl<'b, F: Framing> Iterator for Messages<'b, F> {
    type Item = &'b [u8];

    #[inline]
    fn next(&mut self) -> Option<&'b [u8]> {
        let rest = &self.bytes[self.consumed_bytes..];
        if rest.is_empty() || self.error.is_some() {
            return None;
        }
        match self.framing.frame(rest) {
            Frame::Whole {
                payload,
                total_bytes,
            } if (1..=rest.len()).contains(&total_bytes) && payload.end <= total_bytes => {
                let message = rest.get(payload);
                if message.is_none() {
                    self.error = Some(FramingError::Impossible);
                    return None;
                }
                self.consumed_bytes += total_bytes;
                message
            }
            Frame::Part { needs_bytes } if needs_bytes > rest.len() => {
                self.needs_bytes = needs_bytes;
                None
            }
            Frame::Broken(error) => {
                self.error = Some(error);
                None
            }
            Frame::Whole { .. } | Frame::Part { .. } => {
                self.error = Some(FramingError::Impossible);
                None
            }
        }
    }
}

impl<F: Framing> FusedIterator for Messages<'_, F> {}
