//! The host thread's part: one exchange over all lanes, which all take it or none.

use alloc::{vec, vec::Vec};

use super::{Held, Offer, Refusal, Verdict};

/// What the host thread knows of agreements. It feeds in what it hears and does what it is ordered.
///
/// Clients are known by a number that no other connection ever has. Who asked last what is held is the *partner*, and nobody else may offer: a
/// datagram of a control that is dead may lie in its socket until after its successor was told what is held, and it must change nothing then.
/// Who asks while an exchange is open is told when it has ended, so nobody hears of a state in between.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Joint {
    held: Held,
    lanes: u32,
    open: Option<Open>,
    partner: Option<u64>,
    askers: Vec<u64>,
}

/// The exchange that is open.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Open {
    /// Who waits for the verdict; `None`: it hung up.
    from: Option<u64>,
    offer: Offer,
    phase: Phase,
    /// Ports were to be given back by every lane.
    vacates: bool,
    /// How each lane answered its last step; `None`: it was ordered none, or has not answered.
    answered: Vec<Option<bool>>,
    /// Lanes that have not answered.
    waits_for: u32,
    refused: Option<Refusal>,
}

/// Where an exchange is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The draft is compared with what is in force, and what needs nothing closed is opened.
    Preparing,
    /// Every lane is asked whether it could take it.
    Judging,
    /// Lanes give ports back that are to be opened again.
    Vacating,
    /// What was given back is closed and opened anew.
    Opening,
    /// Every lane takes it, in bounded steps.
    Taking,
    /// Every lane enters the epoch.
    Settling,
    /// Lanes that were ready change back.
    Undoing,
    /// What was given back is opened as it was.
    Restoring,
    /// Lanes get it back.
    PuttingBack,
}

/// What the host thread hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Input {
    /// A client asks what is held.
    Asked {
        /// Which.
        from: u64,
    },
    /// A client offers.
    Offered {
        /// Which.
        from: u64,
        /// What.
        offer: Offer,
    },
    /// [`Order::Prepare`] is done.
    Prepared {
        /// Whether ports must be given back before their successors can be opened.
        vacates: bool,
    },
    /// [`Order::Prepare`] showed that it cannot be applied.
    Unprepared,
    /// A lane answered the step that it was ordered.
    Answered {
        /// Which.
        lane: u32,
        /// Whether it did the step. If not, the lane is as it was before the step.
        went_well: bool,
    },
    /// [`Order::Open`] is done: all is open as wanted.
    Opened,
    /// [`Order::Open`] failed.
    Unopened,
    /// [`Order::Restore`] is done: what can be open as before is.
    Restored,
    /// A client hung up.
    Gone {
        /// Which.
        from: u64,
    },
}

/// What the host thread is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// Compare what is wanted with what is in force, and open what needs nothing closed. Answered by [`Input::Prepared`] or
    /// [`Input::Unprepared`].
    Prepare,
    /// Have a lane do a step, after all that it was told before. Answered by [`Input::Answered`].
    Lane {
        /// Which.
        lane: u32,
        /// What.
        step: Step,
    },
    /// Close what the lanes gave back, and open what takes its place. Answered by [`Input::Opened`] or [`Input::Unopened`].
    Open,
    /// Open what the lanes gave back as it was. Answered by [`Input::Restored`].
    Restore,
    /// Hold all other commands to lanes back.
    Pause,
    /// Let them go on.
    Resume,
    /// This is in force now.
    Enter(Held),
    /// What was opened or prepared for the exchange and is in no lane is not needed any more.
    DropUnused,
    /// Tell a client what is held.
    Tell {
        /// Which.
        to: u64,
        /// What.
        held: Held,
    },
    /// Tell a client how its offer ended.
    Reply {
        /// Which.
        to: u64,
        /// How.
        verdict: Verdict,
        /// What is held now.
        held: Held,
    },
}

