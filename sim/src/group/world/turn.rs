//! An application's turn: what it hears, says and is told.

use std::rc::Rc;

use covalent_protocol::group::{Event as Told, Group, Life, MulticastError, STATE_BYTES_MAX};

use super::{Event, Input, World, numbered_bytes, stranger::token_for};
use crate::group::{
    application,
    book::{Book, Placed, StayId},
    fact::Fact,
    mutant::Mutant,
    said::Said,
    tamper,
};

/// Envelopes that one turn may say. Nobody has so many peers.
const SAID_MAX: usize = 1_000;
/// What a machine holds is looked at once in so many turns: it takes longer than the turn.
const TURNS_UNSEEN: u64 = 16;

impl World {
    /// An application looks at what happened.
    pub(super) fn turn(&mut self, stay: StayId) {
        self.members[stay].woken = false;
        if self.members[stay].halted {
            return;
        }
        while let Some(input) = self.members[stay].inbox.pop_front() {
            self.take(stay, input);
        }
        self.speak(stay);
        self.turns += 1;
        if self.turns.is_multiple_of(TURNS_UNSEEN)
            && let Some(group) = &self.members[stay].group
        {
            let bytes = group.held_bytes();
            let fact = Fact::Holds { by: stay, bytes };
            self.witness.see(&fact, &self.graph);
        }
    }

    /// A machine is given an input.
    fn take(&mut self, stay: StayId, input: Input) {
        if let Input::Forged { node, bytes } = input {
            return self.take_forged(stay, node, bytes);
        }
        let mutant = self.options.mutant;
        let from = match &input {
            Input::Envelope { from, .. } => crate::node_guid(self.members[*from].node),
            _ => 0,
        };
        let member = &mut self.members[stay];
        let Some(group) = &mut member.group else {
            return;
        };
        let (by, at) = (stay, stay);
        match input {
            Input::Envelope {
                from: sender,
                bytes,
                said,
            } => {
                member.queue_bytes -= bytes.len();
                member.numbered_bytes -= numbered_bytes(&bytes, said.as_deref());
                let result = tamper::on_envelope(mutant, group, from, &bytes);
                if let Some(said) = &said {
                    let from = sender;
                    let fact = Fact::Heard {
                        by,
                        from,
                        said,
                        result,
                    };
                    self.witness.see(&fact, &self.graph);
                }
            }
            Input::End { to, ticket, how } => {
                tamper::input(mutant, group, |group| group.on_end(ticket, how));
                let to = &to;
                self.witness.see(&Fact::Ended { by, to, how }, &self.graph);
            }
            Input::Path { about, up } => {
                let guid = crate::node_guid(about);
                tamper::input(mutant, group, |group| group.on_path(guid, up));
                self.witness.see(&Fact::Path { at, about, up }, &self.graph);
            }
            Input::Contact(contact) => {
                tamper::input(mutant, group, |group| group.on_contact(contact));
            }
            Input::Tick => tamper::input(mutant, group, Group::on_tick),
            // Taken above.
            Input::Forged { .. } => {}
        }
    }

