//! Receiving bytes without gaps.

use crate::{
    Direction, PipeError, PipeMemory, Violation,
    app::receiver::Receiver,
    framing::{Framing, Messages},
    nic::NicCounters,
};

/// The application's half of a pipe of bytes without gaps.
///
/// Everything is counted in bytes. As for packets ([`super::RxPipe`]) bytes are received, confirmed if need be, and freed.
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

    /// All bytes that have arrived and were neither confirmed nor freed, or `None`. Dropping the batch keeps them, because where a
    /// message ends is not known before it was looked at: free what was used.
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

    /// Frees the oldest `bytes` of [`BytePipe::held`], or all of them if they are fewer. The result is as for [`ByteBatch::free`].
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

    /// What the pipe did so far, as the daemon shows it.
    #[must_use]
    pub fn counters(&self) -> NicCounters {
        self.receiver.counters()
    }

    /// What the daemon did wrong, if anything; no more bytes come then.
    #[must_use]
    pub const fn violation(&self) -> Option<Violation> {
        self.receiver.violation
    }
}

/// Bytes that lie in a [`BytePipe`]: never none. Dropping it keeps them: they are received again.
///
/// Freed bytes cannot be read: what [`ByteBatch::bytes`] and [`ByteBatch::messages`] show borrows the batch.
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

    /// The whole messages among them, as `framing` tells them apart. [`Messages::consumed_bytes`] says what to free.
    #[must_use]
    #[inline]
    pub fn messages<F: Framing>(&self, framing: F) -> Messages<'_, F> {
        Messages::new(self.bytes(), framing)
    }

    /// Frees the first `bytes` bytes, or all if they are fewer; the others are received again. `true`: ring the doorbell to be notified of
    /// the next ones; it may wait until there is nothing to receive.
    #[inline]
    pub fn free(self, bytes: usize) -> bool {
        let end = self.end_of(bytes);
        if end == self.receiver.consumer.next {
            return self.receiver.wait_for_more();
        }
        // What is left is the beginning of a message: news is what comes behind it.
        let seen = self.receiver.consumer.limit;
        self.receiver.free_to(end, seen)
    }

    /// Frees all bytes: `clear` in Ensō's vocabulary. The result is as for [`ByteBatch::free`].
    #[inline]
    pub fn free_all(self) -> bool {
        self.free(usize::MAX)
    }

    /// Frees nothing: all bytes are received again. Unlike dropping the batch this says that they were looked at. `true`: ring the doorbell to be
    /// notified of more than these.
    pub fn keep(self) -> bool {
        self.receiver.wait_for_more()
    }

    /// Takes the first `bytes` bytes as received without freeing them: they move to [`BytePipe::held`]. The others are received
    /// again. The result is as for [`ByteBatch::free`].
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
