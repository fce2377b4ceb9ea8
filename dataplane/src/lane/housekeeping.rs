//! What a lane does beside its work: commands and reports, the configuration that it holds, its
//! clock, its counters, its rest.
//!
//! - At most one command of the host thread begins in a round, and no other one while it takes more
//!   rounds (`release`, `change`). Each round does a bounded part of it.
//! - The clock is read once per round; only an idle round may use the time of the one before.
//! - Exactly the reports that did not fit into the mailbox wait for the next round.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    coalesce::Coalesce,
    command::Order,
    idle::Idler,
    leave::{Leaving, Left},
    pinning::Pinning,
    pipes::Pipes,
    reconfigure::Change,
    release::Release,
    reports::Reports,
    round_trips,
};
use crate::{mailbox::Mailbox, progress::Beat, telemetry::LaneCounters};

/// See the module.
pub(super) struct Housekeeping {
    pub orders: Arc<Mailbox<Order>>,
    pub reports: Reports,
    /// The removal in progress, if it needs more than one round.
    pub release: Option<Release>,
    /// Epoch of the configuration that the lane holds.
    pub epoch: u64,
    /// A change of the configuration that is in progress or prepared.
    pub change: Option<Change>,
    pub clock: Clock,
    pub load: Load,
    /// Counts the ticks.
    pub beat: Arc<Beat>,
    /// Its part of the counters in shared memory, if there are any.
    pub counters: Option<LaneCounters>,
    pub pinning: Pinning,
    pub idler: Idler,
    pub coalesce: Coalesce,
    pub stopping: bool,
    /// A graceful shutdown is in progress.
    pub leaving: Option<Leaving>,
    /// The shutdown is over, and the lane serves no client any more.
    pub left: Option<Left>,
}

/// The time of a lane.
#[derive(Debug)]
pub(super) struct Clock {
    started: Instant,
    /// When this round began, or one shortly before it.
    pub now: Instant,
    pub next_tick: Instant,
    /// When links without open exchanges send the next ping.
    next_ping: Instant,
}

/// What a lane has done so far.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Rounds.
    pub loops: u64,
    /// Of these, those that found work.
    pub busy_loops: u64,
    pub sleeps: u64,
    pub longest_round: Duration,
    /// Time in rounds with work.
    pub busy: Duration,
    /// CPU time of the thread in nanoseconds, as last read for the counters.
    pub cpu_ns: u64,
}

impl Housekeeping {
    /// That of a lane which begins now.
    pub fn new(
        orders: Arc<Mailbox<Order>>,
        reports: Reports,
        pinning: Pinning,
        idler: Idler,
        tick_period: Duration,
    ) -> Self {
        let now = Instant::now();
        Self {
            orders,
            reports,
            release: None,
            epoch: 0,
            change: None,
            clock: Clock {
                started: now,
                now,
                next_tick: now + tick_period,
                next_ping: now,
            },
            load: Load::default(),
            beat: Arc::default(),
            counters: None,
            pinning,
            idler,
            coalesce: Coalesce::default(),
            stopping: false,
            leaving: None,
            left: None,
        }
    }

    /// A round begins.
    pub fn begin_round(&mut self) {
        if !self.idler.time_will_do() {
            self.clock.now = Instant::now();
        }
    }

    /// A round ends that found so much work.
    pub fn count_round(&mut self, work: usize) {
        let load = &mut self.load;
        load.loops += 1;
        if work > 0 {
            load.busy_loops += 1;
            let took = self.clock.now.elapsed();
            load.longest_round = load.longest_round.max(took);
            load.busy += took;
        }
    }

    /// Passes waiting reports to the host thread, with the violations of applications.
    pub fn report(&mut self, pipes: &mut Pipes) {
        while let Some(violation) = pipes.next_violation() {
            self.reports.push(violation);
        }
        self.reports.flush();
    }
}

impl Clock {
    /// How long the lane runs.
    pub fn age(&self) -> Duration {
        self.now.saturating_duration_since(self.started)
    }

    /// Whether a tick is due; if so, another one is due a period later. A lane that was descheduled
    /// runs one tick, not many: it first handles the frames that arrived meanwhile.
    pub fn ticks(&mut self, period: Duration) -> bool {
        let is_due = self.now >= self.next_tick;
        if is_due {
            self.next_tick = self.now + period;
        }
        is_due
    }

    /// Whether links are to send a ping, so that idle ones have a known round trip too.
    pub fn pings(&mut self) -> bool {
        let is_due = self.now >= self.next_ping;
        if is_due {
            self.next_ping = self.now + round_trips::PING_INTERVAL;
        }
        is_due
    }
}

#[cfg(test)]
mod round_bounds;
