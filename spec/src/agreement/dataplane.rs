//! The host thread, the lanes and the opener.

use std::collections::VecDeque;

use covalent_protocol::agreement::{
    Held, Joint, Proposal, Refusal, Slot, Verdict,
    joint::{Input, Order, Step},
};

use super::{
    control::Down,
    mutant::Mutant,
    sight::Observation,
    world::{Breach, World},
};

/// Lanes of the dataplane.
pub const LANES: u32 = 2;
/// Parts of the configuration that a lane applies. It changes one part in a step.
pub const PARTS: usize = 2;

/// A running dataplane.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Dataplane {
    /// The production machine.
    pub joint: Joint,
    /// The client that sent the open offer, as the world knows it.
    pub proposed_by: Option<u64>,
    /// The configuration that the offer believed to be in force, before a mutant changed it.
    believed: Held,
    /// The host thread has replied "taken" too early: [`Mutant::RepliesWhenReady`].
    replied_early: bool,
    /// Its lanes.
    pub lanes: Vec<Lane>,
    /// The current job of the opener.
    pub job: Option<Job>,
}

/// A lane.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lane {
    /// The production machine.
    pub slot: Slot,
    /// The configuration that it applies to packets.
    pub applied: [u64; PARTS],
    /// Steps that the host thread ordered.
    pub mailbox: VecDeque<Step>,
    /// The work in progress.
    pub doing: Option<Doing>,
    /// Replies that the host thread has not read yet.
    pub answers: VecDeque<bool>,
    /// The offer that it is taking, or has taken and not settled, believed a configuration that the
    /// lane does not hold.
    was_stale: bool,
}

/// Work in progress on a lane, one part in each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Doing {
    /// The wanted configuration, and the number of parts that match it.
    Taking(u64, usize),
    /// So many parts are to be changed back. `refused`: because one could not be done.
    Undoing {
        /// How many.
        left: usize,
        /// Why.
        refused: bool,
    },
}

/// A job of the opener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Job {
    /// Compares and opens.
    Prepare,
    /// Closes ports, and opens their successors.
    Open,
    /// Opens as it was.
    Restore,
}

impl Dataplane {
    /// All lanes hold and apply `held`.
    #[must_use]
    pub fn new(held: Held) -> Self {
        let lane = || Lane {
            slot: Slot::new(held),
            applied: [held.digest; PARTS],
            mailbox: VecDeque::new(),
            doing: None,
            answers: VecDeque::new(),
            was_stale: false,
        };
        Self {
            joint: Joint::new(held, LANES),
            proposed_by: None,
            believed: held,
            replied_early: false,
            lanes: (0..LANES).map(|_| lane()).collect(),
            job: None,
        }
    }

    /// The effect of [`Mutant::GivesUp`].
    pub fn give_up(&mut self, from: u64) {
        if self.proposed_by == Some(from) && self.joint.phase().is_some() {
            self.joint = Joint::new(self.joint.held(), LANES);
            self.job = None;
        }
    }
}

impl Lane {
    /// Whether it applies exactly the configuration that it holds to packets.
    #[must_use]
    pub fn has_applied_held(&self) -> bool {
        self.applied == [self.slot.held().digest; PARTS]
    }

