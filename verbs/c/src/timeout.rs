//! Timeouts as C programs pass them.

use std::time::{Duration, Instant};

/// A timeout in nanoseconds: 0 does not wait, a negative one waits for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timeout {
    None,
    Until(Instant),
    Forever,
}

impl Timeout {
    pub(crate) fn new(timeout_ns: i64) -> Self {
        match u64::try_from(timeout_ns) {
            Ok(0) => Self::None,
            Ok(timeout_ns) => Self::Until(Instant::now() + Duration::from_nanos(timeout_ns)),
            Err(_) => Self::Forever,
        }
    }
}

/// For calls that always wait a moment: 0 is a deadline that has passed.
pub(crate) fn deadline(timeout_ns: i64) -> Option<Instant> {
    match Timeout::new(timeout_ns) {
        Timeout::None => Some(Instant::now()),
        Timeout::Until(deadline) => Some(deadline),
        Timeout::Forever => None,
    }
}
