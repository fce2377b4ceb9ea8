//! Receiving packets.

use crate::{
    Direction, PipeError, PipeMemory, Violation, app::receiver::Receiver, nic::PipeCounters,
};

/// The application's half of an RX pipe: packets arrive back to back in contiguous memory.
///
/// A packet goes through three states:
///
/// - received: a batch contains it.
/// - confirmed: no batch contains it any more, but [`RxPipe::held`] does.
/// - freed: the daemon may write new packets there.
///
/// An application that needs no packet for longer than a batch does not need to confirm: freeing
/// does both.
#[derive(Debug)]
pub struct RxPipe {
    receiver: Receiver,
}

impl RxPipe {
    /// Takes the memory of an RX pipe. Its descriptors are closed.
    ///
    /// # Errors
    /// [`PipeError::Direction`] if the pipe carries another way.
    pub fn new(memory: PipeMemory) -> Result<Self, PipeError> {
        let shared = memory.into_shared(Direction::Rx)?;
        Ok(Self {
            receiver: Receiver::new(shared),
        })
    }

    /// Returns every packet that has arrived and is neither confirmed nor freed, or `None`.
    /// Dropping the batch frees the packets.
    #[inline]
    pub fn recv(&mut self) -> Option<RxBatch<'_>> {
        self.batch(OnDrop::Free)
    }

    /// As [`RxPipe::recv`], but dropping the batch keeps them: they are received again.
    #[inline]
    pub fn peek(&mut self) -> Option<RxBatch<'_>> {
        self.batch(OnDrop::Keep)
    }

    /// The packets that were confirmed and not freed, oldest first.
    #[must_use]
    pub fn held(&self) -> Packets<'_> {
        Packets {
            receiver: &self.receiver,
            at: self.receiver.consumer.released,
            end: self.receiver.consumer.next,
        }
    }

    /// Frees the oldest `packets` of [`RxPipe::held`], or all of them if there are fewer. The
    /// result is as for [`RxBatch::free_all`].
    pub fn free_held(&mut self, packets: usize) -> bool {
        let mut left = self.held();
        left.by_ref().take(packets).for_each(drop);
        let end = left.at;
        let seen = self.receiver.consumer.next;
        self.receiver.free_to(end, seen)
    }

    /// Prepares to sleep until more data arrives than was seen so far, used or not. Returns `true`
    /// if the caller must ring the doorbell: without the ring, no notification arrives.
    ///
    /// An application that sleeps on several pipes calls this for each of them, then checks each
    /// pipe once more.
    #[must_use]
    pub fn wait_for_more(&mut self) -> bool {
        self.receiver.wait_for_more()
    }

    /// Size of the ring in bytes; 64 less can be used.
    #[must_use]
    pub const fn capacity_bytes(&self) -> u64 {
        self.receiver.shared.ring.capacity() as u64
    }

    /// Returns the pipe's counters as last published by the daemon.
    #[must_use]
    pub fn counters(&self) -> PipeCounters {
        self.receiver.counters()
    }

    /// Returns the daemon's violation, if any. After a violation the pipe delivers no more packets.
    #[must_use]
    pub const fn violation(&self) -> Option<Violation> {
        self.receiver.violation
    }

    #[inline]
    fn batch(&mut self, on_drop: OnDrop) -> Option<RxBatch<'_>> {
        self.receiver.refresh().then_some(RxBatch {
            receiver: &mut self.receiver,
            on_drop,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnDrop {
    Free,
    Keep,
}

/// Packets in an RX pipe.
///
/// Freed bytes cannot be read: packets borrow the batch. Packets are freed in order of arrival, so
/// freeing packets of a batch also frees those confirmed before.
#[derive(Debug)]
pub struct RxBatch<'a> {
    receiver: &'a mut Receiver,
    on_drop: OnDrop,
}

impl RxBatch<'_> {
    /// Returns all bytes of the batch, contiguous. Packets begin at multiples of 64 bytes, with
    /// unspecified bytes in between.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let Receiver {
            shared, consumer, ..
        } = &*self.receiver;
        consumer.range(shared, consumer.next, consumer.limit - consumer.next)
    }

    /// The packets, oldest first.
    #[must_use]
    #[inline]
    pub fn iter(&self) -> Packets<'_> {
        Packets {
            receiver: self.receiver,
            at: self.receiver.consumer.next,
            end: self.receiver.consumer.limit,
        }
    }

    /// Frees all packets. Ensō calls this operation `clear`.
    ///
    /// Returns `true` if the caller must ring the doorbell to be notified of the next packets. The
    /// caller may defer the ring until there is nothing to receive.
    pub fn free_all(mut self) -> bool {
        self.on_drop = OnDrop::Keep;
        let end = self.receiver.consumer.limit;
        self.receiver.free_received(end)
    }

    /// Frees the first `packets` packets. The remaining packets are received again. The result is
    /// as for [`RxBatch::free_all`].
    pub fn free(mut self, packets: usize) -> bool {
        self.on_drop = OnDrop::Keep;
        let end = self.end_of(packets);
        self.receiver.free_received(end)
    }

    /// Frees the packets before `position`, which [`Packets::position`] of this batch returned. The
    /// remaining packets are received again.
    ///
    /// This avoids a second walk over the packets. The result is as for [`RxBatch::free_all`].
    #[inline]
    pub fn free_to(mut self, position: Position) -> bool {
        self.on_drop = OnDrop::Keep;
        // A position of another batch frees only packets of this one.
        let consumer = &self.receiver.consumer;
        let end = position.0.clamp(consumer.next, consumer.limit);
        self.receiver.free_received(end)
    }

    /// Confirms the first `packets` packets without freeing them: they move to [`RxPipe::held`].
    /// The remaining packets are received again. The result is as for [`RxBatch::free_all`].
    pub fn confirm(mut self, packets: usize) -> bool {
        self.on_drop = OnDrop::Keep;
        let end = self.end_of(packets);
        self.receiver.confirm_to(end);
        self.receiver.rest_is_news()
    }

    /// Frees nothing: all packets are received again. Unlike dropping a batch from `peek`, this
    /// marks the packets as seen.
    ///
    /// Returns `true` if the caller must ring the doorbell to be notified of more than these
    /// packets.
    pub fn keep(mut self) -> bool {
        self.on_drop = OnDrop::Keep;
        self.receiver.wait_for_more()
    }

    fn end_of(&self, packets: usize) -> u64 {
        let mut left = self.iter();
        left.by_ref().take(packets).for_each(drop);
        left.at
    }
}

