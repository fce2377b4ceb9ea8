//! Taking over another configuration: rules some in each round, the rest at one loop boundary.
//!
//! Packets, links and applications are served in each round; commands of clients wait. What the lane holds changes when it settles and at no other
//! moment, and everything that can fail was done before that.

use std::{sync::Arc, time::Duration};

use covalent_api::{
    agreement::{LaneHeld, PortHeld},
    config::{Config, FaultsConfig, Idle},
    rule::{Action, Match},
};
use covalent_protocol::{
    LinkState,
    agreement::{Offer, Refusal},
};

use super::{
    Lane,
    command::{Answer, Report},
    policy::Policy,
};
use crate::flow::Toeplitz;

/// Steps of one round: a rule looked at or changed on one port.
const STEPS_PER_ROUND: usize = 64;

/// What one lane is to hold.
#[derive(Debug)]
pub struct LaneWant {
    /// The offer that it is part of.
    pub offer: Offer,
    /// What changes at once.
    pub tuning: LaneTuning,
    /// What happens to frames.
    pub policy: Arc<Policy>,
    /// Matches about which it says something else than the policy in force: [`Policy::differing`].
    pub changed: Vec<Match>,
    /// Ports that damage their own frames, by number, and how from now on.
    pub faults: Vec<(u16, FaultsConfig)>,
}

/// What a lane takes over at one loop boundary.
#[derive(Debug)]
pub struct LaneTuning {
    core: Option<u32>,
    idle: Idle,
    spin: Duration,
    burst: usize,
    pace: Duration,
    silent_paces_max: u32,
    event_ratio: u32,
    toeplitz: Toeplitz,
}

impl LaneTuning {
    /// What `config` says of lane `lane`.
    #[must_use]
    pub fn new(config: &Config, lane: u32) -> Self {
        Self {
            core: config.lane.get(lane as usize).and_then(|lane| lane.core),
            idle: config.dataplane.idle,
            spin: Duration::from_micros(config.dataplane.spin_us.into()),
            burst: config.dataplane.burst as usize,
            pace: Duration::from_millis(config.link.idle_pace_ms.into()),
            silent_paces_max: config.link.silent_paces_max,
            event_ratio: config.link.event_ratio,
            toeplitz: Toeplitz::new(&config.dataplane.rss_key),
        }
    }
}

/// Under way on a lane; one part in each round, as a [`super::release::Release`] is.
#[derive(Debug)]
pub(super) struct Taking {
    ticket: u64,
    want: Arc<LaneWant>,
    /// Steps done: ports times matches.
    done: usize,
    going: Going,
}

#[derive(Debug)]
enum Going {
    /// Looking whether anything is in the way.
    Judging,
    /// Changing rules.
    Forward,
    /// Changing them back; with what could not be done, if that is why.
    Back(Option<Blocked>),
}

/// Why a step cannot be done.
#[derive(Debug)]
struct Blocked {
    matches: Option<Match>,
    reason: String,
}

impl From<Blocked> for Answer {
    fn from(blocked: Blocked) -> Self {
        Self::Objection {
            matches: blocked.matches,
            reason: blocked.reason,
        }
    }
}

/// The slot's words for people, who are told the reason by others too.
fn refused(refusal: Refusal) -> Answer {
    let reason = match refusal {
        Refusal::Stale => "the lane holds something else than was believed",
        Refusal::NotLater => "the lane holds an epoch that is not earlier",
        Refusal::Busy | Refusal::Unready | Refusal::Lane(_) => {
            "the lane is taking something else over"
        }
    };
    Answer::Objection {
        matches: None,
        reason: reason.to_owned(),
    }
}

impl Lane {
    /// Begins to look whether the lane could take `want`. `Some`: it is answered at once.
    pub(super) fn judge(&mut self, ticket: u64, want: Arc<LaneWant>) -> Option<Answer> {
        if let Err(refusal) = self.slot.judge(&want.offer) {
            return Some(refused(refusal));
        }
        self.begin_taking(ticket, want, Going::Judging)
    }

    /// Begins to take `want`. `Some`: it is answered at once.
    pub(super) fn take(&mut self, ticket: u64, want: Arc<LaneWant>) -> Option<Answer> {
        if let Err(refusal) = self.slot.take(&want.offer) {
            return Some(refused(refusal));
        }
        self.begin_taking(ticket, want, Going::Forward)
    }

    fn begin_taking(&mut self, ticket: u64, want: Arc<LaneWant>, going: Going) -> Option<Answer> {
        self.taking = Some(Taking {
            ticket,
            want,
            done: 0,
            going,
        });
        None
    }