    /// A machine says what it has to say, and tells what it has to tell, until there is nothing more.
    pub(super) fn speak(&mut self, stay: StayId) {
        let mut said = 0;
        loop {
            let mut idle = true;
            self.acquaint(stay);
            loop {
                let member = &mut self.members[stay];
                if member.doomed == Some(0) {
                    return self.kill(stay);
                }
                let Some(group) = &mut member.group else {
                    return;
                };
                let Some(parcel) = tamper::poll_send(self.options.mutant, group, &mut self.buffer)
                else {
                    break;
                };
                idle = false;
                said += 1;
                if said > SAID_MAX {
                    let why = "more envelopes in one turn than it has windows";
                    let fact = Fact::Garbled { by: stay, why };
                    return self.witness.see(&fact, &self.graph);
                }
                if let Some(left) = &mut self.members[stay].doomed {
                    *left -= 1;
                }
                let mut bytes = self.buffer[..parcel.len].to_vec();
                if let Some(to) = self.book().stay_of(parcel.to.life) {
                    self.lens.say(stay, to, &mut bytes);
                }
                // Read once for all who look: nothing changes it on its way.
                let said = Said::read(&bytes).map(Rc::new);
                match &said {
                    Ok(said) => {
                        if let Some(to) = self.book().stay_of(parcel.to.life) {
                            self.overhear(stay, to, said.kind, &bytes);
                        }
                        let fact = Fact::Said {
                            by: stay,
                            to: &parcel.to,
                            said,
                        };
                        self.witness.see(&fact, &self.graph);
                    }
                    Err(why) => {
                        let fact = Fact::Garbled { by: stay, why };
                        self.witness.see(&fact, &self.graph);
                    }
                }
                self.post(stay, parcel, bytes, said.ok());
            }
            idle &= !self.listen(stay);
            idle &= !self.give_states(stay);
            if idle {
                if self.book().stays[stay].is_over() {
                    self.retire(stay);
                }
                return;
            }
        }
    }

    /// Gives a member all tokens, in a world without a stranger.
    fn acquaint(&mut self, stay: StayId) {
        let member = &mut self.members[stay];
        if let Some(group) = member.group.as_mut().filter(|_| !self.challenged) {
            group.acquaint(|other| token_for(&member.contact, &other));
        }
    }

    /// An application takes its events. Gives whether there was one.
    fn listen(&mut self, stay: StayId) -> bool {
        let mut any = false;
        let mutant = self.options.mutant;
        let mut again = None;
        let Self {
            members,
            witness,
            graph,
            rng,
            ..
        } = self;
        let member = &mut members[stay];
        let (application, Some(group)) = (&mut member.application, &mut member.group) else {
            return false;
        };
        let saved = mutant.map(|_| tamper::before_events(mutant, group));
        while !application.sated
            && let Some(event) = group.poll_event()
        {
            any = true;
            let by = stay;
            match event {
                Told::View(view) => {
                    if mutant == Some(Mutant::ResendsDelivered) {
                        again = last_delivered(&witness.book, stay);
                    }
                    witness.see(&Fact::View { by, view }, graph);
                }
                Told::Delivered {
                    sender,
                    sequence,
                    view,
                    position,
                    data,
                } => {
                    let (message, as_written) = application::read(data);
                    let asked = usize::try_from(message)
                        .ok()
                        .and_then(|message| witness.book.messages.get(message));
                    let whole = as_written && asked.is_some_and(|asked| asked.bytes == data.len());
                    let placed = &Placed {
                        message,
                        sender: sender.life,
                        sequence,
                        position,
                    };
                    witness.see(
                        &Fact::Delivered {
                            by,
                            placed,
                            view,
                            whole,
                        },
                        graph,
                    );
                    application.digest.take(message);
                }
                Told::Stable { view, position } => {
                    witness.see(&Fact::Stable { by, view, position }, graph);
                }
                Told::StateWanted { to } => {
                    witness.see(&Fact::StateWanted { by, to: &to }, graph);
                    let more = [0, 1, 3_000, 12_000][rng.usize(..4)];
                    let state = application.state(more);
                    // What was given before is of another view.
                    application.giving.retain(|(before, _)| *before != to.life);
                    application.giving.push((to.life, state));
                }
                Told::State {
                    data,
                    last,
                    delivered_to,
                } => {
                    application.getting.extend(data);
                    let digest = last.then(|| application.take_over()).flatten();
                    witness.see(
                        &Fact::State {
                            by,
                            last,
                            digest,
                            delivered_to,
                        },
                        graph,
                    );
                }
                Told::StateVoid => {
                    application.getting.clear();
                    witness.see(&Fact::StateVoid { by }, graph);
                }
                Told::Stopped { why, undelivered } => {
                    witness.see(
                        &Fact::Stopped {
                            by,
                            why,
                            undelivered,
                        },
                        graph,
                    );
                }
                Told::Fate { delivered_to } => {
                    witness.see(&Fact::Fate { by, delivered_to }, graph);
                }
                Told::Left => witness.see(&Fact::Left { by }, graph),
            }
        }
        if let Some(saved) = saved {
            tamper::after_events(mutant, group, &saved);
        }
        if let Some((message, bytes)) = again {
            let mut data = Vec::new();
            application::write(message, bytes, &mut data);
            // Nobody asked for it.
            let _ = group.multicast(&data);
        }
        any
    }

