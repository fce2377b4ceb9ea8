//! The application's half of a session.

use covalent_ipc::{mutated, sync::Ordering};

use super::memory::{SessionMemory, Words};
use crate::{
    Violation,
    words::mailbox::{Poster, Taker},
    words::wake,
};

/// The application's half of a session. `Send`. One thread drives it. No call blocks or makes a
/// system call.
#[derive(Debug)]
pub struct AppSession {
    words: Words,
    notifications: Taker,
    doorbells: Poster,
}

/// The daemon's word to look at a pipe: packets lie in it, or space was freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Notification {
    /// The pipe's number in the session.
    pub pipe: u32,
    /// Its tail when the notification was written, or its head if it reports space in a TX pipe, or
    /// that all packets of an RX/TX pipe are taken.
    /// The pipe may have advanced since.
    pub tail: u64,
}

impl AppSession {
    /// Takes the memory that [`SessionMemory::open`] mapped. Its descriptor is closed.
    #[must_use]
    pub fn new(memory: SessionMemory) -> Self {
        Self {
            words: memory.words,
            notifications: Taker::default(),
            doorbells: Poster::default(),
        }
    }

    /// Returns the next pipe to check. Check it after this call: earlier data is then visible, and
    /// later data triggers another notification.
    ///
    /// # Errors
    /// [`Violation`] if the daemon corrupted the ring.
    #[inline]
    pub fn next_notification(&mut self) -> Result<Option<Notification>, Violation> {
        let taken = self.notifications.take(self.words.notifications())?;
        Ok(taken.map(|(pipe, tail)| Notification { pipe, tail }))
    }

    /// As [`AppSession::next_notification`], for notifications written by
    /// [`super::NicSession::notify_each`].
    ///
    /// # Errors
    /// As [`AppSession::next_notification`].
    #[inline]
    pub fn next_of_each(&mut self) -> Result<Option<Notification>, Violation> {
        let taken = self.notifications.take_each(self.words.notifications())?;
        Ok(taken.map(|(pipe, tail)| Notification { pipe, tail }))
    }

    /// Requests the lane to check `pipe`. Returns `true` if the lane sleeps: the caller must write
    /// to its event descriptor.
    ///
    /// # Errors
    /// [`Violation`] if the daemon corrupted the ring, or if `pipe` is not below the number of
    /// slots.
    #[inline]
    pub fn ring(&mut self, pipe: u32) -> Result<bool, Violation> {
        let mut post = || self.doorbells.post(self.words.doorbells(), pipe, 0);
        let take = || wake::take(self.words.lane_sleeps());
        mutated!(WakeBeforePost: {
            // The lane does not sleep while a doorbell of the pipe is pending: it found it before,
            // or the ringing side woke it.
            Ok(post()? && take())
        } => {
            let sleeps = take();
            post()?;
            Ok(sleeps)
        })
    }

    /// Announces that the application is about to sleep on its event descriptor, and checks the
    /// notifications once more.
    ///
    /// Returns `false` if there is one: do not sleep. On `true`, check once more everything else
    /// that could end the wait, then sleep. The next notification writes the descriptor.
    #[must_use]
    pub fn prepare_sleep(&mut self) -> bool {
        wake::announce(self.words.app_sleeps());
        let notifications = self.words.notifications();
        let may_sleep = self
            .notifications
            .is_empty(notifications.written.load(Ordering::Acquire));
        if !may_sleep {
            self.cancel_sleep();
        }
        may_sleep
    }

    /// Publishes `notice` in slot `slot`, below [`super::NOTICES`], in place of the previous one.
    /// All zeros mean no notice. Other slots are ignored.
    #[cfg(not(loom))]
    pub fn set_notice(&mut self, slot: usize, notice: &[u64; super::NOTICE_WORDS]) {
        if slot < super::NOTICES {
            self.words.publish_notice(slot, notice);
        }
    }

    /// Announces that the application is awake.
    pub fn cancel_sleep(&mut self) {
        wake::retract(self.words.app_sleeps());
    }
}
