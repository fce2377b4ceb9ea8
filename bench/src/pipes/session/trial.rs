//! One trial: packets were offered at a rate for some time.

use serde::{Deserialize, Serialize};

/// Share of what was sent that may lie in the rings at the end of a trial, beyond what lay there at its beginning, if the application is to count
/// as having kept up. Rings of many megabytes hide for a long time that more goes in than comes out.
const WAITING_MAX: f64 = 0.01;

/// What came of one trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// How long it was counted, in seconds.
    pub seconds: f64,
    /// Packets that the source offered meanwhile.
    pub offered: u64,
    /// Of those, dropped for want of room.
    pub dropped: u64,
    /// Packets that the application gave back meanwhile.
    pub received: u64,
    /// Notifications written meanwhile.
    pub notifications: u64,
    /// Round trips of probes that came back meanwhile.
    pub round_trips: Option<RoundTrips>,
}

/// How long probes took to come back.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RoundTrips {
    /// The middle one, in microseconds.
    pub p50_us: f64,
    /// Exceeded by one in a hundred, in microseconds.
    pub p99_us: f64,
}

impl Trial {
    /// Million packets per second that were offered.
    pub fn offered_mpps(&self) -> f64 {
        self.offered as f64 / self.seconds / 1e6
    }

    /// Million packets per second that the application gave back.
    pub fn received_mpps(&self) -> f64 {
        self.received as f64 / self.seconds / 1e6
    }

    /// Percent of the offered packets that were dropped.
    pub fn dropped_percent(&self) -> f64 {
        100.0 * self.dropped as f64 / self.offered.max(1) as f64
    }

    /// Percent of the offered packets that did not get through in this time: dropped, or left to lie in ever fuller rings.
    pub fn missing_percent(&self) -> f64 {
        let missing = self.offered.saturating_sub(self.received);
        100.0 * missing as f64 / self.offered.max(1) as f64
    }

    /// Whether the application could have gone on like this for ever: nothing was dropped, and the rings did not fill.
    pub fn kept_up(&self) -> bool {
        let waiting = self.offered.saturating_sub(self.received) as f64;
        self.offered > 0 && self.dropped == 0 && waiting <= WAITING_MAX * self.offered as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(offered: u64, dropped: u64, received: u64) -> Trial {
        Trial {
            seconds: 0.5,
            offered,
            dropped,
            received,
            notifications: 0,
            round_trips: None,
        }
    }

    #[test]
    fn rates_and_shares_are_of_what_was_offered() {
        let trial = trial(4_000_000, 1_000_000, 2_000_000);
        assert_eq!((trial.offered_mpps(), trial.received_mpps()), (8.0, 4.0));
        assert_eq!(
            (trial.dropped_percent(), trial.missing_percent()),
            (25.0, 50.0)
        );
        // What lay there before may come out too.
        assert_eq!(super::tests::trial(10, 0, 12).missing_percent(), 0.0);
    }

    #[test]
    fn to_keep_up_is_to_drop_nothing_and_to_fill_nothing() {
        assert!(trial(1000, 0, 1000).kept_up());
        assert!(trial(1000, 0, 990).kept_up());
        assert!(!trial(1000, 0, 989).kept_up());
        assert!(!trial(1000, 1, 1000).kept_up());
        assert!(!trial(0, 0, 0).kept_up());
    }
}
