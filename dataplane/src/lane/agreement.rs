//! Takes over another configuration: rules in bounded steps per round, the rest at one loop
//! boundary.
//!
//! The lane serves packets, links and applications in each round. Commands of clients wait. The
//! lane changes its configuration only when it settles, and everything that can fail happens
//! before. New ports follow the same path: the lane installs every rule on them first
//! (`lane/fill.rs`), and inserts them when it settles. The lane closes no port: it hands detached
//! ports to the host thread.

use std::{sync::Arc, time::Duration};

use covalent_api::{
    agreement::{LaneHeld, PortHeld},
    config::{Config, FaultsConfig, Idle},
    rule::{Action, Match},
};
use covalent_protocol::{
    LinkState,
    agreement::{Proposal, Refusal},
};

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
    /// The offer that it belongs to.
    pub proposal: Proposal,
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

/// A change in progress on a lane. Each round does one part, as for a [`super::release::Release`].
#[derive(Debug)]
pub(super) struct Taking {
    ticket: u64,
    want: Arc<LaneWant>,
    /// New ports without all of their rules. The last one is next.
    waiting: Vec<Fill>,
    /// New ports with all of their rules.
    filled: Vec<Fill>,
    /// Steps done with the ports that are there: ports times matches.
    done: usize,
    going: Going,
}

/// A configuration that can be settled.
#[derive(Debug)]
pub(super) struct Ready {
    want: Arc<LaneWant>,
    filled: Vec<Fill>,
}

#[derive(Debug)]
enum Going {
    /// Looking whether anything is in the way.
    Judging,
    /// Changing rules.
    Forward,
    /// Rolling the rules back, with the objection that caused it, if any.
    Back(Option<LaneObjection>),
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

/// Converts a refusal of the slot to a readable reason. Other parties report the cause too.
fn refused(refusal: Refusal) -> LaneObjection {
    let reason = match refusal {
        Refusal::Stale => "the lane holds another configuration than expected",
        Refusal::NotLater => "the lane holds an epoch that is not earlier",
        Refusal::Busy | Refusal::Unready | Refusal::Lane(_) => {
            "the lane is taking over another configuration"
        }
    };
    LaneObjection {
        matches: None,
        port: None,
        reason: reason.to_owned(),
    }
}

impl Lane {
    /// Begins to check whether the lane could take `want`. Returns `Some` if the answer is
    /// immediate.
    pub(super) fn judge(&mut self, ticket: u64, want: Arc<LaneWant>) -> Option<Answer> {
        if let Err(refusal) = self.slot.judge(&want.proposal) {
            return Some(stepped(Err(refused(refusal)), []));
        }
        self.begin_taking(ticket, want, Vec::new(), Going::Judging)
    }

    /// Detaches ports. The placeholder ports in their slots keep the bindings.
    pub(super) fn detach_ports(&mut self, proposal: &Proposal, ports: &[u16]) -> Answer {
        if let Err(refusal) = self.slot.detach_ports(proposal) {
            return stepped(Err(refused(refusal)), []);
        }
        let slots = self.ports.iter_mut();
        let taken_out: Vec<_> = slots
            .filter(|slot| ports.contains(&slot.index))
            .map(|slot| (slot.index, slot.take_out("it is being reopened")))
            .collect();
        stepped(Ok(self.view()), taken_out)
    }

    /// Begins to take `want`, with its new ports. Returns `Some` if the answer is immediate.
    pub(super) fn take(
        &mut self,
        ticket: u64,
        want: Arc<LaneWant>,
        ports: Vec<NewPort>,
    ) -> Option<Answer> {
        if let Err(refusal) = self.slot.take(&want.proposal) {
            let ports = ports.into_iter().map(|new| (new.number, new.port));
            return Some(stepped(Err(refused(refusal)), ports));
        }
        let fills = ports.into_iter().map(|new| {
            let has_place = self.has_place(new.number);
            Fill::new(new, has_place)
        });
        let fills = fills.collect();
        self.begin_taking(ticket, want, fills, Going::Forward)
    }

    fn begin_taking(
        &mut self,
        ticket: u64,
        want: Arc<LaneWant>,
        waiting: Vec<Fill>,
        going: Going,
    ) -> Option<Answer> {
        self.taking = Some(Taking {
            ticket,
            want,
            waiting,
            filled: Vec::new(),
            done: 0,
            going,
        });
        None
    }

    /// Begins to roll back the prepared configuration. Returns `Some` if the answer is immediate.
    pub(super) fn undo(&mut self, ticket: u64, epoch: u64) -> Option<Answer> {
        let ready = self.ready.take();
        let (true, Some(Ready { want, filled })) = (self.slot.undo(epoch), ready) else {
            return Some(stepped(Ok(self.view()), []));
        };
        let done = self.steps(&want);
        self.taking = Some(Taking {
            ticket,
            want,
            waiting: Vec::new(),
            filled,
            done,
            going: Going::Back(None),
        });
        None
    }

    /// Does this round's part of the change in progress. Returns whether there was one.
    pub(super) fn go_on_taking(&mut self) -> bool {
        let Some(mut taking) = self.taking.take() else {
            return false;
        };
        for _ in 0..STEPS_PER_ROUND {
            if let Some(answer) = self.take_step(&mut taking) {
                let ticket = taking.ticket;
                let result = Ok(answer);
                self.core.outbox.push(Report::Answer { ticket, result });
                return true;
            }
        }
        self.taking = Some(taking);
        true
    }

