//! The factor by which all deadlines are stretched compared with a typical machine: `--patience`.
//!
//! One process runs one demonstration, so one number applies to all its deadlines. It changes no
//! measurement. Slow nodes reply late, so a link waits longer before it treats silence as a failure
//! (`link.idle_tick_ms`, `link.event_ratio`).

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

static FACTOR: AtomicU32 = AtomicU32::new(1);

/// Stretches every deadline from now on.
pub fn set(factor: u32) {
    FACTOR.store(factor.max(1), Ordering::Relaxed);
}

/// How much longer: 1 on a usual machine.
pub fn factor() -> u32 {
    FACTOR.load(Ordering::Relaxed)
}

/// How long to wait where a usual machine gets `usual`.
pub fn stretched(usual: Duration) -> Duration {
    usual.saturating_mul(factor())
}
