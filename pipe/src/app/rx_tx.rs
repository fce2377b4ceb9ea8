//! Receiving, and sending on from where the packets lie.

use core::ops::{Deref, DerefMut};

use crate::{
    Direction, PipeError, PipeMemory, Violation,
    app::rx::Position,
    consumer::{Consumer, Span},
    control::DO_NOT_SEND,
    nic::NicCounters,
    shared::Shared,
    sync::Ordering,
    violation::Cursor,
    words::reactive::OUTSTANDING,
};

/// The application's half of an RX/TX pipe: packets arrive, are changed in place, and go back to be sent, without a copy by the application.
///
/// A packet's bytes are the pipe's again only when the daemon has taken it.
///
/// It has none of [`super::RxPipe`]'s `peek`, because a batch of it takes nothing when it is dropped; and none of its `confirm` and `held`, because packets go
/// back in the order in which they came: one that is held holds up all behind it, and whether it was confirmed changes nothing.
#[derive(Debug)]
pub struct RxTxPipe {
    shared: Shared,
    consumer: Consumer,
    violation: Option<Violation>,
}

impl RxTxPipe {
    /// Takes the memory of an RX/TX pipe. Its descriptors are closed.
    ///
    /// # Errors
    /// [`PipeError::Direction`] if the pipe carries another way.
    pub fn new(memory: PipeMemory) -> Result<Self, PipeError> {
        let shared = memory.into_shared(Direction::RxTx)?;
        Ok(Self {
            shared,
            consumer: Consumer::default(),
            violation: None,
        })
    }

    /// Every packet that has arrived and was neither sent nor discarded, or `None`.
    pub fn recv_mut(&mut self) -> Option<RxTxBatch<'_>> {
        self.refresh();
        if self.consumer.limit == self.consumer.released {
            return None;
        }
        let at = self.consumer.released;
        Some(RxTxBatch { pipe: self, at })
    }

    /// As [`super::RxPipe::wait_for_more`]; what was received and neither sent nor discarded is notified of again at once.
    #[must_use]
    pub fn wait_for_more(&mut self) -> bool {
        self.shared.control.tail().load(Ordering::Relaxed) & OUTSTANDING != 0
    }

    /// Size of the ring in bytes; 64 less can be used.
    #[must_use]
    pub const fn capacity_bytes(&self) -> u64 {
        self.shared.ring.capacity() as u64
    }

    /// What the pipe did so far, as the daemon shows it.
    #[must_use]
    pub fn counters(&self) -> NicCounters {
        NicCounters::seen(self.shared.control.counters())
    }

    /// How many packets were to be sent that the daemon has not taken.
    #[must_use]
    pub fn unsent(&self) -> usize {
        let mut at = self.shared.control.head().load(Ordering::Acquire);
        let mut packets = 0;
        // The daemon wrote the head: it is no further than what it was given, or it means nothing.
        while at < self.consumer.released {
            let Ok(span) = self.consumer.span(&self.shared, at) else {
                break;
            };
            packets += usize::from(!span.dropped);
            at = span.end();
        }
        packets
    }

    /// What the daemon did wrong, if anything; no more packets come then.
    #[must_use]
    pub const fn violation(&self) -> Option<Violation> {
        self.violation
    }

    fn refresh(&mut self) {
        if self.violation.is_some() {
            return;
        }
        // What was sent is the daemon's until it completes; it cannot have placed more than that leaves room for.
        let most = self.consumer.released + self.shared.usable();
        self.violation = self
            .consumer
            .refresh(
                self.shared.control.tail(),
                Cursor::Tail,
                most,
                OUTSTANDING,
                self.shared.alignment,
            )
            .err();
    }

    /// Gives everything before `cursor` to the daemon.
    fn send_to(&mut self, cursor: u64) -> bool {
        let moved = cursor != self.consumer.released;
        self.consumer.next = cursor;
        self.consumer.released = cursor;
        // Release: the daemon that accepts this cursor sees the changed bytes and the lengths' marks.
        self.shared
            .control
            .tx_tail()
            .store(cursor, Ordering::Release);
        moved
    }
}

