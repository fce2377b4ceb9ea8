//! Envelopes under way, and what the link layer says of paths.

use std::rc::Rc;

use covalent_protocol::group::{End, Parcel};

use super::{Event, Input, World};
use crate::group::{
    book::StayId,
    net::{Envelope, Fate, draw_fate, node_of, queue_bytes, way_of, way_units},
    said::Said,
};

impl World {
    /// An envelope is given to the verbs.
    pub(super) fn post(
        &mut self,
        from: StayId,
        parcel: Parcel,
        bytes: Vec<u8>,
        said: Option<Rc<Said>>,
    ) {
        let (fate, twice) = draw_fate(&self.plan.envelopes, &mut self.rng);
        let envelope = Envelope {
            from,
            node: self.members[from].node,
            to: parcel.to,
            ticket: Some(parcel.ticket),
            bytes,
            said,
            fate,
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
        match way_of(&self.graph, envelope) {
            Some(hops) => {
                let at = self.witness.now + way_units(&self.plan, hops, &mut self.rng);
                let event = if ended {
                    Event::Back(place)
                } else {
                    Event::Arrive(place)
                };
                self.schedule.put(at, event);
            }
            None => self.net.wait(place),
        }
    }

    /// The envelope at a place arrives.
    pub(super) fn arrive(&mut self, place: usize) {
        let Some(envelope) = self.net.get_mut(place) else {
            return;
        };
        if way_of(&self.graph, envelope).is_none() {
            return self.net.wait(place);
        }
        let receiver = self.at_node[node_of(&envelope.to)];
        // The key is what names a queue.
        let receiver = receiver.filter(|stay| self.members[*stay].contact.rkey == envelope.to.rkey);
        let room = queue_bytes(self.graph.nodes());
        let is_full = |stay: StayId| self.members[stay].queue_bytes + envelope.bytes.len() > room;
        let (arrives, how) = match (receiver, envelope.fate) {
            (None, _) => (false, End::Gone),
            (Some(stay), _) if is_full(stay) => (false, End::NotExecuted),
            (_, Fate::Arrives) => (true, End::Done),
            (_, Fate::Unclear { arrives }) => (arrives, End::Unclear),
            (_, Fate::Refused) => (false, End::NotExecuted),
        };
        envelope.ended = Some(how);
        let (from, ticket) = (envelope.from, envelope.ticket);
        let bytes = std::mem::take(&mut envelope.bytes);
        let said = envelope.said.take();
        if let Some(stay) = receiver.filter(|_| arrives) {
            self.give(stay, Input::Envelope { from, bytes, said });
        }
        if ticket.is_some() {
            self.send(place);
        } else {
            self.net.remove(place);
        }
    }

    /// The sender of the envelope at a place is told how it ended.
    pub(super) fn back(&mut self, place: usize) {
        let Some(envelope) = self.net.get_mut(place) else {
            return;
        };
        if way_of(&self.graph, envelope).is_none() {
            return self.net.wait(place);
        }
        if let Some(envelope) = self.net.remove(place)
            && let (Some(ticket), Some(how)) = (envelope.ticket, envelope.ended)
        {
            let to = envelope.to;
            self.give(envelope.from, Input::End { to, ticket, how });
        }
    }

    /// Paths came or went: what waited goes on, and the ends notice at their own times.
    pub(super) fn paths_changed(&mut self) {
        for place in self.net.take_waiting() {
            self.send(place);
        }
        let nodes = self.graph.nodes();
        for at in 0..nodes {
            for about in (0..nodes).filter(|about| *about != at) {
                if self.graph.runs(at) && self.stands(at, about) != self.told[at * nodes + about] {
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
        self.schedule.put(when, Event::Notice { at, about });
    }

    /// The link layer of `at` looks at the way to `about` and says so if it is not as it was.
    pub(super) fn notice(&mut self, at: usize, about: usize) {
        let up = self.stands(at, about);
        let told = &mut self.told[at * self.graph.nodes() + about];
        if !self.graph.runs(at) || *told == up {
            return;
        }
        *told = up;
        if let Some(stay) = self.at_node[at] {
            self.give(stay, Input::Path { about, up });
        }
    }
}
