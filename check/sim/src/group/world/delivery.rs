//! Envelopes in flight, and path reports of the link layer.

use std::rc::Rc;

use covalent_protocol::group::{End, Parcel};

use super::{Event, Input, World};
use crate::group::{
    book::MembershipId,
    net::{Envelope, EnvelopeOutcome, draw_outcome, hops_of, node_of, path_units, queue_bytes},
    sent::SentEnvelope,
};

impl World {
    /// An envelope is given to the verbs.
    pub(super) fn post(
        &mut self,
        from: MembershipId,
        parcel: Parcel,
        bytes: Vec<u8>,
        sent: Option<Rc<SentEnvelope>>,
    ) {
        let (outcome, twice) = draw_outcome(&self.plan.envelopes, &mut self.rng);
        let envelope = Envelope {
            from,
            node: self.members[from].node,
            to: parcel.to,
            ticket: Some(parcel.ticket),
            bytes,
            sent,
            outcome,
            ended: None,
        };
        if twice {
            let copy = Envelope {
                ticket: None,
                ..envelope.clone()
            };
            let place = self.net.post(copy);
            self.send(place);
        }
        let place = self.net.post(envelope);
        self.send(place);
    }

    /// The envelope at a place goes one way further, or waits for a path.
    fn send(&mut self, place: usize) {
        let Some(envelope) = self.net.get_mut(place) else {
            return;
        };
        let ended = envelope.ended.is_some();
        match hops_of(&self.graph, envelope) {
            Some(hops) => {
                let at = self.witness.now + path_units(&self.plan, hops, &mut self.rng);
                let event = if ended {
                    Event::Back(place)
                } else {
                    Event::Arrive(place)
                };
                self.queue.add(at, event);
            }
            None => self.net.wait(place),
        }
    }

    /// The envelope at a place arrives.
    pub(super) fn arrive(&mut self, place: usize) {
        let Some(envelope) = self.net.get_mut(place) else {
            return;
        };
        if hops_of(&self.graph, envelope).is_none() {
            return self.net.wait(place);
        }
        let receiver = self.at_node[node_of(&envelope.to)];
        // The key identifies a queue.
        let receiver = receiver
            .filter(|membership| self.members[*membership].contact.rkey == envelope.to.rkey);
        let room = queue_bytes(self.graph.nodes());
        let is_full = |membership: MembershipId| {
            self.members[membership].queue_bytes + envelope.bytes.len() > room
        };
        let (arrives, how) = match (receiver, envelope.outcome) {
            (None, _) => (false, End::Gone),
            (Some(membership), _) if is_full(membership) => (false, End::NotExecuted),
            (_, EnvelopeOutcome::Arrives) => (true, End::Done),
            (_, EnvelopeOutcome::Unclear { arrives }) => (arrives, End::Unclear),
            (_, EnvelopeOutcome::Refused) => (false, End::NotExecuted),
        };
        envelope.ended = Some(how);
        let (from, ticket) = (envelope.from, envelope.ticket);
        let bytes = std::mem::take(&mut envelope.bytes);
        let sent = envelope.sent.take();
        if let Some(membership) = receiver.filter(|_| arrives) {
            self.give(membership, Input::Envelope { from, bytes, sent });
        }
        if ticket.is_some() {
            self.send(place);
        } else {
            self.net.remove(place);
        }
    }

    /// Notifies the sender of the envelope at a place of its outcome.
    pub(super) fn back(&mut self, place: usize) {
        let Some(envelope) = self.net.get_mut(place) else {
            return;
        };
        if hops_of(&self.graph, envelope).is_none() {
            return self.net.wait(place);
        }
        if let Some(envelope) = self.net.remove(place)
            && let (Some(ticket), Some(how)) = (envelope.ticket, envelope.ended)
        {
            let to = envelope.to;
            self.give(envelope.from, Input::End { to, ticket, how });
        }
    }

    /// Handles a change of paths: waiting envelopes continue, and the ends detect the change at
    /// their own times.
    pub(super) fn paths_changed(&mut self) {
        for place in self.net.take_waiting() {
            self.send(place);
        }
        let nodes = self.graph.nodes();
        for at in 0..nodes {
            for about in (0..nodes).filter(|about| *about != at) {
                if self.graph.runs(at)
                    && self.stands(at, about) != self.reported[at * nodes + about]
                {
                    self.notice_soon(at, about);
                }
            }
        }
    }

    /// Whether the link layer of `at` holds a way to `about` for there.
    fn stands(&self, at: usize, about: usize) -> bool {
        self.graph.hops(at, about).is_some() && !self.lies[at * self.graph.nodes() + about]
    }

    /// The link layer of `at` looks at the way to `about` within two round trips.
    pub(super) fn notice_soon(&mut self, at: usize, about: usize) {
        let most = 2 * self.round_trip_units();
        let when = self.now() + self.rng.u64(0..=most);
        self.queue.add(when, Event::Notice { at, about });
    }

    /// The link layer of `at` checks the path to `about` and reports a change.
    pub(super) fn notice(&mut self, at: usize, about: usize) {
        let up = self.stands(at, about);
        let reported = &mut self.reported[at * self.graph.nodes() + about];
        if !self.graph.runs(at) || *reported == up {
            return;
        }
        *reported = up;
        if let Some(membership) = self.at_node[at] {
            self.give(membership, Input::Path { about, up });
        }
    }
}
