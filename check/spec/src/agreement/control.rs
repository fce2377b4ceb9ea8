//! Control, its connections, and the datagrams in flight on them.

use std::collections::VecDeque;

use covalent_protocol::agreement::{
    Held, Proposal, Proposer, Refusal, Verdict,
    proposer::{Input, Output, Record, Why},
};

use super::{
    mutant::Mutant,
    sight::Observation,
    world::{Breach, STRANGE, World},
};

/// The control process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Control {
    /// The production machine.
    pub proposer: Proposer,
    /// Its connection, until it learns that the connection ended.
    pub connection: Option<usize>,
    /// The first incarnation of the dataplane that was reported to it; 0 before that.
    first_incarnation: u64,
}

/// A connection. Datagrams that were sent before one end closed are still read by the other end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Connection {
    /// To the dataplane.
    pub up: VecDeque<Up>,
    /// To control.
    pub down: VecDeque<Down>,
    /// The client's end is open.
    pub client_end: bool,
    /// The dataplane's end is open.
    pub dataplane_end: bool,
    /// The client is a second one, which queries once and offers once.
    pub strange: bool,
}

/// A datagram to the dataplane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Up {
    /// Queries the held configuration.
    Query,
    /// An offer.
    Proposal(Proposal),
}

/// A datagram to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Down {
    /// The held configuration.
    Report(Held),
    /// The outcome of an offer.
    Reply(Verdict, Held),
    /// The dataplane shuts down gracefully.
    Leave,
}

impl Connection {
    const fn new(strange: bool) -> Self {
        Self {
            up: VecDeque::new(),
            down: VecDeque::new(),
            client_end: true,
            dataplane_end: true,
            strange,
        }
    }
}

impl World {
    /// Control connects.
    pub fn connect(&mut self, mutant: Mutant) {
        let number = self.connections.len();
        self.connections.push(Connection::new(false));
        if let Some(control) = &mut self.control {
            control.connection = Some(number);
        }
        self.control_input(mutant, Input::Connected);
    }

    /// A second client connects and sends a query.
    pub fn intrude(&mut self) {
        let mut connection = Connection::new(true);
        connection.up.push_back(Up::Query);
        self.connections.push(connection);
    }

    /// A client's end of a connection goes.
    pub fn close(&mut self, number: usize) {
        let connection = &mut self.connections[number];
        connection.client_end = false;
        connection.down.clear();
    }

    /// Control receives an input.
    pub fn control_input(&mut self, mutant: Mutant, input: Input) {
        let Some(control) = &mut self.control else {
            return;
        };
        let mut outputs = Vec::new();
        let unanswered = control.proposer.unanswered();
        control.proposer.on(input, &mut outputs);
        for output in outputs {
            self.obey(mutant, output, unanswered.map(|(proposal, _)| proposal));
        }
    }

    /// `answered`: the offer that had no reply until now.
    fn obey(&mut self, mutant: Mutant, output: Output, answered: Option<Proposal>) {
        let datagram = match output {
            Output::Query => Up::Query,
            Output::Send(mut proposal) => {
                let agreed = self.control.as_ref().and_then(|it| it.proposer.agreed());
                if let Some(agreed) = agreed
                    && mutant == Mutant::SameEpoch
                    && agreed.incarnation != proposal.believes.incarnation
                {
                    proposal.epoch = agreed.epoch;
                }
                Up::Proposal(proposal)
            }
            Output::Record(record) => return self.on_record(record, answered),
        };
        let connection = self.control.as_ref().and_then(|control| control.connection);
        if let Some(at) = connection {
            self.connections[at].up.push_back(datagram);
        }
    }

