//! How long to wait before the next attempt to connect.

use tokio::time::Duration;

/// The first wait: a daemon that restarts is back soon.
const FIRST: Duration = Duration::from_millis(20);

/// The longest wait, which is how long a daemon that starts late may wait for control.
const LONGEST: Duration = Duration::from_secs(2);

/// Waits that double up to a bound.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(crate) const fn new() -> Self {
        Self { next: FIRST }
    }

    /// The first wait is this one.
    #[cfg(test)]
    pub(super) const fn waiting(next: Duration) -> Self {
        Self { next }
    }

    /// The wait before the next attempt.
    pub(crate) fn take(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(LONGEST);
        wait
    }

    /// Resets the wait after a notification: the daemon may be ready at any moment.
    pub(super) const fn hurry(&mut self) {
        self.next = FIRST;
    }

    /// An attempt succeeded, and the connection has closed after `lasted`. A short connection
    /// counts as a failure: control must not reconnect fifty times a second to a daemon that greets
    /// and disconnects.
    pub(crate) fn connected_for(&mut self, lasted: Duration) {
        if lasted >= LONGEST {
            self.next = FIRST;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_restart() {
        let mut backoff = Backoff::new();
        let waits: Vec<Duration> = (0..20).map(|_| backoff.take()).collect();
        assert!(
            waits
                .windows(2)
                .all(|pair| pair[1] == (pair[0] * 2).min(LONGEST))
        );
        assert_eq!(waits.last(), Some(&LONGEST));
        backoff.connected_for(FIRST);
        assert_eq!(backoff.take(), LONGEST);
        backoff.connected_for(LONGEST);
        assert_eq!(backoff.take(), FIRST);
        backoff.take();
        backoff.hurry();
        assert_eq!(backoff.take(), FIRST);
    }
}
