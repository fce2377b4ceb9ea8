//! Control, its connections, and what is under way on them.

use std::collections::VecDeque;

use covalent_protocol::agreement::{
    Held, Offer, Offerer, Refusal, Verdict,
    joint::Input as Heard,
    offerer::{Input, Note, Output, Why},
};

use super::{
    mutant::Mutant,
    sight::Came,
    world::{Breach, STRANGE, World},
};

/// The control process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Control {
    /// The production machine.
    pub offerer: Offerer,
    /// Its connection, until it has heard that it ended.
    pub connection: Option<usize>,
    /// The first life of the dataplane that it was told of; 0 before that.
    first_life: u64,
}

/// A connection. What was sent before an end went is read by the other one all the same.
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
    /// The client is a second one, which asks once and offers once.
    pub strange: bool,
}

/// A datagram to the dataplane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Up {
    /// What is held?
    Ask,
    /// An offer.
    Offer(Offer),
}

/// A datagram to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Down {
    /// What is held.
    Tell(Held),
    /// How an offer ended.
    Reply(Verdict, Held),
    /// The dataplane ends in order.
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
        self.tell_control(mutant, Input::Connected);
    }

    /// A second client connects and asks.
    pub fn intrude(&mut self) {
        let mut connection = Connection::new(true);
        connection.up.push_back(Up::Ask);
        self.connections.push(connection);
    }

    /// A client's end of a connection goes.
    pub fn close(&mut self, number: usize) {
        let connection = &mut self.connections[number];
        connection.client_end = false;
        connection.down.clear();
    }

    /// Control hears something.
    pub fn tell_control(&mut self, mutant: Mutant, input: Input) {
        let Some(control) = &mut self.control else {
            return;
        };
        let mut outputs = Vec::new();
        let unanswered = control.offerer.unanswered();
        control.offerer.on(input, &mut outputs);
        for output in outputs {
            self.obey(mutant, output, unanswered.map(|(offer, _)| offer));
        }
    }

    /// `answered`: the offer that was unanswered until now.
    fn obey(&mut self, mutant: Mutant, output: Output, answered: Option<Offer>) {
        let datagram = match output {
            Output::Ask => Up::Ask,
            Output::Send(mut offer) => {
                let agreed = self.control.as_ref().and_then(|it| it.offerer.agreed());
                if let Some(agreed) = agreed
                    && mutant == Mutant::SameEpoch
                    && agreed.incarnation != offer.believes.incarnation
                {
                    offer.epoch = agreed.epoch;
                }
                Up::Offer(offer)
            }
            Output::Note(note) => return self.noted(note, answered),
        };
        let connection = self.control.as_ref().and_then(|control| control.connection);
        if let Some(at) = connection {
            self.connections[at].up.push_back(datagram);
        }
    }

    fn noted(&mut self, note: Note, answered: Option<Offer>) {
        let lives = self.partner_lives();
        let left_a_trace = answered.is_some_and(|offer| {
            let held = offer.held();
            let of_this_life = lives && self.lives == held.incarnation;
            let was_held = self.meanings.get(&(held.incarnation, held.epoch)) == Some(&held.digest);
            // What was taken may have been replaced by a second client since.
            of_this_life && was_held && (self.spent.strangers == 0 || self.lanes_hold(&held))
        });
        match note {
            Note::Adopted(_) => self.came_by(Came::Adopted),
            Note::Taken(held, why) => {
                // A second client may have agreed on something else since.
                if lives && self.spent.strangers == 0 && !self.lanes_hold(&held) {
                    self.breaches.note(Breach::Untrue);
                }
                if why == Why::Reopen {
                    self.came_by(Came::Reopened);
                }
                if why == Why::Reinstate {
                    self.came_by(if self.spent.appearances > 0 {
                        Came::ReinstatedLate
                    } else {
                        Came::Reinstated
                    });
                    let known = self.control.as_ref().map_or(0, |it| it.first_life);
                    let earlier = self.meanings.range((known, 0)..(held.incarnation, 0));
                    let comes_late = earlier.map(|(&(_, epoch), _)| epoch).max() < Some(held.epoch);
                    if !comes_late && self.spent.strangers == 0 {
                        self.breaches.note(Breach::Meaning);
                    }
                }
            }
            Note::Refused(refusal, _) => {
                if refusal == Refusal::Stale {
                    self.came_by(Came::Overtaken);
                }
                if left_a_trace {
                    self.breaches.note(Breach::Untrue);
                }
            }
            Note::NotTaken(_) => {
                if left_a_trace {
                    self.breaches.note(Breach::Untrue);
                }
            }
            Note::NoDataplane | Note::Lost => {}
        }
    }

    /// A client reads the next datagram of its connection, or that there will be none.
    pub fn client_hears(&mut self, mutant: Mutant, number: usize) {
        let connection = &mut self.connections[number];
        let Some(heard) = connection.down.pop_front() else {
            connection.client_end = false;
            if !connection.strange {
                if let Some(control) = &mut self.control {
                    control.connection = None;
                }
                self.tell_control(mutant, Input::Lost);
            }
            return;
        };
        if connection.strange {
            match heard {
                Down::Tell(held) => connection.up.push_back(Up::Offer(Offer {
                    epoch: held.epoch + 1,
                    believes: held,
                    wants: STRANGE,
                })),
                Down::Reply(..) | Down::Leave => self.close(number),
            }
            return;
        }
        match heard {
            Down::Tell(held) => {
                if let Some(control) = self.control.as_mut().filter(|it| it.first_life == 0) {
                    control.first_life = held.incarnation;
                }
                let held = self.as_control_hears(mutant, held);
                let unanswered = self.control.as_ref().and_then(|it| it.offerer.unanswered());
                if let Some((offer, _)) = unanswered {
                    self.came_by(if offer.held() == held {
                        Came::ResolvedTaken
                    } else {
                        Came::ResolvedNotTaken
                    });
                }
                self.tell_control(mutant, Input::Told(held));
            }
            Down::Reply(verdict, held) => {
                self.tell_control(mutant, Input::Answered { verdict, held });
            }
            Down::Leave => {
                self.came_by(Came::TookLeave);
                self.tell_control(mutant, Input::TookLeave);
            }
        }
    }

    fn as_control_hears(&self, mutant: Mutant, mut held: Held) -> Held {
        let offerer = self.control.as_ref().map(|it| &it.offerer);
        let agreed = offerer.and_then(|it| it.agreed());
        let unanswered = offerer.and_then(|it| it.unanswered());
        if let (Mutant::ReopensByText, Some((offer, Why::Reopen))) = (mutant, unanswered)
            && (held.incarnation, held.digest) == (offer.believes.incarnation, offer.wants)
        {
            return offer.held();
        }
        match (mutant, agreed) {
            (Mutant::ControlFromFile, None) => held.digest = self.file,
            (Mutant::NoIncarnation, Some(agreed)) => held.incarnation = agreed.incarnation,
            _ => {}
        }
        held
    }

    /// The host thread reads the next datagram of a connection, or that there will be none.
    pub fn dataplane_hears(&mut self, mutant: Mutant, number: usize) {
        let from = number as u64;
        let Some(heard) = self.connections[number].up.pop_front() else {
            self.connections[number].dataplane_end = false;
            if let Some(dataplane) = &mut self.dataplane
                && mutant == Mutant::GivesUp
            {
                dataplane.give_up(from);
            }
            return self.host_hears(mutant, Heard::Gone { from });
        };
        match heard {
            Up::Ask => self.host_hears(mutant, Heard::Asked { from }),
            Up::Offer(offer) => self.host_hears(mutant, Heard::Offered { from, offer }),
        }
    }
}
