//! Changes the configuration of a lane: the host has it prepare, and then commit or roll back.
//!
//! The lane does everything that may fail while it prepares, in bounded steps per round: rules on
//! its ports, and every rule on new ports (`lane/fill.rs`). Meanwhile it serves packets, links and
//! applications. Commands of clients wait. It commits at one loop boundary, which cannot fail. The
//! lane closes no port: it hands detached and replaced ports over.

use std::{sync::Arc, time::Duration};

use covalent_api::{
    agreement::{LaneHeld, PortHeld},
    rule::{Action, Match},
};
use covalent_config::{Config, FaultsConfig, Idle};
use covalent_protocol::LinkState;

use super::{
    Lane,
    command::{Answer, LaneObjection, Report, Stepped},
    fill::Fill,
    new_port::NewPort,
    policy::Policy,
};
use crate::{flow::Toeplitz, port::Port};

/// Steps of one round: a rule looked at or changed on one port.
const STEPS_PER_ROUND: usize = 64;

/// The configuration that one lane is to hold.
#[derive(Debug)]
pub struct LaneWant {
    /// Its epoch.
    pub epoch: u64,
    /// The settings that change at once.
    pub tuning: LaneTuning,
    /// The policy for frames.
    pub policy: Arc<Policy>,
    /// Matches whose action differs from the policy in force: [`Policy::differing`].
    pub changed: Vec<Match>,
    /// Ports that damage their own frames, by number, and how from now on.
    pub faults: Vec<(u16, FaultsConfig)>,
    /// Ports that are not configured any more, by number.
    pub removed: Vec<u16>,
}

/// Settings that a lane takes over at one loop boundary.
#[derive(Debug)]
pub struct LaneTuning {
    core: Option<u32>,
    idle: Idle,
    spin: Duration,
    burst: usize,
    tick_period: Duration,
    keepalive_misses_max: u32,
    event_ratio: u32,
    toeplitz: Toeplitz,
}

impl LaneTuning {
    /// Returns the settings of lane `lane` in `config`.
    #[must_use]
    pub fn new(config: &Config, lane: u32) -> Self {
        Self {
            core: config.lane.get(lane as usize).and_then(|lane| lane.core),
            idle: config.dataplane.idle,
            spin: Duration::from_micros(config.dataplane.spin_us.into()),
            burst: config.dataplane.burst as usize,
            tick_period: Duration::from_millis(config.link.idle_tick_ms.into()),
            keepalive_misses_max: config.link.keepalive_misses_max,
            event_ratio: config.link.event_ratio,
            toeplitz: Toeplitz::new(&config.dataplane.rss_key),
        }
    }
}

/// A change of the configuration. Each round does one part, as for a [`super::release::Release`].
#[derive(Debug)]
pub(super) struct Change {
    ticket: u64,
    want: Arc<LaneWant>,
    /// New ports without all of their rules. The last one is next.
    waiting: Vec<Fill>,
    /// New ports with all of their rules.
    filled: Vec<Fill>,
    /// Steps done with the ports that are there: ports times matches.
    done: usize,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Looking whether anything is in the way.
    Checking,
    /// Changing rules.
    Preparing,
    /// All is done that may fail. The next command commits or rolls back.
    Prepared,
    /// Rolling the rules back, with the objection that caused it, if any.
    RollingBack(Option<LaneObjection>),
}

/// Builds the answer to a step: its result, and the ports that the lane hands over.
fn stepped(
    went: Result<LaneHeld, LaneObjection>,
    ports: impl IntoIterator<Item = (u16, Box<dyn Port>)>,
) -> Answer {
    Answer::Stepped(Box::new(Stepped {
        went,
        ports: ports.into_iter().collect(),
    }))
}

impl Lane {
    /// Begins to check whether anything is in the way of `want`.
    pub(super) fn check(&mut self, ticket: u64, want: Arc<LaneWant>) {
        self.begin_change(ticket, want, Vec::new(), Stage::Checking);
    }

    /// Detaches ports. The placeholder ports in their slots keep the bindings.
    pub(super) fn detach_ports(&mut self, ports: &[u16]) -> Answer {
        let slots = self.ports.slots.iter_mut();
        let taken_out: Vec<_> = slots
            .filter(|slot| ports.contains(&slot.index))
            .map(|slot| (slot.index, slot.take_out("it is being reopened")))
            .collect();
        stepped(Ok(self.view()), taken_out)
    }

