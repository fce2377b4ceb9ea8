//! Control's part of an agreement: what it holds, and what it offered.

use alloc::vec::Vec;

use super::{Held, Proposal, Refusal, Verdict};

/// Control's state of agreements. Control feeds in each input and executes each output.
///
/// An agreement exists only in the memory of the two processes:
///
/// - A control that starts adopts the configuration that the dataplane holds.
/// - Control offers the agreed configuration to a dataplane that restarted after a crash.
/// - Control adopts the configuration of a dataplane that restarted after a graceful shutdown.
/// - If both crash, the configuration file is in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Proposer {
    agreed: Option<Held>,
    /// The latest revision that was agreed on, received or offered.
    latest_epoch: u64,
    /// Digest of a configuration agreed with an earlier incarnation that its successor could not
    /// take.
    owed: Option<u64>,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
enum Stage {
    /// There is no dataplane. An offer to the last one without a verdict is kept to be resolved.
    #[default]
    Away,
    /// As before, with something to be resolved.
    AwayWith(Proposal, Why),
    /// Control sent a query for the held configuration. It keeps an offer whose verdict is unknown.
    Querying(Option<(Proposal, Why)>),
    /// Both hold the same.
    Agreed,
    /// An offer is in flight.
    Proposing(Proposal, Why),
}

/// Why something is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// The file was edited, and a reload was requested.
    Reload,
    /// The dataplane restarted without the agreed configuration.
    Reinstate,
    /// Ports must be opened again, and nothing else changes. Only the surrounding programs know
    /// which ports.
    Reopen,
}

/// An input of control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Input {
    /// A connection to the dataplane is there.
    Connected,
    /// The configuration that the dataplane holds: the reply to [`Output::Query`].
    Report(Held),
    /// Another configuration is wanted.
    Wished {
        /// Its digest.
        wants: u64,
    },
    /// Ports must be opened again under the agreed configuration.
    Reopen,
    /// A resource appeared whose absence may have caused the refusal to reinstate the agreed
    /// configuration.
    Appeared,
    /// The answer to [`Output::Send`].
    Answered {
        /// How it ended.
        verdict: Verdict,
        /// The configuration that the dataplane holds now.
        held: Held,
    },
    /// The dataplane reports that it shuts down gracefully.
    TookLeave,
    /// The connection, or the dataplane, has ended.
    Lost,
}

/// An action for control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Output {
    /// Query the configuration that the dataplane holds.
    Query,
    /// Send this offer to the dataplane.
    Send(Proposal),
    /// Log this, and report it to the requester.
    Record(Record),
}

/// An event for the log and for the requester.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Record {
    /// Control adopted the configuration that the dataplane already held.
    Adopted(Held),
    /// Both hold this now.
    Taken(Held, Why),
    /// The dataplane keeps its configuration.
    Refused(Refusal, Why),
    /// The connection ended before the verdict arrived, and the offer turned out not to be in
    /// force.
    NotTaken(Why),
    /// No dataplane is connected.
    NoDataplane,
    /// The dataplane is gone, and with it the configuration that it held.
    Lost,
}

impl Proposer {
    /// The configuration that control holds. While it is connected and nothing is in flight, the
    /// dataplane holds it too.
    #[must_use]
    pub const fn agreed(&self) -> Option<Held> {
        self.agreed
    }

    /// Digest of a configuration that could not be reinstated. Control offers it again on
    /// [`Input::Appeared`]. Another agreement clears it.
    #[must_use]
    pub const fn owed(&self) -> Option<u64> {
        self.owed
    }

    /// Whether both sides hold the same configuration and nothing is in flight.
    #[must_use]
    pub const fn is_agreed(&self) -> bool {
        matches!(self.stage, Stage::Agreed)
    }

    /// The offer whose verdict has not arrived, if any.
    #[must_use]
    pub const fn unanswered(&self) -> Option<(Proposal, Why)> {
        match self.stage {
            Stage::AwayWith(proposal, why)
            | Stage::Querying(Some((proposal, why)))
            | Stage::Proposing(proposal, why) => Some((proposal, why)),
            Stage::Away | Stage::Querying(None) | Stage::Agreed => None,
        }
    }