    fn steps(&self, want: &LaneWant) -> usize {
        self.ports.len() * want.changed.len()
    }

    /// One step; `Some` once nothing is left to do.
    fn take_step(&mut self, taking: &mut Taking) -> Option<Answer> {
        let want = Arc::clone(&taking.want);
        if let Going::Back(_) = taking.going {
            return self.step_back(taking, &want);
        }
        let step = taking.done;
        let blocked = match &taking.going {
            // New ports go first: until they have all rules, nothing has changed for the existing
            // ports.
            Going::Forward if !taking.waiting.is_empty() => {
                self.fill_next(&mut taking.waiting, &mut taking.filled, &want.policy)
            }
            going if step == self.steps(&want) => {
                if let Going::Forward = going {
                    self.slot.ready();
                    self.ready = Some(Ready {
                        want,
                        filled: std::mem::take(&mut taking.filled),
                    });
                }
                return Some(stepped(Ok(self.view()), []));
            }
            Going::Judging => {
                taking.done += 1;
                self.check_no_pipe_bound(&want, step)
            }
            _ => {
                taking.done += 1;
                self.check_no_pipe_bound(&want, step)
                    .and_then(|()| self.reconcile(&want, step, &want.policy))
            }
        };
        let Err(blocked) = blocked else { return None };
        if let Going::Judging = taking.going {
            return Some(stepped(Err(blocked), []));
        }
        self.slot.fail();
        taking.going = Going::Back(Some(blocked));
        None
    }

    /// One step back.
    fn step_back(&mut self, taking: &mut Taking, want: &LaneWant) -> Option<Answer> {
        if let Some(step) = taking.done.checked_sub(1) {
            taking.done = step;
            let policy = Arc::clone(&self.settings.policy);
            // The rule was in force before, and its table entry is free again: a kernel that
            // refuses it now is unusable.
            let _ = self.reconcile(want, step, &policy);
            return None;
        }
        self.slot.undone();
        let blocked = match std::mem::replace(&mut taking.going, Going::Judging) {
            Going::Back(blocked) => blocked,
            Going::Judging | Going::Forward => None,
        };
        let fills = taking.waiting.drain(..).chain(taking.filled.drain(..));
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
            && fill.step(policy, &self.core)?
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
        let slot = &self.ports[at];
        let Some(pipe) = slot.flow.pipe_with(matches) else {
            return Ok(());
        };
        let (number, session) = self.core.name_of(pipe);
        Err(LaneObjection {
            matches: Some(matches.clone()),
            port: None,
            reason: format!(
                "pipe {number} of session {session} is bound to `{matches}` on port `{}`: stop \
                 that application or omit the rule",
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
        let slot = &mut self.ports[at];
        let changed = slot.reconcile(matches, policy);
        changed.map_err(|error| LaneObjection {
            matches: Some(matches.clone()),
            port: None,
            reason: error.to_string(),
        })
    }

    /// Holds the prepared configuration from this loop boundary on.
    pub(super) fn settle(&mut self, epoch: u64) -> Answer {
        let ready = self.ready.take();
        let (true, Some(Ready { want, filled })) = (self.slot.settle(epoch), ready) else {
            return stepped(Err(refused(Refusal::Stale)), []);
        };
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
        for slot in &mut self.ports {
            if want.removed.contains(&slot.index) && std::mem::take(&mut slot.is_configured) {
                left.push((slot.index, slot.take_out("it is no longer configured")));
            }
        }
        self.idler.tune(tuning.idle, tuning.spin);
        self.node
            .set_patience(tuning.keepalive_misses_max, tuning.event_ratio);
        self.next_tick = self.next_tick.min(self.core.now + tuning.tick_period);
        for slot in &mut self.ports {
            slot.take_over_misses(want.policy.miss);
            let faults = want.faults.iter().find(|(port, _)| *port == slot.index);
            if let Some((_, faults)) = faults {
                // Whether a port damages its frames at all is settled when it is opened.
                let _ = slot.port.set_faults(faults.rx, faults.tx);
            }
        }
        self.pinning.want(tuning.core);
        // Immediately, so that the link of each port sees its new carrier in this round.
        self.watch_carriers();
        stepped(Ok(self.view()), left)
    }

    /// Returns the configuration that this lane holds at this loop boundary.
    pub(super) fn view(&self) -> LaneHeld {
        let link_epoch = |port: u16| {
            let link = self.node.links().find(|link| link.port == port)?;
            (link.state == LinkState::Up).then_some(link.epoch)
        };
        let configured = self.ports.iter().filter(|slot| slot.is_configured);
        let ports = configured.map(|slot| PortHeld {
            name: slot.port.info().name.clone(),
            open: slot.is_open(),
            link_epoch: link_epoch(slot.index),
            facts: slot.port.facts().cloned(),
        });
        LaneHeld {
            lane: self.settings.lane,
            epoch: self.slot.held().epoch,
            loops: self.loops,
            ports: ports.collect(),
        }
    }
}

#[cfg(test)]
mod tests;
