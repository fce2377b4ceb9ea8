//! Outgoing messages longer than a frame, and outgoing replies to resolution queries.
//!
//! Such a message is copied: all fragments belong to the same message, whatever happens to its slot
//! meanwhile.

use alloc::{boxed::Box, vec};
use core::hash::{Hash, Hasher};

use super::Part;
use crate::wire::{
    FRAME_PAYLOAD_BYTES_MAX,
    record::{NO_PIGGYBACK, Shape},
    slice::Kind,
};

/// The message that is departing, of which some fragments may have been written.
#[derive(Clone, Default)]
pub(crate) struct Departing {
    bytes: Box<[u8]>,
    len: usize,
    written: usize,
    fragment: u8,
    /// Set while something of it is still to be written.
    message: Option<(Kind, u8, u32)>,
}

impl Departing {
    /// Nothing is departing. A message may have up to `bytes_max` bytes of payload.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes: vec![0; bytes_max].into_boxed_slice(),
            len: 0,
            written: 0,
            fragment: 0,
            message: None,
        }
    }

    /// Loads a message with the payload `head` followed by `tail`, which must fit. No message may
    /// be departing.
    #[cold]
    pub fn load(&mut self, kind: Kind, slot: u8, slot_sequence: u32, head: &[u8], tail: &[u8]) {
        let (start, rest) = self.bytes.split_at_mut(head.len());
        start.copy_from_slice(head);
        rest[..tail.len()].copy_from_slice(tail);
        self.len = head.len() + tail.len();
        self.written = 0;
        self.fragment = 0;
        self.message = Some((kind, slot, slot_sequence));
    }

    /// Drops the unwritten rest.
    pub const fn clear(&mut self) {
        self.message = None;
    }

    /// Whether something is still to be written.
    #[inline]
    pub const fn is_in_flight(&self) -> bool {
        self.message.is_some()
    }

    /// The kind of the message, while something of it is still to be written.
    pub const fn kind(&self) -> Option<Kind> {
        match self.message {
            Some((kind, _, _)) => Some(kind),
            None => None,
        }
    }

    /// Bytes of the next part.
    pub fn next_bytes(&self) -> usize {
        (self.len - self.written).min(FRAME_PAYLOAD_BYTES_MAX)
    }

    /// The next part, without a piggybacked acknowledgment or commit; `None` if nothing is left to
    /// write.
    pub fn next(&self) -> Option<Part<'_>> {
        let (kind, slot, slot_sequence) = self.message?;
        let bytes = self.next_bytes();
        Some(Part {
            kind,
            slot,
            slot_sequence,
            piggyback: NO_PIGGYBACK,
            shape: Shape::fragment(bytes, self.fragment, self.written + bytes < self.len),
            payload: &self.bytes[self.written..self.written + bytes],
        })
    }

    /// Records that the part of [`Departing::next`] was written. Returns the kind and slot of the
    /// message if that was its last part.
    pub fn advance(&mut self) -> Option<(Kind, u8)> {
        self.written += self.next_bytes();
        self.fragment += 1;
        if self.written < self.len {
            return None;
        }
        self.message.take().map(|(kind, slot, _)| (kind, slot))
    }
}

/// Excludes bytes left from an earlier message.
impl Hash for Departing {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            bytes,
            len,
            written,
            fragment,
            message,
        } = self;
        let rest = message.map(|_| (written, fragment, &bytes[..*len]));
        (message, rest).hash(state);
    }
}
