//! The daemon's half of a pipe, in the role of a hardware NIC. It trusts nothing that the
//! application can write.

use covalent_ipc::{mutated, sync::Ordering};

use crate::{
    Direction, PipeMemory, Refused, SharedBytes, SharedBytesMut, Violation,
    consumer::{Consumer, Span},
    control::DO_NOT_SEND,
    counters::Group,
    cursor::accept_bytes,
    producer::Producer,
    shared::Shared,
    spec::in_quanta,
    violation::Cursor,
    words::reactive::Reactive,
    words::wake,
};

pub use crate::counters::PipeCounters;

/// Most packets marked not to be sent that one search for the next packet skips. A ring of 128 MiB
/// holds two million of them.
const PASSED_PER_PEEK: u32 = 64;

/// The daemon's half of a pipe. `Send`. One thread drives it.
///
/// The pipe reads each word that the application can write once, checks that an honest application
/// could have written it, and only then uses it. A word that fails the check is a [`Violation`]:
/// the pipe accepts nothing more from the application and returns the same violation from then on.
/// No method blocks, allocates or makes a system call.
///
/// Calls that do not apply to the pipe's direction do nothing: a TX pipe refuses [`NicPipe::push`],
/// an RX pipe has nothing to [peek](NicPipe::peek_tx).
#[derive(Debug)]
pub struct NicPipe {
    shared: Shared,
    direction: Direction,
    producer: Producer,
    consumer: Consumer,
    reactive: Reactive,
    /// The packet that `peek_tx` found and `advance_tx` has not passed.
    peeked: Option<Span>,
    /// The application of an RX/TX pipe waits until all that it sent is taken.
    taken_wanted: bool,
    /// Packets pushed since the last publication.
    unpublished: u64,
    violation: Option<Violation>,
    counters: PipeCounters,
}

