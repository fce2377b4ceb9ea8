//! How long words of a link and their reflections take.
//!
//! The protocol has a ball go along that asks for one in return, one at a time, and it is answered at once. The time from the frame in which it
//! was put to the burst in which it has come back is a round trip: over the wire, and through the rounds of both lanes. Links on which
//! something is open ask by themselves at each pace; the lane has the others ask once in a second. The clock is read twice for each ball that asks, and
//! not for any other frame.

use std::time::{Duration, Instant};

use covalent_api::status::{ROUND_TRIP_BOUNDS_NS, RoundTrips};
use covalent_protocol::AskingBall;

/// How often a link on which nothing is open is asked.
pub const ASK_EVERY: Duration = Duration::from_secs(1);

/// Round trips of one link.
#[derive(Debug, Default)]
pub struct LinkRoundTrips {
    /// The ball that asked, and when it was put into a frame.
    under_way: Option<(AskingBall, Instant)>,
    /// By the first bound that each kept; behind them those that kept none.
    counts: [u64; ROUND_TRIP_BOUNDS_NS.len() + 1],
    sum_ns: u64,
}

impl LinkRoundTrips {
    /// A frame of the link was written; `asked` is the ball that asks now.
    #[inline]
    pub fn sent(&mut self, asked: Option<AskingBall>) {
        let Some(asked) = asked.filter(|asked| asked.record.is_some()) else {
            return;
        };
        if self.under_way.is_none_or(|(before, _)| before != asked) {
            self.under_way = Some((asked, Instant::now()));
        }
    }

    /// Whether the ball may come back.
    #[inline]
    pub const fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Frames were received; `asked` is the ball that asks now.
    pub fn heard(&mut self, asked: Option<AskingBall>) {
        let Some((ball, since)) = self.under_way else {
            return;
        };
        if asked == Some(ball) {
            return;
        }
        self.under_way = None;
        // A link that failed meanwhile reflects nothing of its last epoch.
        if asked.is_some_and(|now| now.epoch == ball.epoch) {
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
    pub fn told(&self) -> RoundTrips {
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

    const fn asked(epoch: u32, record: Option<u32>) -> Option<AskingBall> {
        Some(AskingBall { epoch, record })
    }

    #[test]
    fn a_ball_is_timed_until_it_comes_back_and_others_are_not() {
        let mut trips = LinkRoundTrips::default();
        trips.sent(asked(1, None));
        trips.heard(asked(1, None));
        assert_eq!(trips.told().count, 0, "nothing asked");
        trips.sent(asked(1, Some(7)));
        std::thread::sleep(Duration::from_millis(3));
        trips.sent(asked(1, Some(7)));
        trips.heard(asked(1, Some(7)));
        assert!(trips.is_under_way(), "it has not come back");
        trips.heard(asked(1, None));
        let told = trips.told();
        assert_eq!((told.count, trips.is_under_way()), (1, false));
        assert!(told.sum_ns >= 3_000_000, "{}", told.sum_ns);
        assert_eq!(told.within.first(), Some(&0));
        assert_eq!(told.within.len(), ROUND_TRIP_BOUNDS_NS.len());
    }

    #[test]
    fn a_link_that_fails_takes_its_ball_along() {
        let mut trips = LinkRoundTrips::default();
        for after in [None, asked(2, None), asked(2, Some(8))] {
            trips.sent(asked(1, Some(7)));
            trips.heard(after);
            assert_eq!((trips.told().count, trips.is_under_way()), (0, false));
        }
    }

    #[test]
    fn each_round_trip_is_within_its_bound_and_all_above() {
        let mut trips = LinkRoundTrips::default();
        for ns in [2_000, 2_001, 100_000_000, 100_000_001] {
            trips.took(Duration::from_nanos(ns));
        }
        let told = trips.told();
        assert_eq!((told.within[0], told.within[1]), (1, 2));
        assert_eq!((told.within.last(), told.count), (Some(&3), 4));
        assert_eq!(told.sum_ns, 200_004_002);
    }
}
