//! The host thread's part: one exchange over all lanes, which all take it or none.

use alloc::{vec, vec::Vec};

use super::{Held, Proposal, Refusal, Verdict};

/// The host thread's state of agreements. The host thread feeds in each input and executes each
/// order.
///
/// Each client has a number that no other connection ever reuses. The *partner* is the client that
/// sent the latest query for the held configuration. Only the partner may offer: a datagram of a
/// dead control may stay in its socket until its successor has received the held configuration, and
/// must change nothing then. A query during an open exchange is answered when the exchange ends, so
/// no client sees an intermediate state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Joint {
    held: Held,
    lanes: u32,
    open: Option<Open>,
    partner: Option<u64>,
    requesters: Vec<u64>,
}

/// The exchange that is open.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Open {
    /// The client that waits for the verdict; `None`: it disconnected.
    from: Option<u64>,
    proposal: Proposal,
    phase: Phase,
    /// Ports were to be given back by every lane.
    detaches_ports: bool,
    /// How each lane answered its last step; `None`: it was ordered none, or has not answered.
    answered: Vec<Option<bool>>,
    /// Lanes that have not answered.
    waits_for: u32,
    refused: Option<Refusal>,
}

/// Where an exchange is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The host thread compares the draft with the configuration in force, and opens ports that do
    /// not require closing others.
    Preparing,
    /// Every lane checks whether it can take the configuration.
    Judging,
    /// Lanes give ports back that are to be opened again.
    DetachingPorts,
    /// The host thread closes the ports that the lanes detached, and opens their successors.
    Opening,
    /// Every lane takes it, in bounded steps.
    Taking,
    /// Every lane enters the epoch.
    Settling,
    /// Lanes that were ready change back.
    Undoing,
    /// The host thread opens the detached ports as they were.
    Restoring,
    /// Lanes get it back.
    PuttingBack,
}

/// An input of the host thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Input {
    /// A client queries the held configuration.
    Queried {
        /// Which.
        from: u64,
    },
    /// A client sends an offer.
    Proposed {
        /// Which.
        from: u64,
        /// The offer.
        proposal: Proposal,
    },
    /// [`Order::Prepare`] is done.
    Prepared {
        /// Whether ports must be given back before their successors can be opened.
        detaches_ports: bool,
    },
    /// [`Order::Prepare`] showed that it cannot be applied.
    Unprepared,
    /// A lane answered the step that it was ordered.
    Answered {
        /// Which.
        lane: u32,
        /// Whether it did the step. If not, the lane is as it was before the step.
        succeeded: bool,
    },
    /// [`Order::Open`] is done: all ports are open as requested.
    Opened,
    /// [`Order::Open`] failed.
    Unopened,
    /// [`Order::Restore`] is done: every port that can be opened as before is open.
    Restored,
    /// A client disconnected.
    Gone {
        /// Which.
        from: u64,
    },
}

/// An action for the host thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// Compare the wanted configuration with the one in force, and open ports that do not require
    /// closing others. The host thread replies with [`Input::Prepared`] or [`Input::Unprepared`].
    Prepare,
    /// Order a step of a lane, after all earlier commands to it. The host thread replies with
    /// [`Input::Answered`].
    Lane {
        /// Which.
        lane: u32,
        /// The step.
        step: Step,
    },
    /// Close the ports that the lanes detached, and open their successors. The host thread replies
    /// with [`Input::Opened`] or [`Input::Unopened`].
    Open,
    /// Open the ports that the lanes detached as they were. The host thread replies with
    /// [`Input::Restored`].
    Restore,
    /// Hold all other commands to lanes back.
    Pause,
    /// Release the commands that were held back.
    Resume,
    /// This is in force now.
    Enter(Held),
    /// Drop everything that was opened or prepared for the exchange and is in no lane.
    DropUnused,
    /// Send a client the held configuration.
    Report {
        /// Which.
        to: u64,
        /// The held configuration.
        held: Held,
    },
    /// Send a client the outcome of its offer.
    Reply {
        /// Which.
        to: u64,
        /// How.
        verdict: Verdict,
        /// The configuration held now.
        held: Held,
    },
}

