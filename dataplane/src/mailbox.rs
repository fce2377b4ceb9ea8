//! A bounded queue between the host thread and a lane or a worker, with a bell.

use std::os::fd::{AsFd, BorrowedFd};

use crossbeam_queue::ArrayQueue;
use nix::{
    errno::Errno,
    sys::eventfd::{EfdFlags, EventFd},
};

/// A bounded first-in-first-out queue whose reader may sleep in `poll(2)` on the bell.
///
/// Each push rings the bell after adding the item, so a reader that checks the queue after its bell
/// never misses an item. Both ends belong to the daemon. Threads share it by reference.
#[derive(Debug)]
pub struct Mailbox<T> {
    items: ArrayQueue<T>,
    bell: EventFd,
}

impl<T> Mailbox<T> {
    /// An empty mailbox for at most `slots` items.
    ///
    /// # Errors
    /// The operating system has no event descriptor to give.
    pub fn new(slots: usize) -> Result<Self, Errno> {
        let bell =
            EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Self {
            items: ArrayQueue::new(slots),
            bell,
        })
    }

    /// Puts `item` in and rings the bell.
    ///
    /// # Errors
    /// Hands the item back if the mailbox is full.
    pub fn push(&self, item: T) -> Result<(), T> {
        self.items.push(item)?;
        // The counter only refuses when it is full, and then the bell is ringing. A call that was
        // interrupted has not rung it.
        while self.bell.write(1) == Err(Errno::EINTR) {}
        Ok(())
    }

    /// The oldest item.
    pub fn pop(&self) -> Option<T> {
        self.items.pop()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Free places.
    #[must_use]
    pub fn space(&self) -> usize {
        self.items.capacity() - self.items.len()
    }

    /// Silences the bell. Look into the queue afterwards.
    pub fn silence(&self) {
        // Nothing to read means that it was silent.
        let _ = self.bell.read();
    }
}

impl<T> AsFd for Mailbox<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
