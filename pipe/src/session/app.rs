//! The application's half of a session.

use super::memory::{SessionMemory, Words};
use crate::{
    Violation,
    sync::Ordering,
    words::mailbox::{Poster, Taker},
    words::wake,
};

/// The application's half of a session. `Send`; one thread drives it. No call blocks or makes a system call.
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
    /// Its tail (or head, for space in a TX pipe) when the notification was written; the pipe may have moved on.
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

    /// The next pipe to look at. Look at it after this call: what arrived before is seen, what arrives later is notified again.
    ///
    /// # Errors
    /// [`Violation`] if the daemon broke the ring.
    #[inline]
    pub fn next_notification(&mut self) -> Result<Option<Notification>, Violation> {
        let taken = self.notifications.take(self.words.notifications())?;
        Ok(taken.map(|(pipe, tail)| Notification { pipe, tail }))
    }

    /// As [`AppSession::next_notification`], of what [`super::NicSession::notify_each`] wrote.
    ///
    /// # Errors
    /// As [`AppSession::next_notification`].
    #[inline]
    pub fn next_of_each(&mut self) -> Result<Option<Notification>, Violation> {
        let taken = self.notifications.take_each(self.words.notifications())?;
        Ok(taken.map(|(pipe, tail)| Notification { pipe, tail }))
    }

    /// Asks the lane to look at `pipe`. `true`: the lane sleeps; write to its event descriptor.
    ///
    /// # Errors
    /// [`Violation`] if the daemon broke the ring, or if `pipe` is not below the number of slots.
    #[inline]
    pub fn ring(&mut self, pipe: u32) -> Result<bool, Violation> {
        let mut post = || self.doorbells.post(self.words.doorbells(), pipe, 0);
        let take = || wake::take(self.words.lane_sleeps());
        mutated!(WakeBeforePost: {
            // While a doorbell of the pipe waits, the lane does not sleep: either it found that doorbell before, or whoever rang it woke it.
            Ok(post()? && take())
        } => {
            let sleeps = take();
            post()?;
            Ok(sleeps)
        })
    }

    /// Says that the application is about to sleep on its event descriptor, and looks at the notifications once more. `false`: there is one, so
    /// do not sleep. `true`: look once more at whatever else could end the wait, then sleep; the next notification writes the descriptor.
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

    /// Tells `notice` in place of what was told as number `slot`, below [`super::NOTICES`], before; zeros are nothing. Others are told nothing.
    #[cfg(not(loom))]
    pub fn tell(&mut self, slot: usize, notice: &[u64; super::NOTICE_WORDS]) {
        if slot < super::NOTICES {
            self.words.publish_notice(slot, notice);
        }
    }

    /// Says that the application is awake.
    pub fn cancel_sleep(&mut self) {
        wake::retract(self.words.app_sleeps());
    }
}
