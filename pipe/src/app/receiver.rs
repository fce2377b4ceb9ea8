//! Common part of the application's receiving halves.

use covalent_ipc::{mutated, sync::Ordering};

use crate::{
    Violation, consumer::Consumer, nic::PipeCounters, shared::Shared, violation::Cursor,
    words::reactive::OUTSTANDING,
};

/// The reader of a pipe to the application.
///
/// Invariant: `released <= next <= limit`. Data before `next` is confirmed and still held. Data
/// from `next` on is received next.
#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) shared: Shared,
    pub(super) consumer: Consumer,
    /// The status bit, as last seen.
    outstanding: bool,
    pub(super) violation: Option<Violation>,
}

impl Receiver {
    pub(super) fn new(shared: Shared) -> Self {
        Self {
            shared,
            consumer: Consumer::default(),
            outstanding: false,
            violation: None,
        }
    }

    /// Reads the tail to find new data. Returns whether any unconfirmed data is available.
    #[inline]
    pub(super) fn refresh(&mut self) -> bool {
        if self.violation.is_none() {
            let most = self.consumer.released + self.shared.usable();
            match self.consumer.refresh(
                self.shared.control.tail(),
                Cursor::Tail,
                most,
                OUTSTANDING,
                self.shared.alignment,
            ) {
                Ok(flags) => self.outstanding = flags != 0,
                Err(violation) => self.violation = Some(violation),
            }
        }
        self.consumer.limit != self.consumer.next
    }

    /// Frees everything before `end`, including data confirmed earlier. Frees nothing if `end` is
    /// `next`. Received data after `end` counts as unseen again. Returns whether the caller must
    /// ring the doorbell for the next notification.
    #[inline]
    pub(super) fn free_received(&mut self, end: u64) -> bool {
        if end == self.consumer.next {
            return self.outstanding;
        }
        self.free_to(end, end)
    }

    /// Frees everything before `cursor`. Data before `seen` needs no notification. `seen` is at
    /// least `cursor` and the end of the confirmed data. The result is as for
    /// [`Receiver::free_received`].
    #[inline]
    pub(super) fn free_to(&mut self, cursor: u64, seen: u64) -> bool {
        self.consumer.next = self.consumer.next.max(cursor);
        // Publish `seen` before the head: a daemon that reads the head also reads this `seen`, so
        // `seen` is never behind the head.
        mutated!(HeadBeforeSeen: {
            self.show_seen(seen);
            self.consumer.release_to(&self.shared, cursor);
        } => {
            self.consumer.release_to(&self.shared, cursor);
            self.show_seen(seen);
        });
        self.outstanding
    }

    /// Takes everything before `cursor` as received, and keeps it.
    #[inline]
    pub(super) fn confirm_to(&mut self, cursor: u64) {
        self.consumer.next = cursor;
    }

    /// Marks received, unconfirmed data as unseen again. The result is as for
    /// [`Receiver::free_received`].
    #[inline]
    pub(super) fn rest_is_news(&mut self) -> bool {
        self.show_seen(self.consumer.next);
        self.outstanding
    }

    /// Requests a notification for data after everything seen so far, used or not. Returns whether
    /// the caller must ring the doorbell for it.
    pub(super) fn wait_for_more(&mut self) -> bool {
        self.show_seen(self.consumer.limit);
        self.shared.control.tail().load(Ordering::Relaxed) & OUTSTANDING != 0
    }

    #[inline]
    fn show_seen(&self, cursor: u64) {
        self.shared.control.seen().store(cursor, Ordering::Release);
    }

    pub(super) fn counters(&self) -> PipeCounters {
        PipeCounters::seen(self.shared.control.counters())
    }
}
