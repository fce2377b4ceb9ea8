//! A cable between two processes: ordered frames in both directions through shared memory, with a
//! carrier.
//!
//! Each direction is a pipe that one end writes and the other reads. Neither end trusts the other:
//! both use the checked halves. A shared page holds for each end a *switch* (the number of toggles;
//! odd means on) and a sleeping flag. Each end sleeps on its own end of a socket pair, through
//! which the peer wakes it. The socket pair also reports the exit of the peer, because the kernel
//! closes its end.
//!
//! The process that makes the cable ([`CableEnd::create_pair`]) keeps one end. It sends the
//! [parts](CableParts) of the other end over a [`Connection`](covalent_ipc::seqpacket::Connection).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use covalent_ipc::{
    event::EventFd,
    mapping::{Access, Mapping},
    sync::{AtomicU32, AtomicU64, Ordering},
};

use crate::{
    Direction, PagePolicy, PipeError, PipeMemory, PipeSpec, SharedBytes, Violation,
    consumer::{Consumer, Span},
    memfd,
    nic::PushRefusal,
    producer::Producer,
    shared::Shared,
    spec::in_quanta,
    violation::Cursor,
    words::wake,
};

const WHAT: &str = "cable";
const PAGE_BYTES: u64 = 4096;

/// Descriptors of one end: two for each pipe, the page, and the end of the socket pair.
pub const CABLE_DESCRIPTORS: usize = 6;

/// Which end of the cable; they differ only in which pipe they write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    A,
    B,
}

/// One end of a cable. `Send`; one thread drives it.
#[derive(Debug)]
pub struct CableEnd {
    side: Side,
    page: Mapping,
    out: Shared,
    producer: Producer,
    inward: Shared,
    consumer: Consumer,
    peeked: Option<Span>,
    event: EventFd,
    violation: Option<Violation>,
    /// Number of toggles of this end's switch; odd while it is on. The shared word is written from
    /// it and never read back.
    thrown: u64,
    /// Set while a frame was refused for lack of space and the caller does not know of any free
    /// space since. The value is `freed` at the refusal.
    refused_at: Option<u64>,
    peer_gone: bool,
}

/// The parts of an end for the other process: the descriptors to send, and the size to send with
/// them.
///
/// Drop the parts after sending them. While this process also holds the other end's event
/// descriptor, it cannot detect the exit of the other process.
#[derive(Debug)]
pub struct CableParts {
    fds: [OwnedFd; CABLE_DESCRIPTORS],
    capacity_bytes: u64,
}

impl CableParts {
    /// Descriptors to send, in the order that [`CableParts::new`] takes.
    #[must_use]
    pub fn fds(&self) -> [BorrowedFd<'_>; CABLE_DESCRIPTORS] {
        self.fds.each_ref().map(AsFd::as_fd)
    }

    /// Size of each pipe in bytes, to be sent to the other process.
    #[must_use]
    pub const fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Parts that were received.
    #[must_use]
    pub const fn new(fds: [OwnedFd; CABLE_DESCRIPTORS], capacity_bytes: u64) -> Self {
        Self {
            fds,
            capacity_bytes,
        }
    }
}

