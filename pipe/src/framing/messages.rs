//! Walking over messages.

use core::iter::FusedIterator;

use super::{Frame, Framing, FramingError};

/// The whole messages at the start of some bytes, oldest first, without what frames them.
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

    /// Bytes of the messages walked over so far, with what frames them: what can be freed when they are done with.
    #[must_use]
    #[inline]
    pub const fn consumed_bytes(&self) -> usize {
        self.consumed_bytes
    }

    /// After the last whole message: how many bytes the next one needs at least, counted from its start; 0 if nothing of it is there.
    /// If that is more than the pipe holds, it never becomes whole: limit the framing.
    #[must_use]
    pub const fn needs_bytes(&self) -> usize {
        self.needs_bytes
    }

    /// Why the walk ended before the end of the bytes, if they are no messages. All before [`Messages::consumed_bytes`] is well.
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
