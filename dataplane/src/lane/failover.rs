//! How long a link's failure kept its neighbor's verbs waiting.

use std::time::{Duration, Instant};

/// For each link: how long its last failure delayed the verbs to its neighbor, until the first of
/// them completed over any link. The time starts at the failure, or at the first verb after it if
/// none waited. Reads no clock.
#[derive(Debug, Default)]
pub struct Failovers {
    links: Vec<Link>,
    /// Links with a gap. Without one, a verb costs a comparison.
    gaps: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Link {
    port: u16,
    peer: u64,
    gap: Option<Gap>,
    last: Option<Duration>,
}

/// A failure that no verb has completed after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gap {
    /// No verb waits: the time does not run.
    Idle,
    /// A verb waits since then.
    Waiting(Instant),
}

impl Failovers {
    /// Creates entries for the links on these ports.
    pub fn new(ports: impl IntoIterator<Item = u16>) -> Self {
        let link = |port| Link {
            port,
            ..Link::default()
        };
        Self {
            links: ports.into_iter().map(link).collect(),
            gaps: 0,
        }
    }

    /// Adds an entry for a link on this port.
    pub fn add(&mut self, port: u16) {
        if self.links.iter().all(|link| link.port != port) {
            self.links.push(Link {
                port,
                ..Link::default()
            });
        }
    }

    /// The link on `port` leads to `peer`. A failure that no verb waited for ends here, without a
    /// time.
    pub fn up(&mut self, port: u16, peer: u64) {
        self.change(|link| {
            if link.port == port {
                if link.peer != peer || link.gap == Some(Gap::Idle) {
                    link.gap = None;
                }
                link.peer = peer;
            }
        });
    }

    /// The link on `port` failed. `waits` returns whether a verb to this peer is in flight.
    pub fn down(&mut self, port: u16, waits: impl Fn(u64) -> bool, now: Instant) {
        self.change(|link| {
            // A verb that waits since an earlier failure has waited since then.
            if link.port == port && !matches!(link.gap, Some(Gap::Waiting(_))) {
                link.gap = Some(match waits(link.peer) {
                    true => Gap::Waiting(now),
                    false => Gap::Idle,
                });
            }
        });
    }

    /// A verb to `peer` was submitted. `now` is called only if its wait begins.
    pub fn submitted(&mut self, peer: u64, now: impl Fn() -> Instant) {
        if self.gaps == 0 {
            return;
        }
        self.change(|link| {
            if link.peer == peer && link.gap == Some(Gap::Idle) {
                link.gap = Some(Gap::Waiting(now()));
            }
        });
    }

    /// A verb completed at `peer`. `now` is called only if a wait ends.
    pub fn completed(&mut self, peer: u64, now: impl Fn() -> Instant) {
        if self.gaps == 0 {
            return;
        }
        self.change(|link| {
            if link.peer == peer {
                if let Some(Gap::Waiting(since)) = link.gap {
                    link.last = Some(now().saturating_duration_since(since));
                }
                link.gap = None;
            }
        });
    }

    /// Verbs were withdrawn. `waits` returns whether one to this peer is still in flight.
    pub fn withdrawn(&mut self, waits: impl Fn(u64) -> bool) {
        self.change(|link| {
            if matches!(link.gap, Some(Gap::Waiting(_))) && !waits(link.peer) {
                link.gap = Some(Gap::Idle);
            }
        });
    }

    fn change(&mut self, change: impl FnMut(&mut Link)) {
        self.links.iter_mut().for_each(change);
        self.gaps = self.links.iter().filter(|link| link.gap.is_some()).count();
    }

    /// The last such gap of the link on `port`.
    pub fn last(&self, port: u16) -> Option<Duration> {
        self.links.iter().find(|link| link.port == port)?.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: u64 = 7;
    const OTHER: u64 = 8;

    /// Failovers of two links to `PEER`, in virtual time.
    struct Played {
        failovers: Failovers,
        started: Instant,
    }

    impl Played {
        fn new() -> Self {
            let mut failovers = Failovers::new([0, 1]);
            failovers.up(0, PEER);
            failovers.up(1, PEER);
            Self {
                failovers,
                started: Instant::now(),
            }
        }

        fn at(&self, ms: u64) -> Instant {
            self.started + Duration::from_millis(ms)
        }

        fn down(&mut self, port: u16, ms: u64, waits: bool) {
            let now = self.at(ms);
            self.failovers.down(port, |peer| waits && peer == PEER, now);
        }

        fn submitted(&mut self, peer: u64, ms: u64) {
            let now = self.at(ms);
            self.failovers.submitted(peer, || now);
        }

        fn completed(&mut self, peer: u64, ms: u64) {
            let now = self.at(ms);
            self.failovers.completed(peer, || now);
        }

        /// The last gaps of both links, in milliseconds.
        fn last(&self) -> [Option<u128>; 2] {
            [0, 1].map(|port| self.failovers.last(port).map(|gap| gap.as_millis()))
        }
    }

    #[test]
    fn the_gap_runs_from_the_failure_if_a_verb_waits() {
        let mut played = Played::new();
        played.down(0, 100, true);
        played.completed(OTHER, 101);
        assert_eq!(played.last(), [None, None]);
        played.completed(PEER, 103);
        played.completed(PEER, 900);
        assert_eq!(played.last(), [Some(3), None]);
    }

    #[test]
    fn time_in_which_no_verb_waited_is_not_counted() {
        let mut played = Played::new();
        played.down(0, 100, false);
        played.submitted(OTHER, 200);
        played.submitted(PEER, 82_900);
        played.submitted(PEER, 82_901);
        played.completed(PEER, 82_902);
        assert_eq!(played.last(), [Some(2), None]);
    }

    #[test]
    fn a_failure_of_an_idle_link_that_recovers_has_no_gap() {
        let mut played = Played::new();
        played.down(0, 100, false);
        played.failovers.up(0, PEER);
        played.submitted(PEER, 82_900);
        played.completed(PEER, 82_901);
        assert_eq!(played.last(), [None, None]);
    }

    #[test]
    fn a_verb_that_waits_over_two_failures_has_waited_since_the_first() {
        let mut played = Played::new();
        played.down(0, 100, true);
        played.down(1, 110, true);
        played.failovers.up(0, PEER);
        played.down(0, 120, true);
        played.completed(PEER, 150);
        assert_eq!(played.last(), [Some(50), Some(40)]);
    }

    #[test]
    fn the_time_stops_when_the_last_waiting_verb_is_withdrawn() {
        let mut played = Played::new();
        played.down(0, 100, true);
        played.failovers.withdrawn(|_| true);
        played.failovers.withdrawn(|_| false);
        played.submitted(PEER, 5_000);
        played.completed(PEER, 5_004);
        assert_eq!(played.last(), [Some(4), None]);
    }

    #[test]
    fn a_link_to_another_neighbor_has_no_gap_of_the_one_before() {
        let mut played = Played::new();
        played.down(0, 100, true);
        played.failovers.up(0, OTHER);
        played.completed(OTHER, 900);
        assert_eq!(played.last(), [None, None]);
    }

    #[test]
    fn the_clock_is_not_read_without_a_failure() {
        let mut played = Played::new();
        let never = || -> Instant { unreachable!("no gap is open") };
        played.failovers.submitted(PEER, never);
        played.failovers.completed(PEER, never);
        played.down(0, 100, true);
        played.completed(PEER, 101);
        played.failovers.submitted(PEER, never);
        played.failovers.completed(PEER, never);
    }
}
