//! The control memory of a pipe: its cursors, each on its own cache line, and the length of each
//! packet.
//!
//! | byte | word | written by |
//! |---|---|---|
//! | 0 | magic, capacity, direction, page size of the data (4 × u64) | creator, once |
//! | 128 | tail (u64; bit 63: notification outstanding) | producer: daemon (RX, RX/TX), app (TX) |
//! | 256 | head (u64) | consumer: application (RX), daemon (TX, RX/TX) |
//! | 264 | seen (u64), head to tail: no notification before it | application, RX only |
//! | 384 | transmit tail (u64) | application, RX/TX only |
//! | 512 | TX: space wanted, RX/TX: all taken wanted (u32) | application raises, daemon clears |
//! | 640 | packets refused: too short, long, no space, of links (4 × u64) | application, TX only |
//! | 1024 | counters of the pipe ([`PipeCounters`](crate::nic::PipeCounters), u64 each) | daemon |
//! | 4096 | packet length for each quantum (u32 each) | producer; RX/TX: application too |
//!
//! A length word belongs to the packet that starts at its quantum. Bit 31 means: do not send. A
//! pipe of bytes without gaps has no length words.
//!
//! Cursors are 128 bytes apart because processors fetch cache lines in pairs.

use std::os::fd::{BorrowedFd, OwnedFd};

use covalent_ipc::{
    mapping::{Access, Mapping},
    sync::{AtomicU32, AtomicU64, Ordering},
};

use crate::{Direction, PipeError, QUANTUM_BYTES, counters, layout::Layout, memfd};

/// Bit of a length word: the application requests that the packet is not sent.
pub(crate) const DO_NOT_SEND: u32 = 1 << 31;

/// A layout change needs a new version. A new counter at an unused offset does not: an older writer
/// leaves it zero.
const LAYOUT: Layout = Layout::new(WHAT, *b"CVLPIPE", 2);

const TAIL: usize = 128;
const HEAD: usize = 256;
const SEEN: usize = 264;
const TX_TAIL: usize = 384;
const SPACE_WANTED: usize = 512;
const REFUSED: usize = 640;
const COUNTERS: usize = 1024;
const LENGTHS: usize = 4096;

const WHAT: &str = "pipe control memory";

/// The mapped control memory of one pipe.
#[derive(Debug)]
pub(crate) struct Control {
    mapping: Mapping,
}

impl Control {
    const fn bytes(quanta: usize) -> u64 {
        (LENGTHS + quanta * size_of::<u32>()).next_multiple_of(4096) as u64
    }

    /// As [`Mapping::populate`].
    pub(crate) fn populate(&self) {
        self.mapping.populate();
    }

    /// Makes the control memory for a ring of `capacity` bytes.
    pub(crate) fn create(
        capacity: u64,
        direction: Direction,
        page_bytes: u64,
    ) -> Result<(Self, OwnedFd), PipeError> {
        let quanta = quanta(capacity, direction);
        let memfd = memfd::create(WHAT, Self::bytes(quanta), false)?;
        let control = Self::map(std::os::fd::AsFd::as_fd(&memfd), quanta)?;
        memfd::seal(
            WHAT,
            std::os::fd::AsFd::as_fd(&memfd),
            memfd::Writers::UntilMapped,
        )?;
        let header = control.mapping.u64s(0, 4);
        header[0].store(LAYOUT.word(), Ordering::Relaxed);
        header[1].store(capacity, Ordering::Relaxed);
        header[2].store(direction_word(direction), Ordering::Relaxed);
        header[3].store(page_bytes, Ordering::Relaxed);
        Ok((control, memfd))
    }

    /// Maps a received control memory after checking it.
    pub(crate) fn open(
        memfd: BorrowedFd<'_>,
        capacity: u64,
        direction: Direction,
    ) -> Result<Self, PipeError> {
        let quanta = quanta(capacity, direction);
        memfd::check(WHAT, memfd, Self::bytes(quanta))?;
        let control = Self::map(memfd, quanta)?;
        let header = control.mapping.u64s(0, 3);
        LAYOUT.check(header[0].load(Ordering::Relaxed))?;
        if header[1].load(Ordering::Relaxed) != capacity {
            return Err(PipeError::Foreign {
                what: WHAT,
                problem: "it was created for a ring of another size",
            });
        }
        if header[2].load(Ordering::Relaxed) != direction_word(direction) {
            return Err(PipeError::Foreign {
                what: WHAT,
                problem: "it was created for another direction",
            });
        }
        Ok(control)
    }

    fn map(memfd: BorrowedFd<'_>, quanta: usize) -> Result<Self, PipeError> {
        let mapping = Mapping::once(memfd, Self::bytes(quanta) as usize, Access::ReadWrite)
            .map_err(|source| PipeError::System {
                what: WHAT,
                call: "mmap",
                source,
            })?;
        let mapping = if quanta == 0 {
            mapping
        } else {
            mapping.with_table(LENGTHS, quanta)
        };
        Ok(Self { mapping })
    }

    /// Size of the data's pages, as its creator found them.
    pub(crate) fn page_bytes(&self) -> u64 {
        self.mapping.u64s(0, 4)[3].load(Ordering::Relaxed)
    }

    pub(crate) fn tail(&self) -> &AtomicU64 {
        &self.mapping.u64s(TAIL, 1)[0]
    }

    pub(crate) fn head(&self) -> &AtomicU64 {
        &self.mapping.u64s(HEAD, 1)[0]
    }

    /// On the head's line, because the two are written and read together.
    pub(crate) fn seen(&self) -> &AtomicU64 {
        &self.mapping.u64s(SEEN, 1)[0]
    }

    pub(crate) fn tx_tail(&self) -> &AtomicU64 {
        &self.mapping.u64s(TX_TAIL, 1)[0]
    }

    /// In an RX/TX pipe: a notification is wanted once everything is taken.
    pub(crate) fn space_wanted(&self) -> &AtomicU32 {
        &self.mapping.u32s(SPACE_WANTED, 1)[0]
    }

    /// Counts of packets that the application's half refused: too short, too long, no space.
    pub(crate) fn refused(&self) -> [&AtomicU64; 4] {
        let words = self.mapping.u64s(REFUSED, 4);
        [&words[0], &words[1], &words[2], &words[3]]
    }

    /// The daemon's counters, as it shows them.
    #[inline]
    pub(crate) fn counters(&self) -> &[AtomicU64] {
        self.mapping.u64s(COUNTERS, counters::WORDS)
    }

    /// Length word of the packet that starts at `cursor`. There is none where bytes have no gaps.
    #[inline]
    pub(crate) fn length(&self, cursor: u64) -> &AtomicU32 {
        self.mapping.table_word(cursor as usize / QUANTUM_BYTES)
    }
}

/// Number of quanta at which a packet can begin. Each has a length word.
const fn quanta(capacity: u64, direction: Direction) -> usize {
    match direction {
        Direction::RxBytes => 0,
        Direction::Rx | Direction::Tx | Direction::RxTx => capacity as usize / QUANTUM_BYTES,
    }
}

const fn direction_word(direction: Direction) -> u64 {
    match direction {
        Direction::Rx => 1,
        Direction::Tx => 2,
        Direction::RxTx => 3,
        Direction::RxBytes => 4,
    }
}
