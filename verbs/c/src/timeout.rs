//! Timeouts as C programs pass them, in nanoseconds. 0 does not wait, and a negative one waits
//! forever.

use std::time::{Duration, Instant};

use covalent_verbs::Timeout;

/// `None` for a call that does not wait.
pub(crate) fn timeout(timeout_ns: i64) -> Option<Timeout> {
    match u64::try_from(timeout_ns) {
        Ok(0) => None,
        Ok(timeout_ns) => Some(Duration::from_nanos(timeout_ns).into()),
        Err(_) => Some(Timeout::FOREVER),
    }
}

/// For calls that have to wait for a reply: 0 is a deadline that has passed.
pub(crate) fn waiting(timeout_ns: i64) -> Timeout {
    timeout(timeout_ns).unwrap_or_else(|| Instant::now().into())
}
