//! Layout of the session memory.
//!
//! | byte | word | written by |
//! |---|---|---|
//! | 0 | magic, slots (2 × u64) | daemon, once |
//! | 128 | notifications written (u64) | daemon |
//! | 256 | notifications taken (u64) | application |
//! | 384 | doorbells written (u64) | application |
//! | 512 | doorbells taken (u64) | daemon |
//! | 640 | application sleeps (u32) | application raises, both clear |
//! | 768 | lane sleeps (u32) | daemon raises, both clear |
//! | 896 | [`NOTICES`] × sequence and words of a notice but the last (u64 each) | application |
//! | 3696 | last word of each notice (u64); 0 from an application without it | application |
//! | 4096 | notification slots, doorbell slots (2 × u64 each) | their writers |
//! | after | notification pending, doorbell pending (u32 each) | writer raises, reader clears |

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use covalent_ipc::{
    mapping::{Access, Mapping},
    published::Published,
    sync::{AtomicU32, AtomicU64, Ordering},
};

use crate::{
    PipeError,
    layout::Layout,
    memfd,
    words::mailbox::{Mailbox, SLOT_WORDS},
};

const WHAT: &str = "session memory";
const LAYOUT: Layout = Layout::new(WHAT, *b"CVLSESS", 2);

/// Number of notices of a session. In a notice an application reports on itself to observers of the
/// node.
pub const NOTICES: usize = 7;
/// Words of a notice.
pub const NOTICE_WORDS: usize = 50;
const NOTICES_AT: usize = 896;
/// A sequence and all words but the last, which layout 2 got later and in a place that was unused.
const NOTICE_PLACES: usize = NOTICE_WORDS;
const NOTICE_BYTES: usize = NOTICE_PLACES * size_of::<u64>();
const LAST_WORDS_AT: usize = NOTICES_AT + NOTICES * NOTICE_BYTES;

const SLOTS: usize = 4096;
const SLOT_BYTES: usize = SLOT_WORDS * size_of::<u64>();
const PENDING_BYTES: usize = size_of::<u32>();
const _: () = assert!(
    LAST_WORDS_AT + NOTICES * size_of::<u64>() <= SLOTS,
    "the notices lie before the mailboxes' slots"
);

/// The shared memory of one session, with the descriptor to hand over.
#[derive(Debug)]
pub struct SessionMemory {
    pub(super) words: Words,
    memfd: OwnedFd,
}

/// The mapping, without the descriptor.
#[derive(Debug)]
pub(super) struct Words {
    mapping: Mapping,
    slots: usize,
}

impl SessionMemory {
    /// Makes the memory of a session whose pipes have numbers below `slots`: a power of two, 2 to
    /// 65536.
    ///
    /// # Errors
    /// [`PipeError::Size`] for other numbers. [`PipeError::System`] if memory or descriptors are
    /// exhausted.
    pub fn create(slots: u32) -> Result<Self, PipeError> {
        check_slots(slots)?;
        let memfd = memfd::create(WHAT, bytes(slots), false)?;
        let words = Words::map(memfd.as_fd(), slots)?;
        memfd::seal(WHAT, memfd.as_fd(), memfd::Writers::UntilMapped)?;
        let header = words.mapping.u64s(0, 2);
        header[0].store(LAYOUT.word(), Ordering::Relaxed);
        header[1].store(u64::from(slots), Ordering::Relaxed);
        Ok(Self { words, memfd })
    }

    /// Maps a session memory that was received with its number of slots.
    ///
    /// # Errors
    /// [`PipeError`] if the descriptor is not the sealed memory of a session with this number of
    /// slots, or cannot be mapped.
    pub fn open(memfd: OwnedFd, slots: u32) -> Result<Self, PipeError> {
        check_slots(slots)?;
        memfd::check(WHAT, memfd.as_fd(), bytes(slots))?;
        let words = Words::map(memfd.as_fd(), slots)?;
        let header = words.mapping.u64s(0, 2);
        LAYOUT.check(header[0].load(Ordering::Relaxed))?;
        if header[1].load(Ordering::Relaxed) != u64::from(slots) {
            return Err(PipeError::Foreign {
                what: WHAT,
                problem: "it was created for another number of slots",
            });
        }
        Ok(Self { words, memfd })
    }

