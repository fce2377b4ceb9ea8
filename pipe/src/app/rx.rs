//! Receiving.

use crate::{
    Direction, PipeError, PipeMemory, Violation, consumer::Consumer, memory::Shared,
    sync::Ordering, violation::Cursor, words::reactive::OUTSTANDING,
};

/// The application's half of an RX pipe: packets arrive back to back in contiguous memory.
#[derive(Debug)]
pub struct RxPipe {
    shared: Shared,
    consumer: Consumer,
    /// The status bit, as last seen.
    outstanding: bool,
    violation: Option<Violation>,
}

impl RxPipe {
    /// Takes the memory of an RX pipe. Its descriptors are closed.
    ///
    /// # Errors
    /// [`PipeError::Direction`] if the pipe carries another way.
    pub fn new(memory: PipeMemory) -> Result<Self, PipeError> {
        let shared = memory.into_shared(Direction::Rx)?;
        Ok(Self {
            shared,
            consumer: Consumer::default(),
            outstanding: false,
            violation: None,
        })
    }

    /// Every packet that has arrived and was not freed, or `None`.
    pub fn recv(&mut self) -> Option<RxBatch<'_>> {
        self.refresh();
        if self.consumer.limit == self.consumer.released {
            return None;
        }
        Some(RxBatch {
            pipe: self,
            freed: false,
        })
    }

    /// Whether the daemon waits for a doorbell before it notifies again. An application that goes to sleep rings the doorbells of all its pipes
    /// that say so, or it is not woken for them.
    #[must_use]
    pub fn doorbell_needed(&self) -> bool {
        self.shared.control.tail().load(Ordering::Relaxed) & OUTSTANDING != 0
    }

    /// Size of the ring in bytes; 64 less can be used.
    #[must_use]
    pub const fn capacity_bytes(&self) -> u64 {
        self.shared.ring.capacity() as u64
    }

    /// What the daemon did wrong, if anything; no more packets come then.
    #[must_use]
    pub const fn violation(&self) -> Option<Violation> {
        self.violation
    }

    #[inline]
    fn refresh(&mut self) {
        if self.violation.is_some() {
            return;
        }
        let most = self.consumer.released + self.shared.usable();
        match self
            .consumer
            .refresh(self.shared.control.tail(), Cursor::Tail, most, OUTSTANDING)
        {
            Ok(flags) => self.outstanding = flags != 0,
            Err(violation) => self.violation = Some(violation),
        }
    }

    fn free_to(&mut self, cursor: u64) -> bool {
        self.consumer.next = cursor;
        self.consumer.release(&self.shared);
        self.outstanding
    }
}

/// Packets that lie in an RX pipe. Dropping it frees them all.
///
/// Freed bytes cannot be read: packets borrow the batch.
#[derive(Debug)]
pub struct RxBatch<'a> {
    pipe: &'a mut RxPipe,
    freed: bool,
}

impl RxBatch<'_> {
    /// All bytes of the batch, contiguous: packets begin at multiples of 64, with unspecified bytes between.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let consumer = &self.pipe.consumer;
        consumer.range(
            &self.pipe.shared,
            consumer.released,
            consumer.limit - consumer.released,
        )
    }

    /// The packets, oldest first.
    #[must_use]
    pub fn iter(&self) -> Packets<'_> {
        Packets {
            pipe: self.pipe,
            at: self.pipe.consumer.released,
        }
    }

    /// Frees all packets. `true`: ring the doorbell to be notified of the next ones; it may wait until there is nothing to receive.
    pub fn free_all(mut self) -> bool {
        self.freed = true;
        let end = self.pipe.consumer.limit;
        self.pipe.free_to(end)
    }

    /// Frees the first `packets` packets; the others are received again. The result is as for [`RxBatch::free_all`].
    pub fn free(mut self, packets: usize) -> bool {
        self.freed = true;
        let mut left = self.iter();
        left.by_ref().take(packets).for_each(drop);
        let end = left.at;
        self.pipe.free_to(end)
    }

    /// Frees nothing: all packets are received again.
    pub fn keep(mut self) {
        self.freed = true;
    }
}

impl Drop for RxBatch<'_> {
    fn drop(&mut self) {
        if !self.freed {
            let end = self.pipe.consumer.limit;
            self.pipe.free_to(end);
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

/// The packets of an [`RxBatch`], oldest first.
#[derive(Debug, Clone)]
pub struct Packets<'b> {
    pipe: &'b RxPipe,
    at: u64,
}

impl<'b> Iterator for Packets<'b> {
    type Item = &'b [u8];

    #[inline]
    fn next(&mut self) -> Option<&'b [u8]> {
        let RxPipe {
            shared, consumer, ..
        } = self.pipe;
        if self.at == consumer.limit {
            return None;
        }
        let Ok(span) = consumer.span(shared, self.at) else {
            // A length that no honest daemon writes: nothing behind it can be found.
            self.at = consumer.limit;
            return None;
        };
        self.at = span.end();
        Some(consumer.bytes(shared, span))
    }
}