    /// An application gives what it has to give. Gives whether anything was taken.
    fn give_states(&mut self, stay: StayId) -> bool {
        let member = &mut self.members[stay];
        let (giving, Some(group)) = (&mut member.application.giving, &mut member.group) else {
            return false;
        };
        let mut any = false;
        giving.retain_mut(|(to, bytes)| {
            loop {
                let len = bytes.len().min(STATE_BYTES_MAX);
                let last = len == bytes.len();
                match group.give_state(*to, &bytes[..len], last) {
                    Ok(()) if last => {
                        any = true;
                        return false;
                    }
                    Ok(()) => {
                        any = true;
                        bytes.drain(..len);
                    }
                    Err(MulticastError::Full) => return true,
                    Err(_) => return false,
                }
            }
        });
        any
    }

    /// An application asks for something.
    pub(super) fn ask(&mut self, stay: StayId) {
        let asked = self.book().messages.len() as u64;
        if self.silent || self.members[stay].group.is_none() || asked >= self.plan.messages_max {
            return;
        }
        if !self.members[stay].halted {
            for _ in 0..self.rng.u64(1..=self.plan.burst_max) {
                let most = self.plan.message_bytes_max;
                let bytes = self.rng.usize(application::MESSAGE_BYTES_MIN..=most);
                if !self.ask_once(stay, bytes) {
                    break;
                }
            }
            self.wake(stay);
        }
        let next = self.now() + self.ask_units();
        self.schedule.put(next, Event::Ask(stay));
    }

    /// An application asks for one message of so many bytes. Gives whether it was taken.
    pub fn ask_once(&mut self, stay: StayId, bytes: usize) -> bool {
        let message = self.book().messages.len() as u64;
        let mut data = Vec::new();
        application::write(message, bytes, &mut data);
        let Some(group) = &mut self.members[stay].group else {
            return false;
        };
        let by = stay;
        let fact = match group.multicast(&data) {
            Ok(sequence) => Fact::Asked {
                by,
                sequence,
                message,
                bytes,
            },
            Err(MulticastError::Full) => Fact::Full { by },
            Err(_) => return false,
        };
        self.witness.see(&fact, &self.graph);
        matches!(fact, Fact::Asked { .. })
    }

    /// An application says of another that it should go.
    pub(super) fn suspect(&mut self, by: StayId, whom: StayId) {
        let life: Life = self.members[whom].contact.life;
        // Of somebody who is no member nothing is to be said.
        if let Some(group) = &mut self.members[by].group
            && (group.view()).is_some_and(|view| view.rank_of(life).is_some())
        {
            group.suspect(life);
            let fact = Fact::Suspected { by, whom };
            self.witness.see(&fact, &self.graph);
            self.wake(by);
        }
    }
}

/// The last own message of a stay that was delivered: its number and its length.
fn last_delivered(book: &Book, stay: StayId) -> Option<(u64, usize)> {
    let life = book.stays[stay].contact.life;
    let delivered = usize::try_from(*book.last.get(&life)?).ok()?;
    let message = *book.stays[stay].asked.get(delivered.checked_sub(1)?)?;
    let known = book.messages.get(usize::try_from(message).ok()?)?;
    Some((message, known.bytes))
}
