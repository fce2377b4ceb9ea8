//! Timeouts as C programs pass them, in nanoseconds. 0 does not wait, and a negative one waits
//! forever.

use std::time::{Duration, Instant};

use covalent::Timeout;

use crate::status::{Result, invalid};

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

/// The time that a request waits for its reply.
pub(crate) fn request_timeout(timeout_ns: i64) -> Result<Duration> {
    match u64::try_from(timeout_ns) {
        Ok(0) => Err(invalid("a request timeout of 0: nothing could be answered")),
        Ok(timeout_ns) => Ok(Duration::from_nanos(timeout_ns)),
        Err(_) => Ok(Duration::MAX),
    }
}