/// Packets that lie in an RX/TX pipe. Dropping it sends nothing: they are received again.
#[derive(Debug)]
pub struct RxTxBatch<'a> {
    pipe: &'a mut RxTxPipe,
    at: u64,
}

impl RxTxBatch<'_> {
    /// The next packet, to be read and changed in place, oldest first; `None` after the last.
    #[inline]
    pub fn next_packet(&mut self) -> Option<PacketMut<'_>> {
        let RxTxPipe {
            shared, consumer, ..
        } = &mut *self.pipe;
        if self.at == consumer.limit {
            return None;
        }
        let Ok(span) = consumer.span(shared, self.at) else {
            self.at = consumer.limit;
            return None;
        };
        self.at = span.end();
        Some(PacketMut {
            shared,
            span,
            bytes: consumer.bytes_mut(shared, span),
        })
    }

    /// Sends every packet of the batch that was not discarded, whether it was looked at or not. `true`: ring the doorbell, so that the
    /// daemon sends them.
    pub fn send_all(self) -> bool {
        let end = self.pipe.consumer.limit;
        self.pipe.send_to(end)
    }

    /// Sends every packet that [`RxTxBatch::next_packet`] gave and that was not discarded; the others are received again. `true`: ring the
    /// doorbell.
    #[inline]
    pub fn send_taken(self) -> bool {
        let end = self.at;
        self.pipe.send_to(end)
    }

    /// The place behind the packets that [`RxTxBatch::next_packet`] gave so far, for [`RxTxBatch::send_before`] of a later batch.
    #[must_use]
    #[inline]
    pub const fn position(&self) -> Position {
        Position(self.at)
    }

    /// Sends every packet before `position` that was not discarded; the others are received again. This batch or an earlier one of the pipe gave
    /// the position, and what went back since is not sent again. Saves a walk over what was walked over. `true`: ring the doorbell.
    #[inline]
    pub fn send_before(self, position: Position) -> bool {
        let consumer = &self.pipe.consumer;
        let end = position.0.clamp(consumer.released, consumer.limit);
        self.pipe.send_to(end)
    }

    /// Sends the first `packets` packets; the others are received again. `true`: ring the doorbell.
    pub fn send(self, packets: usize) -> bool {
        let end = self.end_of(packets, false);
        self.pipe.send_to(end)
    }

    /// Gives the first `packets` packets back without sending them; the others are received again. `true`: ring the doorbell.
    pub fn discard(self, packets: usize) -> bool {
        let end = self.end_of(packets, true);
        self.pipe.send_to(end)
    }

    fn end_of(&self, packets: usize, discard: bool) -> u64 {
        let RxTxPipe {
            shared, consumer, ..
        } = &*self.pipe;
        let mut at = consumer.released;
        for _ in 0..packets {
            if at == consumer.limit {
                break;
            }
            let Ok(span) = consumer.span(shared, at) else {
                break;
            };
            if discard {
                mark(shared, span);
            }
            at = span.end();
        }
        at
    }
}

/// One packet of an [`RxTxBatch`]. Its bytes can be changed; its length cannot.
#[derive(Debug)]
pub struct PacketMut<'b> {
    shared: &'b Shared,
    span: Span,
    bytes: &'b mut [u8],
}

impl PacketMut<'_> {
    /// The packet goes back with its batch but is not sent.
    pub fn discard(self) {
        mark(self.shared, self.span);
    }
}

impl Deref for PacketMut<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl DerefMut for PacketMut<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes
    }
}

fn mark(shared: &Shared, span: Span) {
    shared
        .control
        .length(span.start)
        .store(span.len | DO_NOT_SEND, Ordering::Relaxed);
}
