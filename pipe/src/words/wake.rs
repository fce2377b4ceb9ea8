//! Sleeping without a lost wake-up: a flag per sleeper, and a fence on either side of it.
//!
//! The sleeper raises its flag, *then* looks for work once more, and only then sleeps. The waker makes its work visible, *then*
//! looks at the flag. Each side's two steps are parted by a sequentially consistent fence, so at least one of the two sees the other
//! (Dekker's argument): either the sleeper finds the work, or the waker finds the flag and writes to the sleeper's event descriptor.

use crate::sync::{AtomicU32, Ordering, fence};

/// Sleeper: says that it is about to sleep. Look for work once more after this, before sleeping.
pub fn announce(flag: &AtomicU32) {
    flag.store(1, Ordering::Relaxed);
    mutated!(AnnounceWithoutFence: fence(Ordering::SeqCst) => ());
}

/// Sleeper: says that it is awake.
pub fn retract(flag: &AtomicU32) {
    flag.store(0, Ordering::Relaxed);
}

/// Waker: after making work visible, learns whether the sleeper's event descriptor must be written. If `true`, it must be.
///
/// The flag is lowered so that one announcement gives few signals. That may lower a later announcement than the one seen, which
/// is harmless: the signal follows the lowering, so the sleeper that is woken by it, or drains it, sees the flag as it was left.
pub fn take(flag: &AtomicU32) -> bool {
    mutated!(WakeWithoutFence: fence(Ordering::SeqCst) => ());
    let sleeps = flag.load(Ordering::Relaxed) != 0;
    if sleeps {
        flag.store(0, Ordering::Relaxed);
    }
    sleeps
}
