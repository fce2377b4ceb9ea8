//! The daemon's half of a pipe: what a NIC would be in hardware. It trusts nothing that the application can write.

use crate::{
    Direction, PipeMemory, Refused, SharedBytes, SharedBytesMut, Violation,
    consumer::{Consumer, Span},
    control::DO_NOT_SEND,
    counters::Group,
    cursor::accept_bytes,
    producer::Producer,
    shared::Shared,
    spec::in_quanta,
    sync::Ordering,
    violation::Cursor,
    words::reactive::Reactive,
    words::wake,
};

pub use crate::counters::NicCounters;

/// Packets marked not to be sent that one look for the next packet passes at most. A ring of 128 MiB holds two million of them.
const PASSED_PER_LOOK: u32 = 64;

/// The daemon's half of a pipe. `Send`; one thread drives it.
///
/// Every word that the application can write is read once, checked against what an honest application could have written, and only
/// then used. A word that fails the check is a [`Violation`]: the pipe takes nothing more from the application and returns the same
/// violation from then on. No method blocks, allocates or makes a system call.
///
/// Calls that make no sense for the pipe's direction do nothing: a TX pipe refuses [`NicPipe::push`], an RX pipe has nothing to
/// [peek](NicPipe::peek_tx).
#[derive(Debug)]
pub struct NicPipe {
    shared: Shared,
    direction: Direction,
    producer: Producer,
    consumer: Consumer,
    reactive: Reactive,
    /// The packet that `peek_tx` found and `advance_tx` has not passed.
    peeked: Option<Span>,
    /// Packets pushed since the last publication.
    unpublished: u64,
    violation: Option<Violation>,
    counters: NicCounters,
}

/// Why a packet was not placed. The pipe is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PushRefusal {
    /// No room now: the application holds too much. Also after a violation.
    #[error("the pipe is full")]
    Full,
    /// It would not fit into the empty pipe.
    #[error("a packet of {len} bytes does not fit into a pipe that holds {max}")]
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// Most bytes that the pipe holds.
        max: usize,
    },
    /// It has no bytes.
    #[error("the packet is empty")]
    Empty,
    /// The pipe carries packets from the application only.
    #[error("the pipe carries nothing to the application")]
    WrongDirection,
}

impl NicPipe {
    /// Takes the memory that [`PipeMemory::create`] made. Its descriptors are closed: hand them over before, or clone them.
    #[must_use]
    pub fn new(memory: PipeMemory) -> Self {
        let direction = memory.direction();
        Self {
            // What a TX pipe does not carry never fits.
            producer: match direction {
                Direction::Tx => Producer::default(),
                Direction::Rx | Direction::RxTx | Direction::RxBytes => {
                    Producer::new(&memory.shared)
                }
            },
            shared: memory.shared,
            direction,
            consumer: Consumer::default(),
            reactive: Reactive::default(),
            peeked: None,
            unpublished: 0,
            violation: None,
            counters: NicCounters::default(),
        }
    }

    /// Brings the pages back in of which somebody made holes before [`crate::end_writers`], so that nobody waits for one later. Everything is in
    /// when the memory is made.
    #[cfg(not(loom))]
    pub fn populate(&self) {
        self.shared.control.populate();
        // Nobody makes holes in what nobody else ever could write.
        if !self.direction.is_read_only() {
            self.shared.ring.populate();
        }
    }

    /// Which way the pipe carries packets.
    #[must_use]
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// Size of the ring in bytes; 64 less can be used.
    #[must_use]
    pub const fn capacity_bytes(&self) -> u64 {
        self.shared.ring.capacity() as u64
    }

    /// Longest packet that the pipe can ever hold, in bytes.
    #[must_use]
    pub const fn packet_bytes_max(&self) -> usize {
        self.shared.usable() as usize
    }

    /// What the pipe did so far.
    #[must_use]
    pub const fn counters(&self) -> NicCounters {
        self.counters
    }

    /// Packets of a TX pipe that the application's half refused, as that half tells: a liar lies about itself.
    #[must_use]
    pub fn refused(&self) -> Refused {
        let [too_short, too_long, full] = self.shared.control.refused();
        Refused {
            too_short: too_short.load(Ordering::Relaxed),
            too_long: too_long.load(Ordering::Relaxed),
            full: full.load(Ordering::Relaxed),
        }
    }

    /// Counts a frame that the caller dropped because it carries nothing for this pipe, where the application sees it.
    #[cold]
    pub fn count_no_payload(&mut self) {
        self.counters.no_payload += 1;
        self.show(Group::TooLittle);
    }

    /// Counts packets that the caller could not stamp because they are too short, where the application sees it.
    #[cold]
    pub fn count_unstamped(&mut self, packets: u64) {
        self.counters.unstamped += packets;
        self.show(Group::TooLittle);
    }

