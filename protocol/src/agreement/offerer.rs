//! Control's part: what it holds, and what it offered.

use alloc::vec::Vec;

use super::{Held, Offer, Refusal, Verdict};

/// What control knows of agreements. It feeds in what it hears and does what comes out.
///
/// What was agreed lives in the two processes and nowhere else: a control that starts adopts what the dataplane holds; a dataplane that died is offered
/// what was agreed; one that took leave is believed when it comes back; and if both die the file is what starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Offerer {
    agreed: Option<Held>,
    /// The latest epoch that was agreed on, heard of or offered.
    latest_epoch: u64,
    /// Digest of what was agreed with a life that is over, and that the one after it could not take.
    owed: Option<u64>,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
enum Stage {
    /// There is no dataplane. What was offered to the last one and not answered stays to be resolved.
    #[default]
    Away,
    /// As before, with something to be resolved.
    AwayWith(Offer, Why),
    /// It was asked what it holds.
    Asking(Option<(Offer, Why)>),
    /// Both hold the same.
    Agreed,
    /// An offer is under way.
    Offering(Offer, Why),
}

/// Why something is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// Somebody edited the file and wants it in force.
    Reload,
    /// The dataplane died, and lives again without what was agreed.
    Reinstate,
    /// Ports are to be opened again, and nothing else is wanted. Which, only the programs around know.
    Reopen,
}

/// What control hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Input {
    /// A connection to the dataplane is there.
    Connected,
    /// What it holds: the answer to [`Output::Ask`].
    Told(Held),
    /// Something else is wanted.
    Wished {
        /// Its digest.
        wants: u64,
    },
    /// Ports are to be opened again under what is agreed.
    Reopen,
    /// Something appeared without which what was agreed may have been refused to be reinstated.
    Appeared,
    /// The answer to [`Output::Send`].
    Answered {
        /// How it ended.
        verdict: Verdict,
        /// What the dataplane holds now.
        held: Held,
    },
    /// The dataplane says that it ends in order.
    TookLeave,
    /// The connection, or the dataplane, has ended.
    Lost,
}

/// What control is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Output {
    /// Ask the dataplane what it holds.
    Ask,
    /// Offer it this.
    Send(Offer),
    /// Tell whoever wants to know.
    Note(Note),
}

/// For the log, and for whoever wished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Note {
    /// Control holds what the dataplane held before it.
    Adopted(Held),
    /// Both hold this now.
    Taken(Held, Why),
    /// The dataplane holds what it held.
    Refused(Refusal, Why),
    /// The connection ended before the verdict came, and it shows now that it is not in force.
    NotTaken(Why),
    /// There is no dataplane to offer it to.
    NoDataplane,
    /// The dataplane is lost, and with it what it held.
    Lost,
}

impl Offerer {
    /// What control holds. While it is connected and nothing is under way, the dataplane holds it too.
    #[must_use]
    pub const fn agreed(&self) -> Option<Held> {
        self.agreed
    }

    /// Digest of what could not be reinstated, and is wished again when something appears ([`Input::Appeared`]). Nothing is owed any more once
    /// something else was agreed on.
    #[must_use]
    pub const fn owed(&self) -> Option<u64> {
        self.owed
    }

    /// Whether both hold the same and nothing is under way.
    #[must_use]
    pub const fn is_agreed(&self) -> bool {
        matches!(self.stage, Stage::Agreed)
    }

    /// What was offered and not answered yet, if anything.
    #[must_use]
    pub const fn unanswered(&self) -> Option<(Offer, Why)> {
        match self.stage {
            Stage::AwayWith(offer, why)
            | Stage::Asking(Some((offer, why)))
            | Stage::Offering(offer, why) => Some((offer, why)),
            Stage::Away | Stage::Asking(None) | Stage::Agreed => None,
        }
    }

