//! Sending.

use core::ops::{Deref, DerefMut};

use covalent_ipc::sync::Ordering;

use crate::{
    Direction, PipeError, PipeMemory, Refused, Violation, nic::PipeCounters, producer::Producer,
    shared::Shared, words::wake,
};

/// The application's half of a TX pipe: packets written back to back, taken by the daemon.
#[derive(Debug)]
pub struct TxPipe {
    shared: Shared,
    producer: Producer,
    frame_bytes_max: usize,
    refused: Refused,
    violation: Option<Violation>,
}

/// Why a packet was not taken. The pipe is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum SendRefusal {
    /// No space now: the daemon has not sent enough of the earlier packets.
    #[error("the pipe is full")]
    Full,
    /// It has no bytes.
    #[error("the packet is empty")]
    Empty,
    /// It is longer than the pipe's port takes, or than the pipe can ever hold.
    #[error("a packet of {len} bytes is longer than the {max} that the pipe takes")]
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// Longest packet taken, in bytes.
        max: usize,
    },
}

impl TxPipe {
    /// Takes the memory of a TX pipe. Its descriptors are closed.
    ///
    /// # Errors
    /// [`PipeError::Direction`] if the pipe carries another way.
    pub fn new(memory: PipeMemory) -> Result<Self, PipeError> {
        let shared = memory.into_shared(Direction::Tx)?;
        let frame_bytes_max = shared.usable() as usize;
        Ok(Self {
            producer: Producer::new(&shared),
            shared,
            frame_bytes_max,
            refused: Refused::default(),
            violation: None,
        })
    }

    /// Refuses packets longer than `bytes` from now on: the frame limit of the pipe's port. 0
    /// removes this limit. The limit of the ring always applies.
    pub fn set_frame_bytes_max(&mut self, bytes: usize) {
        let most = self.shared.usable() as usize;
        self.frame_bytes_max = if bytes == 0 { most } else { bytes.min(most) };
    }

    /// Longest packet taken, in bytes.
    #[must_use]
    pub const fn frame_bytes_max(&self) -> usize {
        self.frame_bytes_max
    }

    /// Copies `packet` behind those sent before. The daemon sees it after [`TxPipe::publish`].
    ///
    /// # Errors
    /// [`SendRefusal`] if it is empty, too long, or does not fit now.
    #[inline]
    pub fn send(&mut self, packet: &[u8]) -> Result<(), SendRefusal> {
        self.admit(packet.len())?;
        // It was admitted, so it fits.
        self.producer.place(&self.shared, packet.into());
        Ok(())
    }

