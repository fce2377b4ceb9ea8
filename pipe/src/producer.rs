//! The writing end of a ring: placing packets, publishing them, and reading what was freed.

use covalent_ipc::{mutated, sync::Ordering};

use crate::{
    Violation,
    cursor::accept_bytes,
    shared::Shared,
    shared_bytes::{SharedBytes, SharedBytesMut},
    violation::Cursor,
};

/// Private state of a pipe's only writer. None of it is read back from shared memory.
///
/// The default has no space and never gets any.
#[derive(Debug, Default)]
pub(crate) struct Producer {
    /// End of the placed data.
    pub(crate) tail: u64,
    /// End of the data published to the consumer.
    pub(crate) published: u64,
    /// Start of the data that the consumer still holds, as last accepted.
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

    /// Returns whether a packet of `len` bytes can be placed now: at least one byte, and at most
    /// the free bytes. If packets take whole quanta, the free bytes are whole quanta too, so no
    /// rounding is needed.
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
        // SAFETY: the producer's mapping is writable. The packet lies between tail and freed +
        // usable (checked above), a span that the consumer has given back. Neither `space_to_fill`
        // nor `slice_to_fill` lends it out, because they borrow the producer exclusively.
        unsafe { shared.ring.view_mut(self.tail, packet.len()) }.copy_from(packet);
        self.advance(shared, packet.len());
        true
    }

    /// The next `len` bytes to be copied into, which must fit; then [`Producer::advance`].
    #[inline]
    pub(crate) fn space_to_fill<'a>(
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
        // SAFETY: as in `space_to_fill`, and the caller's other side, the daemon, leaves the span
        // alone.
        unsafe { shared.ring.slice_mut(self.tail, len) }
    }

    /// Returns the bytes that [`Producer::slice_to_fill`] lends, for reading.
    pub(crate) fn slice_being_filled<'a>(&'a self, shared: &'a Shared, len: usize) -> &'a [u8] {
        assert!(self.fits(len), "reading a packet that does not fit");
        // SAFETY: as in `slice_to_fill`. Writing there takes an exclusive borrow of the producer,
        // so it cannot happen while this slice exists.
        unsafe { shared.ring.slice(self.tail, len) }
    }

    /// The `len` bytes from `at` on, if they were placed and the consumer has not given them back,
    /// as far as is known. For an application's half.
    pub(crate) fn placed<'a>(&'a self, shared: &'a Shared, at: u64, len: u64) -> Option<&'a [u8]> {
        if at < self.freed || at > self.tail || len == 0 || len > self.tail - at {
            return None;
        }
        // SAFETY: the span lies between freed and tail (checked above), which are less than a ring
        // apart. This producer writes only after the tail, and takes an exclusive borrow for that.
        // The consumer is the daemon, which only reads.
        Some(unsafe { shared.ring.slice(at, len as usize) })
    }

    /// Accepts the `len` bytes at the tail, already written, as a packet, or as more of the bytes
    /// without gaps.
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
        // Release: a consumer that accepts this tail sees the packets and their lengths.
        let order = mutated!(PublishRelaxed: Ordering::Release => Ordering::Relaxed);
        shared.control.tail().store(word(self.tail), order);
        shared.ring.fetch_to_write(self.tail);
    }
}
