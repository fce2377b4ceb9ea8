//! One trial: packets were offered at a rate for some time.

use serde::{Deserialize, Serialize};

/// Maximum fraction of due packets missing at the end of a sustained trial. Packets in flight are
/// no loss. But large rings hide for a long time that more packets enter than leave, and a lane may
/// fall behind a little.
const MISSING_MAX: f64 = 0.01;

/// The result of one trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// How long it was counted, in seconds.
    pub seconds: f64,
    /// Packets that the source offered meanwhile.
    pub offered: u64,
    /// Of those, dropped because a pipe was full.
    pub dropped: u64,
    /// Due packets that the source had no time to offer, beyond those that a port's ring holds for
    /// it.
    pub late: u64,
    /// Packets that the application gave back meanwhile.
    pub received: u64,
    /// Notifications written meanwhile.
    pub notifications: u64,
    /// Round trips of the probes that returned during the trial.
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

    /// Packets that were due.
    pub const fn due(&self) -> u64 {
        self.offered + self.late
    }

    /// Percent of the packets due that were dropped because a pipe was full.
    pub fn dropped_percent(&self) -> f64 {
        self.percent(self.dropped)
    }

    /// Returns the percentage of due packets that were too late to be offered.
    pub fn late_percent(&self) -> f64 {
        self.percent(self.late)
    }

    /// Returns the percentage of due packets that were not received in this time: late, dropped, or
    /// left in growing rings.
    pub fn missing_percent(&self) -> f64 {
        self.percent(self.missing())
    }

    /// Returns whether both sides could continue indefinitely: no packet was dropped, and the due
    /// packets were received.
    pub fn kept_up(&self) -> bool {
        let missing = self.missing() as f64;
        self.due() > 0 && self.dropped == 0 && missing <= MISSING_MAX * self.due() as f64
    }

    const fn missing(&self) -> u64 {
        self.due().saturating_sub(self.received)
    }

    fn percent(&self, packets: u64) -> f64 {
        100.0 * packets as f64 / self.due().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial([offered, dropped, late]: [u64; 3], received: u64) -> Trial {
        Trial {
            seconds: 0.5,
            offered,
            dropped,
            late,
            received,
            notifications: 0,
            round_trips: None,
        }
    }

    #[test]
    fn rates_count_offered_packets_and_shares_due_ones() {
        let whole = trial([3_000_000, 500_000, 1_000_000], 2_000_000);
        assert_eq!((whole.offered_mpps(), whole.received_mpps()), (6.0, 4.0));
        assert_eq!(
            (whole.dropped_percent(), whole.late_percent()),
            (12.5, 25.0)
        );
        assert_eq!(whole.missing_percent(), 50.0);
        // Packets from before the trial may also be received.
        assert_eq!(trial([10, 0, 0], 12).missing_percent(), 0.0);
    }

    #[test]
    fn to_keep_up_is_to_drop_nothing_and_to_fall_behind_little() {
        assert!(trial([1000, 0, 0], 1000).kept_up());
        assert!(trial([1000, 0, 0], 990).kept_up());
        assert!(!trial([1000, 0, 0], 989).kept_up());
        assert!(trial([990, 0, 10], 990).kept_up());
        assert!(!trial([980, 0, 20], 980).kept_up());
        assert!(!trial([1000, 1, 0], 1000).kept_up());
        assert!(!trial([0, 0, 0], 0).kept_up());
    }
}
