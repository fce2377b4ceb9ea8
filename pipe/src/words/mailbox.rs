//! A bounded single-producer, single-consumer ring of pipe numbers that cannot overflow.
//!
//! Each pipe has a *pending* word. Posting a pipe whose word is set does nothing: the slot that is already in the ring makes the reader
//! look at the pipe, and it will see everything that was written before the post. So the ring never holds a pipe twice, and a ring
//! with a slot for every pipe never fills. A peer that breaks this is found out ([`Violation::MailboxFull`]).
//!
//! Both notifications (daemon to application) and doorbells (application to daemon) travel this way.

use crate::{
    cursor::accept_count,
    sync::{AtomicU32, AtomicU64, Ordering},
    violation::{Cursor, Violation},
};

/// Words of a slot: the pipe's number and one value.
pub const SLOT_WORDS: usize = 2;

/// The shared words of one mailbox.
#[derive(Clone, Copy)]
pub struct Mailbox<'a> {
    /// Slots written so far; written by the poster.
    pub written: &'a AtomicU64,
    /// Slots taken so far; written by the taker.
    pub taken: &'a AtomicU64,
    /// One word for each pipe: 1 while its number lies in the ring.
    pub pending: &'a [AtomicU32],
    /// `pending.len()` slots of [`SLOT_WORDS`] words each. The count is a power of two.
    pub slots: &'a [AtomicU64],
}

impl Mailbox<'_> {
    fn slot(&self, count: u64) -> &[AtomicU64] {
        let index = (count as usize & (self.pending.len() - 1)) * SLOT_WORDS;
        &self.slots[index..index + SLOT_WORDS]
    }
}

/// The writing end's private state.
#[derive(Debug, Default)]
pub struct Poster {
    written: u64,
    taken_seen: u64,
}

impl Poster {
    /// Asks the reader to look at `pipe`. Returns whether a slot was written; `false` means that one was there already.
    ///
    /// # Errors
    /// [`Violation`] if the reader's count is impossible, the ring is full, or `pipe` is not below the number of slots.
    pub fn post(&mut self, mailbox: Mailbox<'_>, pipe: u32, value: u64) -> Result<bool, Violation> {
        let limit = mailbox.pending.len() as u64;
        let pending = mailbox
            .pending
            .get(pipe as usize)
            .ok_or(Violation::PipeNumber {
                found: u64::from(pipe),
                limit,
            })?;
        // Release: the reader that clears this word sees what was written before. Acquire: after its clearing, its count too.
        if pending.swap(1, Ordering::AcqRel) != 0 {
            return Ok(false);
        }
        if !self.has_room(mailbox)? {
            return Err(Violation::MailboxFull {
                taken: self.taken_seen,
                written: self.written,
            });
        }
        self.write(mailbox, pipe, value);
        Ok(true)
    }

    /// As [`Poster::post`], but writes a slot for each call, so that the ring can fill. Returns whether there was room. The reader uses
    /// [`Taker::take_each`].
    ///
    /// This is how notifications for each packet behave, which reactive ones do away with: for measurements only.
    ///
    /// # Errors
    /// [`Violation`] if the reader's count is impossible.
    pub fn post_each(
        &mut self,
        mailbox: Mailbox<'_>,
        pipe: u32,
        value: u64,
    ) -> Result<bool, Violation> {
        let has_room = self.has_room(mailbox)?;
        if has_room {
            self.write(mailbox, pipe, value);
        }
        Ok(has_room)
    }

    fn has_room(&mut self, mailbox: Mailbox<'_>) -> Result<bool, Violation> {
        let limit = mailbox.pending.len() as u64;
        if self.written - self.taken_seen >= limit {
            let found = mailbox.taken.load(Ordering::Acquire);
            self.taken_seen =
                accept_count(Cursor::MailboxTaken, found, self.taken_seen, self.written)?;
        }
        Ok(self.written - self.taken_seen < limit)
    }

    fn write(&mut self, mailbox: Mailbox<'_>, pipe: u32, value: u64) {
        let slot = mailbox.slot(self.written);
        slot[0].store(u64::from(pipe), Ordering::Relaxed);
        slot[1].store(value, Ordering::Relaxed);
        self.written += 1;
        mailbox.written.store(self.written, Ordering::Release);
    }
}

/// The reading end's private state.
#[derive(Debug, Default)]
pub struct Taker {
    taken: u64,
    written_seen: u64,
}

impl Taker {
    /// Takes the oldest slot: the pipe to look at, and the value posted with it.
    ///
    /// # Errors
    /// [`Violation`] if the writer's count or the slot's pipe is impossible.
    pub fn take(&mut self, mailbox: Mailbox<'_>) -> Result<Option<(u32, u64)>, Violation> {
        let taken = self.take_each(mailbox)?;
        if let Some((pipe, _)) = taken {
            // Before the pipe is looked at: a post from here on writes a new slot. One that came earlier is seen through this swap.
            mailbox.pending[pipe as usize].swap(0, Ordering::AcqRel);
        }
        Ok(taken)
    }

    /// As [`Taker::take`], of what [`Poster::post_each`] wrote.
    ///
    /// # Errors
    /// As [`Taker::take`].
    pub fn take_each(&mut self, mailbox: Mailbox<'_>) -> Result<Option<(u32, u64)>, Violation> {
        let limit = mailbox.pending.len() as u64;
        if self.taken == self.written_seen {
            let found = mailbox.written.load(Ordering::Acquire);
            self.written_seen = accept_count(
                Cursor::MailboxWritten,
                found,
                self.written_seen,
                self.taken + limit,
            )?;
            if self.taken == self.written_seen {
                return Ok(None);
            }
        }
        let slot = mailbox.slot(self.taken);
        let found = slot[0].load(Ordering::Relaxed);
        let value = slot[1].load(Ordering::Relaxed);
        self.taken += 1;
        // Before the pending word: a poster that sees the word clear must find room.
        mailbox.taken.store(self.taken, Ordering::Release);
        if found >= limit {
            return Err(Violation::PipeNumber { found, limit });
        }
        Ok(Some((found as u32, value)))
    }

    /// Whether no slot waits, going by `written`, one read of the writer's count.
    #[must_use]
    pub fn is_empty(&self, written: u64) -> bool {
        self.taken == written
    }
}
