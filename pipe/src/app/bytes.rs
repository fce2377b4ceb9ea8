//! Receiving bytes without gaps.

use crate::{
    Direction, PipeError, PipeMemory, Violation,
    app::receiver::Receiver,
    framing::{Framing, Messages},
    nic::PipeCounters,
};

/// The application's half of a pipe of bytes without gaps.
///
/// All counts are in bytes. As with packets ([`super::RxPipe`]), bytes are received, optionally
/// confirmed, and freed.
#[derive(Debug)]
pub struct BytePipe {
    receiver: Receiver,
}

impl BytePipe {
    /// Takes the memory of a pipe of bytes. Its descriptors are closed.
    ///
    /// # Errors
    /// [`PipeError::Direction`] if it carries something else.
    pub fn new(memory: PipeMemory) -> Result<Self, PipeError> {
        let shared = memory.into_shared(Direction::RxBytes)?;
        Ok(Self {
            receiver: Receiver::new(shared),
        })
    }

    /// Returns all bytes that have arrived and are neither confirmed nor freed, or `None`.
    ///
    /// Dropping the batch keeps the bytes, because the end of a message is unknown until the
    /// application parses it. Free the bytes that were used.
    #[inline]
    pub fn recv(&mut self) -> Option<ByteBatch<'_>> {
        self.receiver.refresh().then_some(ByteBatch {
            receiver: &mut self.receiver,
        })
    }

    /// The bytes that were confirmed and not freed.
    #[must_use]
    pub fn held(&self) -> &[u8] {
        let Receiver {
            shared, consumer, ..
        } = &self.receiver;
        consumer.range(shared, consumer.released, consumer.next - consumer.released)
    }

    /// Frees the oldest `bytes` of [`BytePipe::held`], or all of them if there are fewer. The
    /// result is as for [`ByteBatch::free`].
    pub fn free_held(&mut self, bytes: usize) -> bool {
        let consumer = &self.receiver.consumer;
        let held = consumer.next - consumer.released;
        let end = consumer.released + held.min(bytes as u64);
        let seen = consumer.limit;
        self.receiver.free_to(end, seen)
    }

    /// As [`super::RxPipe::wait_for_more`].
    #[must_use]
    pub fn wait_for_more(&mut self) -> bool {
        self.receiver.wait_for_more()
    }

    /// Size of the ring in bytes; 64 less can be used, and no message can be longer than that.
    #[must_use]
    pub const fn capacity_bytes(&self) -> u64 {
        self.receiver.shared.ring.capacity() as u64
    }

    /// Returns the pipe's counters as last published by the daemon.
    #[must_use]
    pub fn counters(&self) -> PipeCounters {
        self.receiver.counters()
    }

    /// Returns the daemon's violation, if any. After a violation the pipe delivers no more bytes.
    #[must_use]
    pub const fn violation(&self) -> Option<Violation> {
        self.receiver.violation
    }
}

/// Bytes in a [`BytePipe`], never empty. Dropping the batch keeps the bytes: they are received
/// again.
///
/// Freed bytes cannot be read: the results of [`ByteBatch::bytes`] and [`ByteBatch::messages`]
/// borrow the batch.
#[derive(Debug)]
pub struct ByteBatch<'a> {
    receiver: &'a mut Receiver,
}

impl ByteBatch<'_> {
    /// The bytes, contiguous.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let Receiver {
            shared, consumer, ..
        } = &*self.receiver;
        consumer.range(shared, consumer.next, consumer.limit - consumer.next)
    }

    /// Returns the whole messages in the batch, as delimited by `framing`.
    /// [`Messages::consumed_bytes`] returns how many bytes to free.
    #[must_use]
    #[inline]
    pub fn messages<F: Framing>(&self, framing: F) -> Messages<'_, F> {
        Messages::new(self.bytes(), framing)
    }

    /// Frees the first `bytes` bytes, or all if there are fewer. The remaining bytes are received
    /// again.
    ///
    /// Returns `true` if the caller must ring the doorbell to be notified of the next bytes. The
    /// caller may defer the ring until there is nothing to receive.
    #[inline]
    pub fn free(self, bytes: usize) -> bool {
        let end = self.end_of(bytes);
        if end == self.receiver.consumer.next {
            return self.receiver.wait_for_more();
        }
        // The remaining bytes are the start of a message: only bytes after them need a
        // notification.
        let seen = self.receiver.consumer.limit;
        self.receiver.free_to(end, seen)
    }

    /// Frees all bytes: `clear` in Ensō's vocabulary. The result is as for [`ByteBatch::free`].
    #[inline]
    pub fn free_all(self) -> bool {
        self.free(usize::MAX)
    }

    /// Frees nothing: all bytes are received again. Unlike dropping the batch, this marks the bytes
    /// as seen.
    ///
    /// Returns `true` if the caller must ring the doorbell to be notified of more than these bytes.
    pub fn keep(self) -> bool {
        self.receiver.wait_for_more()
    }

    /// Confirms the first `bytes` bytes without freeing them: they move to [`BytePipe::held`]. The
    /// remaining bytes are received again. The result is as for [`ByteBatch::free`].
    pub fn confirm(self, bytes: usize) -> bool {
        let end = self.end_of(bytes);
        self.receiver.confirm_to(end);
        self.receiver.wait_for_more()
    }

    #[inline]
    fn end_of(&self, bytes: usize) -> u64 {
        let consumer = &self.receiver.consumer;
        consumer.next + (consumer.limit - consumer.next).min(bytes as u64)
    }
}
