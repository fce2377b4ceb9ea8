//! The program around a node of a mesh: it counts, and lets the witness see everything.

use covalent_protocol::{
    ExchangeId, Execution, Host, LinkEvent, Mode, NodeEvent, Outcome, PATH_PORTS, Refusal, Reply,
};

use super::{book::Told, fact::MeshFact, mutant::MeshMutant, witness::Witness};
use crate::shape::Spot;

/// A node's program during one call.
pub(super) struct Program<'a> {
    pub node: u16,
    /// Where the node's ports are.
    pub ports: &'a [Spot],
    pub witness: &'a mut Witness,
    pub mutant: Option<MeshMutant>,
    /// What the program does when the call has returned.
    pub afterwards: &'a mut Vec<Afterwards>,
}

/// What a program does when its node has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Afterwards {
    /// It asks again for everything that is open: a link failed.
    AskAgain,
    /// It takes what is in doubt for done.
    Guess(u64),
}

/// The request with a token.
pub(super) const fn request(token: u64) -> [u8; 8] {
    token.to_le_bytes()
}

/// The token of a request; one that nobody has if it is none.
fn token_of(payload: &[u8]) -> u64 {
    payload
        .first_chunk()
        .map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes))
}

/// What a node answers to a token: no other node answers the same, and none does to another token.
const fn answer(token: u64, node: u16) -> u64 {
    token << 16 | node as u64
}

impl Host for Program<'_> {
    fn admit(&mut self, _id: &ExchangeId, _mode: Mode, payload: &[u8]) -> Result<(), Refusal> {
        if payload.len() != 8 {
            return Err(Refusal::BadRequest);
        }
        Ok(())
    }

    fn execute(&mut self, _id: &ExchangeId, payload: &[u8], reply: &mut Reply) -> Execution {
        let token = token_of(payload);
        let bytes = answer(token, self.node);
        self.witness.see(&MeshFact::Executed {
            token,
            at: self.node,
            reply: bytes,
        });
        reply.write_with(|space| match space.first_chunk_mut() {
            Some(place) => {
                *place = bytes.to_le_bytes();
                place.len()
            }
            None => 0,
        });
        Execution::Done
    }

    fn reverse(&mut self, _id: &ExchangeId, _payload: &[u8]) {}

    fn complete(&mut self, token: u64, outcome: Outcome<'_>) {
        let how = match outcome {
            Outcome::Committed(reply) => Told::Committed(token_of(reply)),
            Outcome::Refused(_) => Told::Refused,
            Outcome::PeerRestarted => Told::Restarted,
        };
        self.witness.see(&MeshFact::Told {
            token,
            by: self.node,
            how,
        });
    }

    fn in_doubt(&mut self, token: u64, _id: &ExchangeId) {
        let by = self.node;
        self.witness.see(&MeshFact::Doubted { token, by });
        if self.mutant == Some(MeshMutant::GuessesInDoubt) {
            self.afterwards.push(Afterwards::Guess(token));
        }
    }

    fn link_event(&mut self, event: LinkEvent) {
        // A path is a link too; on its cables it is a frame among others.
        if event.port() >= PATH_PORTS {
            return;
        }
        let spot = |port: u16| self.ports[usize::from(port)];
        match event {
            LinkEvent::Up { port, epoch, .. } => {
                let at = spot(port);
                self.witness.see(&MeshFact::Up { at, epoch });
            }
            LinkEvent::Down { port, reason, .. } => {
                let at = spot(port);
                self.witness.see(&MeshFact::Down { at, reason });
                if self.mutant == Some(MeshMutant::RetriesBlindly) {
                    self.afterwards.push(Afterwards::AskAgain);
                }
            }
            // That none is refused where every cable joins two ports is what the checkers of the small world hold.
            LinkEvent::Refused { .. } | LinkEvent::RefusalOver { .. } => {}
        }
    }

    fn tree_event(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Hangs { root, port, .. } => {
                let at = self.ports[usize::from(port)];
                let root = node_of(root);
                self.witness.see(&MeshFact::Hangs { at, root });
            }
            NodeEvent::Lost { root } => {
                let (node, root) = (self.node, node_of(root));
                self.witness.see(&MeshFact::Lost { node, root });
            }
            NodeEvent::Called { .. } => {}
            NodeEvent::Twin | NodeEvent::Full { .. } | NodeEvent::NoBerth { .. } => {
                self.witness.see(&MeshFact::Complained {
                    node: self.node,
                    event,
                });
            }
        }
    }
}

/// A node's GUID. The low byte is for its lanes.
pub(super) const fn guid(node: usize) -> u64 {
    (node as u64 + 1) << 8
}

/// The node with a GUID of [`guid`].
pub(super) const fn node_of(guid: u64) -> u16 {
    ((guid >> 8) - 1) as u16
}
