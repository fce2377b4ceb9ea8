//! Sleeping without a lost wake-up: a flag per sleeper, and a fence on each side.
//!
//! The sleeper raises its flag, *then* checks for work once more, and only then sleeps. The waker
//! makes its work visible, *then* checks the flag. A sequentially consistent fence separates the
//! two steps on each side, so at least one side sees the other (Dekker's argument). Either the
//! sleeper finds the work, or the waker finds the flag and writes to the sleeper's event
//! descriptor.

use covalent_ipc::{
    mutated,
    sync::{AtomicU32, Ordering, fence},
};

/// Sleeper: announces that it is about to sleep. Check for work once more after this call, before
/// sleeping.
pub fn announce(flag: &AtomicU32) {
    flag.store(1, Ordering::Relaxed);
    mutated!(AnnounceWithoutFence: fence(Ordering::SeqCst) => ());
}

/// Sleeper: announces that it is awake.
pub fn retract(flag: &AtomicU32) {
    flag.store(0, Ordering::Relaxed);
}

/// Waker: call it after making work visible. Returns whether the sleeper's event descriptor must be
/// written.
///
/// It clears the flag so that one announcement causes few signals. This may clear a later
/// announcement than the one seen, which is harmless. The signal follows the clearing, so a sleeper
/// that is woken by it, or drains it, sees the cleared flag.
pub fn take(flag: &AtomicU32) -> bool {
    mutated!(WakeWithoutFence: fence(Ordering::SeqCst) => ());
    let sleeps = flag.load(Ordering::Relaxed) != 0;
    if sleeps {
        flag.store(0, Ordering::Relaxed);
    }
    sleeps
}