    /// Begins to change back what was made ready. `Some`: it is answered at once.
    pub(super) fn undo(&mut self, ticket: u64, epoch: u64) -> Option<Answer> {
        let ready = self.ready.take();
        let (true, Some(want)) = (self.slot.undo(epoch), ready) else {
            return Some(Answer::Done);
        };
        let done = self.steps(&want);
        self.taking = Some(Taking {
            ticket,
            want,
            done,
            going: Going::Back(None),
        });
        None
    }

    /// Does this round's part of what is under way. Returns whether something was.
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
            let Some(step) = taking.done.checked_sub(1) else {
                self.slot.undone();
                let Going::Back(blocked) = std::mem::replace(&mut taking.going, Going::Judging)
                else {
                    return Some(Answer::Done);
                };
                return Some(blocked.map_or(Answer::Done, Answer::from));
            };
            taking.done = step;
            let policy = Arc::clone(&self.settings.policy);
            // It was in force before, and its place is free again: a kernel below that refuses it now is beyond use.
            let _ = self.reconcile(&want, step, &policy);
            return None;
        }
        if taking.done == self.steps(&want) {
            if let Going::Forward = taking.going {
                self.slot.ready();
                self.ready = Some(want);
            }
            return Some(Answer::Held(Box::new(self.view())));
        }
        let step = taking.done;
        taking.done += 1;
        let blocked = match taking.going {
            Going::Judging => self.look_for_pipe(&want, step),
            _ => self
                .look_for_pipe(&want, step)
                .and_then(|()| self.reconcile(&want, step, &want.policy)),
        };
        let Err(blocked) = blocked else { return None };
        if let Going::Judging = taking.going {
            return Some(blocked.into());
        }
        self.slot.fail();
        taking.going = Going::Back(Some(blocked));
        None
    }

    /// Port and match of a step.
    fn place_of<'w>(&self, want: &'w LaneWant, step: usize) -> Option<(usize, &'w Match)> {
        let matches = want.changed.get(step % want.changed.len().max(1))?;
        Some((step / want.changed.len(), matches))
    }

    /// A rule that keeps frames from pipes is not put over one.
    fn look_for_pipe(&self, want: &LaneWant, step: usize) -> Result<(), Blocked> {
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
        Err(Blocked {
            matches: Some(matches.clone()),
            reason: format!(
                "pipe {number} of session {session} is bound to `{matches}` on port `{}`: end that application or leave the rule out",
                slot.port.info().name
            ),
        })
    }

    fn reconcile(&mut self, want: &LaneWant, step: usize, policy: &Policy) -> Result<(), Blocked> {
        let Some((at, matches)) = self.place_of(want, step) else {
            return Ok(());
        };
        let slot = &mut self.ports[at];
        let changed = slot.reconcile(matches, policy);
        changed.map_err(|error| Blocked {
            matches: Some(matches.clone()),
            reason: error.to_string(),
        })
    }

    /// Holds what was made ready, from this loop boundary on.
    pub(super) fn settle(&mut self, epoch: u64) -> Answer {
        let ready = self.ready.take();
        let (true, Some(want)) = (self.slot.settle(epoch), ready) else {
            return refused(Refusal::Stale);
        };
        let tuning = &want.tuning;
        self.settings.idle = tuning.idle;
        self.settings.burst = tuning.burst;
        self.settings.pace = tuning.pace;
        self.settings.toeplitz = tuning.toeplitz.clone();
        self.settings.policy = Arc::clone(&want.policy);
        self.idler.tune(tuning.idle, tuning.spin);
        self.node
            .set_patience(tuning.silent_paces_max, tuning.event_ratio);
        self.next_tick = self.next_tick.min(self.core.now + tuning.pace);
        for slot in &mut self.ports {
            slot.take_over_misses(want.policy.miss);
            slot.port.set_burst(tuning.burst as u32);
            let faults = want.faults.iter().find(|(port, _)| *port == slot.index);
            if let Some((_, faults)) = faults {
                // Whether a port damages its frames at all is settled when it is opened.
                let _ = slot.port.set_faults(faults.rx, faults.tx);
            }
        }
        if self.settings.core != tuning.core {
            self.settings.core = tuning.core;
            self.pin();
        }
        Answer::Held(Box::new(self.view()))
    }

    /// What this lane holds, at this loop boundary.
    fn view(&self) -> LaneHeld {
        let link_epoch = |port: u16| {
            let link = self.node.links().find(|link| link.port == port)?;
            (link.state == LinkState::Up).then_some(link.epoch)
        };
        let ports = self.ports.iter().map(|slot| PortHeld {
            name: slot.port.info().name.clone(),
            open: slot.is_open(),
            link_epoch: link_epoch(slot.index),
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
