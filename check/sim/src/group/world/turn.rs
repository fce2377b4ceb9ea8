//! An application's turn: its input, the envelopes that it sends, and its events.

use std::rc::Rc;

use covalent_protocol::group::{
    Event as GroupEvent, Group, Incarnation, MulticastError, STATE_BYTES_MAX,
};

use super::{Event, Input, World, numbered_bytes, untrusted::token_for};
use crate::group::{
    application,
    book::{Book, MembershipId, Placed},
    fact::Fact,
    mutant::Mutant,
    sent::SentEnvelope,
    tamper,
};

/// Maximum envelopes that one turn sends. No member has so many peers.
const SENDS_MAX: usize = 1_000;
/// Turns between two measurements of a state machine's memory: a measurement takes longer than a
/// turn.
const TURNS_UNSEEN: u64 = 16;

impl World {
    /// An application processes its events.
    pub(super) fn turn(&mut self, membership: MembershipId) {
        self.members[membership].woken = false;
        if self.members[membership].halted {
            return;
        }
        while let Some(input) = self.members[membership].inbox.pop_front() {
            self.take(membership, input);
        }
        self.send_all(membership);
        self.turns += 1;
        if self.turns.is_multiple_of(TURNS_UNSEEN)
            && let Some(group) = &self.members[membership].group
        {
            let bytes = group.held_bytes();
            let fact = Fact::Holds {
                by: membership,
                bytes,
            };
            self.witness.see(&fact, &self.graph);
        }
    }