/// A step of a lane on its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// [`super::Slot::judge`], and whether anything in the lane is in the way.
    Judge(Proposal),
    /// [`super::Slot::detach_ports`].
    DetachPorts(Proposal),
    /// [`super::Slot::take`], step by step until it is ready, or failed and undone.
    Take(Proposal),
    /// [`super::Slot::settle`] this epoch.
    Settle(u64),
    /// [`super::Slot::undo`] this epoch, step by step.
    Undo(u64),
    /// [`super::Slot::put_back`] for this epoch.
    PutBack(u64),
}

impl Joint {
    /// The joint of a dataplane with so many lanes, all of which hold `held`.
    #[must_use]
    pub const fn new(held: Held, lanes: u32) -> Self {
        Self {
            held,
            lanes,
            open: None,
            partner: None,
            requesters: Vec::new(),
        }
    }

    /// The configuration that all lanes hold, or held before the open exchange.
    #[must_use]
    pub const fn held(&self) -> Held {
        self.held
    }

    /// Where the open exchange is; `None`: there is none.
    #[must_use]
    pub fn phase(&self) -> Option<Phase> {
        self.open.as_ref().map(|open| open.phase)
    }

    /// The client that sent the latest query, if it is still connected.
    #[must_use]
    pub const fn partner(&self) -> Option<u64> {
        self.partner
    }

    /// Processes an input and appends the resulting orders to `out`, in the order of execution.
    /// Ignores an input that no open order expects.
    pub fn on(&mut self, input: Input, out: &mut Vec<Order>) {
        match input {
            Input::Queried { from } => self.queried(from, out),
            Input::Proposed { from, proposal } => self.proposed(from, proposal, out),
            Input::Gone { from } => self.gone(from),
            Input::Prepared { detaches_ports } if self.is_in(Phase::Preparing) => {
                if let Some(open) = &mut self.open {
                    open.detaches_ports = detaches_ports;
                }
                self.order_all(Phase::Judging, Step::Judge, out);
            }
            Input::Unprepared if self.is_in(Phase::Preparing) => {
                self.refuse(Refusal::Unready);
                self.end(out);
            }
            Input::Answered { lane, succeeded } => self.answered(lane, succeeded, out),
            Input::Opened if self.is_in(Phase::Opening) => self.take(out),
            Input::Unopened if self.is_in(Phase::Opening) => {
                self.refuse(Refusal::Unready);
                self.restore(out);
            }
            Input::Restored if self.is_in(Phase::Restoring) => {
                let epoch = self.open.as_ref().map_or(0, |open| open.proposal.epoch);
                self.order_some(Phase::PuttingBack, Step::PutBack(epoch), out);
            }
            Input::Prepared { .. }
            | Input::Unprepared
            | Input::Opened
            | Input::Unopened
            | Input::Restored => {}
        }
    }

    fn is_in(&self, phase: Phase) -> bool {
        self.phase() == Some(phase)
    }

    fn queried(&mut self, from: u64, out: &mut Vec<Order>) {
        self.partner = Some(from);
        if self.open.is_some() {
            self.requesters.push(from);
        } else {
            let held = self.held;
            out.push(Order::Report { to: from, held });
        }
    }

    fn proposed(&mut self, from: u64, proposal: Proposal, out: &mut Vec<Order>) {
        let refusal = if self.partner != Some(from) {
            Some(Refusal::Stale)
        } else if self.open.is_some() {
            Some(Refusal::Busy)
        } else {
            proposal.fits(&self.held).err()
        };
        if let Some(refusal) = refusal {
            out.push(Order::Reply {
                to: from,
                verdict: Verdict::Refused(refusal),
                held: self.held,
            });
            return;
        }
        self.open = Some(Open {
            from: Some(from),
            proposal,
            phase: Phase::Preparing,
            detaches_ports: false,
            answered: vec![None; self.lanes as usize],
            waits_for: 0,
            refused: None,
        });
        out.push(Order::Prepare);
    }

    fn gone(&mut self, from: u64) {
        if self.partner == Some(from) {
            self.partner = None;
        }
        self.requesters.retain(|&requester| requester != from);
        if let Some(open) = &mut self.open
            && open.from == Some(from)
        {
            open.from = None;
        }
    }

