//! Sends requests on a schedule or one after the other, and records how long each took.
//!
//! A scheduled request counts from when it was *due*, whatever delayed it. A request that could not
//! leave because earlier replies were slow still waited. A request that never left counts with its
//! age at the end of the measurement. Counting from the time of sending would omit exactly the
//! requests that a stall hits (coordinated omission). A request without a timely reply counts as
//! lost, and enters the quantiles with the time waited for it.

use std::{collections::VecDeque, sync::OnceLock, time::Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;

use super::pacing::{Pacing, Schedule};
use crate::stop;

/// Maximum number of requests in flight.
pub const IN_FLIGHT_MAX: usize = 1024;

/// Rounds between two checks for a stop request.
const ROUNDS_PER_CHECK: u32 = 1024;

/// The requesting side.
pub trait Client {
    /// Submits request `number`: 0, 1, 2, … Does not wait. Returns `false` if there is no space
    /// now; the caller retries later.
    fn send(&mut self, number: u64) -> Result<bool>;

    /// Calls `answered` with the number of each request whose reply has arrived since the last
    /// call. Does not wait.
    fn answers(&mut self, answered: &mut dyn FnMut(u64)) -> Result<()>;

    /// Waits for a reply in the client's own way, at most until `until_ns` of `clock`. May return
    /// earlier. Called only while a request is in flight.
    fn wait(&mut self, until_ns: u64, clock: &dyn Clock) -> Result<()>;

    /// Waits as briefly as possible, called while no request is in flight and none is due.
    fn pause(&mut self) {
        std::hint::spin_loop();
    }
}

/// A time that only grows, in nanoseconds.
pub trait Clock {
    /// The time.
    fn now_ns(&self) -> u64;
}

/// The time since its first use in this process, the same for all threads.
#[derive(Debug, Clone, Copy)]
pub struct Monotonic;

impl Clock for Monotonic {
    fn now_ns(&self) -> u64 {
        static BEGAN: OnceLock<Instant> = OnceLock::new();
        let began = BEGAN.get_or_init(Instant::now);
        u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The parameters of a repeat.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// When requests leave.
    pub pacing: Pacing,
    /// Requests one after the other before anything counts.
    pub warm_up: u64,
    /// For how long requests are due, or made.
    pub slice_ns: u64,
    /// How long an answer may take before it counts as lost.
    pub patience_ns: u64,
}

/// The result of one repeat.
#[derive(Debug, Clone)]
pub struct Repeat {
    /// How long each request took, in nanoseconds; the lost ones included.
    pub times_ns: Histogram<u64>,
    /// Requests that were answered in time.
    pub answered: u64,
    /// Those that were not.
    pub lost: u64,
    /// From the first request to the last answer, in nanoseconds.
    pub length_ns: u64,
    /// Busy fractions of the client's core and the server's core, including all other work there: 1
    /// is always busy. 0 if not measured.
    pub core_loads: [f64; 2],
    /// A note to print with the figures.
    pub note: Option<&'static str>,
    /// Each request that was answered. Kept by [`Keep::Everything`] only.
    pub trace: Vec<Traced>,
}

/// One request that was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traced {
    /// When it was due, in nanoseconds of the clock.
    pub due_ns: u64,
    /// How long it took from then on.
    pub took_ns: u64,
}

/// Whether each request is kept, or only the histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The histogram.
    Histogram,
    /// Each request too.
    Everything,
}

impl Repeat {
    fn new() -> Result<Self> {
        Ok(Self {
            times_ns: histogram()?,
            answered: 0,
            lost: 0,
            length_ns: 0,
            core_loads: [0.0; 2],
            note: None,
            trace: Vec::new(),
        })
    }

    /// Answers a second.
    pub fn rate_per_s(&self) -> f64 {
        self.answered as f64 / (self.length_ns as f64 / 1e9).max(f64::MIN_POSITIVE)
    }
}

/// An empty histogram: 1 ns to 60 s, three digits.
pub fn histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).context("making a histogram")
}