    /// Returns the descriptor for the other side. It is closed when a half takes the memory. The
    /// mapping stays.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memfd.as_fd()
    }

    /// Number of slots: pipes have numbers below it.
    #[must_use]
    pub const fn slots(&self) -> u32 {
        self.words.slots as u32
    }
}

impl Words {
    fn map(memfd: BorrowedFd<'_>, slots: u32) -> Result<Self, PipeError> {
        let mapping =
            Mapping::once(memfd, bytes(slots) as usize, Access::ReadWrite).map_err(|source| {
                PipeError::System {
                    what: WHAT,
                    call: "mmap",
                    source,
                }
            })?;
        Ok(Self {
            mapping,
            slots: slots as usize,
        })
    }

    pub(super) fn populate(&self) {
        self.mapping.populate();
    }

    pub(super) fn notifications(&self) -> Mailbox<'_> {
        self.mailbox(0, 128, 256)
    }

    pub(super) fn doorbells(&self) -> Mailbox<'_> {
        self.mailbox(1, 384, 512)
    }

    pub(super) fn app_sleeps(&self) -> &AtomicU32 {
        &self.mapping.u32s(640, 1)[0]
    }

    pub(super) fn lane_sleeps(&self) -> &AtomicU32 {
        &self.mapping.u32s(768, 1)[0]
    }

    /// Writes the notice `slot`, below [`NOTICES`].
    pub(super) fn publish_notice(&self, slot: usize, notice: &[u64; NOTICE_WORDS]) {
        // A reader that sees the notice sees its last word, or that of a later notice.
        self.last_word(slot)
            .store(notice[NOTICE_WORDS - 1], Ordering::Relaxed);
        self.notice(slot).publish(notice);
    }

    /// Reads the notice `slot`, below [`NOTICES`]. `None`: nothing, or it is being written.
    pub(super) fn read_notice(&self, slot: usize) -> Option<[u64; NOTICE_WORDS]> {
        let mut words = [0; NOTICE_WORDS];
        let is_whole = self.notice(slot).read(&mut words);
        words[NOTICE_WORDS - 1] = self.last_word(slot).load(Ordering::Relaxed);
        is_whole.then_some(words)
    }

    fn notice(&self, slot: usize) -> Published<'_> {
        let at = NOTICES_AT + slot * NOTICE_BYTES;
        Published::new(self.mapping.u64s(at, NOTICE_PLACES))
    }

    fn last_word(&self, slot: usize) -> &AtomicU64 {
        &self
            .mapping
            .u64s(LAST_WORDS_AT + slot * size_of::<u64>(), 1)[0]
    }

    fn mailbox(&self, index: usize, written: usize, taken: usize) -> Mailbox<'_> {
        let slots = SLOTS + index * self.slots * SLOT_BYTES;
        let pending = SLOTS + 2 * self.slots * SLOT_BYTES + index * self.slots * PENDING_BYTES;
        Mailbox {
            written: &self.mapping.u64s(written, 1)[0],
            taken: &self.mapping.u64s(taken, 1)[0],
            pending: self.mapping.u32s(pending, self.slots),
            slots: self.mapping.u64s(slots, self.slots * SLOT_WORDS),
        }
    }
}

const fn bytes(slots: u32) -> u64 {
    (SLOTS + 2 * slots as usize * (SLOT_BYTES + PENDING_BYTES)).next_multiple_of(4096) as u64
}

fn check_slots(slots: u32) -> Result<(), PipeError> {
    if slots.is_power_of_two() && (2..=65536).contains(&slots) {
        return Ok(());
    }
    Err(PipeError::Size {
        what: "slots of a session",
        found: u64::from(slots),
        expected: "a power of two, 2 to 65536",
    })
}