    fn on_record(&mut self, record: Record, answered: Option<Proposal>) {
        let is_alive = self.is_partner_alive();
        let left_a_trace = answered.is_some_and(|proposal| {
            let held = proposal.held();
            let of_this_incarnation = is_alive && self.incarnations == held.incarnation;
            let was_held = self.meanings.get(&(held.incarnation, held.epoch)) == Some(&held.digest);
            // A second client may have replaced the taken configuration since.
            of_this_incarnation
                && was_held
                && (self.spent.untrusted_users == 0 || self.lanes_hold(&held))
        });
        match record {
            Record::Adopted(_) => self.observed(Observation::Adopted),
            Record::Taken(held, why) => {
                // A second client may have agreed on something else since.
                if is_alive && self.spent.untrusted_users == 0 && !self.lanes_hold(&held) {
                    self.breaches.record(Breach::Untrue);
                }
                if why == Why::Reopen {
                    self.observed(Observation::Reopened);
                }
                if why == Why::Reinstate {
                    self.observed(if self.spent.appearances > 0 {
                        Observation::ReinstatedLate
                    } else {
                        Observation::Reinstated
                    });
                    let known = self.control.as_ref().map_or(0, |it| it.first_incarnation);
                    let earlier = self.meanings.range((known, 0)..(held.incarnation, 0));
                    let is_late = earlier.map(|(&(_, epoch), _)| epoch).max() < Some(held.epoch);
                    if !is_late && self.spent.untrusted_users == 0 {
                        self.breaches.record(Breach::Meaning);
                    }
                }
            }
            Record::Refused(refusal, _) => {
                if refusal == Refusal::Stale {
                    self.observed(Observation::Overtaken);
                }
                if left_a_trace {
                    self.breaches.record(Breach::Untrue);
                }
            }
            Record::NotTaken(_) => {
                if left_a_trace {
                    self.breaches.record(Breach::Untrue);
                }
            }
            Record::NoDataplane | Record::Lost => {}
        }
    }

    /// A client reads the next datagram of its connection, or that there will be none.
    pub fn client_receives(&mut self, mutant: Mutant, number: usize) {
        let connection = &mut self.connections[number];
        let Some(received) = connection.down.pop_front() else {
            connection.client_end = false;
            if !connection.strange {
                if let Some(control) = &mut self.control {
                    control.connection = None;
                }
                self.control_input(mutant, Input::Lost);
            }
            return;
        };
        if connection.strange {
            match received {
                Down::Report(held) => connection.up.push_back(Up::Proposal(Proposal {
                    epoch: held.epoch + 1,
                    believes: held,
                    wants: STRANGE,
                })),
                Down::Reply(..) | Down::Leave => self.close(number),
            }
            return;
        }
        match received {
            Down::Report(held) => {
                if let Some(control) = self.control.as_mut().filter(|it| it.first_incarnation == 0)
                {
                    control.first_incarnation = held.incarnation;
                }
                let held = self.as_control_receives(mutant, held);
                let unanswered = self
                    .control
                    .as_ref()
                    .and_then(|it| it.proposer.unanswered());
                if let Some((proposal, _)) = unanswered {
                    self.observed(if proposal.held() == held {
                        Observation::ResolvedTaken
                    } else {
                        Observation::ResolvedNotTaken
                    });
                }
                self.control_input(mutant, Input::Report(held));
            }
            Down::Reply(verdict, held) => {
                self.control_input(mutant, Input::Answered { verdict, held });
            }
            Down::Leave => {
                self.observed(Observation::TookLeave);
                self.control_input(mutant, Input::TookLeave);
            }
        }
    }

    fn as_control_receives(&self, mutant: Mutant, mut held: Held) -> Held {
        let proposer = self.control.as_ref().map(|it| &it.proposer);
        let agreed = proposer.and_then(|it| it.agreed());
        let unanswered = proposer.and_then(|it| it.unanswered());
        if let (Mutant::ReopensByText, Some((proposal, Why::Reopen))) = (mutant, unanswered)
            && (held.incarnation, held.digest) == (proposal.believes.incarnation, proposal.wants)
        {
            return proposal.held();
        }
        match (mutant, agreed) {
            (Mutant::ControlFromFile, None) => held.digest = self.file,
            (Mutant::NoIncarnation, Some(agreed)) => held.incarnation = agreed.incarnation,
            _ => {}
        }
        held
    }

    /// The host thread reads the next datagram of a connection, or that there will be none.
    pub fn dataplane_receives(&mut self, mutant: Mutant, number: usize) {
        let from = number as u64;
        let Some(received) = self.connections[number].up.pop_front() else {
            self.connections[number].dataplane_end = false;
            return self.gone(mutant, from);
        };
        match received {
            Up::Query => self.queried(mutant, from),
            Up::Proposal(proposal) => self.offered(mutant, from, proposal),
        }
    }
}
