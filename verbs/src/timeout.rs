//! How long a call may wait.

use std::time::{Duration, Instant};

use crate::{error::Error, wait::LONGEST};

/// How long a call may wait: a [`Duration`] from now, until an [`Instant`], or
/// [forever](Timeout::FOREVER). A call whose time is over checks once more before it fails.
///
/// # Examples
/// ```
/// use std::time::{Duration, Instant};
///
/// use covalent::Timeout;
///
/// assert_eq!(Timeout::FOREVER.deadline(), None);
/// let soon = Instant::now() + Duration::from_millis(5);
/// assert_eq!(Timeout::from(soon).deadline(), Some(soon));
/// assert!(Timeout::from(Duration::from_millis(5)).deadline() >= Some(soon));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeout(Option<Instant>);

impl Timeout {
    /// The call waits until it succeeds, or fails for another reason.
    pub const FOREVER: Self = Self(None);

    /// When the call gives up. `None` for [`Timeout::FOREVER`].
    #[must_use]
    pub const fn deadline(self) -> Option<Instant> {
        self.0
    }
}

/// From now on. A duration beyond what the clock can show is [`Timeout::FOREVER`].
impl From<Duration> for Timeout {
    fn from(duration: Duration) -> Self {
        Self(Instant::now().checked_add(duration))
    }
}

impl From<Instant> for Timeout {
    fn from(deadline: Instant) -> Self {
        Self(Some(deadline))
    }
}

/// The deadline of a call with this timeout.
pub(crate) fn deadline(timeout: impl Into<Timeout>) -> Option<Instant> {
    timeout.into().deadline()
}

/// As [`deadline`], for calls that always have one.
pub(crate) fn moment(timeout: impl Into<Timeout>) -> Instant {
    deadline(timeout).unwrap_or_else(|| Instant::now() + LONGEST)
}

/// Adds to the `error` of a wait, if the deadline passed, which pipe did not get there.
pub(crate) fn of_pipe(error: Error, pipe: u32, port: &str, what: &str) -> Error {
    match error {
        Error::Deadline { .. } => Error::Deadline {
            what: format!("pipe {pipe} on port `{port}` {what}: `covalent doctor` checks the port")
                .into(),
        },
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_beyond_the_clock_is_forever() {
        assert_eq!(Timeout::from(Duration::MAX), Timeout::FOREVER);
    }
}
