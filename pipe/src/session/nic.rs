//! The daemon's half of a session.

use super::memory::{SessionMemory, Words};
use crate::{
    Violation,
    sync::Ordering,
    words::mailbox::{Poster, Taker},
    words::wake,
};

/// The daemon's half of a session. `Send`; one lane drives it. It trusts nothing that the application can write, never blocks, allocates or
/// makes a system call.
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
    /// Takes the memory that [`SessionMemory::create`] made. Its descriptor is closed: hand it over before, or clone it.
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

    /// Brings the pages back in of which somebody made holes before [`crate::end_writers`], so that nobody waits for one later. Everything is in
    /// when the memory is made.
    #[cfg(not(loom))]
    pub fn populate(&self) {
        self.words.populate();
    }

    /// Tells the application to look at `pipe`, whose latest tail (or head, for space in a TX pipe) is `tail`. If it was told already and has not
    /// looked, nothing more is needed. Ask [`NicSession::app_sleeping`] afterwards.
    ///
    /// # Errors
    /// [`Violation`] if the application broke the ring, or if `pipe` is not below the number of slots.
    #[inline]
    pub fn notify(&mut self, pipe: u32, tail: u64) -> Result<(), Violation> {
        self.honest()?;
        let posted = self
            .notifications
            .post(self.words.notifications(), pipe, tail);
        // While a notification of the pipe waits, the application does not sleep: it found it, or was woken for it.
        self.notified |= self.check(posted)?;
        Ok(())
    }

    /// As [`NicSession::notify`], but with a notification for each call, also for a pipe that was notified of and not looked at. Returns whether there
    /// was room: the ring can fill, and what is refused is forgotten. The application uses [`super::AppSession::next_of_each`].
    ///
    /// The published ablation of reactive notifications, for measurements only.
    ///
    /// # Errors
    /// As [`NicSession::notify`].
    #[inline]
    pub fn notify_each(&mut self, pipe: u32, tail: u64) -> Result<bool, Violation> {
        self.honest()?;
        let posted = self
            .notifications
            .post_each(self.words.notifications(), pipe, tail);
        let had_room = self.check(posted)?;
        self.notified = true;
        Ok(had_room)
    }

    /// Tells the application that something came which lies in no pipe. As [`NicSession::notify`] of the highest number, which no pipe may have then.
    ///
    /// # Errors
    /// As [`NicSession::notify`].
    #[inline]
    pub fn notify_elsewhere(&mut self) -> Result<(), Violation> {
        let highest = self.words.notifications().pending.len() as u32 - 1;
        self.notify(highest, 0)
    }

    /// The next pipe whose doorbell was rung, once for each time (or several rings since the last look). The caller checks that it
    /// has a pipe of that number. At most as many in a row as there are slots are honest: take no more in one round.
    ///
    /// # Errors
    /// [`Violation`] if the application broke the ring.
    #[inline]
    pub fn next_doorbell(&mut self) -> Result<Option<u32>, Violation> {
        self.honest()?;
        let taken = self.doorbells.take(self.words.doorbells());
        Ok(self.check(taken)?.map(|(pipe, _)| pipe))
    }

    /// Whether the application sleeps and must be woken through its event descriptor, because something was notified since the last call. True
    /// once for each time that it went to sleep. Call it once after a round's notifications; it costs nothing if there were none.
    #[inline]
    pub fn app_sleeping(&mut self) -> bool {
        core::mem::take(&mut self.notified) && wake::take(self.words.app_sleeps())
    }

    /// Says whether the lane sleeps. After `true`, look for doorbells once more before sleeping.
    pub fn set_lane_sleeping(&mut self, sleeps: bool) {
        if sleeps {
            wake::announce(self.words.lane_sleeps());
        } else {
            wake::retract(self.words.lane_sleeps());
        }
    }

    /// Whether a doorbell waits, without taking it: the look after [`NicSession::set_lane_sleeping`]. A violation counts as one, so
    /// that the lane stays awake and meets it.
    #[must_use]
    pub fn doorbell_waits(&self) -> bool {
        let doorbells = self.words.doorbells();
        self.violation.is_some()
            || !self
                .doorbells
                .is_empty(doorbells.written.load(Ordering::Acquire))
    }

    /// What the application told last as its notice `slot`. `None`: nothing, it is being written at this moment, or there is no such slot.
    /// The words are whatever the application wrote.
    #[cfg(not(loom))]
    #[must_use]
    pub fn notice(&self, slot: usize) -> Option<[u64; super::NOTICE_WORDS]> {
        (slot < super::NOTICES)
            .then(|| self.words.read_notice(slot))
            .flatten()
    }

    /// What the application did wrong, if anything: the reason to detach it.
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