    /// Reserves space for a packet of `len` bytes, to be written in place. The pipe sends nothing
    /// before [`TxReservation::commit`]. The initial contents are unspecified.
    ///
    /// # Errors
    /// As [`TxPipe::send`].
    #[inline]
    pub fn reserve(&mut self, len: usize) -> Result<TxReservation<'_>, SendRefusal> {
        self.admit(len)?;
        Ok(TxReservation { pipe: self, len })
    }

    /// Publishes the packets sent so far to the daemon. Returns `true` if the caller must ring the
    /// doorbell for the daemon to process them.
    #[inline]
    pub fn publish(&mut self) -> bool {
        if self.producer.published == self.producer.tail {
            return false;
        }
        self.producer.publish(&self.shared, |tail| tail);
        true
    }

    /// Returns the bytes in the ring that the daemon has not sent yet, published or not. Each
    /// packet counts as its length rounded up to 64 bytes.
    #[must_use]
    pub fn in_flight_bytes(&mut self) -> u64 {
        self.refresh();
        self.producer.tail - self.producer.freed
    }

    /// Returns the packets that the daemon has not taken, published or not, oldest first.
    ///
    /// If the daemon is gone, the application sends them through another pipe. A daemon that was
    /// killed during its work may have sent the first of them already.
    pub fn unsent(&mut self) -> impl Iterator<Item = &[u8]> {
        self.refresh();
        let Self {
            shared, producer, ..
        } = &*self;
        let mut at = producer.freed;
        std::iter::from_fn(move || {
            if at >= producer.tail {
                return None;
            }
            let len = shared.control.length(at).load(Ordering::Relaxed);
            let packet = producer.placed(shared, at, len.into())?;
            at += shared.footprint(packet.len());
            Some(packet)
        })
    }

    /// Bytes that can be sent now. A packet takes its length rounded up to 64 bytes.
    #[must_use]
    pub fn free_bytes(&mut self) -> u64 {
        self.refresh();
        self.producer.free_bytes()
    }

    /// Prepares to sleep until space is available: requests a notification when the daemon next
    /// frees space.
    ///
    /// Returns `true` if the notification will arrive and fewer than `bytes` are free. Returns
    /// `false` if `bytes` are free already: no notification was requested. Publish and ring the
    /// doorbell first, otherwise the daemon frees nothing.
    #[must_use]
    pub fn want_space(&mut self, bytes: u64) -> bool {
        let bytes = bytes.min(self.shared.usable());
        wake::announce(self.shared.control.space_wanted());
        // Looked at after the announcement: either the daemon sees the flag, or we see its head.
        if self.free_bytes() >= bytes {
            wake::retract(self.shared.control.space_wanted());
            return false;
        }
        true
    }

    /// Size of the ring in bytes; 64 less can be used.
    #[must_use]
    pub const fn capacity_bytes(&self) -> u64 {
        self.shared.ring.capacity() as u64
    }

    /// Returns the pipe's counters: those last published by the daemon, and those of this half.
    #[must_use]
    pub fn counters(&self) -> PipeCounters {
        PipeCounters {
            tx_full: self.refused.full,
            ..PipeCounters::seen(self.shared.control.counters())
        }
    }

    /// Returns the daemon's violation, if any. After a violation no more space becomes free.
    #[must_use]
    pub const fn violation(&self) -> Option<Violation> {
        self.violation
    }

    /// Whether [`TxPipe::send`] and [`TxPipe::reserve`] would take a packet of `len` bytes now.
    ///
    /// # Errors
    /// As [`TxPipe::send`], and counted as there.
    #[inline]
    pub fn admit(&mut self, len: usize) -> Result<(), SendRefusal> {
        if len == 0 {
            self.count_too_short();
            return Err(SendRefusal::Empty);
        }
        if len > self.frame_bytes_max {
            self.count_too_long();
            return Err(SendRefusal::TooLong {
                len,
                max: self.frame_bytes_max,
            });
        }
        if !self.producer.fits(len) {
            self.refresh();
            if !self.producer.fits(len) {
                self.count_full();
                return Err(SendRefusal::Full);
            }
        }
        Ok(())
    }

    /// Counts a packet that the caller refused because it is too short to be a frame. The daemon's
    /// telemetry includes the count.
    #[cold]
    pub fn count_too_short(&mut self) {
        self.refused.too_short += 1;
        let [too_short, ..] = self.shared.control.refused();
        too_short.store(self.refused.too_short, Ordering::Relaxed);
    }

    /// Counts a packet that the caller refused because its EtherType belongs to links.
    #[cold]
    pub fn count_link_type(&mut self) {
        self.refused.link_type += 1;
        let [.., link_type] = self.shared.control.refused();
        link_type.store(self.refused.link_type, Ordering::Relaxed);
    }

    #[cold]
    fn count_too_long(&mut self) {
        self.refused.too_long += 1;
        let [_, too_long, ..] = self.shared.control.refused();
        too_long.store(self.refused.too_long, Ordering::Relaxed);
    }

    #[cold]
    fn count_full(&mut self) {
        self.refused.full += 1;
        let [.., full, _] = self.shared.control.refused();
        full.store(self.refused.full, Ordering::Relaxed);
    }

    fn refresh(&mut self) {
        if self.violation.is_none() {
            self.violation = self.producer.refresh(&self.shared).err();
        }
    }
}

/// Space for one packet in a TX pipe. Dropping it without [`TxReservation::commit`] sends nothing.
#[derive(Debug)]
pub struct TxReservation<'a> {
    pipe: &'a mut TxPipe,
    len: usize,
}

impl TxReservation<'_> {
    /// Sends the packet as it was written.
    pub fn commit(self) {
        self.pipe.producer.advance(&self.pipe.shared, self.len);
    }

    /// Sends nothing, as dropping it, and counts as [`TxPipe::count_link_type`].
    #[cold]
    pub fn refuse_link_type(self) {
        self.pipe.count_link_type();
    }
}

impl Deref for TxReservation<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.pipe
            .producer
            .slice_being_filled(&self.pipe.shared, self.len)
    }
}

impl DerefMut for TxReservation<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.pipe
            .producer
            .slice_to_fill(&self.pipe.shared, self.len)
    }
}