    /// Processes an input and appends the resulting outputs to `out`, in the order of execution.
    /// Ignores an unexpected input.
    pub fn on(&mut self, input: Input, out: &mut Vec<Output>) {
        match (input, self.stage) {
            (Input::Connected, Stage::Away | Stage::AwayWith(..)) => {
                self.stage = Stage::Querying(self.unanswered());
                out.push(Output::Query);
            }
            (Input::Report(held), Stage::Querying(unresolved)) => {
                self.reported(held, unresolved, out)
            }
            (Input::Wished { wants }, Stage::Agreed) => self.wished(wants, out),
            (Input::Wished { .. }, Stage::Away | Stage::AwayWith(..)) => {
                out.push(Output::Record(Record::NoDataplane));
            }
            (Input::Wished { .. }, Stage::Querying(_) | Stage::Proposing(..)) => {
                out.push(Output::Record(Record::Refused(Refusal::Busy, Why::Reload)));
            }
            (Input::Reopen, Stage::Agreed) => {
                if let Some(agreed) = self.agreed {
                    self.send(agreed, agreed.digest, Why::Reopen, out);
                }
            }
            (Input::Reopen, Stage::Away | Stage::AwayWith(..)) => {
                out.push(Output::Record(Record::NoDataplane));
            }
            (Input::Reopen, Stage::Querying(_) | Stage::Proposing(..)) => {
                out.push(Output::Record(Record::Refused(Refusal::Busy, Why::Reopen)));
            }
            (Input::Appeared, Stage::Agreed) => {
                if let (Some(agreed), Some(owed)) = (self.agreed, self.owed) {
                    self.send(agreed, owed, Why::Reinstate, out);
                }
            }
            (Input::Answered { verdict, held }, Stage::Proposing(proposal, why)) => {
                self.answered(verdict, held, (proposal, why), out);
            }
            (Input::TookLeave, _) => {
                self.agreed = None;
                self.owed = None;
            }
            (Input::Lost, Stage::Querying(_) | Stage::Agreed | Stage::Proposing(..)) => {
                self.stage = match self.unanswered() {
                    Some((proposal, why)) => Stage::AwayWith(proposal, why),
                    None => Stage::Away,
                };
                out.push(Output::Record(Record::Lost));
            }
            (
                Input::Connected
                | Input::Report(_)
                | Input::Answered { .. }
                | Input::Appeared
                | Input::Lost,
                _,
            ) => {}
        }
    }

    /// The dataplane reported the held configuration, which decides the outcome of an offer without
    /// a verdict.
    fn reported(&mut self, held: Held, unresolved: Option<(Proposal, Why)>, out: &mut Vec<Output>) {
        self.latest_epoch = self.latest_epoch.max(held.epoch);
        match unresolved {
            Some((proposal, why)) if proposal.held() == held => {
                return self.agree(held, Record::Taken(held, why), out);
            }
            Some((_, why @ (Why::Reload | Why::Reopen))) => {
                out.push(Output::Record(Record::NotTaken(why)));
            }
            // It is offered again below, or is owed still.
            Some((_, Why::Reinstate)) | None => {}
        }
        match self.agreed {
            Some(agreed) if agreed == held => self.stage = Stage::Agreed,
            Some(agreed) if agreed.incarnation != held.incarnation => {
                self.send(held, agreed.digest, Why::Reinstate, out);
            }
            // There was no agreement, or another client agreed with the dataplane meanwhile.
            _ => self.agree(held, Record::Adopted(held), out),
        }
    }

    fn agree(&mut self, held: Held, record: Record, out: &mut Vec<Output>) {
        if let Record::Adopted(_) | Record::Taken(_, Why::Reload | Why::Reinstate) = record {
            self.owed = None;
        }
        self.agreed = Some(held);
        self.stage = Stage::Agreed;
        out.push(Output::Record(record));
    }

    fn wished(&mut self, wants: u64, out: &mut Vec<Output>) {
        let Some(agreed) = self.agreed else { return };
        if agreed.digest == wants {
            out.push(Output::Record(Record::Taken(agreed, Why::Reload)));
        } else {
            self.send(agreed, wants, Why::Reload, out);
        }
    }

    fn send(&mut self, believes: Held, wants: u64, why: Why, out: &mut Vec<Output>) {
        self.latest_epoch = self.latest_epoch.saturating_add(1);
        let proposal = Proposal {
            epoch: self.latest_epoch,
            believes,
            wants,
        };
        self.stage = Stage::Proposing(proposal, why);
        out.push(Output::Send(proposal));
    }

    fn answered(
        &mut self,
        verdict: Verdict,
        held: Held,
        (proposal, why): (Proposal, Why),
        out: &mut Vec<Output>,
    ) {
        self.latest_epoch = self.latest_epoch.max(held.epoch);
        match verdict {
            Verdict::Taken => self.agree(held, Record::Taken(held, why), out),
            Verdict::Refused(refusal @ (Refusal::Stale | Refusal::Busy)) => {
                // Another client agreed, or is about to: only the dataplane knows the
                // configuration.
                out.push(Output::Record(Record::Refused(refusal, why)));
                self.stage = Stage::Querying(None);
                out.push(Output::Query);
            }
            Verdict::Refused(refusal) => {
                if why == Why::Reinstate {
                    self.owed = Some(proposal.wants);
                }
                self.agree(held, Record::Refused(refusal, why), out);
            }
        }
    }
}

#[cfg(test)]
mod tests;
