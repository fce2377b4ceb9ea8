//! The writing end of a ring: placing packets, publishing them, and learning what was freed.

use crate::{
    Violation,
    cursor::accept_bytes,
    shared::Shared,
    shared_bytes::{SharedBytes, SharedBytesMut},
    sync::Ordering,
    violation::Cursor,
};

/// Private state of a pipe's only writer. Nothing of it is read back from shared memory.
///
/// The default has no room and never gets any.
#[derive(Debug, Default)]
pub(crate) struct Producer {
    /// End of what was placed.
    pub(crate) tail: u64,
    /// End of what the consumer was shown.
    pub(crate) published: u64,
    /// Start of what the consumer still holds, as last accepted.
    pub(crate) freed: u64,
    /// How far the tail may go by that.
    limit: u64,
}

impl Producer {
    /// A writer of an empty ring.
    pub(crate) fn new(shared: &Shared) -> Self {
        Self {
            limit: shared.usable(),
            ..Self::default()
        }
    }

    /// Bytes that can be placed, by the head last accepted.
    #[inline]
    pub(crate) const fn free_bytes(&self) -> u64 {
        self.limit - self.tail
    }

    /// Whether a packet of `len` bytes can be placed now: at least one, and no more than are free. Those are whole quanta where packets take whole
    /// quanta, so nothing needs to be rounded.
    #[inline]
    pub(crate) const fn fits(&self, len: usize) -> bool {
        (len as u64).wrapping_sub(1) < self.free_bytes()
    }

    /// Reads the consumer's head once and accepts it or not.
    pub(crate) fn refresh(&mut self, shared: &Shared) -> Result<(), Violation> {
        let found = shared.control.head().load(Ordering::Acquire);
        let freed = accept_bytes(
            Cursor::Head,
            found,
            self.freed,
            self.published,
            shared.alignment,
        )?;
        self.free_to(shared, freed);
        Ok(())
    }

    /// Takes everything before `head` as freed.
    pub(crate) fn free_to(&mut self, shared: &Shared, head: u64) {
        assert!(head <= self.tail, "freed before it was placed");
        self.freed = head;
        self.limit = head + shared.usable();
    }

    /// Places a packet if it fits.
    #[inline]
    pub(crate) fn place(&mut self, shared: &Shared, packet: SharedBytes<'_>) -> bool {
        if !self.fits(packet.len()) {
            return false;
        }
        // SAFETY: the producer's mapping is writable; the packet lies between tail and freed + usable (just checked), a span that the
        // consumer has given back and that neither `room_to_fill` nor `slice_to_fill` lends out,
        // because they borrow the producer exclusively.
        unsafe { shared.ring.view_mut(self.tail, packet.len()) }.copy_from(packet);
        self.advance(shared, packet.len());
        true
    }

    /// The next `len` bytes to be copied into, which must fit; then [`Producer::advance`].
    #[inline]
    pub(crate) fn room_to_fill<'a>(
        &'a mut self,
        shared: &'a Shared,
        len: usize,
    ) -> SharedBytesMut<'a> {
        assert!(self.fits(len), "placing a packet that does not fit");
        // SAFETY: as in `place`; the exclusive borrow of the producer lasts as long as the view,
        // and `len` is below the capacity.
        unsafe { shared.ring.view_mut(self.tail, len) }
    }

    /// The same in place, for an application's half: its other side is the daemon, which reads
    /// nothing past the published tail and writes nothing.
    pub(crate) fn slice_to_fill<'a>(&'a mut self, shared: &'a Shared, len: usize) -> &'a mut [u8] {
        assert!(self.fits(len), "placing a packet that does not fit");
        // SAFETY: as in `room_to_fill`, and the caller's other side, the daemon, leaves the span
        // alone.
        unsafe { shared.ring.slice_mut(self.tail, len) }
    }

    /// What [`Producer::slice_to_fill`] lends, to be read.
    pub(crate) fn slice_being_filled<'a>(&'a self, shared: &'a Shared, len: usize) -> &'a [u8] {
        assert!(self.fits(len), "reading a packet that does not fit");
        // SAFETY: as in `slice_to_fill`; writing there takes an exclusive borrow of the producer, so not while this slice lives.
        unsafe { shared.ring.slice(self.tail, len) }
    }

    /// The `len` bytes from `at` on, if they were placed and the consumer has not given them back,
    /// as far as is known. For an application's half.
    pub(crate) fn placed<'a>(&'a self, shared: &'a Shared, at: u64, len: u64) -> Option<&'a [u8]> {
        if at < self.freed || at > self.tail || len == 0 || len > self.tail - at {
            return None;
        }
        // SAFETY: the span lies between freed and tail (just checked), which are less than a ring apart. This producer writes behind the tail only, and takes an
        // exclusive borrow for that; the consumer is the daemon, which only reads.
        Some(unsafe { shared.ring.slice(at, len as usize) })
    }

    /// Takes the `len` bytes at the tail, already written, as a packet, or as more of the bytes without gaps.
    #[inline]
    pub(crate) fn advance(&mut self, shared: &Shared, len: usize) {
        assert!(self.fits(len), "a packet longer than the room for it");
        if shared.alignment != 1 {
            shared
                .control
                .length(self.tail)
                .store(len as u32, Ordering::Relaxed);
        }
        self.tail += shared.footprint(len);
    }

    /// Shows everything placed to the consumer; `word` makes the shared word from the tail.
    #[inline]
    pub(crate) fn publish(&mut self, shared: &Shared, word: impl FnOnce(u64) -> u64) {
        self.published = self.tail;
        // Release: who accepts this tail sees the packets and their lengths.
        let order = mutated!(PublishRelaxed: Ordering::Release => Ordering::Relaxed);
        shared.control.tail().store(word(self.tail), order);
        shared.ring.fetch_to_write(self.tail);
    }
}
