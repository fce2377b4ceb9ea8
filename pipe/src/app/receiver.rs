//! What the application's receiving halves have in common.

use crate::{
    Violation, consumer::Consumer, nic::NicCounters, shared::Shared, sync::Ordering,
    violation::Cursor, words::reactive::OUTSTANDING,
};

/// The reader of a pipe to the application.
///
/// `released <= next <= limit`: before `next` lies what was confirmed and is still held, behind it what is received next.
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

    /// Looks for what has arrived. Returns whether anything waits that was not confirmed.
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

    /// Frees what was received before `end`, and what was confirmed earlier with it; nothing at all if that is no byte of what was received. What was
    /// received behind it is news again. Returns whether the doorbell is to be rung for the next notification.
    #[inline]
    pub(super) fn free_received(&mut self, end: u64) -> bool {
        if end == self.consumer.next {
            return self.outstanding;
        }
        self.free_to(end, end)
    }

    /// Frees everything before `cursor`; of what lies before `seen` no notification is wanted. `seen` is at least the cursor and what was confirmed. The
    /// result is as for [`Receiver::free_received`].
    #[inline]
    pub(super) fn free_to(&mut self, cursor: u64, seen: u64) -> bool {
        self.consumer.next = self.consumer.next.max(cursor);
        // What was seen before the head: whoever sees that sees this too, so it is never found behind it.
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

    /// What was received and not confirmed is news again. The result is as for [`Receiver::free_received`].
    #[inline]
    pub(super) fn rest_is_news(&mut self) -> bool {
        self.show_seen(self.consumer.next);
        self.outstanding
    }

    /// Asks to be notified of what comes behind everything that was looked at so far, used or not. Returns whether the doorbell is to be rung for
    /// that.
    pub(super) fn wait_for_more(&mut self) -> bool {
        self.show_seen(self.consumer.limit);
        self.shared.control.tail().load(Ordering::Relaxed) & OUTSTANDING != 0
    }

    #[inline]
    fn show_seen(&self, cursor: u64) {
        self.shared.control.seen().store(cursor, Ordering::Release);
    }

    pub(super) fn counters(&self) -> NicCounters {
        NicCounters::seen(self.shared.control.counters())
    }
}
