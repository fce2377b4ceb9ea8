//! The host thread, the lanes and the opener.

use std::collections::VecDeque;

use covalent_protocol::agreement::{
    Held, Joint, Offer, Refusal, Slot, Verdict,
    joint::{Input, Order, Step},
};

use super::{
    control::Down,
    mutant::Mutant,
    sight::Came,
    world::{Breach, World},
};

/// Lanes of the dataplane.
pub const LANES: u32 = 2;
/// Parts of what a lane applies; it changes one in a step.
pub const PARTS: usize = 2;

/// A dataplane that lives.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Dataplane {
    /// The production machine.
    pub joint: Joint,
    /// Who offered what is open, as the world knows it.
    pub offered_by: Option<u64>,
    /// What it believed, before a mutant changed it.
    believed: Held,
    /// "Taken" was said before it was so: [`Mutant::RepliesWhenReady`].
    said_early: bool,
    /// Its lanes.
    pub lanes: Vec<Lane>,
    /// What the opener is doing.
    pub job: Option<Job>,
}

/// A lane.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lane {
    /// The production machine.
    pub slot: Slot,
    /// What it really does with packets.
    pub applied: [u64; PARTS],
    /// What it is told.
    pub mailbox: VecDeque<Step>,
    /// What is under way on it.
    pub doing: Option<Doing>,
    /// What the host thread has not read yet.
    pub answers: VecDeque<bool>,
    /// What it is taking, or has taken and not settled, believed what it does not hold.
    was_stale: bool,
}

/// Under way on a lane, one part in each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Doing {
    /// So many parts are as wanted.
    Taking(u64, usize),
    /// So many parts are to be changed back. `refused`: because one could not be done.
    Undoing {
        /// How many.
        left: usize,
        /// Why.
        refused: bool,
    },
}

/// What the opener is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Job {
    /// Compares and opens.
    Prepare,
    /// Closes, and opens what comes in its place.
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
            offered_by: None,
            believed: held,
            said_early: false,
            lanes: (0..LANES).map(|_| lane()).collect(),
            job: None,
        }
    }

    /// What [`Mutant::GivesUp`] does.
    pub fn give_up(&mut self, from: u64) {
        if self.offered_by == Some(from) && self.joint.phase().is_some() {
            self.joint = Joint::new(self.joint.held(), LANES);
            self.job = None;
        }
    }
}

