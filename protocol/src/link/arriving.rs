//! Messages of more than one record, on their way in: all of one, or nothing of it.

use alloc::{boxed::Box, vec};
use core::hash::{Hash, Hasher};

use crate::wire::{message::Message, record::Header, slice::Kind};

/// A partially received message. It is discarded if the epoch ends first.
#[derive(Clone)]
pub(crate) struct Arriving {
    bytes: Box<[u8]>,
    len: usize,
    /// The expected next fragment, if any.
    next: Option<Fragment>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Fragment {
    kind: Kind,
    slot: u8,
    slot_sequence: u32,
    number: u8,
}

/// Result of a received message or fragment.
pub(crate) enum Arrived {
    /// The rest is still to come.
    Part,
    /// It is whole, and its payload has this many bytes.
    Whole(usize),
}

/// A protocol violation: another message before the rest of one, a fragment without a start, or
/// more bytes than accepted.
pub(crate) struct Disorder;

impl Arriving {
    /// Nothing is arriving. A message may have up to `bytes_max` bytes of payload.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes: vec![0; bytes_max].into_boxed_slice(),
            len: 0,
            next: None,
        }
    }

    /// Drops the partial message.
    pub const fn clear(&mut self) {
        self.next = None;
    }

    /// Whether more fragments must follow. Until then only keepalives may arrive in between.
    #[inline]
    pub const fn is_in_flight(&self) -> bool {
        self.next.is_some()
    }

    /// Takes a message or a fragment of one.
    #[cold]
    pub fn take(&mut self, message: &Message<'_>) -> Result<Arrived, Disorder> {
        let header = &message.header;
        let this = Fragment::of(header);
        if self.next.take().unwrap_or(Fragment { number: 0, ..this }) != this {
            return Err(Disorder);
        }
        if this.number == 0 {
            self.len = 0;
        }
        let space = self.bytes.get_mut(self.len..).ok_or(Disorder)?;
        self.len += message.copy_payload(space).ok_or(Disorder)?.len();
        if header.shape.more {
            self.next = Some(Fragment {
                number: this.number + 1,
                ..this
            });
            return Ok(Arrived::Part);
        }
        Ok(Arrived::Whole(self.len))
    }

    /// Lends the bytes of a whole message, until [`Arriving::give_back`].
    pub fn lend(&mut self) -> Box<[u8]> {
        core::mem::take(&mut self.bytes)
    }

    /// Ends [`Arriving::lend`].
    pub fn give_back(&mut self, bytes: Box<[u8]>) {
        self.bytes = bytes;
    }
}

/// Excludes bytes left from an earlier message.
impl Hash for Arriving {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { bytes, len, next } = self;
        (next, next.map(|_| &bytes[..*len])).hash(state);
    }
}

impl Fragment {
    const fn of(header: &Header) -> Self {
        Self {
            kind: header.kind,
            slot: header.slot,
            slot_sequence: header.slot_sequence,
            number: header.shape.fragment,
        }
    }
}