    /// A machine is given an input.
    fn take(&mut self, membership: MembershipId, input: Input) {
        if let Input::Forged { node, bytes } = input {
            return self.take_forged(membership, node, bytes);
        }
        let mutant = self.options.mutant;
        let from = match &input {
            Input::Envelope { from, .. } => crate::node_guid(self.members[*from].node),
            _ => 0,
        };
        let member = &mut self.members[membership];
        let Some(group) = &mut member.group else {
            return;
        };
        let (by, at) = (membership, membership);
        match input {
            Input::Envelope {
                from: sender,
                bytes,
                sent,
            } => {
                member.queue_bytes -= bytes.len();
                member.numbered_bytes -= numbered_bytes(&bytes, sent.as_deref());
                let result = tamper::on_envelope(mutant, group, from, &bytes);
                if let Some(sent) = &sent {
                    let from = sender;
                    let fact = Fact::Received {
                        by,
                        from,
                        sent,
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

    /// A state machine sends its envelopes and returns its events until there are no more.
    pub(super) fn send_all(&mut self, membership: MembershipId) {
        let mut sent = 0;
        loop {
            let mut idle = true;
            self.acquaint(membership);
            loop {
                let member = &mut self.members[membership];
                if member.doomed == Some(0) {
                    return self.kill(membership);
                }
                let Some(group) = &mut member.group else {
                    return;
                };
                let Some(parcel) = tamper::poll_send(self.options.mutant, group, &mut self.buffer)
                else {
                    break;
                };
                idle = false;
                sent += 1;
                if sent > SENDS_MAX {
                    let why = "more envelopes in one turn than it has windows";
                    let fact = Fact::Garbled {
                        by: membership,
                        why,
                    };
                    return self.witness.see(&fact, &self.graph);
                }
                if let Some(left) = &mut self.members[membership].doomed {
                    *left -= 1;
                }
                let mut bytes = self.buffer[..parcel.len].to_vec();
                if let Some(to) = self.book().membership_of(parcel.to.incarnation) {
                    self.lens.on_send(membership, to, &mut bytes);
                }
                // Decode once for all observers: the envelope does not change in flight.
                let sent = SentEnvelope::read(&bytes).map(Rc::new);
                match &sent {
                    Ok(sent) => {
                        if let Some(to) = self.book().membership_of(parcel.to.incarnation) {
                            self.overhear(membership, to, sent.kind, &bytes);
                        }
                        let fact = Fact::SentEnvelope {
                            by: membership,
                            to: &parcel.to,
                            sent,
                        };
                        self.witness.see(&fact, &self.graph);
                    }
                    Err(why) => {
                        let fact = Fact::Garbled {
                            by: membership,
                            why,
                        };
                        self.witness.see(&fact, &self.graph);
                    }
                }
                self.post(membership, parcel, bytes, sent.ok());
            }
            idle &= !self.take_events(membership);
            idle &= !self.send_snapshots(membership);
            if idle {
                if self.book().stays[membership].is_over() {
                    self.retire(membership);
                }
                return;
            }
        }
    }

    /// Gives a member all tokens, in a world without a stranger.
    fn acquaint(&mut self, membership: MembershipId) {
        let member = &mut self.members[membership];
        if let Some(group) = member.group.as_mut().filter(|_| !self.challenged) {
            group.acquaint(|other| token_for(&member.contact, &other));
        }
    }

    /// An application takes its events. Gives whether there was one.
    fn take_events(&mut self, membership: MembershipId) -> bool {
        let mut any = false;
        let mutant = self.options.mutant;
        let mut resend = None;
        let Self {
            members,
            witness,
            graph,
            rng,
            ..
        } = self;
        let member = &mut members[membership];
        let (application, Some(group)) = (&mut member.application, &mut member.group) else {
            return false;
        };
        let saved = mutant.map(|_| tamper::before_events(mutant, group));
        while !application.sated
            && let Some(event) = group.poll_event()
        {
            any = true;
            let by = membership;
            match event {
                GroupEvent::View(view) => {
                    if mutant == Some(Mutant::ResendsDelivered) {
                        resend = last_delivered(&witness.book, membership);
                    }
                    witness.see(&Fact::View { by, view }, graph);
                }
                GroupEvent::Delivered {
                    sender,
                    sequence,
                    view,
                    position,
                    data,
                } => {
                    let (message, as_written) = application::read(data);
                    let requested = usize::try_from(message)
                        .ok()
                        .and_then(|message| witness.book.messages.get(message));
                    let whole = as_written
                        && requested.is_some_and(|requested| requested.bytes == data.len());
                    let placed = &Placed {
                        message,
                        sender: sender.incarnation,
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
                GroupEvent::Stable { view, position } => {
                    witness.see(&Fact::Stable { by, view, position }, graph);
                }
                GroupEvent::StateWanted { to } => {
                    witness.see(&Fact::StateWanted { by, to: &to }, graph);
                    let more = [0, 1, 3_000, 12_000][rng.usize(..4)];
                    let state = application.state(more);
                    // A state given to this receiver before belongs to another view.
                    application
                        .giving
                        .retain(|(before, _)| *before != to.incarnation);
                    application.giving.push((to.incarnation, state));
                }
                GroupEvent::State {
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
                GroupEvent::StateVoid => {
                    application.getting.clear();
                    witness.see(&Fact::StateVoid { by }, graph);
                }
                GroupEvent::Stopped { why, undelivered } => {
                    witness.see(
                        &Fact::Stopped {
                            by,
                            why,
                            undelivered,
                        },
                        graph,
                    );
                }
                GroupEvent::Outcome { delivered_to } => {
                    witness.see(&Fact::Outcome { by, delivered_to }, graph);
                }
                GroupEvent::Left => witness.see(&Fact::Left { by }, graph),
            }
        }
        if let Some(saved) = saved {
            tamper::after_events(mutant, group, &saved);
        }
        if let Some((message, bytes)) = resend {
            let mut data = Vec::new();
            application::write(message, bytes, &mut data);
            // The application did not request it.
            let _ = group.multicast(&data);
        }
        any
    }

    /// An application provides pending states. Returns whether any part was taken.
    fn send_snapshots(&mut self, membership: MembershipId) -> bool {
        let member = &mut self.members[membership];
        let (giving, Some(group)) = (&mut member.application.giving, &mut member.group) else {
            return false;
        };
        let mut any = false;
        giving.retain_mut(|(to, bytes)| {
            loop {
                let len = bytes.len().min(STATE_BYTES_MAX);
                let last = len == bytes.len();
                match group.send_snapshot(*to, &bytes[..len], last) {
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

    /// An application requests messages.
    pub(super) fn request_messages(&mut self, membership: MembershipId) {
        let requested = self.book().messages.len() as u64;
        if self.silent
            || self.members[membership].group.is_none()
            || requested >= self.plan.messages_max
        {
            return;
        }
        if !self.members[membership].halted {
            for _ in 0..self.rng.u64(1..=self.plan.burst_max) {
                let most = self.plan.message_bytes_max;
                let bytes = self.rng.usize(application::MESSAGE_BYTES_MIN..=most);
                if !self.request_message(membership, bytes) {
                    break;
                }
            }
            self.wake(membership);
        }
        let next = self.now() + self.request_units();
        self.queue.add(next, Event::Request(membership));
    }

    /// An application requests one message of `bytes` bytes. Returns whether it was taken.
    pub fn request_message(&mut self, membership: MembershipId, bytes: usize) -> bool {
        let message = self.book().messages.len() as u64;
        let mut data = Vec::new();
        application::write(message, bytes, &mut data);
        let Some(group) = &mut self.members[membership].group else {
            return false;
        };
        let by = membership;
        let fact = match group.multicast(&data) {
            Ok(sequence) => Fact::Requested {
                by,
                sequence,
                message,
                bytes,
            },
            Err(MulticastError::Full) => Fact::Full { by },
            Err(_) => return false,
        };
        self.witness.see(&fact, &self.graph);
        matches!(fact, Fact::Requested { .. })
    }

    /// An application requests to exclude another one.
    pub(super) fn suspect(&mut self, by: MembershipId, target: MembershipId) {
        let incarnation: Incarnation = self.members[target].contact.incarnation;
        // Only a member can be excluded.
        if let Some(group) = &mut self.members[by].group
            && (group.view()).is_some_and(|view| view.rank_of(incarnation).is_some())
        {
            group.suspect(incarnation);
            let fact = Fact::Suspected { by, target };
            self.witness.see(&fact, &self.graph);
            self.wake(by);
        }
    }
}

/// Returns the number and the length of the last own message of an incarnation that was delivered.
fn last_delivered(book: &Book, membership: MembershipId) -> Option<(u64, usize)> {
    let incarnation = book.stays[membership].contact.incarnation;
    let delivered = usize::try_from(*book.last.get(&incarnation)?).ok()?;
    let message = *book.stays[membership]
        .requested
        .get(delivered.checked_sub(1)?)?;
    let known = book.messages.get(usize::try_from(message).ok()?)?;
    Some((message, known.bytes))
}