    /// Begins to prepare `want`, with its new ports.
    pub(super) fn prepare(&mut self, ticket: u64, want: Arc<LaneWant>, ports: Vec<NewPort>) {
        let fills = ports.into_iter().map(|new| {
            let has_place = self.has_place(new.number);
            Fill::new(new, has_place)
        });
        let fills = fills.collect();
        self.begin_change(ticket, want, fills, Stage::Preparing);
    }

    fn begin_change(&mut self, ticket: u64, want: Arc<LaneWant>, waiting: Vec<Fill>, stage: Stage) {
        self.housekeeping.change = Some(Change {
            ticket,
            want,
            waiting,
            filled: Vec::new(),
            done: 0,
            stage,
        });
    }

    /// Begins to roll the prepared change back. Returns `Some` if there is none.
    pub(super) fn roll_back(&mut self, ticket: u64) -> Option<Answer> {
        let Some(change) = &mut self.housekeeping.change else {
            return Some(stepped(Ok(self.view()), []));
        };
        change.ticket = ticket;
        change.stage = Stage::RollingBack(None);
        None
    }

    /// Does this round's part of the change in progress. Returns whether there was one.
    pub(super) fn go_on_changing(&mut self) -> bool {
        let in_progress = |change: &mut Change| !matches!(change.stage, Stage::Prepared);
        let Some(mut change) = self.housekeeping.change.take_if(in_progress) else {
            return false;
        };
        for _ in 0..STEPS_PER_ROUND {
            if let Some(answer) = self.change_step(&mut change) {
                let ticket = change.ticket;
                let result = Ok(answer);
                self.housekeeping
                    .reports
                    .push(Report::Answer { ticket, result });
                if let Stage::Prepared = change.stage {
                    self.housekeeping.change = Some(change);
                }
                return true;
            }
        }
        self.housekeeping.change = Some(change);
        true
    }

    fn steps(&self, want: &LaneWant) -> usize {
        self.ports.slots.len() * want.changed.len()
    }

    /// One step; `Some` once nothing is left to do.
    fn change_step(&mut self, change: &mut Change) -> Option<Answer> {
        let want = Arc::clone(&change.want);
        let step = change.done;
        let blocked = match &change.stage {
            Stage::RollingBack(_) => return self.step_back(change, &want),
            // New ports go first: until they have all rules, nothing has changed for the existing
            // ports.
            Stage::Preparing if !change.waiting.is_empty() => {
                self.fill_next(&mut change.waiting, &mut change.filled, &want.policy)
            }
            stage if step == self.steps(&want) => {
                if let Stage::Preparing = stage {
                    change.stage = Stage::Prepared;
                }
                return Some(stepped(Ok(self.view()), []));
            }
            Stage::Checking => {
                change.done += 1;
                self.check_no_pipe_bound(&want, step)
            }
            Stage::Preparing | Stage::Prepared => {
                change.done += 1;
                self.check_no_pipe_bound(&want, step)
                    .and_then(|()| self.reconcile(&want, step, &want.policy))
            }
        };
        let Err(blocked) = blocked else { return None };
        if let Stage::Checking = change.stage {
            return Some(stepped(Err(blocked), []));
        }
        change.stage = Stage::RollingBack(Some(blocked));
        None
    }

    /// One step back.
    fn step_back(&mut self, change: &mut Change, want: &LaneWant) -> Option<Answer> {
        if let Some(step) = change.done.checked_sub(1) {
            change.done = step;
            let policy = Arc::clone(&self.settings.policy);
            // The rule was in force before, and its table entry is free again: a kernel that
            // refuses it now is unusable.
            let _ = self.reconcile(want, step, &policy);
            return None;
        }
        let blocked = match &mut change.stage {
            Stage::RollingBack(blocked) => blocked.take(),
            Stage::Checking | Stage::Preparing | Stage::Prepared => None,
        };
        let fills = change.waiting.drain(..).chain(change.filled.drain(..));
        let ports: Vec<_> = fills.map(Fill::into_port).collect();
        Some(stepped(blocked.map_or_else(|| Ok(self.view()), Err), ports))
    }

    /// Installs the next rule on the next new port.
    fn fill_next(
        &self,
        waiting: &mut Vec<Fill>,
        filled: &mut Vec<Fill>,
        policy: &Policy,
    ) -> Result<(), LaneObjection> {
        if let Some(fill) = waiting.last_mut()
            && fill.step(policy, &self.pipes)?
        {
            filled.extend(waiting.pop());
        }
        Ok(())
    }

