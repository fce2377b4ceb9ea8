//! The behavior of a lane without work.
//!
//! Sleeping must not lose a wake-up. The lane first publishes that it sleeps, to each application's
//! rings and to each port. Then it checks for work once more, then it waits. A producer that adds
//! work after the second check sees the flag and wakes the lane. The second check finds all earlier
//! work.

use std::{
    os::fd::{AsFd, AsRawFd, RawFd},
    time::{Duration, Instant},
};

use covalent_config::Idle;

use super::{Lane, durable::Durable, yield_core::Yields};

/// Longest wait while a pipe waits for space in a port: not every port reports free space.
const FULL_PORT_WAIT: Duration = Duration::from_millis(1);

/// Idle rounds after which the lane reports quiet to the links: some ten microseconds, longer than
/// a neighbor's reply takes. So the pings by which a link detects loss never accompany exchanges
/// that are answered.
const ROUNDS_PER_QUIET: u32 = 256;

/// Fruitless rounds for each look at the clock.
const ROUNDS_PER_CLOCK_READ: u32 = 4;

/// Decides when to stop spinning, and holds what to wait on.
#[derive(Debug)]
pub(super) struct Idler {
    policy: Idle,
    spin: Duration,
    /// Since when there was no work; `None` while there is.
    since: Option<Instant>,
    /// Rounds without work since the last one with some.
    fruitless: u32,
    yields: Yields,
    fds: Vec<libc::pollfd>,
    sessions: Vec<usize>,
}

impl Idler {
    pub(super) fn new(policy: Idle, spin: Duration) -> Self {
        Self {
            policy,
            spin,
            since: None,
            fruitless: 0,
            yields: Yields::default(),
            fds: Vec::new(),
            sessions: Vec::new(),
        }
    }

    /// Another policy holds from now on.
    pub(super) const fn tune(&mut self, policy: Idle, spin: Duration) {
        self.policy = policy;
        self.spin = spin;
    }

    /// Runs between two rounds without sleep. An application that shares the core gets it when the
    /// current work is done (`drained`), and after idle rounds. `woke`: an application was woken
    /// since. Returns whether the lane yielded.
    fn pause(&mut self, found_work: bool, drained: bool, woke: bool) -> bool {
        self.fruitless = if found_work {
            0
        } else {
            self.fruitless.wrapping_add(1)
        };
        let due = self.yields.due(found_work, drained, woke, self.fruitless);
        if due {
            self.yields.yield_core();
        } else if !found_work {
            std::hint::spin_loop();
        }
        due
    }

    /// Whether the links should get the quiet report after the current round.
    const fn is_quiet(&self, found_work: bool) -> bool {
        !found_work
            && self
                .fruitless
                .wrapping_add(1)
                .is_multiple_of(ROUNDS_PER_QUIET)
    }

    /// How long a lane spins without work before it sleeps.
    pub(super) const fn spin(&self) -> Duration {
        match self.policy {
            Idle::Poll => Duration::MAX,
            Idle::Interrupt => Duration::ZERO,
            Idle::Adaptive => self.spin,
        }
    }

    /// Whether the time of the last round will do for the next one.
    pub(super) fn time_will_do(&self) -> bool {
        !self.fruitless.is_multiple_of(ROUNDS_PER_CLOCK_READ)
    }

    /// Whether the lane should sleep after a round that began at `now` and found work or not.
    fn is_tired(&mut self, now: Instant, found_work: bool) -> bool {
        if found_work {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        now.saturating_duration_since(since) >= self.spin()
    }
}

impl Lane {
    /// Ends a round: continues at once, or sleeps until an event or the next tick.
    pub(super) fn end_round(&mut self, work: usize, waits_for_port: bool) {
        let found_work = work > 0;
        // Less than a burst: most likely nothing is left.
        let drained = found_work && work < self.settings.burst;
        // A sleep takes longer than the kernel's timer slack, so the lane spins for earlier
        // deadlines.
        let due_soon = self.housekeeping.idler.policy == Idle::Adaptive
            && self
                .pipes
                .paced_for()
                .is_some_and(|wait| wait <= self.housekeeping.idler.spin);
        if self.housekeeping.idler.is_quiet(found_work) {
            self.ports.node.on_quiet();
        }
        if due_soon
            || !self
                .housekeeping
                .idler
                .is_tired(self.housekeeping.clock.now, found_work)
        {
            if self
                .housekeeping
                .idler
                .pause(found_work, drained, self.pipes.woke)
            {
                self.pipes.woke = false;
            }
            return;
        }
        // A sleeping lane checks nothing.
        self.ports.node.on_quiet();
        let mut ports_prepared = 0;
        let mut may_sleep = true;
        for session in self.pipes.sessions.items_mut() {
            session.rings.set_lane_sleeping(true);
        }
        for slot in &mut self.ports.slots {
            ports_prepared += 1;
            if !slot.port.prepare_sleep() {
                may_sleep = false;
                break;
            }
        }
        may_sleep = may_sleep && !self.recheck_work();
        if may_sleep {
            self.wait(waits_for_port);
            self.housekeeping.idler.fruitless = 0;
        }
        for slot in &mut self.ports.slots[..ports_prepared] {
            slot.port.finish_sleep();
        }
        for session in self.pipes.sessions.items_mut() {
            session.rings.set_lane_sleeping(false);
        }
    }