    /// Whether there is something for it to do.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.doing.is_some() || !self.mailbox.is_empty()
    }

    /// Whether the next step may fail.
    #[must_use]
    pub fn may_fail(&self) -> bool {
        match self.doing {
            Some(doing) => matches!(doing, Doing::Taking(..)),
            None => matches!(self.mailbox.front(), Some(Step::Judge(_))),
        }
    }

    /// Returns the offer that the lane receives: unchanged, except for [`Mutant::BelievesNothing`].
    fn as_judged(&self, mutant: Mutant, mut proposal: Proposal) -> Proposal {
        if mutant == Mutant::BelievesNothing {
            let held = self.slot.held();
            proposal.believes = held;
            proposal.epoch = proposal.epoch.max(held.epoch + 1);
        }
        proposal
    }

    /// Executes a step from the mailbox. Returns whether the lane settled.
    fn obey(&mut self, mutant: Mutant, step: Step, believed: &Held, fails: bool) -> bool {
        let succeeded = match step {
            Step::Judge(proposal) => {
                !fails && self.slot.judge(&self.as_judged(mutant, proposal)).is_ok()
            }
            Step::DetachPorts(proposal) => self
                .slot
                .detach_ports(&self.as_judged(mutant, proposal))
                .is_ok(),
            Step::Take(proposal) => {
                let is_stale = *believed != self.slot.held();
                let shown = self.as_judged(mutant, proposal);
                if self.slot.take(&shown).is_ok() {
                    self.was_stale = is_stale;
                    self.doing = Some(Doing::Taking(proposal.wants, 0));
                    return false;
                }
                false
            }
            Step::Settle(epoch) => {
                let settled = self.slot.settle(epoch);
                self.answers.push_back(settled);
                return settled;
            }
            Step::Undo(epoch) => {
                if mutant != Mutant::NoUndo && self.slot.undo(epoch) {
                    self.doing = Some(Doing::Undoing {
                        left: PARTS,
                        refused: false,
                    });
                    return false;
                }
                true
            }
            Step::PutBack(epoch) => self.slot.put_back(epoch),
        };
        self.answers.push_back(succeeded);
        false
    }

    fn go_on(&mut self, doing: Doing, fails: bool) {
        self.doing = match doing {
            Doing::Taking(_, done) if fails => {
                self.slot.fail();
                self.undo_next(done, true)
            }
            Doing::Taking(wants, done) => {
                self.applied[done] = wants;
                if done + 1 < PARTS {
                    Some(Doing::Taking(wants, done + 1))
                } else {
                    self.slot.ready();
                    self.answers.push_back(true);
                    None
                }
            }
            Doing::Undoing { left, refused } => {
                self.applied[left - 1] = self.slot.held().digest;
                self.undo_next(left - 1, refused)
            }
        };
    }

    fn undo_next(&mut self, left: usize, refused: bool) -> Option<Doing> {
        if left > 0 {
            return Some(Doing::Undoing { left, refused });
        }
        self.slot.undone();
        self.answers.push_back(!refused);
        None
    }
}

impl World {
    /// A lane does the next thing, or fails at it.
    pub fn lane_works(&mut self, mutant: Mutant, number: usize, fails: bool) {
        let Some(dataplane) = &mut self.dataplane else {
            return;
        };
        let believed = dataplane.believed;
        let lane = &mut dataplane.lanes[number];
        if let Some(doing) = lane.doing {
            return lane.go_on(doing, fails);
        }
        let Some(step) = lane.mailbox.pop_front() else {
            return;
        };
        if lane.obey(mutant, step, &believed, fails) {
            let held = lane.slot.held();
            let key = (held.incarnation, held.epoch);
            if lane.was_stale {
                self.breaches.record(Breach::Stale);
            }
            let first = *self.meanings.entry(key).or_insert(held.digest);
            let later = self.meanings.range((key.0, key.1 + 1)..(key.0 + 1, 0));
            if first != held.digest || later.count() > 0 {
                self.breaches.record(Breach::Meaning);
            }
        }
    }

    /// The opener ends its job.
    pub fn opener_ends(&mut self, mutant: Mutant, well: bool, detaches_ports: bool) {
        let job = self.dataplane.as_mut().and_then(|it| it.job.take());
        let input = match (job, well) {
            (Some(Job::Prepare), true) => Input::Prepared { detaches_ports },
            (Some(Job::Prepare), false) => Input::Unprepared,
            (Some(Job::Open), true) => Input::Opened,
            (Some(Job::Open), false) => Input::Unopened,
            (Some(Job::Restore), _) => Input::Restored,
            (None, _) => return,
        };
        match input {
            Input::Unprepared => self.observed(Observation::Unprepared),
            Input::Restored => self.observed(Observation::Restored),
            _ => {}
        }
        self.host_receives(mutant, input);
    }

    /// The host thread reads a lane's answer.
    pub fn host_reads(&mut self, mutant: Mutant, lane: usize) {
        let answers = self
            .dataplane
            .as_mut()
            .map(|it| &mut it.lanes[lane].answers);
        if let Some(succeeded) = answers.and_then(VecDeque::pop_front) {
            let lane = lane as u32;
            self.host_receives(mutant, Input::Answered { lane, succeeded });
        }
    }

