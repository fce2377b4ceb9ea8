//! Measures the round trips of a link.
//!
//! The protocol sends one ping at a time, and the peer answers it immediately. The round trip lasts
//! from the frame with the ping to the burst with its answer. It includes the wire and the rounds
//! of both lanes. Links with open exchanges send a ping at each tick. The lane makes the others
//! send one per second. The clock is read twice per ping, and for no other frame.

use std::time::{Duration, Instant};

use covalent_api::status::{ROUND_TRIP_BOUNDS_NS, RoundTrips};
use covalent_protocol::Ping;

/// Interval of pings on a link without open exchanges.
pub const PING_INTERVAL: Duration = Duration::from_secs(1);

/// Round trips of one link.
#[derive(Debug, Default)]
pub struct LinkRoundTrips {
    /// The ping in flight, and when it was put into a frame.
    in_flight: Option<(Ping, Instant)>,
    /// By the first bound that each kept; behind them those that kept none.
    counts: [u64; ROUND_TRIP_BOUNDS_NS.len() + 1],
    sum_ns: u64,
}

impl LinkRoundTrips {
    /// Call it after a frame of the link was written. `ping` is the current ping.
    #[inline]
    pub fn sent(&mut self, ping: Option<Ping>) {
        let Some(ping) = ping.filter(|ping| ping.record.is_some()) else {
            return;
        };
        if self.in_flight.is_none_or(|(before, _)| before != ping) {
            self.in_flight = Some((ping, Instant::now()));
        }
    }

    /// Whether the ping may still return.
    #[inline]
    pub const fn is_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Call it after frames were received. `ping` is the current ping.
    pub fn on_received(&mut self, ping: Option<Ping>) {
        let Some((sent_ping, since)) = self.in_flight else {
            return;
        };
        if ping == Some(sent_ping) {
            return;
        }
        self.in_flight = None;
        // A link that failed meanwhile reflects nothing of its last epoch.
        if ping.is_some_and(|now| now.epoch == sent_ping.epoch) {
            self.took(since.elapsed());
        }
    }

    fn took(&mut self, round_trip: Duration) {
        let ns = u64::try_from(round_trip.as_nanos()).unwrap_or(u64::MAX);
        let at = ROUND_TRIP_BOUNDS_NS.partition_point(|&bound| bound < ns);
        self.counts[at] += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// All of them. Allocates: for a command, never on the way of a packet.
    pub fn summary(&self) -> RoundTrips {
        let mut count = 0;
        let mut within: Vec<u64> = self
            .counts
            .iter()
            .map(|more| {
                count += more;
                count
            })
            .collect();
        within.truncate(ROUND_TRIP_BOUNDS_NS.len());
        RoundTrips {
            count,
            sum_ns: self.sum_ns,
            within,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ping(epoch: u32, record: Option<u32>) -> Option<Ping> {
        Some(Ping { epoch, record })
    }

    #[test]
    fn a_ping_is_timed_until_it_returns_and_keepalives_are_not() {
        let mut trips = LinkRoundTrips::default();
        trips.sent(ping(1, None));
        trips.on_received(ping(1, None));
        assert_eq!(trips.summary().count, 0, "no ping was sent");
        trips.sent(ping(1, Some(7)));
        std::thread::sleep(Duration::from_millis(3));
        trips.sent(ping(1, Some(7)));
        trips.on_received(ping(1, Some(7)));
        assert!(trips.is_in_flight(), "the ping has not returned");
        trips.on_received(ping(1, None));
        let summary = trips.summary();
        assert_eq!((summary.count, trips.is_in_flight()), (1, false));
        assert!(summary.sum_ns >= 3_000_000, "{}", summary.sum_ns);
        assert_eq!(summary.within.first(), Some(&0));
        assert_eq!(summary.within.len(), ROUND_TRIP_BOUNDS_NS.len());
    }

    #[test]
    fn a_failed_link_discards_its_ping() {
        let mut trips = LinkRoundTrips::default();
        for after in [None, ping(2, None), ping(2, Some(8))] {
            trips.sent(ping(1, Some(7)));
            trips.on_received(after);
            assert_eq!((trips.summary().count, trips.is_in_flight()), (0, false));
        }
    }

    #[test]
    fn each_round_trip_is_within_its_bound_and_all_above() {
        let mut trips = LinkRoundTrips::default();
        for ns in [2_000, 2_001, 100_000_000, 100_000_001] {
            trips.took(Duration::from_nanos(ns));
        }
        let summary = trips.summary();
        assert_eq!((summary.within[0], summary.within[1]), (1, 2));
        assert_eq!((summary.within.last(), summary.count), (Some(&3), 4));
        assert_eq!(summary.sum_ns, 200_004_002);
    }
}
