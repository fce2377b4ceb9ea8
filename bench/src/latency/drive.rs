//! Makes requests to a schedule, or one after the other, and writes down how long each took.
//!
//! A request of a schedule counts from when it was *due*, whoever kept it waiting: one that could not leave because the answers before it were
//! slow waited all the same, and one that never left is as old as the measurement lets it become. (Counting from when it left would leave out just those
//! requests that a stall hits: coordinated omission.) Whatever is not answered in time counts as lost, and in the quantiles with the time
//! that it was waited for.

use std::{collections::VecDeque, sync::OnceLock, time::Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;

use super::pacing::{Pacing, Schedule};
use crate::stop;

/// Requests that may be under way at a time.
pub const UNDER_WAY_MAX: usize = 1024;

/// Rounds between two looks at whether somebody asked for the end.
const ROUNDS_PER_LOOK: u32 = 1024;

/// The side that asks.
pub trait Client {
    /// Hands over request `number`: 0, 1, 2, … Does not wait. `false` if there is no room for it now; it is offered again then.
    fn send(&mut self, number: u64) -> Result<bool>;

    /// Gives `answered` the number of each request whose answer has come since it was called last. Does not wait.
    fn answers(&mut self, answered: &mut dyn FnMut(u64)) -> Result<()>;

    /// Waits for an answer in this client's own way, no longer than until `until_ns` of `clock`; it may return sooner. Called only while something is under way.
    fn wait(&mut self, until_ns: u64, clock: &dyn Clock) -> Result<()>;

    /// Lets time pass until the next request is due, with nothing under way: as little as it can.
    fn pause(&mut self) {
        std::hint::spin_loop();
    }
}

/// A time that only grows, in nanoseconds.
pub trait Clock {
    /// The time.
    fn now_ns(&self) -> u64;
}

/// The time since this process first asked for it: the same to all its threads.
#[derive(Debug, Clone, Copy)]
pub struct Monotonic;

impl Clock for Monotonic {
    fn now_ns(&self) -> u64 {
        static BEGAN: OnceLock<Instant> = OnceLock::new();
        let began = BEGAN.get_or_init(Instant::now);
        u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// What to do.
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

/// What one repeat came to.
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
    /// How busy the cores of who asks and who answers were meanwhile, with everything that ran there: 1 is all the time. 0 where that was not looked at.
    pub core_loads: [f64; 2],
    /// What has to be said with the figures.
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

/// Whether each request is kept, or only what they come to.
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

/// Drives `client` as `plan` says.
///
/// # Errors
/// The client's; that nothing was answered; [`stop::Stopped`].
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
        under_way: VecDeque::with_capacity(UNDER_WAY_MAX),
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
    ensure!(run.repeat.answered > 0, "no answer came");
    Ok(run.repeat)
}

/// A request that is under way.
#[derive(Debug, Clone, Copy)]
struct UnderWay {
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
    under_way: VecDeque<UnderWay>,
    rounds: u32,
    repeat: Repeat,
}

impl Run<'_> {
    /// Forgets what was measured so far.
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
                self.look()?;
                ensure!(
                    self.clock.now_ns() < sent_ns + self.patience_ns,
                    "there is no room for a request with nothing under way"
                );
            }
            while !self.under_way.is_empty() {
                self.wait(sent_ns + self.patience_ns)?;
                self.look()?;
                self.give_up()?;
            }
        }
        Ok(())
    }

    /// Each request when it is due, or as soon as there is room for it.
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
                    full = self.under_way.len() >= UNDER_WAY_MAX || !self.send(due_ns)?;
                }
                None if self.under_way.is_empty() => return Ok(()),
                _ => {}
            }
            self.look()?;
            self.give_up()?;
            if now_ns > end_ns {
                return self.never_left(&schedule, first);
            }
            let next_ns = match due {
                // Room comes with an answer.
                Some(_) if full => end_ns,
                Some(_) => schedule.due_ns(self.next - first).unwrap_or(end_ns),
                None => end_ns,
            };
            if self.clock.now_ns() >= next_ns {
                continue;
            }
            if self.under_way.is_empty() {
                self.breathe()?;
                self.client.pause();
            } else {
                let oldest_ns = self.under_way.front().map_or(end_ns, |first| first.due_ns);
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
        while let Some(left) = self.under_way.pop_front() {
            if !left.answered {
                self.lost(now_ns - left.due_ns);
            }
        }
        Ok(())
    }

    /// Hands the next request over. Whether there was room.
    fn send(&mut self, due_ns: u64) -> Result<bool> {
        if !self.client.send(self.next)? {
            return Ok(false);
        }
        self.next += 1;
        self.under_way.push_back(UnderWay {
            due_ns,
            answered: false,
        });
        Ok(true)
    }

    fn wait(&mut self, until_ns: u64) -> Result<()> {
        self.breathe()?;
        self.client.wait(until_ns, self.clock)
    }

    /// Looks now and then whether somebody asked for the end.
    fn breathe(&mut self) -> Result<()> {
        self.rounds = self.rounds.wrapping_add(1);
        if self.rounds.is_multiple_of(ROUNDS_PER_LOOK) {
            stop::check()?;
        }
        Ok(())
    }

    /// Takes the answers that have come.
    fn look(&mut self) -> Result<()> {
        let Self {
            client,
            clock,
            under_way,
            repeat,
            keep,
            next,
            ..
        } = self;
        client.answers(&mut |number| {
            // One that counted as lost may still come, and is nobody's then.
            let behind = next.wrapping_sub(number) as usize;
            let Some(at) = under_way.len().checked_sub(behind) else {
                return;
            };
            let Some(found) = under_way.get_mut(at) else {
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
        while under_way.front().is_some_and(|first| first.answered) {
            under_way.pop_front();
        }
        Ok(())
    }

    /// Counts requests as lost that were waited for too long.
    fn give_up(&mut self) -> Result<()> {
        let now_ns = self.clock.now_ns();
        while let Some(first) = self.under_way.front().copied() {
            if !first.answered {
                if now_ns - first.due_ns < self.patience_ns {
                    break;
                }
                stop::check()?;
                self.lost(now_ns - first.due_ns);
            }
            self.under_way.pop_front();
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

    /// A time that passes only when somebody waits, or looks: 10 ns each.
    #[derive(Clone, Default)]
    struct Time(Rc<Cell<u64>>);

    impl Clock for Time {
        fn now_ns(&self) -> u64 {
            self.0.set(self.0.get() + 10);
            self.0.get()
        }
    }

    /// A peer that answers one request at a time in `service_ns`, stands still from `stall_ns`, loses each request for which `loses` says so, and has room for `room`.
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
        // A tenth of the requests came in the stall and waited 50 ms in the mean.
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
    fn what_never_left_is_lost_and_as_old_as_it_became() {
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
        assert_eq!(problem.to_string(), "no answer came");
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
