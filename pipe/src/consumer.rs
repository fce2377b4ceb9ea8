//! The reading end of a ring: finding packets, and giving their bytes back.

use covalent_ipc::{
    mutated,
    sync::{AtomicU64, Ordering},
};

use crate::{
    Violation, control::DO_NOT_SEND, cursor::accept_bytes, shared::Shared,
    shared_bytes::SharedBytes, spec::in_quanta, violation::Cursor,
};

/// Private state of a pipe's only reader. Nothing of it is read back from shared memory.
///
/// Invariant: `released <= next <= limit <= released + usable`.
#[derive(Debug, Default)]
pub(crate) struct Consumer {
    /// Start of the first packet not yet taken.
    pub(crate) next: u64,
    /// The writer's end, as last accepted.
    pub(crate) limit: u64,
    /// Start of the data that is still held: the head.
    pub(crate) released: u64,
}

/// Where a packet lies, as validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) len: u32,
    /// The application requests that it is not sent.
    pub(crate) dropped: bool,
}

impl Span {
    /// Start of the packet after this one.
    #[inline]
    pub(crate) const fn end(&self) -> u64 {
        self.start + in_quanta(self.len as u64)
    }
}

impl Consumer {
    /// Reads the writer's cursor once and accepts or rejects it.
    ///
    /// `most` is the largest value that an honest writer can have reached. `flags` are bits of the
    /// word that are not part of the cursor. The cursor is a multiple of `alignment`. Returns the
    /// flags.
    #[inline]
    pub(crate) fn refresh(
        &mut self,
        word: &AtomicU64,
        name: Cursor,
        most: u64,
        flags: u64,
        alignment: u64,
    ) -> Result<u64, Violation> {
        // Acquire: the packets up to this cursor and their lengths are seen.
        let found = word.load(Ordering::Acquire);
        self.limit = accept_bytes(name, found & !flags, self.limit, most, alignment)?;
        Ok(found & flags)
    }

    /// The packet at `start`, which must lie before the limit. Its length word is read once.
    #[inline]
    pub(crate) fn span(&self, shared: &Shared, start: u64) -> Result<Span, Violation> {
        let word = shared.control.length(start).load(Ordering::Relaxed);
        let len = word & !DO_NOT_SEND;
        let most = self.limit.saturating_sub(start);
        // Accept 1 to `most` bytes. `most` is whole quanta, so the packet's end rounded up to a
        // quantum is also within the limit.
        if u64::from(len).wrapping_sub(1) >= most {
            return Err(Violation::PacketLength { found: len, most });
        }
        Ok(Span {
            start,
            len,
            dropped: word & DO_NOT_SEND != 0,
        })
    }

    #[inline]
    const fn holds(&self, start: u64, len: u64) -> bool {
        start >= self.released && start <= self.limit && len <= self.limit - start
    }

    /// The bytes of a packet that [`Consumer::span`] found, to be copied.
    #[inline]
    pub(crate) fn view<'a>(&'a self, shared: &'a Shared, span: Span) -> SharedBytes<'a> {
        assert!(
            span.start >= self.released,
            "a packet that was released already"
        );
        // SAFETY: `span` compared the packet's end with the limit. The limit never decreases and is
        // at most one ring from the released cursor. The packet starts at or after the released
        // cursor (checked above). If the producer's half is in this process, it leaves the span
        // alone until the consumer releases it. A release takes an exclusive borrow of this
        // consumer, so it cannot happen while the view exists.
        unsafe { shared.ring.view(span.start, span.len as usize) }
    }

    /// The bytes of a packet that [`Consumer::span`] found, in place. Slices are for the
    /// application's halves only: their other side is the daemon.
    #[inline]
    pub(crate) fn bytes<'a>(&'a self, shared: &'a Shared, span: Span) -> &'a [u8] {
        assert!(
            span.start >= self.released,
            "a packet that was released already"
        );
        // SAFETY: as in `range`. `span` compared the packet's end with the limit, which never
        // decreases. The packet starts at or after the released cursor (checked above).
        unsafe { shared.ring.slice(span.start, span.len as usize) }
    }

    /// The bytes from `start` on; they must lie between released and limit.
    #[inline]
    pub(crate) fn range<'a>(&'a self, shared: &'a Shared, start: u64, len: u64) -> &'a [u8] {
        assert!(
            self.holds(start, len),
            "bytes that the consumer does not hold"
        );
        // SAFETY: the span lies between released and limit (checked above), which are at most one
        // ring apart. The producer leaves the span alone until it is released. A release takes an
        // exclusive borrow of this consumer, so it cannot happen while the slice exists. The
        // producer is the daemon, which the application trusts to do so. No third process can write
        // there.
        unsafe { shared.ring.slice(start, len as usize) }
    }

    /// The bytes of a packet that [`Consumer::span`] found, to be changed in place (RX/TX).
    #[inline]
    pub(crate) fn bytes_mut<'a>(&'a mut self, shared: &'a Shared, span: Span) -> &'a mut [u8] {
        assert!(
            span.start >= self.released,
            "a packet that was released already"
        );
        // SAFETY: as in `bytes`. The consumer is exclusively borrowed while the slice exists. RX/TX
        // memory is mapped writable.
        unsafe { shared.ring.slice_mut(span.start, span.len as usize) }
    }

    /// Gives everything before `next` back.
    #[inline]
    pub(crate) fn release(&mut self, shared: &Shared) {
        self.release_to(shared, self.next);
    }

    /// Gives everything before `cursor` back, which lies between released and limit.
    #[inline]
    pub(crate) fn release_to(&mut self, shared: &Shared, cursor: u64) {
        debug_assert!((self.released..=self.limit).contains(&cursor));
        self.released = cursor;
        // Release: the producer that accepts this head writes only after our reads.
        let order = mutated!(ReleaseRelaxed: Ordering::Release => Ordering::Relaxed);
        shared.control.head().store(self.released, order);
    }
}
