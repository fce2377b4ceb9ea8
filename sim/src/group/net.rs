//! What the verbs promise, and no more.
//!
//! An envelope to a life whose node is reached is in its queue once after a while, and ends `Done` another while later. Those that are under way
//! together come in any order. One may come twice, or end `Unclear` and have come or not, or be refused. Without a path it waits for one. To a life
//! that is over it ends `Gone`. A queue that is full refuses it.

use std::rc::Rc;

use covalent_protocol::group::{Contact, End, Ticket, WINDOW};
use fastrand::Rng;

use super::{
    book::StayId,
    graph::Graph,
    plan::{EnvelopeFaults, Plan},
    said::Said,
};

/// What an envelope takes in a receive queue, at most.
pub const ENVELOPE_BYTES: usize = 4_120;
/// Room in a receive queue for strangers.
const STRANGERS_BYTES: usize = 32 * 1024;

/// The room of a receive queue among so many nodes.
pub const fn queue_bytes(nodes: usize) -> usize {
    nodes * WINDOW * ENVELOPE_BYTES + STRANGERS_BYTES
}

/// An envelope under way.
#[derive(Debug, Clone)]
pub struct Envelope {
    /// Whose.
    pub from: StayId,
    /// Posted at this node.
    pub node: usize,
    /// To whom.
    pub to: Contact,
    /// For the machine; a copy that nobody knows of has none.
    pub ticket: Option<Ticket>,
    /// What it says.
    pub bytes: Vec<u8>,
    /// The same as checkers read it; `None` if they cannot.
    pub said: Option<Rc<Said>>,
    /// What is going to happen to it.
    pub fate: Fate,
    /// How it ended, once that is settled: the word of it is on its way back.
    pub ended: Option<End>,
}

/// What is going to happen to an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It arrives, and its sender is told.
    Arrives,
    /// It arrives or not, and nobody knows.
    Unclear {
        /// It does.
        arrives: bool,
    },
    /// It is refused.
    Refused,
}

/// Everything under way.
#[derive(Debug, Default)]
pub struct Net {
    under_way: Vec<Option<Envelope>>,
    free: Vec<usize>,
    /// Those that wait for a path.
    waiting: Vec<usize>,
}

impl Net {
    /// Takes an envelope in. Gives its place.
    pub fn post(&mut self, envelope: Envelope) -> usize {
        match self.free.pop() {
            Some(place) => {
                self.under_way[place] = Some(envelope);
                place
            }
            None => {
                self.under_way.push(Some(envelope));
                self.under_way.len() - 1
            }
        }
    }

    /// The envelope at a place, unless it is gone.
    pub fn get_mut(&mut self, place: usize) -> Option<&mut Envelope> {
        self.under_way.get_mut(place)?.as_mut()
    }

    /// It is over with the envelope at a place.
    pub fn remove(&mut self, place: usize) -> Option<Envelope> {
        let envelope = self.under_way.get_mut(place)?.take()?;
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

    /// A node died: of what its applications posted and what has not arrived each is lost or not.
    pub fn lose_half_of(&mut self, node: usize, rng: &mut Rng) {
        // A place whose envelope is lost is not given away: what is scheduled for it comes to nothing.
        for envelope in &mut self.under_way {
            let lost = |envelope: &Envelope| envelope.node == node && envelope.ended.is_none();
            if envelope.as_ref().is_some_and(lost) && rng.bool() {
                *envelope = None;
            }
        }
    }
}

/// How long an envelope takes for one way over so many cables.
pub fn way_units(plan: &Plan, hops: u8, rng: &mut Rng) -> u64 {
    let [least, most] = plan.hop_units;
    // A message to an application of the same node takes its time too.
    let hops = u64::from(hops.max(1));
    let units = rng.u64(least * hops..=most * hops);
    let late = rng.u32(..1000) < plan.envelopes.late;
    if late { units * rng.u64(2..=8) } else { units }
}

/// What is going to happen to an envelope, and whether it comes twice.
pub fn draw_fate(faults: &EnvelopeFaults, rng: &mut Rng) -> (Fate, bool) {
    let mut draw = |often: u32| often > 0 && rng.u32(..1000) < often;
    let (unclear, refused, twice) = (
        draw(faults.unclear),
        draw(faults.refused),
        draw(faults.duplicated),
    );
    let fate = match (unclear, refused) {
        (true, _) => Fate::Unclear {
            arrives: rng.bool(),
        },
        (false, true) => Fate::Refused,
        (false, false) => Fate::Arrives,
    };
    (fate, twice && fate == Fate::Arrives)
}

/// Cables of the way of an envelope, if there is one.
pub fn way_of(graph: &Graph, envelope: &Envelope) -> Option<u8> {
    let to = node_of(&envelope.to);
    if graph.runs(envelope.node) {
        graph.hops(envelope.node, to)
    } else {
        // What a node said before it died comes from anywhere.
        graph.hops(to, to).map(|_| 1)
    }
}

/// The node of a contact.
#[must_use]
pub const fn node_of(contact: &Contact) -> usize {
    contact.guid as usize - 1
}
