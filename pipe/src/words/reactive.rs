//! Reactive notifications: one status bit per pipe.
//!
//! 1. Packets arrive and fit: bit 0 → notify and set the bit; bit 1 → suppress.
//! 2. The application moved its head: everything consumed → clear the bit; otherwise notify again
//!    with the latest tail.
//! 3. A packet that does not fit is dropped and changes nothing here.
//!
//! There is therefore at most one outstanding notification for each head update. Bit 0 means that
//! the application had consumed everything when the bit was cleared: the next arrival notifies. The
//! lane serializes both rules, so the state is private to it.

/// Bit of the shared tail word that mirrors the status bit. It shows the application whether it
/// must ring to be notified. Cursors never reach this bit.
pub const OUTSTANDING: u64 = 1 << 63;

/// The status bit of one pipe.
#[derive(Debug, Default)]
pub struct Reactive {
    outstanding: bool,
}

impl Reactive {
    /// Rule 1, once for packets that become visible together. Returns whether to notify.
    pub fn on_arrival(&mut self) -> bool {
        !core::mem::replace(&mut self.outstanding, true)
    }

    /// Rule 2. `all_consumed`: the application's cursor equals the published tail. Returns whether
    /// to notify.
    pub fn on_head(&mut self, all_consumed: bool) -> bool {
        self.outstanding = !all_consumed;
        !all_consumed
    }

    /// The word that is published: `tail` with the status bit.
    pub fn word(&self, tail: u64) -> u64 {
        tail | if self.outstanding { OUTSTANDING } else { 0 }
    }
}