    /// Notes the first reason.
    fn refuse(&mut self, refusal: Refusal) {
        if let Some(open) = &mut self.open {
            open.refused.get_or_insert(refusal);
        }
    }

    fn order_all(&mut self, phase: Phase, step: impl Fn(Proposal) -> Step, out: &mut Vec<Order>) {
        if let Some(open) = &mut self.open {
            open.answered.fill(Some(true));
            let step = step(open.proposal);
            self.order_some(phase, step, out);
        }
    }

    /// Orders a step of the lanes that did the last one.
    fn order_some(&mut self, phase: Phase, step: Step, out: &mut Vec<Order>) {
        let Some(open) = &mut self.open else { return };
        open.phase = phase;
        open.waits_for = 0;
        for (lane, answered) in (0..).zip(&mut open.answered) {
            if answered.take() == Some(true) {
                open.waits_for += 1;
                out.push(Order::Lane { lane, step });
            }
        }
        if open.waits_for == 0 {
            self.all_answered(out);
        }
    }

    fn answered(&mut self, lane: u32, succeeded: bool, out: &mut Vec<Order>) {
        let Some(open) = &mut self.open else { return };
        let Some(answered) = open.answered.get_mut(lane as usize) else {
            return;
        };
        if open.waits_for == 0 || answered.is_some() {
            return;
        }
        *answered = Some(succeeded);
        open.waits_for -= 1;
        let waits = open.waits_for > 0;
        if !succeeded {
            self.refuse(Refusal::Lane(lane));
        }
        if !waits {
            self.all_answered(out);
        }
    }

    fn all_answered(&mut self, out: &mut Vec<Order>) {
        let Some(open) = &self.open else { return };
        let (epoch, detaches_ports) = (open.proposal.epoch, open.detaches_ports);
        let is_refused = open.refused.is_some();
        match open.phase {
            Phase::Judging if is_refused => self.end(out),
            Phase::Judging if detaches_ports => {
                self.order_all(Phase::DetachingPorts, Step::DetachPorts, out)
            }
            Phase::Judging => self.take(out),
            Phase::DetachingPorts if is_refused => self.restore(out),
            Phase::DetachingPorts => {
                self.enter(Phase::Opening);
                out.push(Order::Open);
            }
            Phase::Taking if is_refused => {
                self.order_some(Phase::Undoing, Step::Undo(epoch), out);
            }
            Phase::Taking => self.order_some(Phase::Settling, Step::Settle(epoch), out),
            Phase::Settling => {
                out.push(Order::Resume);
                self.settled(out);
            }
            Phase::Undoing => {
                out.push(Order::Resume);
                if detaches_ports {
                    // All lanes detached their ports, including lanes that refused to take.
                    if let Some(open) = &mut self.open {
                        open.answered.fill(Some(true));
                    }
                    self.restore(out);
                } else {
                    self.end(out);
                }
            }
            Phase::PuttingBack => self.end(out),
            Phase::Preparing | Phase::Opening | Phase::Restoring => {}
        }
    }

    fn enter(&mut self, phase: Phase) {
        if let Some(open) = &mut self.open {
            open.phase = phase;
        }
    }

    fn take(&mut self, out: &mut Vec<Order>) {
        out.push(Order::Pause);
        self.order_all(Phase::Taking, Step::Take, out);
    }

    /// Restores the detached ports as they were.
    fn restore(&mut self, out: &mut Vec<Order>) {
        self.enter(Phase::Restoring);
        out.push(Order::Restore);
    }

    fn settled(&mut self, out: &mut Vec<Order>) {
        if let Some(open) = &self.open {
            self.held = open.proposal.held();
            out.push(Order::Enter(self.held));
        }
        self.end(out);
    }

    /// The exchange is over: taken, unless it was refused.
    fn end(&mut self, out: &mut Vec<Order>) {
        let Some(open) = self.open.take() else { return };
        let held = self.held;
        out.push(Order::DropUnused);
        if let Some(to) = open.from {
            let verdict = open.refused.map_or(Verdict::Taken, Verdict::Refused);
            out.push(Order::Reply { to, verdict, held });
        }
        let requesters = self.requesters.drain(..);
        out.extend(requesters.map(|to| Order::Report { to, held }));
    }
}

#[cfg(test)]
mod tests;