    /// The host thread receives an input.
    pub fn host_receives(&mut self, mutant: Mutant, input: Input) {
        let Some(dataplane) = &mut self.dataplane else {
            return;
        };
        let mut orders = Vec::new();
        let was_open = dataplane.joint.phase().is_some();
        match input {
            Input::Queried { from } if was_open && mutant == Mutant::AnswersInTheMiddle => {
                let held = dataplane.joint.held();
                self.connections[from as usize]
                    .down
                    .push_back(Down::Report(held));
            }
            Input::Proposed { from, mut proposal } => {
                let believed = proposal.believes;
                if matches!(mutant, Mutant::NoPartner | Mutant::BelievesNothing) && !was_open {
                    // Every client counts as a partner.
                    dataplane.joint.on(Input::Queried { from }, &mut Vec::new());
                }
                if mutant == Mutant::BelievesNothing {
                    proposal.believes = dataplane.joint.held();
                    proposal.epoch = proposal.epoch.max(proposal.believes.epoch + 1);
                    dataplane
                        .joint
                        .on(Input::Proposed { from, proposal }, &mut orders);
                } else {
                    dataplane.joint.on(input, &mut orders);
                }
                if !was_open && dataplane.joint.phase().is_some() {
                    dataplane.proposed_by = Some(from);
                    dataplane.believed = believed;
                }
            }
            _ => {}
        }
        if !matches!(input, Input::Proposed { .. }) {
            dataplane.joint.on(input, &mut orders);
        }
        let is_open = dataplane.joint.phase().is_some();
        if was_open && !is_open {
            self.exchange_ended(&orders);
        }
        for order in orders {
            self.host_does(mutant, order);
        }
    }

    /// Every lane is as it was, if it was refused.
    fn exchange_ended(&mut self, orders: &[Order]) {
        let Some(dataplane) = &self.dataplane else {
            return;
        };
        let held = dataplane.joint.held();
        let as_held = |lane: &Lane| lane.slot.held() == held && lane.has_applied_held();
        let entered = orders.iter().any(|order| matches!(order, Order::Enter(_)));
        let left_a_trace = !entered && !dataplane.lanes.iter().all(as_held);
        if left_a_trace {
            self.breaches.record(Breach::Trace);
        }
        let undone = orders.iter().any(|order| matches!(order, Order::Resume));
        self.observed(match (entered, undone) {
            (true, _) => Observation::Taken,
            (false, true) => Observation::Undone,
            (false, false) => Observation::Refused,
        });
    }

    fn host_does(&mut self, mutant: Mutant, order: Order) {
        let Some(dataplane) = &mut self.dataplane else {
            return;
        };
        match order {
            Order::Prepare => dataplane.job = Some(Job::Prepare),
            Order::Open => dataplane.job = Some(Job::Open),
            Order::Restore => dataplane.job = Some(Job::Restore),
            Order::Lane { lane, step } => {
                dataplane.lanes[lane as usize].mailbox.push_back(step);
                if let Step::Settle(epoch) = step
                    && mutant == Mutant::RepliesWhenReady
                    && !dataplane.replied_early
                {
                    dataplane.replied_early = true;
                    self.reply_taken_early(epoch);
                }
            }
            Order::Report { to, held } => self.send(to, Down::Report(held)),
            Order::Reply { to, verdict, held } => {
                if std::mem::take(&mut dataplane.replied_early) {
                    return;
                }
                if verdict == Verdict::Refused(Refusal::Stale) {
                    self.observed(Observation::Stale);
                }
                self.send(to, Down::Reply(verdict, held));
            }
            // The mailboxes of this world carry only agreements, and the offer is the whole
            // configuration.
            Order::Pause | Order::Resume | Order::Enter(_) | Order::DropUnused => {}
        }
    }

    fn reply_taken_early(&mut self, epoch: u64) {
        let Some(dataplane) = &self.dataplane else {
            return;
        };
        let Some(to) = dataplane.proposed_by else {
            return;
        };
        let digest = dataplane.lanes[0].applied[0];
        let held = Held {
            epoch,
            digest,
            ..dataplane.joint.held()
        };
        self.send(to, Down::Reply(Verdict::Taken, held));
    }

    /// Puts a datagram into a connection, if the client's end is open.
    fn send(&mut self, to: u64, datagram: Down) {
        let connection = &mut self.connections[to as usize];
        if connection.client_end {
            connection.down.push_back(datagram);
        }
    }
}