    /// The ports from which this pipe receives lost so many frames since it was opened. It never falls back.
    pub fn set_port_lost(&mut self, packets: u64) {
        if packets > self.counters.port_lost {
            self.counters.port_lost = packets;
            self.show(Group::Lost);
        }
    }

    /// What the application did wrong, if anything: the reason to detach it.
    #[must_use]
    pub const fn violation(&self) -> Option<Violation> {
        self.violation
    }

    /// Bytes that can be pushed now, after a look at the application's head. A packet takes its length rounded up to 64 bytes;
    /// where bytes have no gaps, its length.
    #[must_use]
    pub fn free_bytes(&mut self) -> u64 {
        self.refresh_head();
        self.producer.free_bytes()
    }

    /// Bytes of the ring in use: what was placed for the application and it has not given back; in a TX pipe what it wants sent and has not got
    /// back. One read of a word, which is believed of the pipe's fill alone: a liar lies about itself.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        let control = &self.shared.control;
        let used = match self.direction {
            Direction::Rx | Direction::RxBytes => {
                let head = control.head().load(Ordering::Relaxed);
                self.producer.tail.wrapping_sub(head)
            }
            Direction::RxTx => self.producer.tail - self.producer.freed,
            Direction::Tx => {
                let tail = control.tail().load(Ordering::Relaxed);
                tail.wrapping_sub(self.consumer.released)
            }
        };
        used.min(self.shared.usable())
    }

    /// Copies `packet` behind the ones pushed before. The application sees it after [`NicPipe::publish`].
    ///
    /// Into a pipe of bytes without gaps it goes whole or not at all.
    ///
    /// # Errors
    /// [`PushRefusal`] if it is empty, can never fit, or does not fit now (rule 3: it is dropped and counted).
    // Into its caller whatever the compiler thinks: the stores of a call for each packet fill the processor's store buffer, in which the lines of
    // the ring wait for the other core to give them up.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    pub fn push(&mut self, packet: &[u8]) -> Result<(), PushRefusal> {
        if self.producer.place(&self.shared, packet.into()) {
            self.pushed(packet.len());
            Ok(())
        } else {
            self.push_where_room_is(packet)
        }
    }

    /// For a packet that does not fit by the head last seen.
    #[cold]
    #[inline(never)]
    fn push_where_room_is(&mut self, packet: &[u8]) -> Result<(), PushRefusal> {
        self.make_room(packet.len())?;
        self.producer.place(&self.shared, packet.into());
        self.pushed(packet.len());
        Ok(())
    }

    /// As [`NicPipe::push`], with `fill` copying the `len` bytes into the ring. Bytes that `fill`
    /// leaves out keep their old value, which the application then sees.
    ///
    /// # Errors
    /// As [`NicPipe::push`]; `fill` is not called then.
    #[inline]
    pub fn push_with(
        &mut self,
        len: usize,
        fill: impl FnOnce(SharedBytesMut<'_>),
    ) -> Result<(), PushRefusal> {
        if !self.producer.fits(len) {
            self.make_room(len)?;
        }
        fill(self.producer.room_to_fill(&self.shared, len));
        self.producer.advance(&self.shared, len);
        self.pushed(len);
        Ok(())
    }

    /// Shows the packets pushed so far to the application. `Some(tail)`: send it a notification with that tail (rule 1).
    #[inline]
    pub fn publish(&mut self) -> Option<u64> {
        if self.unpublished == 0 {
            return None;
        }
        let notify = self.reactive.on_arrival();
        self.producer
            .publish(&self.shared, |tail| self.reactive.word(tail));
        self.counters.notifications_sent += u64::from(notify);
        self.counters.notifications_suppressed += self.unpublished - u64::from(notify);
        self.unpublished = 0;
        self.show(Group::Published);
        notify.then_some(self.producer.published)
    }

    /// Answers a doorbell of an RX or RX/TX pipe: the application has seen more, or sent it back (rule 2). `Some(tail)`: send it
    /// a notification with that tail. A TX pipe has nothing to answer: its packets are found by [`NicPipe::peek_tx`].
    ///
    /// # Errors
    /// [`Violation`] if the cursor is impossible.
    pub fn on_doorbell(&mut self) -> Result<Option<u64>, Violation> {
        self.honest()?;
        let consumed = match self.direction {
            Direction::Tx => return Ok(None),
            Direction::Rx | Direction::RxBytes => self.refresh_seen(),
            Direction::RxTx => self.refresh_tail().map(|()| self.consumer.limit),
        };
        let consumed = self.check(consumed)?;
        self.counters.head_updates += 1;
        let published = self.producer.published;
        let all_consumed = mutated!(ClearAlways: consumed == published => true);
        let notify = self.reactive.on_head(all_consumed);
        // The status bit may have changed; packets pushed and not yet published stay unseen.
        self.shared
            .control
            .tail()
            .store(self.reactive.word(published), Ordering::Release);
        self.counters.notifications_sent += u64::from(notify);
        self.show(Group::Rung);
        Ok(notify.then_some(published))
    }

    /// The next packet that the application wants sent, until [`NicPipe::advance_tx`]. `None`: nothing more for now, or, if
    /// [`NicPipe::tx_waits`], only packets marked not to be sent so far: look again later. Each look takes bounded time.
    ///
    /// The bytes lie in memory that a hostile application may still be changing, so they can only
    /// be copied: once, into the port's memory for instance, and every decision is taken from the
    /// copy. The length is fixed and was read once.
    ///
    /// ```compile_fail,E0308
    /// fn next(pipe: &mut covalent_pipe::nic::NicPipe) -> Option<&[u8]> {
    ///     pipe.peek_tx().ok()?
    /// }
    /// ```
    ///
    /// # Errors
    /// [`Violation`] if a cursor or a length is impossible.
    #[inline]
    pub fn peek_tx(&mut self) -> Result<Option<SharedBytes<'_>>, Violation> {
        let span = self.find_tx()?;
        Ok(span.map(|span| self.consumer.view(&self.shared, span)))
    }

    /// Whether the last [`NicPipe::peek_tx`] or [`NicPipe::take_tx`] left packets behind that it has seen: of the former after `None`, because
    /// it had passed as many marked ones as one look may.
    #[must_use]
    pub const fn tx_waits(&self) -> bool {
        self.violation.is_none() && self.consumer.next != self.consumer.limit
    }

    /// Whether the application has put something there to be sent since the last look that found no more. One read of a word, of which nothing
    /// is believed: what is there, the next look tells.
    #[must_use]
    #[inline]
    pub fn tx_came(&self) -> bool {
        let control = &self.shared.control;
        let word = match self.direction {
            Direction::Rx | Direction::RxBytes => return false,
            Direction::Tx => control.tail(),
            Direction::RxTx => control.tx_tail(),
        };
        self.violation.is_none() && word.load(Ordering::Relaxed) != self.consumer.limit
    }

    /// Passes the packet that [`NicPipe::peek_tx`] found; without one it does nothing. Its bytes stay the application's no more and are
    /// freed by [`NicPipe::complete_tx`].
    #[inline]
    pub fn advance_tx(&mut self) {
        if let Some(span) = self.peeked.take() {
            self.consumer.next = span.end();
            self.counters.tx_packets += 1;
            self.counters.tx_bytes += u64::from(span.len);
        }
    }

    /// Offers the packets that the application wants sent to `take`, oldest first, and passes each that it takes (`true`); the first that it
    /// refuses is the next one again. Looks at no more than `packets_max`, those marked not to be sent among them. Returns at how many it
    /// looked; [`NicPipe::tx_waits`] then tells whether more are there. Faster than [`NicPipe::peek_tx`] for each.
    ///
    /// What is said there of the bytes holds here too.
    ///
    /// # Errors
    /// [`Violation`] if a cursor or a length is impossible. What was taken before is passed and counted.
    #[inline]
    pub fn take_tx(
        &mut self,
        packets_max: usize,
        mut take: impl FnMut(SharedBytes<'_>) -> bool,
    ) -> Result<usize, Violation> {
        self.honest()?;
        self.peeked = None;
        if self.consumer.next == self.consumer.limit {
            let seen = self.refresh_tail();
            self.check(seen)?;
        }
        let (mut next, limit) = (self.consumer.next, self.consumer.limit);
        let (mut looked, mut discarded, mut bytes) = (0, 0, 0);
        let stopped = loop {
            if looked == packets_max || next == limit {
                break Ok(());
            }
            let span = match self.consumer.span(&self.shared, next) {
                Ok(span) => span,
                Err(violation) => break Err(violation),
            };
            if !span.dropped {
                if !take(self.consumer.view(&self.shared, span)) {
                    break Ok(());
                }
                bytes += u64::from(span.len);
            } else if self.direction == Direction::Tx {
                break Err(marked(span));
            } else {
                discarded += 1;
            }
            next = span.end();
            looked += 1;
        };
        self.consumer.next = next;
        self.counters.tx_packets += looked as u64 - discarded;
        self.counters.tx_bytes += bytes;
        self.counters.tx_discarded += discarded;
        self.check(stopped)?;
        if next == limit {
            // So that `tx_waits` tells of what was added meanwhile.
            let seen = self.refresh_tail();
            self.check(seen)?;
        }
        Ok(looked)
    }

    /// Everything passed so far is sent: frees its bytes. `Some(head)`: the application of a TX pipe waits for space; send it a
    /// notification with that head.
    pub fn complete_tx(&mut self) -> Option<u64> {
        if self.direction.is_read_only() || self.consumer.released == self.consumer.next {
            return None;
        }
        self.consumer.release(&self.shared);
        let head = self.consumer.released;
        if self.direction == Direction::RxTx {
            self.producer.free_to(&self.shared, head);
            self.show(Group::Taken);
            return None;
        }
        let notify = wake::take(self.shared.control.space_wanted());
        self.counters.notifications_sent += u64::from(notify);
        self.show(Group::Taken);
        notify.then_some(head)
    }

    /// For a packet that does not fit by the head last seen: looks at the head again. After `Ok` it fits.
    #[inline(never)]
    fn make_room(&mut self, len: usize) -> Result<(), PushRefusal> {
        if self.direction == Direction::Tx {
            return Err(PushRefusal::WrongDirection);
        }
        if len == 0 {
            return Err(PushRefusal::Empty);
        }
        let max = self.packet_bytes_max();
        if len > max {
            self.counters.too_long += 1;
            self.show(Group::Refused);
            return Err(PushRefusal::TooLong { len, max });
        }
        self.refresh_head();
        if self.producer.fits(len) {
            return Ok(());
        }
        self.counters.full += 1;
        self.show(Group::Refused);
        Err(PushRefusal::Full)
    }

    #[inline]
    fn pushed(&mut self, len: usize) {
        self.unpublished += 1;
        self.counters.rx_packets += 1;
        self.counters.rx_bytes += len as u64;
    }

    /// Looks at the application's head, where it has one.
    fn refresh_head(&mut self) {
        // The head of an RX/TX pipe is our own.
        if self.direction.is_read_only() && self.violation.is_none() {
            self.violation = self.producer.refresh(&self.shared).err();
        }
    }

    /// Looks at the application's head, then at the end of what it has seen.
    fn refresh_seen(&mut self) -> Result<u64, Violation> {
        self.producer.refresh(&self.shared)?;
        // After the head, and written before it: an honest one is never behind it.
        let found = self.shared.control.seen().load(Ordering::Acquire);
        accept_bytes(
            Cursor::Seen,
            found,
            self.producer.freed,
            self.producer.published,
            self.shared.alignment,
        )
    }

    /// Looks at the end of what the application wants sent.
    fn refresh_tail(&mut self) -> Result<(), Violation> {
        let control = &self.shared.control;
        let (word, name, most) = match self.direction {
            Direction::Rx | Direction::RxBytes => return Ok(()),
            Direction::Tx => (
                control.tail(),
                Cursor::Tail,
                self.consumer.released + self.shared.usable(),
            ),
            Direction::RxTx => (control.tx_tail(), Cursor::TxTail, self.producer.published),
        };
        self.consumer
            .refresh(word, name, most, 0, self.shared.alignment)
            .map(|_| ())
    }

    /// The next packet to send, passing a bounded number of those marked not to be.
    #[inline]
    fn find_tx(&mut self) -> Result<Option<Span>, Violation> {
        self.honest()?;
        if self.peeked.is_some() {
            return Ok(self.peeked);
        }
        for _ in 0..PASSED_PER_LOOK {
            if self.consumer.next == self.consumer.limit {
                // Also after marked packets: `None` is only said after a look that found nothing more.
                let seen = self.refresh_tail();
                self.check(seen)?;
                if self.consumer.next == self.consumer.limit {
                    return Ok(None);
                }
            }
            let span = self.consumer.span(&self.shared, self.consumer.next);
            let span = self.check(span)?;
            if !span.dropped {
                self.peeked = Some(span);
                return Ok(Some(span));
            }
            if self.direction == Direction::Tx {
                return self.check(Err(marked(span)));
            }
            self.consumer.next = span.end();
            self.counters.tx_discarded += 1;
        }
        if self.consumer.next == self.consumer.limit {
            // The next look finds what was added meanwhile only if it is asked for: see `tx_waits`.
            let seen = self.refresh_tail();
            self.check(seen)?;
        }
        Ok(None)
    }

    #[inline]
    fn show(&self, group: Group) {
        self.counters.show(self.shared.control.counters(), group);
    }

    #[inline]
    fn honest(&self) -> Result<(), Violation> {
        self.violation.map_or(Ok(()), Err)
    }

    #[inline]
    fn check<T>(&mut self, seen: Result<T, Violation>) -> Result<T, Violation> {
        if let Err(violation) = seen {
            self.violation = Some(violation);
        }
        seen
    }
}

/// What was never received has no reason to be given back: only an RX/TX pipe's application marks packets.
const fn marked(span: Span) -> Violation {
    Violation::Mark {
        found: span.len | DO_NOT_SEND,
    }
}

/// Bytes that a packet of `len` bytes takes in a pipe: `len` rounded up to whole quanta of 64 bytes.
#[must_use]
pub const fn footprint_bytes(len: usize) -> u64 {
    in_quanta(len as u64)
}
