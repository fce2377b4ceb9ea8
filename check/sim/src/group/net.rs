//! The network between members, with exactly the guarantees of verbs.
//!
//! An envelope to an incarnation on a reachable node arrives once in its queue after a delay, and
//! ends `Done` after another delay. Envelopes in flight arrive in any order. One may arrive twice,
//! may end `Unclear` whether it arrived or not, or may be refused. An envelope without a path waits
//! for one. An envelope to an ended incarnation ends `Gone`. A full queue refuses the envelope.

use std::rc::Rc;

use covalent_protocol::group::{Contact, End, Ticket, WINDOW};
use fastrand::Rng;

use super::{
    book::MembershipId,
    graph::Graph,
    plan::{EnvelopeFaults, Plan},
    sent::SentEnvelope,
};

/// Maximum bytes that an envelope takes in a receive queue.
pub const ENVELOPE_BYTES: usize = 4_120;
/// Space in a receive queue for untrusted local users.
const UNTRUSTED_BYTES: usize = 32 * 1024;

/// Bytes of a receive queue among `nodes` nodes.
pub const fn queue_bytes(nodes: usize) -> usize {
    nodes * WINDOW * ENVELOPE_BYTES + UNTRUSTED_BYTES
}

/// An envelope in flight.
#[derive(Debug, Clone)]
pub struct Envelope {
    pub from: MembershipId,
    /// Posted at this node.
    pub node: usize,
    pub to: Contact,
    /// Ticket of the state machine. An unsolicited copy has none.
    pub ticket: Option<Ticket>,
    pub bytes: Vec<u8>,
    /// The same as checkers read it; `None` if they cannot.
    pub sent: Option<Rc<SentEnvelope>>,
    pub outcome: EnvelopeOutcome,
    /// How it ended, once that is settled: the word of it is on its way back.
    pub ended: Option<End>,
}

/// Future outcome of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvelopeOutcome {
    /// It arrives, and its sender is notified.
    Arrives,
    /// It arrives or not, and the sender does not learn which.
    Unclear { arrives: bool },
    /// It is refused.
    Refused,
}

/// All envelopes in flight.
#[derive(Debug, Default)]
pub struct Net {
    in_flight: Vec<Option<Envelope>>,
    free: Vec<usize>,
    /// Those that wait for a path.
    waiting: Vec<usize>,
}

impl Net {
    /// Takes an envelope in. Gives its place.
    pub fn post(&mut self, envelope: Envelope) -> usize {
        match self.free.pop() {
            Some(place) => {
                self.in_flight[place] = Some(envelope);
                place
            }
            None => {
                self.in_flight.push(Some(envelope));
                self.in_flight.len() - 1
            }
        }
    }

    /// The envelope at a place, unless it is gone.
    pub fn get_mut(&mut self, place: usize) -> Option<&mut Envelope> {
        self.in_flight.get_mut(place)?.as_mut()
    }

    /// It is over with the envelope at a place.
    pub fn remove(&mut self, place: usize) -> Option<Envelope> {
        let envelope = self.in_flight.get_mut(place)?.take()?;
        self.free.push(place);
        Some(envelope)
    }

    /// The envelope at a place waits for a path.
    pub fn wait(&mut self, place: usize) {
        self.waiting.push(place);
    }

    /// Those that waited for a path and may have one now.
    pub fn take_waiting(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.waiting)
    }

    /// Loses each envelope of a crashed node that has not arrived, with probability one half.
    pub fn lose_half_of(&mut self, node: usize, rng: &mut Rng) {
        // Keep the place of a lost envelope: events scheduled for it then have no effect.
        for envelope in &mut self.in_flight {
            let lost = |envelope: &Envelope| envelope.node == node && envelope.ended.is_none();
            if envelope.as_ref().is_some_and(lost) && rng.bool() {
                *envelope = None;
            }
        }
    }
}

/// How long an envelope takes for one way over so many cables.
pub fn path_units(plan: &Plan, hops: u8, rng: &mut Rng) -> u64 {
    let [least, most] = plan.hop_units;
    // A message to an application of the same node takes its time too.
    let hops = u64::from(hops.max(1));
    let units = rng.u64(least * hops..=most * hops);
    let late = rng.u32(..1000) < plan.envelopes.late;
    if late { units * rng.u64(2..=8) } else { units }
}

/// Draws the outcome of an envelope, and whether it arrives twice.
pub fn draw_outcome(faults: &EnvelopeFaults, rng: &mut Rng) -> (EnvelopeOutcome, bool) {
    let mut draw = |often: u32| often > 0 && rng.u32(..1000) < often;
    let (unclear, refused, twice) = (
        draw(faults.unclear),
        draw(faults.refused),
        draw(faults.duplicated),
    );
    let outcome = match (unclear, refused) {
        (true, _) => EnvelopeOutcome::Unclear {
            arrives: rng.bool(),
        },
        (false, true) => EnvelopeOutcome::Refused,
        (false, false) => EnvelopeOutcome::Arrives,
    };
    (outcome, twice && outcome == EnvelopeOutcome::Arrives)
}

/// Cables of the way of an envelope, if there is one.
pub fn hops_of(graph: &Graph, envelope: &Envelope) -> Option<u8> {
    let to = node_of(&envelope.to);
    if graph.runs(envelope.node) {
        graph.hops(envelope.node, to)
    } else {
        // An envelope of a crashed node counts as one hop away.
        graph.hops(to, to).map(|_| 1)
    }
}

/// The node of a contact.
#[must_use]
pub const fn node_of(contact: &Contact) -> usize {
    contact.guid as usize - 1
}
