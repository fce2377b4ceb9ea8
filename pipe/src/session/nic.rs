//! The daemon's half of a session.

use covalent_ipc::sync::Ordering;

use super::memory::{SessionMemory, Words};
use crate::{
    Violation,
    words::mailbox::{Poster, Taker},
    words::wake,
};

/// The daemon's half of a session. `Send`. One lane drives it. It trusts nothing that the
/// application can write. It never blocks, allocates or makes a system call.
#[derive(Debug)]
pub struct NicSession {
    words: Words,
    notifications: Poster,
    doorbells: Taker,
    /// Something was notified since the application's flag was last looked at.
    notified: bool,
    violation: Option<Violation>,
}

impl NicSession {
    /// Takes the memory that [`SessionMemory::create`] made. Its descriptor is closed: send or
    /// clone it before.
    #[must_use]
    pub fn new(memory: SessionMemory) -> Self {
        Self {
            words: memory.words,
            notifications: Poster::default(),
            doorbells: Taker::default(),
            notified: false,
            violation: None,
        }
    }

    /// Faults in the pages in which a process punched holes before
    /// [`end_writers`](crate::end_writers), so that no later access waits. All pages are present
    /// when the memory is made.
    #[cfg(not(loom))]
    pub fn populate(&self) {
        self.words.populate();
    }

    /// Notifies the application to check `pipe`, whose latest tail is `tail` (or its head, for
    /// space in a TX pipe). Does nothing if an earlier notification is still pending. Call
    /// [`NicSession::app_sleeping`] afterwards.
    ///
    /// # Errors
    /// [`Violation`] if the application corrupted the ring, or if `pipe` is not below the number of
    /// slots.
    #[inline]
    pub fn notify(&mut self, pipe: u32, tail: u64) -> Result<(), Violation> {
        self.honest()?;
        let posted = self
            .notifications
            .post(self.words.notifications(), pipe, tail);
        // The application does not sleep while a notification of the pipe is pending: it found it,
        // or was woken for it.
        self.notified |= self.check(posted)?;
        Ok(())
    }

    /// As [`NicSession::notify`], but writes a notification on each call, even if one for the pipe
    /// is pending. Returns whether there was space: the ring can fill, and a refused notification
    /// is lost. The application uses [`super::AppSession::next_of_each`].
    ///
    /// This is the published ablation of reactive notifications, for measurements only.
    ///
    /// # Errors
    /// As [`NicSession::notify`].
    #[inline]
    pub fn notify_each(&mut self, pipe: u32, tail: u64) -> Result<bool, Violation> {
        self.honest()?;
        let posted = self
            .notifications
            .post_each(self.words.notifications(), pipe, tail);
        let had_space = self.check(posted)?;
        self.notified = true;
        Ok(had_space)
    }

    /// Notifies the application of an event that belongs to no pipe. As [`NicSession::notify`] of
    /// the highest pipe number, which no pipe may use then.
    ///
    /// # Errors
    /// As [`NicSession::notify`].
    #[inline]
    pub fn notify_elsewhere(&mut self) -> Result<(), Violation> {
        let highest = self.words.notifications().pending.len() as u32 - 1;
        self.notify(highest, 0)
    }

    /// Returns the next pipe whose doorbell was rung. Several rings since the last check count as
    /// one. The caller checks that it has a pipe with that number.
    ///
    /// An honest application causes at most as many in a row as there are slots: take no more in
    /// one round.
    ///
    /// # Errors
    /// [`Violation`] if the application corrupted the ring.
    #[inline]
    pub fn next_doorbell(&mut self) -> Result<Option<u32>, Violation> {
        self.honest()?;
        let taken = self.doorbells.take(self.words.doorbells());
        Ok(self.check(taken)?.map(|(pipe, _)| pipe))
    }

    /// Returns whether the application sleeps and must be woken through its event descriptor,
    /// because of a notification since the last call. Returns `true` once for each time that it
    /// went to sleep. Call it once after a round's notifications. It costs nothing if there were
    /// none.
    #[inline]
    pub fn app_sleeping(&mut self) -> bool {
        core::mem::take(&mut self.notified) && wake::take(self.words.app_sleeps())
    }

    /// Announces whether the lane sleeps. After `true`, check for doorbells once more before
    /// sleeping.
    pub fn set_lane_sleeping(&mut self, sleeps: bool) {
        if sleeps {
            wake::announce(self.words.lane_sleeps());
        } else {
            wake::retract(self.words.lane_sleeps());
        }
    }

    /// Returns whether a doorbell is pending, without taking it: the check after
    /// [`NicSession::set_lane_sleeping`]. A violation counts as a doorbell, so the lane stays awake
    /// and handles it.
    #[must_use]
    pub fn doorbell_waits(&self) -> bool {
        let doorbells = self.words.doorbells();
        self.violation.is_some()
            || !self
                .doorbells
                .is_empty(doorbells.written.load(Ordering::Acquire))
    }

    /// Returns the last notice that the application published in `slot`. Returns `None` if there is
    /// none, if it is being written now, or if there is no such slot. The words are untrusted: the
    /// application may write any value.
    #[cfg(not(loom))]
    #[must_use]
    pub fn notice(&self, slot: usize) -> Option<[u64; super::NOTICE_WORDS]> {
        (slot < super::NOTICES)
            .then(|| self.words.read_notice(slot))
            .flatten()
    }

    /// Returns the application's violation, if any: the reason to detach it.
    #[must_use]
    pub const fn violation(&self) -> Option<Violation> {
        self.violation
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