    /// The second look.
    pub(super) fn recheck_work(&self) -> bool {
        !self.housekeeping.orders.is_empty()
            || !self.housekeeping.reports.is_empty()
            || self.journal.has_work()
            || self.ports.has_link_work()
            || self.pipes.has_doorbell()
    }

    fn wait(&mut self, waits_for_port: bool) {
        let mut timeout = self
            .housekeeping
            .clock
            .next_tick
            .saturating_duration_since(Instant::now());
        if let Some(paced_for) = self.pipes.paced_for() {
            timeout = timeout.min(paced_for);
        }
        if waits_for_port {
            timeout = timeout.min(FULL_PORT_WAIT);
        }
        let Idler { fds, sessions, .. } = &mut self.housekeeping.idler;
        fds.clear();
        sessions.clear();
        for (slot, session) in self
            .pipes
            .sessions
            .iter()
            .filter(|(_, session)| !session.wake_broken)
        {
            fds.push(readable(session.to_lane.as_fd().as_raw_fd()));
            sessions.push(slot);
        }
        fds.push(readable(self.housekeeping.orders.as_fd().as_raw_fd()));
        if let Some(journal) = self.journal.durable.as_ref().and_then(Durable::waits_for) {
            fds.push(readable(journal.as_fd().as_raw_fd()));
        }
        for slot in &self.ports.slots {
            fds.extend(slot.port.wait_fds().into_iter().map(readable));
        }
        self.housekeeping.load.sleeps += 1;
        let timeout = libc::timespec {
            tv_sec: timeout.as_secs().cast_signed(),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // SAFETY: `fds` is a live, exclusively borrowed array of that many entries. `timeout` lives
        // through the call. A null signal mask leaves the mask unchanged. A descriptor that was
        // closed meanwhile is reported, not dereferenced.
        let ready = unsafe {
            libc::ppoll(
                fds.as_mut_ptr(),
                fds.len() as libc::nfds_t,
                &timeout,
                std::ptr::null(),
            )
        };
        if ready <= 0 {
            return;
        }
        self.housekeeping.orders.silence();
        for (fd, &slot) in fds.iter().zip(sessions.iter()) {
            if fd.revents != 0
                && let Some(session) = self.pipes.sessions.get_mut(slot)
            {
                // A descriptor that cannot be drained would stay readable forever.
                session.wake_broken = session.to_lane.drain().is_err();
            }
        }
    }
}

const fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_notified_of_idleness_after_many_empty_rounds() {
        let mut idler = Idler::new(Idle::Poll, Duration::MAX);
        let mut idle_rounds = Vec::new();
        for round in 1..=1000 {
            let found_work = round == 300;
            if idler.is_quiet(found_work) {
                idle_rounds.push(round);
            }
            idler.pause(found_work, false, false);
        }
        assert_eq!(idle_rounds, [256, 556, 812]);
    }

    #[test]
    fn a_lane_spins_for_its_configured_time_and_then_sleeps() {
        let spin = Duration::from_micros(50);
        let start = Instant::now();
        for (policy, spins) in [
            (Idle::Poll, Duration::MAX),
            (Idle::Adaptive, spin),
            (Idle::Interrupt, Duration::ZERO),
        ] {
            let mut idler = Idler::new(policy, spin);
            assert_eq!(idler.spin(), spins);
            assert!(!idler.is_tired(start, true), "{policy:?}");
            assert_eq!(idler.is_tired(start, false), spins.is_zero());
            let later = start + Duration::from_micros(49);
            assert_eq!(idler.is_tired(later, false), spins < spin, "{policy:?}");
            let later = start + Duration::from_secs(60);
            assert_eq!(idler.is_tired(later, false), policy != Idle::Poll);
        }
    }
}