/// What a lane is to do with its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// [`super::Slot::judge`], and whether anything in the lane is in the way.
    Judge(Offer),
    /// [`super::Slot::vacate`].
    Vacate(Offer),
    /// [`super::Slot::take`], step by step until it is ready, or failed and undone.
    Take(Offer),
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
            askers: Vec::new(),
        }
    }

    /// What is held by all lanes, or was before the open exchange.
    #[must_use]
    pub const fn held(&self) -> Held {
        self.held
    }

    /// Where the open exchange is; `None`: there is none.
    #[must_use]
    pub fn phase(&self) -> Option<Phase> {
        self.open.as_ref().map(|open| open.phase)
    }

    /// Who asked last, if it is still there.
    #[must_use]
    pub const fn partner(&self) -> Option<u64> {
        self.partner
    }

    /// Takes in what was heard; what is to be done goes to the end of `out`, in order. An input that answers nothing is ignored.
    pub fn on(&mut self, input: Input, out: &mut Vec<Order>) {
        match input {
            Input::Asked { from } => self.asked(from, out),
            Input::Offered { from, offer } => self.offered(from, offer, out),
            Input::Gone { from } => self.gone(from),
            Input::Prepared { vacates } if self.is_in(Phase::Preparing) => {
                if let Some(open) = &mut self.open {
                    open.vacates = vacates;
                }
                self.order_all(Phase::Judging, Step::Judge, out);
            }
            Input::Unprepared if self.is_in(Phase::Preparing) => {
                self.refuse(Refusal::Unready);
                self.end(out);
            }
            Input::Answered { lane, went_well } => self.answered(lane, went_well, out),
            Input::Opened if self.is_in(Phase::Opening) => self.take(out),
            Input::Unopened if self.is_in(Phase::Opening) => {
                self.refuse(Refusal::Unready);
                self.restore(out);
            }
            Input::Restored if self.is_in(Phase::Restoring) => {
                let epoch = self.open.as_ref().map_or(0, |open| open.offer.epoch);
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

    fn asked(&mut self, from: u64, out: &mut Vec<Order>) {
        self.partner = Some(from);
        if self.open.is_some() {
            self.askers.push(from);
        } else {
            let held = self.held;
            out.push(Order::Tell { to: from, held });
        }
    }

    fn offered(&mut self, from: u64, offer: Offer, out: &mut Vec<Order>) {
        let refusal = if self.partner != Some(from) {
            Some(Refusal::Stale)
        } else if self.open.is_some() {
            Some(Refusal::Busy)
        } else {
            offer.fits(&self.held).err()
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
            offer,
            phase: Phase::Preparing,
            vacates: false,
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
        self.askers.retain(|&asker| asker != from);
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

    fn order_all(&mut self, phase: Phase, step: impl Fn(Offer) -> Step, out: &mut Vec<Order>) {
        if let Some(open) = &mut self.open {
            open.answered.fill(Some(true));
            let step = step(open.offer);
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

    fn answered(&mut self, lane: u32, went_well: bool, out: &mut Vec<Order>) {
        let Some(open) = &mut self.open else { return };
        let Some(answered) = open.answered.get_mut(lane as usize) else {
            return;
        };
        if open.waits_for == 0 || answered.is_some() {
            return;
        }
        *answered = Some(went_well);
        open.waits_for -= 1;
        let waits = open.waits_for > 0;
        if !went_well {
            self.refuse(Refusal::Lane(lane));
        }
        if !waits {
            self.all_answered(out);
        }
    }

    fn all_answered(&mut self, out: &mut Vec<Order>) {
        let Some(open) = &self.open else { return };
        let (epoch, vacates) = (open.offer.epoch, open.vacates);
        let is_refused = open.refused.is_some();
        match open.phase {
            Phase::Judging if is_refused => self.end(out),
            Phase::Judging if vacates => self.order_all(Phase::Vacating, Step::Vacate, out),
            Phase::Judging => self.take(out),
            Phase::Vacating if is_refused => self.restore(out),
            Phase::Vacating => {
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
                if vacates {
                    // All of them gave their ports back, whoever refused to take.
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

    /// What was given back comes back as it was.
    fn restore(&mut self, out: &mut Vec<Order>) {
        self.enter(Phase::Restoring);
        out.push(Order::Restore);
    }

    fn settled(&mut self, out: &mut Vec<Order>) {
        if let Some(open) = &self.open {
            self.held = open.offer.held();
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
        let askers = self.askers.drain(..);
        out.extend(askers.map(|to| Order::Tell { to, held }));
    }
}

#[cfg(test)]
mod tests;