/// Why a packet was not placed. The pipe is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PushRefusal {
    /// No space now: the application holds too much. Also returned after a violation.
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
    /// Takes the memory that [`PipeMemory::create`] made. Its descriptors are closed: send or clone
    /// them before.
    #[must_use]
    pub fn new(memory: PipeMemory) -> Self {
        let direction = memory.direction();
        Self {
            // A TX pipe carries nothing to the application: its producer accepts no packet.
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
            taken_wanted: false,
            unpublished: 0,
            violation: None,
            counters: PipeCounters::default(),
        }
    }

    /// Faults in the pages in which a process punched holes before
    /// [`end_writers`](crate::end_writers), so that no later access waits. All pages are present
    /// when the memory is made.
    #[cfg(not(loom))]
    pub fn populate(&self) {
        self.shared.control.populate();
        // Memory that no other process could ever write has no holes.
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

    /// Returns the pipe's counters.
    #[must_use]
    pub const fn counters(&self) -> PipeCounters {
        self.counters
    }

    /// Returns the packets of a TX pipe that the application's half refused, as reported by that
    /// half. False values affect only the application's own counts.
    #[must_use]
    pub fn refused(&self) -> Refused {
        let [too_short, too_long, full, link_type] = self.shared.control.refused();
        Refused {
            too_short: too_short.load(Ordering::Relaxed),
            too_long: too_long.load(Ordering::Relaxed),
            full: full.load(Ordering::Relaxed),
            link_type: link_type.load(Ordering::Relaxed),
        }
    }

    /// Counts a frame that the caller dropped because it carries no data for this pipe. The
    /// application sees the count.
    #[cold]
    pub fn count_no_payload(&mut self) {
        self.counters.no_payload += 1;
        self.show(Group::TooLittle);
    }

    /// Counts packets that the caller could not stamp because they are too short. The application
    /// sees the count.
    #[cold]
    pub fn count_unstamped(&mut self, packets: u64) {
        self.counters.unstamped += packets;
        self.show(Group::TooLittle);
    }

    /// Sets the number of frames that the pipe's receiving ports lost since it was opened. The
    /// counter never decreases.
    pub fn set_port_lost(&mut self, packets: u64) {
        if packets > self.counters.port_lost {
            self.counters.port_lost = packets;
            self.show(Group::Lost);
        }
    }

    /// Returns the application's violation, if any: the reason to detach it.
    #[must_use]
    pub const fn violation(&self) -> Option<Violation> {
        self.violation
    }

    /// Returns the bytes that can be pushed now, after a read of the application's head. A packet
    /// takes its length rounded up to 64 bytes, or exactly its length in a pipe of bytes without
    /// gaps.
    #[must_use]
    pub fn free_bytes(&mut self) -> u64 {
        self.refresh_head();
        self.producer.free_bytes()
    }

    /// Returns the bytes of the ring in use. In an RX or RX/TX pipe these are bytes placed for the
    /// application and not returned by it. In a TX pipe these are bytes that the application
    /// published for sending and that are not freed.
    ///
    /// Reads one shared word. The value is used only for this fill level: a false value misreports
    /// only the application's own pipe.
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

    /// Copies `packet` after the packets pushed before. The application sees it after
    /// [`NicPipe::publish`].
    ///
    /// A pipe of bytes without gaps takes the packet whole or not at all.
    ///
    /// # Errors
    /// [`PushRefusal`] if the packet is empty, can never fit, or does not fit now (rule 3: it is
    /// dropped and counted).
    // Always inline: the stores of a call per packet fill the processor's store buffer, where
    // stores to the ring wait for the other core to release the lines.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    pub fn push(&mut self, packet: &[u8]) -> Result<(), PushRefusal> {
        if self.producer.place(&self.shared, packet.into()) {
            self.pushed(packet.len());
            Ok(())
        } else {
            self.push_if_space(packet)
        }
    }

    /// For a packet that does not fit by the head last seen.
    #[cold]
    #[inline(never)]
    fn push_if_space(&mut self, packet: &[u8]) -> Result<(), PushRefusal> {
        self.make_space(packet.len())?;
        self.producer.place(&self.shared, packet.into());
        self.pushed(packet.len());
        Ok(())
    }

    /// As [`NicPipe::push`], with `fill` copying the `len` bytes into the ring. Bytes that `fill`
    /// does not write keep their old value, which the application then sees.
    ///
    /// # Errors
    /// As [`NicPipe::push`]. `fill` is not called on an error.
    #[inline]
    pub fn push_with(
        &mut self,
        len: usize,
        fill: impl FnOnce(SharedBytesMut<'_>),
    ) -> Result<(), PushRefusal> {
        if !self.producer.fits(len) {
            self.make_space(len)?;
        }
        fill(self.producer.space_to_fill(&self.shared, len));
        self.producer.advance(&self.shared, len);
        self.pushed(len);
        Ok(())
    }

    /// Publishes the packets pushed so far to the application. On `Some(tail)` the caller must send
    /// it a notification with that tail (rule 1).
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

    /// Handles a doorbell of an RX or RX/TX pipe: the application has seen more packets, or sent
    /// some back (rule 2), or waits until all that it sent is taken. On `Some(tail)` the caller
    /// must send it a notification with that tail.
    ///
    /// A doorbell of a TX pipe needs no handling here: [`NicPipe::peek_tx`] finds its packets.
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
        // The status bit may have changed. Packets pushed and not yet published stay invisible.
        self.shared
            .control
            .tail()
            .store(self.reactive.word(published), Ordering::Release);
        self.counters.notifications_sent += u64::from(notify);
        self.show(Group::Rung);
        let all_taken = self.direction == Direction::RxTx && self.take_taken_wanted();
        Ok((notify || all_taken).then_some(published))
    }

    /// Takes the request of an RX/TX pipe's application for a notification once all that it sent is
    /// taken. Returns whether it already is.
    fn take_taken_wanted(&mut self) -> bool {
        let wanted = self.shared.control.space_wanted();
        if wanted.load(Ordering::Relaxed) != 0 {
            wanted.store(0, Ordering::Relaxed);
            self.taken_wanted = true;
        }
        mutated!(AnswerOnlyCompletions: self.answers_taken() => false)
    }

    /// Whether the application is to be notified now that all that it sent is taken.
    fn answers_taken(&mut self) -> bool {
        // The doorbell of the request showed everything that was sent before.
        let answers = self.taken_wanted && self.consumer.released == self.consumer.limit;
        if answers {
            self.taken_wanted = false;
            self.counters.notifications_sent += 1;
        }
        answers
    }

    /// Returns the next packet that the application submitted for sending, until
    /// [`NicPipe::advance_tx`].
    ///
    /// Returns `None` if there is no packet now. If [`NicPipe::tx_waits`], it found only packets
    /// marked not to be sent so far: call again later. Each call takes bounded time.
    ///
    /// The bytes lie in memory that a hostile application may still be changing, so they can only
    /// be copied. Copy them once, for example into the port's memory, and base every decision on
    /// the copy. The length is fixed and was read once.
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

    /// Returns whether the last [`NicPipe::peek_tx`] or [`NicPipe::take_tx`] left packets that it
    /// has seen. After `None` from [`NicPipe::peek_tx`] this means that it skipped the maximum
    /// number of marked packets for one call.
    #[must_use]
    pub const fn tx_waits(&self) -> bool {
        self.violation.is_none() && self.consumer.next != self.consumer.limit
    }

    /// Returns whether the application has submitted more packets since the last call that found no
    /// more. Reads one shared word and does not rely on its value: the next call validates it.
    #[must_use]
    #[inline]
    pub fn has_new_tx(&self) -> bool {
        let control = &self.shared.control;
        let word = match self.direction {
            Direction::Rx | Direction::RxBytes => return false,
            Direction::Tx => control.tail(),
            Direction::RxTx => control.tx_tail(),
        };
        self.violation.is_none() && word.load(Ordering::Relaxed) != self.consumer.limit
    }

    /// Passes the packet that [`NicPipe::peek_tx`] found. Does nothing if there is none. The bytes
    /// no longer belong to the application, and [`NicPipe::complete_tx`] frees them.
    #[inline]
    pub fn advance_tx(&mut self) {
        if let Some(span) = self.peeked.take() {
            self.consumer.next = span.end();
            self.counters.tx_packets += 1;
            self.counters.tx_bytes += u64::from(span.len);
        }
    }

    /// Passes the packets that the application submitted to `take`, oldest first. `take` returns
    /// `true` to take a packet. The first packet that it refuses stays the next one.
    ///
    /// Examines at most `packets_max` packets, including those marked not to be sent. Returns the
    /// number of packets examined. [`NicPipe::tx_waits`] then returns whether there are more.
    /// Faster than one [`NicPipe::peek_tx`] per packet. The rules there for the bytes apply here
    /// too.
    ///
    /// # Errors
    /// [`Violation`] if a cursor or a length is impossible. Packets taken before stay taken and
    /// counted.
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
            // Include packets submitted meanwhile in the result of `tx_waits`.
            let seen = self.refresh_tail();
            self.check(seen)?;
        }
        Ok(looked)
    }

    /// Frees the bytes of all packets passed so far: they are sent. On `Some(head)` the application
    /// of a TX pipe waits for space, or that of an RX/TX pipe until all is taken: the caller must
    /// send it a notification with that head.
    pub fn complete_tx(&mut self) -> Option<u64> {
        if self.direction.is_read_only() || self.consumer.released == self.consumer.next {
            return None;
        }
        self.consumer.release(&self.shared);
        let head = self.consumer.released;
        if self.direction == Direction::RxTx {
            self.producer.free_to(&self.shared, head);
            let notify = mutated!(AnswerOnlyDoorbells: self.answers_taken() => false);
            self.show(Group::Taken);
            return notify.then_some(head);
        }
        let notify = wake::take(self.shared.control.space_wanted());
        self.counters.notifications_sent += u64::from(notify);
        self.show(Group::Taken);
        notify.then_some(head)
    }

    /// For a packet that does not fit by the last accepted head: reads the head again. After `Ok`
    /// it fits.
    #[inline(never)]
    fn make_space(&mut self, len: usize) -> Result<(), PushRefusal> {
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

    /// Reads the application's head, then the end of what it has seen.
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

    /// Reads the end of what the application submitted for sending.
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
        for _ in 0..PASSED_PER_PEEK {
            if self.consumer.next == self.consumer.limit {
                // Also after marked packets: return `None` only after a read that found nothing
                // more.
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
            // The next call finds packets added meanwhile only if the caller makes it: see
            // `tx_waits`.
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

/// Only the application of an RX/TX pipe marks packets. Packets of a TX pipe were never received
/// and need not be given back.
const fn marked(span: Span) -> Violation {
    Violation::Mark {
        found: span.len | DO_NOT_SEND,
    }
}

/// Returns the bytes that a packet of `len` bytes takes in a pipe: `len` rounded up to whole quanta
/// of 64 bytes.
#[must_use]
pub const fn footprint_bytes(len: usize) -> u64 {
    in_quanta(len as u64)
}
