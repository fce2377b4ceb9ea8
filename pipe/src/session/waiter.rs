//! State that an application keeps between two checks of its session.

use super::{app::AppSession, memory::SessionMemory, pipe_set::PipeSet};
use crate::Violation;

/// The application's half of a session, with the pipes that have unread notifications and the pipes
/// for which a doorbell is owed.
///
/// A doorbell for each freed batch would cost more than the batch. Freed data needs no doorbell
/// while the pipe holds more data. Doorbells are therefore *owed*, and paid before a sleep, which
/// might never end without them.
#[derive(Debug)]
pub struct AppWaiter {
    session: AppSession,
    ready: PipeSet,
    owed_doorbells: PipeSet,
}

impl AppWaiter {
    /// As [`AppSession::new`].
    #[must_use]
    pub fn new(memory: SessionMemory) -> Self {
        let slots = memory.slots();
        Self {
            session: AppSession::new(memory),
            ready: PipeSet::new(slots),
            owed_doorbells: PipeSet::new(slots),
        }
    }

    /// The pipe with the oldest news. Look at it after this call.
    ///
    /// # Errors
    /// As [`AppSession::next_notification`].
    pub fn next_ready(&mut self) -> Result<Option<u32>, Violation> {
        self.take_notifications()?;
        Ok(self.ready.pop())
    }

    /// Names a pipe as if it had news.
    pub fn make_ready(&mut self, pipe: u32) {
        self.ready.insert(pipe);
    }

    /// As [`AppSession::ring`]. Nothing more is owed to the pipe then.
    ///
    /// # Errors
    /// As [`AppSession::ring`].
    pub fn ring(&mut self, pipe: u32) -> Result<bool, Violation> {
        self.owed_doorbells.remove(pipe);
        self.session.ring(pipe)
    }

    /// Records that freed data was not reported to the lane. It matters only before a sleep.
    pub fn owe_doorbell(&mut self, pipe: u32) {
        self.owed_doorbells.insert(pipe);
    }

    /// Rings the doorbell that has been owed for longest, with the result of [`AppWaiter::ring`].
    /// Returns `None` if none is owed.
    ///
    /// # Errors
    /// As [`AppSession::ring`].
    pub fn pay_doorbell(&mut self) -> Result<Option<bool>, Violation> {
        match self.owed_doorbells.pop() {
            Some(pipe) => self.ring(pipe).map(Some),
            None => Ok(None),
        }
    }

    /// As [`AppSession::prepare_sleep`], after taking every pending notification, so that old ones
    /// do not prevent the sleep.
    ///
    /// # Errors
    /// As [`AppSession::next_notification`].
    pub fn prepare_sleep(&mut self) -> Result<bool, Violation> {
        self.take_notifications()?;
        Ok(self.session.prepare_sleep())
    }

    /// As [`AppSession::cancel_sleep`].
    pub fn cancel_sleep(&mut self) {
        self.session.cancel_sleep();
    }

    /// As [`AppSession::set_notice`].
    #[cfg(not(loom))]
    pub fn set_notice(&mut self, slot: usize, notice: &[u64; super::NOTICE_WORDS]) {
        self.session.set_notice(slot, notice);
    }

    /// Forgets a pipe that is closed.
    pub fn forget(&mut self, pipe: u32) {
        self.ready.remove(pipe);
        self.owed_doorbells.remove(pipe);
    }

    fn take_notifications(&mut self) -> Result<(), Violation> {
        while let Some(notification) = self.session.next_notification()? {
            self.ready.insert(notification.pipe);
        }
        Ok(())
    }
}