impl CableEnd {
    /// Makes a cable that holds at least `ring_slots` frames of up to `frame_bytes_max` bytes in
    /// each direction. This process keeps one end. The parts are for the other process. Both
    /// switches are off.
    ///
    /// # Errors
    /// [`PipeError::Size`] if the rings would be larger than 1 GiB. [`PipeError::System`] if memory
    /// or descriptors are exhausted.
    pub fn create_pair(
        ring_slots: u32,
        frame_bytes_max: u32,
    ) -> Result<(Self, CableParts), PipeError> {
        let wanted = u64::from(ring_slots) * in_quanta(u64::from(frame_bytes_max))
            + crate::QUANTUM_BYTES as u64;
        let capacity_bytes = wanted
            .max(crate::CAPACITY_BYTES_MIN)
            .checked_next_power_of_two()
            .unwrap_or(u64::MAX);
        let spec = PipeSpec {
            direction: Direction::Tx,
            capacity_bytes,
            pages: PagePolicy::Never,
        };
        let from_a = PipeMemory::create(&spec)?;
        let from_b = PipeMemory::create(&spec)?;
        let page_fd = memfd::create(WHAT, PAGE_BYTES, false)?;
        let page = map_page(page_fd.as_fd())?;
        memfd::seal(WHAT, page_fd.as_fd(), memfd::Writers::Stay)?;
        let (event_a, event_b) = EventFd::pair().map_err(|source| PipeError::System {
            what: WHAT,
            call: "socketpair",
            source,
        })?;
        let clone = |fd: BorrowedFd<'_>| {
            fd.try_clone_to_owned().map_err(|source| PipeError::System {
                what: WHAT,
                call: "dup",
                source,
            })
        };
        let [a_words, a_data] = from_a.fds();
        let [b_words, b_data] = from_b.fds();
        let fds = [
            clone(a_words)?,
            clone(a_data)?,
            clone(b_words)?,
            clone(b_data)?,
            page_fd,
            OwnedFd::from(event_b),
        ];
        let end = Self::assemble(
            Side::A,
            page,
            from_a.into_shared(Direction::Tx)?,
            from_b.into_shared(Direction::Tx)?,
            event_a,
        );
        Ok((
            end,
            CableParts {
                fds,
                capacity_bytes,
            },
        ))
    }

    /// The end that was received as `parts`.
    ///
    /// # Errors
    /// [`PipeError`] if the descriptors are not the sealed memory of a cable, or cannot be mapped.
    pub fn from_parts(parts: CableParts) -> Result<Self, PipeError> {
        let CableParts {
            fds: [a_words, a_data, b_words, b_data, page_fd, event],
            capacity_bytes,
        } = parts;
        memfd::check(WHAT, page_fd.as_fd(), PAGE_BYTES)?;
        let page = map_page(page_fd.as_fd())?;
        let from_a = PipeMemory::open([a_words, a_data], Direction::Tx, capacity_bytes)?;
        let from_b = PipeMemory::open([b_words, b_data], Direction::Tx, capacity_bytes)?;
        let (out, inward) = (
            from_b.into_shared(Direction::Tx)?,
            from_a.into_shared(Direction::Tx)?,
        );
        Ok(Self::assemble(
            Side::B,
            page,
            out,
            inward,
            EventFd::from(event),
        ))
    }

    fn assemble(side: Side, page: Mapping, out: Shared, inward: Shared, event: EventFd) -> Self {
        Self {
            side,
            page,
            producer: Producer::new(&out),
            out,
            inward,
            consumer: Consumer::default(),
            peeked: None,
            event,
            violation: None,
            thrown: 0,
            refused_at: None,
            peer_gone: false,
        }
    }

    /// Copies `frame` after those pushed before. The peer sees it after [`CableEnd::publish`]. The
    /// caller is responsible for checking the carrier.
    ///
    /// # Errors
    /// [`PushRefusal`] if the frame is empty, can never fit, or does not fit now.
    #[inline]
    pub fn push(&mut self, frame: &[u8]) -> Result<(), PushRefusal> {
        self.push_shared(frame.into())
    }

    /// [`CableEnd::push`] of a frame that an application may be changing meanwhile: it is copied
    /// once.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn push_shared(&mut self, frame: SharedBytes<'_>) -> Result<(), PushRefusal> {
        if frame.is_empty() {
            return Err(PushRefusal::Empty);
        }
        let max = self.out.usable() as usize;
        if frame.len() > max {
            return Err(PushRefusal::TooLong {
                len: frame.len(),
                max,
            });
        }
        if !self.producer.place(&self.out, frame) {
            self.refresh_space();
            if !self.producer.place(&self.out, frame) {
                self.refused_at = Some(self.producer.freed);
                return Err(PushRefusal::Full);
            }
        }
        self.refused_at = None;
        Ok(())
    }

    /// Bytes that can be pushed now. A frame takes its length rounded up to 64 bytes.
    #[must_use]
    pub fn free_bytes(&mut self) -> u64 {
        self.refresh_space();
        self.refused_at = None;
        self.producer.free_bytes()
    }

    /// Whether the peer has taken and freed everything that was pushed here.
    #[must_use]
    pub fn is_idle(&mut self) -> bool {
        self.refresh_space();
        self.producer.freed == self.producer.tail
    }

    /// Publishes the frames pushed so far to the peer, and wakes the peer if it sleeps. Only the
    /// wake-up makes a system call.
    pub fn publish(&mut self) {
        if self.producer.published == self.producer.tail {
            return;
        }
        self.producer.publish(&self.out, |tail| tail);
        if wake::take(self.sleeps(self.side.other())) {
            self.wake_peer();
        }
    }

    /// The next frame, until [`CableEnd::advance`]; `None`: nothing more for now. The peer may
    /// still be changing the bytes, so they can only be copied: once, and every decision is taken
    /// from the copy.
    ///
    /// # Errors
    /// [`Violation`] if a cursor or a length is impossible; the cable is of no more use then.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<SharedBytes<'_>>, Violation> {
        if let Some(violation) = self.violation {
            return Err(violation);
        }
        if self.peeked.is_none() {
            if self.consumer.next == self.consumer.limit {
                let most = self.consumer.released + self.inward.usable();
                let seen = self.consumer.refresh(
                    self.inward.control.tail(),
                    Cursor::Tail,
                    most,
                    0,
                    self.inward.alignment,
                );
                self.check(seen)?;
            }
            if self.consumer.next == self.consumer.limit {
                return Ok(None);
            }
            let span = self.consumer.span(&self.inward, self.consumer.next);
            self.peeked = Some(self.check(span)?);
        }
        Ok(self
            .peeked
            .map(|span| self.consumer.view(&self.inward, span)))
    }

    /// Passes the frame that [`CableEnd::peek`] found; without one it does nothing.
    #[inline]
    pub fn advance(&mut self) {
        if let Some(span) = self.peeked.take() {
            self.consumer.next = span.end();
        }
    }

    /// Frees the frames passed so far, and wakes the peer if it sleeps for lack of space.
    pub fn release(&mut self) {
        if self.consumer.released == self.consumer.next {
            return;
        }
        self.consumer.release(&self.inward);
        if wake::take(self.inward.control.space_wanted()) {
            self.wake_peer();
        }
    }

    /// Announces that this end is about to sleep on [`CableEnd::as_fd`](AsFd::as_fd).
    ///
    /// Returns `false` if there is work already, in which case the caller must not sleep. Work is a
    /// frame, requested space, a peer whose end is closed, or a carrier that differs from
    /// `carrier_seen`. `carrier_seen` is the value on which the caller last acted. The caller must
    /// call [`CableEnd::finish_sleep`] in both cases.
    #[must_use]
    pub fn prepare_sleep(&mut self, carrier_seen: bool) -> bool {
        wake::announce(self.sleeps(self.side));
        if self.refused_at.is_some() {
            wake::announce(self.out.control.space_wanted());
        }
        // Check after the announcements: either the peer sees the flag, or this end sees the peer's
        // work.
        let frame_waits = self.inward.control.tail().load(Ordering::Acquire) != self.consumer.limit
            || self.consumer.next != self.consumer.limit;
        self.refresh_space();
        let has_new_space = self
            .refused_at
            .is_some_and(|freed| freed != self.producer.freed);
        !(frame_waits
            || has_new_space
            || self.violation.is_some()
            || self.carrier() != carrier_seen)
    }

    /// Announces that this end is awake, and drains its descriptor.
    pub fn finish_sleep(&mut self) {
        wake::retract(self.sleeps(self.side));
        wake::retract(self.out.control.space_wanted());
        self.check_peer();
    }

    /// Returns whether frames pass: both switches are on and the peer's process was holding its end
    /// at the last check. [`CableEnd::check_peer`] performs the check.
    #[must_use]
    pub fn carrier(&self) -> bool {
        !self.peer_gone && is_on(self.thrown) && is_on(self.peer_thrown())
    }

    /// Returns the number of toggles of both switches. It reveals a carrier that was lost and
    /// restored between two checks.
    #[must_use]
    pub fn carrier_changes(&self) -> u64 {
        self.thrown.wrapping_add(self.peer_thrown())
    }

    /// Sets this end's switch. On a change it wakes the peer, which then sees the new state.
    pub fn set_enabled(&mut self, enabled: bool) {
        if is_on(self.thrown) != enabled {
            self.thrown += 1;
            self.switch(self.side).store(self.thrown, Ordering::Release);
            self.wake_peer();
        }
    }

    /// Checks with one system call whether the peer's process still holds its end. Returns
    /// [`CableEnd::peer_gone`].
    pub fn check_peer(&mut self) -> bool {
        if !self.peer_gone && self.event.drain().is_err() {
            self.peer_gone = true;
        }
        self.peer_gone
    }

    /// Whether the peer was seen to be gone. It does not come back: make a new cable.
    #[must_use]
    pub const fn peer_gone(&self) -> bool {
        self.peer_gone
    }

    /// Returns the peer's violation, if any.
    #[must_use]
    pub const fn violation(&self) -> Option<Violation> {
        self.violation
    }

    /// Longest frame that can ever be pushed, in bytes.
    #[must_use]
    pub const fn frame_bytes_max(&self) -> usize {
        self.out.usable() as usize
    }

    fn refresh_space(&mut self) {
        if self.violation.is_none() {
            self.violation = self.producer.refresh(&self.out).err();
        }
    }

    fn wake_peer(&mut self) {
        if self.event.notify().is_err() {
            self.peer_gone = true;
        }
    }

    fn peer_thrown(&self) -> u64 {
        self.switch(self.side.other()).load(Ordering::Acquire)
    }

    fn switch(&self, side: Side) -> &AtomicU64 {
        &self.page.u64s(side.line(), 1)[0]
    }

    fn sleeps(&self, side: Side) -> &AtomicU32 {
        &self.page.u32s(side.line() + 128, 1)[0]
    }

    fn check<T>(&mut self, seen: Result<T, Violation>) -> Result<T, Violation> {
        if let Err(violation) = seen {
            self.violation = Some(violation);
        }
        seen
    }
}

/// The descriptor to sleep on: readable when the peer has signaled or is gone.
impl AsFd for CableEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl Drop for CableEnd {
    fn drop(&mut self) {
        // A peer in the same process does not see this end close while it holds clones of it. The
        // switch reports the close too.
        self.set_enabled(false);
    }
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    /// Where this side's words lie on the page: its switch, and its sleeping flag on the next line.
    const fn line(self) -> usize {
        match self {
            Self::A => 0,
            Self::B => 512,
        }
    }
}

const fn is_on(thrown: u64) -> bool {
    thrown % 2 == 1
}

fn map_page(memfd: BorrowedFd<'_>) -> Result<Mapping, PipeError> {
    Mapping::once(memfd, PAGE_BYTES as usize, Access::ReadWrite).map_err(|source| {
        PipeError::System {
            what: WHAT,
            call: "mmap",
            source,
        }
    })
}