    /// Port and match of a step.
    fn place_of<'w>(&self, want: &'w LaneWant, step: usize) -> Option<(usize, &'w Match)> {
        let matches = want.changed.get(step % want.changed.len().max(1))?;
        Some((step / want.changed.len(), matches))
    }

    /// A rule that keeps frames from pipes is not put over one.
    fn check_no_pipe_bound(&self, want: &LaneWant, step: usize) -> Result<(), LaneObjection> {
        let Some((at, matches)) = self.place_of(want, step) else {
            return Ok(());
        };
        let Some(Action::Kernel | Action::Drop) = want.policy.action(matches) else {
            return Ok(());
        };
        let slot = &self.ports.slots[at];
        let Some(pipe) = slot.flow.pipe_with(matches) else {
            return Ok(());
        };
        Err(LaneObjection {
            matches: Some(matches.clone()),
            port: None,
            reason: format!(
                "{} is bound to `{matches}` on port `{}`: stop that application or omit the rule",
                self.pipes.describe(pipe),
                slot.port.info().name
            ),
        })
    }

    fn reconcile(
        &mut self,
        want: &LaneWant,
        step: usize,
        policy: &Policy,
    ) -> Result<(), LaneObjection> {
        let Some((at, matches)) = self.place_of(want, step) else {
            return Ok(());
        };
        let slot = &mut self.ports.slots[at];
        let changed = slot.reconcile(matches, policy);
        changed.map_err(|error| LaneObjection {
            matches: Some(matches.clone()),
            port: None,
            reason: error.to_string(),
        })
    }

    /// Holds the prepared configuration from this loop boundary on, which the epoch in the answer
    /// shows.
    pub(super) fn commit(&mut self) -> Answer {
        let Some(Change { want, filled, .. }) = self.housekeeping.change.take() else {
            return stepped(Ok(self.view()), []);
        };
        self.housekeeping.epoch = want.epoch;
        let tuning = &want.tuning;
        self.settings.idle = tuning.idle;
        self.settings.burst = tuning.burst;
        self.settings.tick_period = tuning.tick_period;
        self.settings.toeplitz = tuning.toeplitz.clone();
        self.settings.policy = Arc::clone(&want.policy);
        let mut left: Vec<_> = filled
            .into_iter()
            .filter_map(|fill| self.place(fill))
            .collect();
        for slot in &mut self.ports.slots {
            if want.removed.contains(&slot.index) && std::mem::take(&mut slot.is_configured) {
                left.push((slot.index, slot.take_out("it is no longer configured")));
            }
        }
        self.housekeeping.idler.tune(tuning.idle, tuning.spin);
        self.ports
            .node
            .set_patience(tuning.keepalive_misses_max, tuning.event_ratio);
        self.housekeeping.clock.next_tick = self
            .housekeeping
            .clock
            .next_tick
            .min(self.housekeeping.clock.now + tuning.tick_period);
        for slot in &mut self.ports.slots {
            slot.take_over_misses(want.policy.miss);
            let faults = want.faults.iter().find(|(port, _)| *port == slot.index);
            if let Some((_, faults)) = faults {
                // Whether a port damages its frames at all is settled when it is opened.
                let _ = slot.port.set_faults(faults.rx, faults.tx);
            }
        }
        self.housekeeping.pinning.want(tuning.core);
        // Immediately, so that the link of each port sees its new carrier in this round.
        self.watch_carriers();
        stepped(Ok(self.view()), left)
    }

    /// Returns the configuration that this lane holds at this loop boundary.
    pub(super) fn view(&self) -> LaneHeld {
        let link_epoch = |port: u16| {
            let link = self.ports.node.links().find(|link| link.port == port)?;
            (link.state == LinkState::Up).then_some(link.epoch)
        };
        let configured = self.ports.slots.iter().filter(|slot| slot.is_configured);
        let ports = configured.map(|slot| PortHeld {
            name: slot.port.info().name.clone(),
            open: slot.is_open(),
            link_epoch: link_epoch(slot.index),
            facts: slot.port.facts().cloned(),
        });
        LaneHeld {
            lane: self.settings.lane,
            epoch: self.housekeeping.epoch,
            loops: self.housekeeping.load.loops,
            ports: ports.collect(),
        }
    }
}

#[cfg(test)]
mod tests;
