//! The words of a session's memory, for the model checker.

use std::sync::Arc;

use covalent_ipc::sync::{AtomicU32, AtomicU64};

use crate::words::mailbox::{Mailbox, SLOT_WORDS};

/// One side's view of a session's memory.
#[derive(Debug)]
pub struct SessionMemory {
    pub(super) words: Words,
}

#[derive(Debug, Clone)]
pub(super) struct Words(Arc<All>);

#[derive(Debug)]
struct All {
    notifications: MailboxWords,
    doorbells: MailboxWords,
    app_sleeps: AtomicU32,
    lane_sleeps: AtomicU32,
}

/// One mailbox's memory.
#[derive(Debug)]
pub struct MailboxWords {
    written: AtomicU64,
    taken: AtomicU64,
    pending: Box<[AtomicU32]>,
    slots: Box<[AtomicU64]>,
}

impl MailboxWords {
    /// The memory of a mailbox with `slots` slots, a power of two.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        Self {
            written: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            pending: (0..slots).map(|_| AtomicU32::new(0)).collect(),
            slots: (0..slots * SLOT_WORDS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The mailbox.
    #[must_use]
    pub fn mailbox(&self) -> Mailbox<'_> {
        Mailbox {
            written: &self.written,
            taken: &self.taken,
            pending: &self.pending,
            slots: &self.slots,
        }
    }
}

impl SessionMemory {
    /// The memory of a session of `slots` pipes, a power of two, as its two sides see it.
    #[must_use]
    pub fn both_sides(slots: usize) -> [Self; 2] {
        let words = Words(Arc::new(All {
            notifications: MailboxWords::new(slots),
            doorbells: MailboxWords::new(slots),
            app_sleeps: AtomicU32::new(0),
            lane_sleeps: AtomicU32::new(0),
        }));
        [(); 2].map(|()| Self {
            words: words.clone(),
        })
    }
}

impl SessionMemory {
    pub(super) fn slots(&self) -> u32 {
        self.words.0.notifications.pending.len() as u32
    }
}

impl Words {
    pub(super) fn notifications(&self) -> Mailbox<'_> {
        self.0.notifications.mailbox()
    }

    pub(super) fn doorbells(&self) -> Mailbox<'_> {
        self.0.doorbells.mailbox()
    }

    pub(super) fn app_sleeps(&self) -> &AtomicU32 {
        &self.0.app_sleeps
    }

    pub(super) fn lane_sleeps(&self) -> &AtomicU32 {
        &self.0.lane_sleeps
    }
}
