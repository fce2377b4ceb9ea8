//! Receiving, and sending on from where the packets lie.

use core::ops::{Deref, DerefMut};

use covalent_ipc::sync::Ordering;

use crate::{
    Direction, PipeError, PipeMemory, Violation,
    app::rx::Position,
    consumer::{Consumer, Span},
    control::DO_NOT_SEND,
    nic::PipeCounters,
    shared::Shared,
    violation::Cursor,
    words::reactive::OUTSTANDING,
};

/// The application's half of an RX/TX pipe. Packets arrive, the application changes them in place,
/// and the daemon sends them. The application makes no copy.
///
/// The pipe reuses a packet's bytes only after the daemon has taken the packet.
///
/// There is no `peek` as in [`super::RxPipe`], because dropping a batch takes nothing. There are no
/// `confirm` and `held`, because packets go back in order of arrival. A held packet would block all
/// packets after it, and confirming it would change nothing.
#[derive(Debug)]
pub struct RxTxPipe {
    shared: Shared,
    consumer: Consumer,
    /// What [`RxTxPipe::want_taken`] requested last: a notification once all before it is taken.
    wanted: u64,
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
            wanted: 0,
            violation: None,
        })
    }

    /// Returns every packet that has arrived and is neither sent nor discarded, or `None`.
    pub fn recv_mut(&mut self) -> Option<RxTxBatch<'_>> {
        self.refresh();
        if self.consumer.limit == self.consumer.released {
            return None;
        }
        let at = self.consumer.released;
        Some(RxTxBatch { pipe: self, at })
    }

    /// As [`super::RxPipe::wait_for_more`]. Packets that were received and neither sent nor
    /// discarded trigger another notification at once.
    #[must_use]
    pub fn wait_for_more(&mut self) -> bool {
        self.shared.control.tail().load(Ordering::Relaxed) & OUTSTANDING != 0
    }

    /// Whether the daemon has taken every packet that was sent or discarded.
    #[must_use]
    pub fn all_taken(&self) -> bool {
        // As in `unsent`: a head beyond what was sent is ignored.
        self.shared.control.head().load(Ordering::Acquire) >= self.consumer.released
    }

    /// Prepares to sleep until [`RxTxPipe::all_taken`]: requests a notification for that time.
    ///
    /// Returns `true` if the caller must ring the doorbell for it. Returns `false` if the same
    /// request was made before and holds. So a sleeper that is woken for other reasons does not
    /// ring again, which would have packets that lie there notified again and again.
    #[must_use]
    pub fn want_taken(&mut self) -> bool {
        if self.wanted == self.consumer.released {
            return false;
        }
        self.wanted = self.consumer.released;
        // Needs no fence: the daemon looks at it after the doorbell, and at what it has taken then.
        self.shared
            .control
            .space_wanted()
            .store(1, Ordering::Relaxed);
        true
    }

    /// Size of the ring in bytes; 64 less can be used.
    #[must_use]
    pub const fn capacity_bytes(&self) -> u64 {
        self.shared.ring.capacity() as u64
    }

    /// Returns the pipe's counters as last published by the daemon.
    #[must_use]
    pub fn counters(&self) -> PipeCounters {
        PipeCounters::seen(self.shared.control.counters())
    }

    /// How many packets were to be sent that the daemon has not taken.
    #[must_use]
    pub fn unsent(&self) -> usize {
        let mut at = self.shared.control.head().load(Ordering::Acquire);
        let mut packets = 0;
        // The daemon writes the head. A valid head is not beyond what the daemon was given; larger
        // values are ignored.
        while at < self.consumer.released {
            let Ok(span) = self.consumer.span(&self.shared, at) else {
                break;
            };
            packets += usize::from(!span.dropped);
            at = span.end();
        }
        packets
    }

    /// Returns the daemon's violation, if any. After a violation the pipe delivers no more packets.
    #[must_use]
    pub const fn violation(&self) -> Option<Violation> {
        self.violation
    }

    fn refresh(&mut self) {
        if self.violation.is_some() {
            return;
        }
        // Sent packets belong to the daemon until it completes them. It can place no more than the
        // remaining space.
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
        // Release: a daemon that accepts this cursor sees the changed bytes and the marks in the
        // length words.
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

    /// Sends every packet of the batch that was not discarded, even those that were not read.
    /// Returns `true` if the caller must ring the doorbell for the daemon to send them.
    pub fn send_all(self) -> bool {
        let end = self.pipe.consumer.limit;
        self.pipe.send_to(end)
    }

    /// Sends every packet that [`RxTxBatch::next_packet`] returned and that was not discarded. The
    /// remaining packets are received again. Returns `true` if the caller must ring the doorbell.
    #[inline]
    pub fn send_taken(self) -> bool {
        let end = self.at;
        self.pipe.send_to(end)
    }

    /// Returns the position after the packets that [`RxTxBatch::next_packet`] has returned so far,
    /// for [`RxTxBatch::send_before`] of a later batch.
    #[must_use]
    #[inline]
    pub const fn position(&self) -> Position {
        Position(self.at)
    }

    /// Sends every packet before `position` that was not discarded. The remaining packets are
    /// received again.
    ///
    /// `position` comes from this batch or an earlier batch of the pipe. Packets that went back
    /// since then are not sent again. This avoids a second walk over the packets. Returns `true` if
    /// the caller must ring the doorbell.
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

    /// Gives the first `packets` packets back without sending them. The remaining packets are
    /// received again. Returns `true` if the caller must ring the doorbell.
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
