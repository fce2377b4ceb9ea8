//! A bounded single-producer, single-consumer ring of pipe numbers that cannot overflow.
//!
//! Each pipe has a *pending* word. Posting a pipe whose word is set does nothing: the slot already
//! in the ring makes the reader check the pipe, which then shows all writes made before the post.
//! The ring therefore never holds a pipe twice, and a ring with a slot for every pipe never fills.
//! A peer that breaks this is detected ([`Violation::MailboxFull`]).
//!
//! Notifications (daemon to application) and doorbells (application to daemon) both use such a
//! ring.

use covalent_ipc::{
    mutated,
    sync::{AtomicU32, AtomicU64, Ordering, fence},
};

use crate::{
    cursor::accept_count,
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
    /// Requests the reader to check `pipe`. Returns whether it wrote a slot: `false` means that one
    /// was there already.
    ///
    /// # Errors
    /// [`Violation`] if the reader's count is impossible, the ring is full, or `pipe` is not below
    /// the number of slots.
    pub fn post(&mut self, mailbox: Mailbox<'_>, pipe: u32, value: u64) -> Result<bool, Violation> {
        let limit = mailbox.pending.len() as u64;
        let pending = mailbox
            .pending
            .get(pipe as usize)
            .ok_or(Violation::PipeNumber {
                found: u64::from(pipe),
                limit,
            })?;
        // Acquire: a cleared word also shows the reader's count. Only the poster sets the word, so
        // a store suffices. An exchange would wait for all earlier stores, for each pipe.
        if pending.load(Ordering::Acquire) == 0 {
            pending.store(1, Ordering::Relaxed);
        } else {
            // The reader may be clearing it now. Either this load finds it clear, or the reader's
            // later check finds all earlier writes (Dekker; fence in `Taker::claim`).
            mutated!(PostWithoutFence: fence(Ordering::SeqCst) => ());
            if pending.load(Ordering::Acquire) != 0 {
                return Ok(false);
            }
            pending.store(1, Ordering::Relaxed);
        }
        if !self.has_space(mailbox)? {
            return Err(Violation::MailboxFull {
                taken: self.taken_seen,
                written: self.written,
            });
        }
        self.write(mailbox, pipe, value);
        Ok(true)
    }

    /// As [`Poster::post`], but writes a slot on each call, so the ring can fill. Returns whether
    /// there was space. The reader uses [`Taker::take_each`].
    ///
    /// This models one notification per packet, which reactive notifications avoid. For
    /// measurements only.
    ///
    /// # Errors
    /// [`Violation`] if the reader's count is impossible.
    pub fn post_each(
        &mut self,
        mailbox: Mailbox<'_>,
        pipe: u32,
        value: u64,
    ) -> Result<bool, Violation> {
        let has_space = self.has_space(mailbox)?;
        if has_space {
            self.write(mailbox, pipe, value);
        }
        Ok(has_space)
    }

    fn has_space(&mut self, mailbox: Mailbox<'_>) -> Result<bool, Violation> {
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

/// Slots that the reader claims at a time at most: enough for one fence to be shared by many.
const CLAIMED_MAX: usize = 32;

/// The reading end's private state.
#[derive(Debug, Default)]
pub struct Taker {
    taken: u64,
    written_seen: u64,
    /// Claimed slots: pipe and value each. Those from `next` on are still to be returned.
    claimed: [(u32, u64); CLAIMED_MAX],
    next: usize,
    end: usize,
}

impl Taker {
    /// Takes the oldest slot: the pipe to look at, and the value posted with it.
    ///
    /// # Errors
    /// [`Violation`] if the writer's count or the slot's pipe is impossible.
    #[inline]
    pub fn take(&mut self, mailbox: Mailbox<'_>) -> Result<Option<(u32, u64)>, Violation> {
        if self.next == self.end {
            self.claim(mailbox)?;
            if self.next == self.end {
                return Ok(None);
            }
        }
        let claimed = self.claimed[self.next];
        self.next += 1;
        Ok(Some(claimed))
    }

    /// Claims the oldest slots, up to the number that share one fence. Their pipes are checked
    /// later. A post for them until then makes another slot and one redundant check.
    fn claim(&mut self, mailbox: Mailbox<'_>) -> Result<(), Violation> {
        (self.next, self.end) = (0, 0);
        let mut end = 0;
        while end < CLAIMED_MAX
            && let Some(found) = self.read(mailbox)?
        {
            self.claimed[end] = found;
            end += 1;
        }
        if end == 0 {
            return Ok(());
        }
        self.end = end;
        let publish_space = || mailbox.taken.store(self.taken, Ordering::Release);
        let clear_pending = || {
            for (pipe, _) in &self.claimed[..self.end] {
                mailbox.pending[*pipe as usize].store(0, Ordering::Release);
            }
        };
        // Free the slots before clearing the words: a poster that finds a word clear must find a
        // free slot.
        mutated!(ClearBeforeFree: {
            publish_space();
            clear_pending();
        } => {
            clear_pending();
            publish_space();
        });
        // Fence before the pipes are checked: a post after it writes a new slot, and writes of an
        // earlier post are visible.
        mutated!(ClaimWithoutFence: fence(Ordering::SeqCst) => ());
        Ok(())
    }

    /// As [`Taker::take`], for slots written by [`Poster::post_each`].
    ///
    /// # Errors
    /// As [`Taker::take`].
    pub fn take_each(&mut self, mailbox: Mailbox<'_>) -> Result<Option<(u32, u64)>, Violation> {
        let found = self.read(mailbox)?;
        if found.is_some() {
            mailbox.taken.store(self.taken, Ordering::Release);
        }
        Ok(found)
    }

    /// Reads the oldest slot, without giving it back.
    #[inline]
    fn read(&mut self, mailbox: Mailbox<'_>) -> Result<Option<(u32, u64)>, Violation> {
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
        if found >= limit {
            return Err(Violation::PipeNumber { found, limit });
        }
        Ok(Some((found as u32, value)))
    }

    /// Whether no slot waits, going by `written`, one read of the writer's count.
    #[must_use]
    pub fn is_empty(&self, written: u64) -> bool {
        self.taken == written && self.next == self.end
    }
}