impl Drop for RxBatch<'_> {
    fn drop(&mut self) {
        if self.on_drop == OnDrop::Free {
            let end = self.receiver.consumer.limit;
            self.receiver.free_received(end);
        }
    }
}

impl<'b> IntoIterator for &'b RxBatch<'_> {
    type Item = &'b [u8];
    type IntoIter = Packets<'b>;

    fn into_iter(self) -> Packets<'b> {
        self.iter()
    }
}

/// Packets that lie in an RX pipe, oldest first.
#[derive(Debug, Clone)]
pub struct Packets<'b> {
    receiver: &'b Receiver,
    at: u64,
    end: u64,
}

/// A place between two packets of a pipe, behind those that were walked over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position(pub(super) u64);

impl Packets<'_> {
    /// The place behind the packets that were given so far, for [`RxBatch::free_to`].
    #[must_use]
    #[inline]
    pub const fn position(&self) -> Position {
        Position(self.at)
    }
}

impl<'b> Iterator for Packets<'b> {
    type Item = &'b [u8];

    #[inline]
    fn next(&mut self) -> Option<&'b [u8]> {
        if self.at == self.end {
            return None;
        }
        let Receiver {
            shared, consumer, ..
        } = self.receiver;
        let Ok(span) = consumer.span(shared, self.at) else {
            // A length that no honest daemon writes: nothing behind it can be found.
            self.at = self.end;
            return None;
        };
        self.at = span.end();
        Some(consumer.bytes(shared, span))
    }
}