    /// Takes in what was heard; what is to be done goes to the end of `out`, in order. What answers nothing is ignored.
    pub fn on(&mut self, input: Input, out: &mut Vec<Output>) {
        match (input, self.stage) {
            (Input::Connected, Stage::Away | Stage::AwayWith(..)) => {
                self.stage = Stage::Asking(self.unanswered());
                out.push(Output::Ask);
            }
            (Input::Told(held), Stage::Asking(unresolved)) => self.told(held, unresolved, out),
            (Input::Wished { wants }, Stage::Agreed) => self.wished(wants, out),
            (Input::Wished { .. }, Stage::Away | Stage::AwayWith(..)) => {
                out.push(Output::Note(Note::NoDataplane));
            }
            (Input::Wished { .. }, Stage::Asking(_) | Stage::Offering(..)) => {
                out.push(Output::Note(Note::Refused(Refusal::Busy, Why::Reload)));
            }
            (Input::Reopen, Stage::Agreed) => {
                if let Some(agreed) = self.agreed {
                    self.send(agreed, agreed.digest, Why::Reopen, out);
                }
            }
            (Input::Reopen, Stage::Away | Stage::AwayWith(..)) => {
                out.push(Output::Note(Note::NoDataplane));
            }
            (Input::Reopen, Stage::Asking(_) | Stage::Offering(..)) => {
                out.push(Output::Note(Note::Refused(Refusal::Busy, Why::Reopen)));
            }
            (Input::Appeared, Stage::Agreed) => {
                if let (Some(agreed), Some(owed)) = (self.agreed, self.owed) {
                    self.send(agreed, owed, Why::Reinstate, out);
                }
            }
            (Input::Answered { verdict, held }, Stage::Offering(offer, why)) => {
                self.answered(verdict, held, (offer, why), out);
            }
            (Input::TookLeave, _) => {
                self.agreed = None;
                self.owed = None;
            }
            (Input::Lost, Stage::Asking(_) | Stage::Agreed | Stage::Offering(..)) => {
                self.stage = match self.unanswered() {
                    Some((offer, why)) => Stage::AwayWith(offer, why),
                    None => Stage::Away,
                };
                out.push(Output::Note(Note::Lost));
            }
            (
                Input::Connected
                | Input::Told(_)
                | Input::Answered { .. }
                | Input::Appeared
                | Input::Lost,
                _,
            ) => {}
        }
    }

    /// The dataplane says what it holds: it decides how what was not answered ended.
    fn told(&mut self, held: Held, unresolved: Option<(Offer, Why)>, out: &mut Vec<Output>) {
        self.latest_epoch = self.latest_epoch.max(held.epoch);
        match unresolved {
            Some((offer, why)) if offer.held() == held => {
                return self.agree(held, Note::Taken(held, why), out);
            }
            Some((_, why @ (Why::Reload | Why::Reopen))) => {
                out.push(Output::Note(Note::NotTaken(why)));
            }
            // It is offered again below, or is owed still.
            Some((_, Why::Reinstate)) | None => {}
        }
        match self.agreed {
            Some(agreed) if agreed == held => self.stage = Stage::Agreed,
            Some(agreed) if agreed.incarnation != held.incarnation => {
                self.send(held, agreed.digest, Why::Reinstate, out);
            }
            // Nothing was agreed, or somebody else agreed with it meanwhile.
            _ => self.agree(held, Note::Adopted(held), out),
        }
    }

    fn agree(&mut self, held: Held, note: Note, out: &mut Vec<Output>) {
        if let Note::Adopted(_) | Note::Taken(_, Why::Reload | Why::Reinstate) = note {
            self.owed = None;
        }
        self.agreed = Some(held);
        self.stage = Stage::Agreed;
        out.push(Output::Note(note));
    }

    fn wished(&mut self, wants: u64, out: &mut Vec<Output>) {
        let Some(agreed) = self.agreed else { return };
        if agreed.digest == wants {
            out.push(Output::Note(Note::Taken(agreed, Why::Reload)));
        } else {
            self.send(agreed, wants, Why::Reload, out);
        }
    }

    fn send(&mut self, believes: Held, wants: u64, why: Why, out: &mut Vec<Output>) {
        self.latest_epoch = self.latest_epoch.saturating_add(1);
        let offer = Offer {
            epoch: self.latest_epoch,
            believes,
            wants,
        };
        self.stage = Stage::Offering(offer, why);
        out.push(Output::Send(offer));
    }

    fn answered(
        &mut self,
        verdict: Verdict,
        held: Held,
        (offer, why): (Offer, Why),
        out: &mut Vec<Output>,
    ) {
        self.latest_epoch = self.latest_epoch.max(held.epoch);
        match verdict {
            Verdict::Taken => self.agree(held, Note::Taken(held, why), out),
            Verdict::Refused(refusal @ (Refusal::Stale | Refusal::Busy)) => {
                // Somebody else agreed, or is about to: only the dataplane knows on what.
                out.push(Output::Note(Note::Refused(refusal, why)));
                self.stage = Stage::Asking(None);
                out.push(Output::Ask);
            }
            Verdict::Refused(refusal) => {
                if why == Why::Reinstate {
                    self.owed = Some(offer.wants);
                }
                self.agree(held, Note::Refused(refusal, why), out);
            }
        }
    }
}

#[cfg(test)]
mod tests;