/// Drives `client` according to `plan`.
///
/// # Errors
/// Errors of the client. No reply arrived. [`stop::Stopped`].
pub fn drive(
    client: &mut dyn Client,
    clock: &dyn Clock,
    plan: &Plan,
    keep: Keep,
) -> Result<Repeat> {
    let mut run = Run {
        client,
        clock,
        patience_ns: plan.patience_ns,
        keep,
        begin_ns: clock.now_ns(),
        next: 0,
        in_flight: VecDeque::with_capacity(IN_FLIGHT_MAX),
        rounds: 0,
        repeat: Repeat::new()?,
    };
    run.ping_pong(plan.warm_up, u64::MAX)?;
    run.count_from_now()?;
    match plan.pacing {
        Pacing::PingPong => run.ping_pong(u64::MAX, run.begin_ns.saturating_add(plan.slice_ns))?,
        Pacing::Open { rate_per_s } => {
            run.open(Schedule::new(run.begin_ns, plan.slice_ns, rate_per_s))?
        }
    }
    run.repeat.length_ns = clock.now_ns() - run.begin_ns;
    ensure!(run.repeat.answered > 0, "no reply arrived");
    Ok(run.repeat)
}

/// A request in flight.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    due_ns: u64,
    answered: bool,
}

struct Run<'a> {
    client: &'a mut dyn Client,
    clock: &'a dyn Clock,
    patience_ns: u64,
    keep: Keep,
    /// When counting began.
    begin_ns: u64,
    /// The number of the next request.
    next: u64,
    /// The last requests, up to the one before the next.
    in_flight: VecDeque<InFlight>,
    rounds: u32,
    repeat: Repeat,
}