impl Lane {
    /// Whether it does with packets exactly what it holds.
    #[must_use]
    pub fn applies_what_it_holds(&self) -> bool {
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

    /// The offer that it is shown: as it is, but for [`Mutant::BelievesNothing`].
    fn as_shown(&self, mutant: Mutant, mut offer: Offer) -> Offer {
        if mutant == Mutant::BelievesNothing {
            let held = self.slot.held();
            offer.believes = held;
            offer.epoch = offer.epoch.max(held.epoch + 1);
        }
        offer
    }

    /// Takes what waits in the mailbox. Whether it settled.
    fn obey(&mut self, mutant: Mutant, step: Step, believed: &Held, fails: bool) -> bool {
        let went_well = match step {
            Step::Judge(offer) => !fails && self.slot.judge(&self.as_shown(mutant, offer)).is_ok(),
            Step::Vacate(offer) => self.slot.vacate(&self.as_shown(mutant, offer)).is_ok(),
            Step::Take(offer) => {
                let is_stale = *believed != self.slot.held();
                let shown = self.as_shown(mutant, offer);
                if self.slot.take(&shown).is_ok() {
                    self.was_stale = is_stale;
                    self.doing = Some(Doing::Taking(offer.wants, 0));
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
        self.answers.push_back(went_well);
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
                self.breaches.note(Breach::Stale);
            }
            let first = *self.meanings.entry(key).or_insert(held.digest);
            let later = self.meanings.range((key.0, key.1 + 1)..(key.0 + 1, 0));
            if first != held.digest || later.count() > 0 {
                self.breaches.note(Breach::Meaning);
            }
        }
    }

    /// The opener ends its job.
    pub fn opener_ends(&mut self, mutant: Mutant, well: bool, vacates: bool) {
        let job = self.dataplane.as_mut().and_then(|it| it.job.take());
        let input = match (job, well) {
            (Some(Job::Prepare), true) => Input::Prepared { vacates },
            (Some(Job::Prepare), false) => Input::Unprepared,
            (Some(Job::Open), true) => Input::Opened,
            (Some(Job::Open), false) => Input::Unopened,
            (Some(Job::Restore), _) => Input::Restored,
            (None, _) => return,
        };
        match input {
            Input::Unprepared => self.came_by(Came::Unprepared),
            Input::Restored => self.came_by(Came::Restored),
            _ => {}
        }
        self.host_hears(mutant, input);
    }

    /// The host thread reads a lane's answer.
    pub fn host_reads(&mut self, mutant: Mutant, lane: usize) {
        let answers = self
            .dataplane
            .as_mut()
            .map(|it| &mut it.lanes[lane].answers);
        if let Some(went_well) = answers.and_then(VecDeque::pop_front) {
            let lane = lane as u32;
            self.host_hears(mutant, Input::Answered { lane, went_well });
        }
    }

    /// The host thread hears something.
    pub fn host_hears(&mut self, mutant: Mutant, input: Input) {
        let Some(dataplane) = &mut self.dataplane else {
            return;
        };
        let mut orders = Vec::new();
        let was_open = dataplane.joint.phase().is_some();
        match input {
            Input::Asked { from } if was_open && mutant == Mutant::AnswersInTheMiddle => {
                let held = dataplane.joint.held();
                self.connections[from as usize]
                    .down
                    .push_back(Down::Tell(held));
            }
            Input::Offered { from, mut offer } => {
                let believed = offer.believes;
                if matches!(mutant, Mutant::NoPartner | Mutant::BelievesNothing) && !was_open {
                    // Whoever comes is a partner.
                    dataplane.joint.on(Input::Asked { from }, &mut Vec::new());
                }
                if mutant == Mutant::BelievesNothing {
                    offer.believes = dataplane.joint.held();
                    offer.epoch = offer.epoch.max(offer.believes.epoch + 1);
                    dataplane
                        .joint
                        .on(Input::Offered { from, offer }, &mut orders);
                } else {
                    dataplane.joint.on(input, &mut orders);
                }
                if !was_open && dataplane.joint.phase().is_some() {
                    dataplane.offered_by = Some(from);
                    dataplane.believed = believed;
                }
            }
            _ => {}
        }
        if !matches!(input, Input::Offered { .. }) {
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
        let as_held = |lane: &Lane| lane.slot.held() == held && lane.applies_what_it_holds();
        let entered = orders.iter().any(|order| matches!(order, Order::Enter(_)));
        let left_a_trace = !entered && !dataplane.lanes.iter().all(as_held);
        if left_a_trace {
            self.breaches.note(Breach::Trace);
        }
        let undone = orders.iter().any(|order| matches!(order, Order::Resume));
        self.came_by(match (entered, undone) {
            (true, _) => Came::Taken,
            (false, true) => Came::Undone,
            (false, false) => Came::Refused,
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
                    && !dataplane.said_early
                {
                    dataplane.said_early = true;
                    self.say_taken_early(epoch);
                }
            }
            Order::Tell { to, held } => self.say(to, Down::Tell(held)),
            Order::Reply { to, verdict, held } => {
                if std::mem::take(&mut dataplane.said_early) {
                    return;
                }
                if verdict == Verdict::Refused(Refusal::Stale) {
                    self.came_by(Came::Stale);
                }
                self.say(to, Down::Reply(verdict, held));
            }
            // Nothing but agreements goes through the mailboxes of this world, and the offer is all that there is of a configuration.
            Order::Pause | Order::Resume | Order::Enter(_) | Order::DropUnused => {}
        }
    }

    fn say_taken_early(&mut self, epoch: u64) {
        let Some(dataplane) = &self.dataplane else {
            return;
        };
        let Some(to) = dataplane.offered_by else {
            return;
        };
        let digest = dataplane.lanes[0].applied[0];
        let held = Held {
            epoch,
            digest,
            ..dataplane.joint.held()
        };
        self.say(to, Down::Reply(Verdict::Taken, held));
    }

    /// Puts a datagram into a connection, if somebody is at its other end.
    fn say(&mut self, to: u64, datagram: Down) {
        let connection = &mut self.connections[to as usize];
        if connection.client_end {
            connection.down.push_back(datagram);
        }
    }
}