impl Run<'_> {
    /// Discards the measurements so far.
    fn count_from_now(&mut self) -> Result<()> {
        self.repeat = Repeat::new()?;
        self.begin_ns = self.clock.now_ns();
        Ok(())
    }

    /// One request after the other, `count` of them at most, until `end_ns`.
    fn ping_pong(&mut self, count: u64, end_ns: u64) -> Result<()> {
        for _ in 0..count {
            let sent_ns = self.clock.now_ns();
            if sent_ns >= end_ns {
                break;
            }
            while !self.send(sent_ns)? {
                self.wait(sent_ns + self.patience_ns)?;
                self.collect_answers()?;
                ensure!(
                    self.clock.now_ns() < sent_ns + self.patience_ns,
                    "no space for a request although none is in flight"
                );
            }
            while !self.in_flight.is_empty() {
                self.wait(sent_ns + self.patience_ns)?;
                self.collect_answers()?;
                self.give_up()?;
            }
        }
        Ok(())
    }

    /// Sends each request when it is due, or as soon as there is space for it.
    fn open(&mut self, schedule: Schedule) -> Result<()> {
        let first = self.next;
        let last_due_ns = schedule.due_ns(schedule.count() - 1).unwrap_or_default();
        let end_ns = last_due_ns.saturating_add(self.patience_ns);
        loop {
            let now_ns = self.clock.now_ns();
            let due = schedule.due_ns(self.next - first);
            let mut full = false;
            match due {
                Some(due_ns) if due_ns <= now_ns => {
                    full = self.in_flight.len() >= IN_FLIGHT_MAX || !self.send(due_ns)?;
                }
                None if self.in_flight.is_empty() => return Ok(()),
                _ => {}
            }
            self.collect_answers()?;
            self.give_up()?;
            if now_ns > end_ns {
                return self.never_left(&schedule, first);
            }
            let next_ns = match due {
                // A reply frees space.
                Some(_) if full => end_ns,
                Some(_) => schedule.due_ns(self.next - first).unwrap_or(end_ns),
                None => end_ns,
            };
            if self.clock.now_ns() >= next_ns {
                continue;
            }
            if self.in_flight.is_empty() {
                self.breathe()?;
                self.client.pause();
            } else {
                let oldest_ns = self.in_flight.front().map_or(end_ns, |first| first.due_ns);
                self.wait(next_ns.min(oldest_ns + self.patience_ns))?;
            }
        }
    }

    /// Requests that were still not sent when all was over.
    fn never_left(&mut self, schedule: &Schedule, first: u64) -> Result<()> {
        let now_ns = self.clock.now_ns();
        while let Some(due_ns) = schedule.due_ns(self.next - first) {
            self.lost(now_ns - due_ns);
            self.next += 1;
        }
        while let Some(left) = self.in_flight.pop_front() {
            if !left.answered {
                self.lost(now_ns - left.due_ns);
            }
        }
        Ok(())
    }

    /// Submits the next request. Returns whether there was space.
    fn send(&mut self, due_ns: u64) -> Result<bool> {
        if !self.client.send(self.next)? {
            return Ok(false);
        }
        self.next += 1;
        self.in_flight.push_back(InFlight {
            due_ns,
            answered: false,
        });
        Ok(true)
    }

    fn wait(&mut self, until_ns: u64) -> Result<()> {
        self.breathe()?;
        self.client.wait(until_ns, self.clock)
    }

    /// Checks for a stop request from time to time.
    fn breathe(&mut self) -> Result<()> {
        self.rounds = self.rounds.wrapping_add(1);
        if self.rounds.is_multiple_of(ROUNDS_PER_CHECK) {
            stop::check()?;
        }
        Ok(())
    }

    /// Takes the answers that have come.
    fn collect_answers(&mut self) -> Result<()> {
        let Self {
            client,
            clock,
            in_flight,
            repeat,
            keep,
            next,
            ..
        } = self;
        client.answers(&mut |number| {
            // The reply of a request that was counted as lost may still arrive. It is ignored.
            let behind = next.wrapping_sub(number) as usize;
            let Some(at) = in_flight.len().checked_sub(behind) else {
                return;
            };
            let Some(found) = in_flight.get_mut(at) else {
                return;
            };
            if std::mem::replace(&mut found.answered, true) {
                return;
            }
            let took_ns = clock.now_ns() - found.due_ns;
            repeat.times_ns.saturating_record(took_ns.max(1));
            repeat.answered += 1;
            if *keep == Keep::Everything {
                repeat.trace.push(Traced {
                    due_ns: found.due_ns,
                    took_ns,
                });
            }
        })?;
        while in_flight.front().is_some_and(|first| first.answered) {
            in_flight.pop_front();
        }
        Ok(())
    }

    /// Counts requests as lost that were waited for too long.
    fn give_up(&mut self) -> Result<()> {
        let now_ns = self.clock.now_ns();
        while let Some(first) = self.in_flight.front().copied() {
            if !first.answered {
                if now_ns - first.due_ns < self.patience_ns {
                    break;
                }
                stop::check()?;
                self.lost(now_ns - first.due_ns);
            }
            self.in_flight.pop_front();
        }
        Ok(())
    }

    fn lost(&mut self, waited_ns: u64) {
        self.repeat.lost += 1;
        self.repeat.times_ns.saturating_record(waited_ns.max(1));
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, rc::Rc};

    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    /// A clock that advances by 10 ns each time it is read, and when something waits.
    #[derive(Clone, Default)]
    struct Time(Rc<Cell<u64>>);

    impl Clock for Time {
        fn now_ns(&self) -> u64 {
            self.0.set(self.0.get() + 10);
            self.0.get()
        }
    }

    /// A peer that answers one request at a time in `service_ns`. It stalls from `stall_ns`, loses
    /// the requests that `loses` selects, and holds `room` requests.
    struct Peer {
        time: Time,
        service_ns: u64,
        stall_ns: (u64, u64),
        loses: fn(u64) -> bool,
        room: usize,
        free_ns: u64,
        ends: VecDeque<(u64, u64)>,
    }

    impl Peer {
        fn new(time: &Time, service_ns: u64) -> Self {
            Self {
                time: time.clone(),
                service_ns,
                stall_ns: (0, 0),
                loses: |_| false,
                room: usize::MAX,
                free_ns: 0,
                ends: VecDeque::new(),
            }
        }
    }

    impl Client for Peer {
        fn send(&mut self, number: u64) -> Result<bool> {
            if self.ends.len() >= self.room {
                return Ok(false);
            }
            if (self.loses)(number) {
                return Ok(true);
            }
            let mut begin_ns = self.free_ns.max(self.time.now_ns());
            if (self.stall_ns.0..self.stall_ns.1).contains(&begin_ns) {
                begin_ns = self.stall_ns.1;
            }
            self.free_ns = begin_ns + self.service_ns;
            self.ends.push_back((number, self.free_ns));
            Ok(true)
        }

        fn answers(&mut self, answered: &mut dyn FnMut(u64)) -> Result<()> {
            while let Some(&(number, end_ns)) = self.ends.front() {
                if end_ns > self.time.now_ns() {
                    break;
                }
                self.ends.pop_front();
                answered(number);
            }
            Ok(())
        }

        fn wait(&mut self, until_ns: u64, _clock: &dyn Clock) -> Result<()> {
            let next_ns = self.ends.front().map_or(until_ns, |&(_, end_ns)| end_ns);
            let now_ns = self.time.now_ns();
            self.time.0.set(now_ns.max(next_ns.min(until_ns)));
            Ok(())
        }
    }

    fn plan(pacing: Pacing, slice_ns: u64) -> Plan {
        Plan {
            pacing,
            warm_up: 10,
            slice_ns,
            patience_ns: 200 * MS,
        }
    }

    fn run(peer: &mut Peer, plan: &Plan) -> Repeat {
        let time = peer.time.clone();
        drive(peer, &time, plan, Keep::Everything).expect("answers")
    }

    #[test]
    fn a_stall_counts_for_every_request_that_was_due_in_it() {
        // 10 µs each, 1000 a second for a second, and it stands still for 100 ms in the middle.
        let times = |pacing| {
            let mut peer = Peer::new(&Time::default(), 10_000);
            peer.stall_ns = (500 * MS, 600 * MS);
            run(&mut peer, &plan(pacing, 1000 * MS))
        };
        let open = times(Pacing::Open { rate_per_s: 1000.0 });
        assert_eq!((open.answered, open.lost), (1000, 0));
        // A tenth of the requests were due during the stall. They waited 50 ms on average.
        let late = open.trace.iter().filter(|one| one.took_ns > MS).count();
        assert!((98..=101).contains(&late), "{late}");
        assert!(open.times_ns.value_at_quantile(0.95) > 40 * MS);
        assert!(open.times_ns.value_at_quantile(0.85) < 30_000);
        // Ping-pong had only one request in it.
        let closed = times(Pacing::PingPong);
        let late = closed.trace.iter().filter(|one| one.took_ns > MS).count();
        assert_eq!(late, 1);
        assert!(closed.times_ns.value_at_quantile(0.99) < 30_000);
    }

    #[test]
    fn too_high_a_rate_shows_as_ever_longer_waits() {
        // 1 ms each, and 2000 a second are due.
        let mut peer = Peer::new(&Time::default(), MS);
        peer.room = 1;
        let repeat = run(
            &mut peer,
            &plan(Pacing::Open { rate_per_s: 2000.0 }, 100 * MS),
        );
        assert_eq!(repeat.answered + repeat.lost, 200);
        assert!(repeat.times_ns.max() > 90 * MS, "{}", repeat.times_ns.max());
        assert!(
            (900.0..1100.0).contains(&repeat.rate_per_s()),
            "{}",
            repeat.rate_per_s()
        );
    }

    #[test]
    fn requests_that_were_never_sent_count_as_lost_with_their_age() {
        let mut peer = Peer::new(&Time::default(), 50 * MS);
        peer.room = 1;
        let mut plan = plan(Pacing::Open { rate_per_s: 1000.0 }, 100 * MS);
        plan.warm_up = 0;
        let repeat = run(&mut peer, &plan);
        assert_eq!(repeat.answered + repeat.lost, 100);
        assert!(repeat.lost > 90, "{}", repeat.lost);
        assert!(repeat.times_ns.value_at_quantile(0.5) > 150 * MS);
    }

    #[test]
    fn a_lost_request_is_counted_once_and_waited_for_as_long_as_patience_lasts() {
        for pacing in [Pacing::PingPong, Pacing::Open { rate_per_s: 100.0 }] {
            let mut peer = Peer::new(&Time::default(), 10_000);
            peer.loses = |number| number == 12;
            let repeat = run(&mut peer, &plan(pacing, 300 * MS));
            assert_eq!(repeat.lost, 1, "{pacing}");
            assert!(repeat.times_ns.max() >= 199 * MS, "{pacing}");
            assert_eq!(repeat.times_ns.len(), repeat.answered + 1, "{pacing}");
        }
    }

    #[test]
    fn silence_is_no_figure() {
        let time = Time::default();
        let mut peer = Peer::new(&time, 10);
        peer.loses = |_| true;
        let mut plan = plan(Pacing::PingPong, MS);
        plan.warm_up = 1;
        let problem = drive(&mut peer, &time, &plan, Keep::Histogram).expect_err("no answers");
        assert_eq!(problem.to_string(), "no reply arrived");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
        #[test]
        fn every_request_that_was_due_counts_once(
            rate in 100_f64..20_000.0,
            service_ns in 100_u64..400_000,
            room in 1_usize..64,
            stall in (5_u64..40, 0_u64..40),
        ) {
            let mut peer = Peer::new(&Time::default(), service_ns);
            peer.room = room;
            peer.loses = |number| number % 7 == 3;
            peer.stall_ns = (stall.0 * MS, (stall.0 + stall.1) * MS);
            let mut plan = plan(Pacing::Open { rate_per_s: rate }, 50 * MS);
            plan.patience_ns = 30 * MS;
            plan.warm_up = 0;
            let repeat = run(&mut peer, &plan);
            let due = Schedule::new(0, 50 * MS, rate).count();
            prop_assert_eq!(repeat.answered + repeat.lost, due);
            prop_assert_eq!(repeat.times_ns.len(), due);
            prop_assert_eq!(repeat.trace.len() as u64, repeat.answered);
        }
    }
}
