//! The program of a mesh node: it runs the engine for the requests of others, and shows all events
//! to the witness.

use covalent_protocol::{
    Answer as NamedAnswer, ExchangeId, Execution, Host, LinkEvent, Mode, NodeEvent, Outcome,
    PATH_PORTS, Refusal, Reply,
};

use super::{
    book::Reported,
    errand::{self, Answer, Errand},
    fact::MeshFact,
    mutant::MeshMutant,
    share::Share,
    witness::Witness,
};
use crate::shape::Spot;

/// A node's program during one call.
pub(super) struct Program<'a> {
    pub node: u16,
    /// Where the node's ports are.
    pub ports: &'a [Spot],
    pub share: &'a mut Share,
    pub witness: &'a mut Witness,
    pub mutant: Option<MeshMutant>,
    /// Nodes of the mesh.
    pub nodes: usize,
    /// Actions after the call has returned.
    pub deferred: &'a mut Vec<Deferred>,
}

/// A mutant that loses executions loses one in so many.
const LOST_ONE_IN: u64 = 16;

/// Action of a program after its node has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deferred {
    /// It submits everything again that is open, because a link failed.
    Retry,
    /// It takes an exchange in doubt for committed.
    Guess(u64),
    /// It may give up an exchange in doubt and query the outcome by name.
    Doubt(u64, ExchangeId),
}

/// Mark in a node's answer to a token.
const fn mark(token: u64, node: u16) -> u64 {
    token << 16 | node as u64
}

impl Program<'_> {
    /// Decodes a reply. The applications remember the value of the word.
    fn learn(&mut self, token: u64, reply: &[u8]) -> Answer {
        let answer = errand::answer_of(reply);
        if let Some(request) = self.witness.scene.book.request(token)
            && let Errand::Swap { expected, new } = request.errand
        {
            let swapped = answer.found == expected;
            self.share.seen[usize::from(request.to.0)] = if swapped { new } else { answer.found };
        }
        answer
    }

    /// A path is a link too; on its cables it is a frame among others.
    fn path_event(&mut self, event: LinkEvent) {
        let at = self.node;
        match event {
            LinkEvent::Up { peer, .. } => {
                if let Some(far) = node_of_mesh(peer, self.nodes) {
                    self.witness.see(&MeshFact::PathUp { at, far });
                }
            }
            LinkEvent::Down { port, reason, .. } => {
                let port = port - PATH_PORTS;
                self.witness.see(&MeshFact::PathDown { at, port, reason });
                self.link_failed();
            }
            LinkEvent::Refused { .. } | LinkEvent::RefusalOver { .. } => {}
        }
    }

    fn link_failed(&mut self) {
        if self.mutant == Some(MeshMutant::RetriesBlindly) {
            self.deferred.push(Deferred::Retry);
        }
    }
}

impl Host for Program<'_> {
    fn admit(&mut self, id: &ExchangeId, mode: Mode, payload: &[u8]) -> Result<(), Refusal> {
        // A node outside the mesh sends no request that this program supports.
        node_of_mesh(id.peer, self.nodes).ok_or(Refusal::NoResources)?;
        self.share.admit(id, mode, payload)
    }

    fn execute(&mut self, id: &ExchangeId, payload: &[u8], reply: &mut Reply) -> Execution {
        let token = errand::token_of(payload);
        let mark = mark(token, self.node);
        let loses =
            self.mutant == Some(MeshMutant::LosesUpdates) && token.is_multiple_of(LOST_ONE_IN);
        let [counter, _] = self.share.words();
        let answer = self.share.execute(id, payload, mark, reply);
        if loses {
            self.share.set_counter(counter);
        }
        self.witness.see(&MeshFact::Executed {
            token,
            at: self.node,
            answer,
        });
        Execution::Done
    }

    fn reverse(&mut self, id: &ExchangeId, payload: &[u8]) {
        if self.mutant != Some(MeshMutant::KeepsWords) {
            self.share.reverse(id, payload);
        }
    }

    fn complete(&mut self, token: u64, outcome: Outcome<'_>) {
        let how = match outcome {
            Outcome::Committed(reply) => Reported::Committed(self.learn(token, reply)),
            Outcome::Refused(_) => Reported::Refused,
            Outcome::PeerRestarted => Reported::Restarted,
        };
        self.witness.see(&MeshFact::Reported {
            token,
            by: self.node,
            how,
        });
    }

    fn answered(&mut self, token: u64, answer: NamedAnswer<'_>) {
        let how = match answer {
            NamedAnswer::Committed(reply) => Reported::Committed(self.learn(token, reply)),
            NamedAnswer::Refused(_) => Reported::Refused,
            NamedAnswer::Undone | NamedAnswer::NeverSeen => Reported::NotExecuted,
            // There are fewer names than are kept, so it is not the name that was forgotten.
            NamedAnswer::Forgotten => Reported::Restarted,
        };
        let by = self.node;
        self.witness.see(&MeshFact::Reported { token, by, how });
    }

    fn in_doubt(&mut self, token: u64, id: &ExchangeId) {
        let by = self.node;
        self.witness.see(&MeshFact::Doubted { token, by });
        if self.mutant == Some(MeshMutant::GuessesInDoubt) {
            self.deferred.push(Deferred::Guess(token));
        } else {
            self.deferred.push(Deferred::Doubt(token, *id));
        }
    }

    fn link_event(&mut self, event: LinkEvent) {
        if event.port() >= PATH_PORTS {
            self.path_event(event);
            return;
        }
        if usize::from(event.port()) >= self.ports.len() {
            // The liar's cable is no part of the mesh.
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
                self.link_failed();
            }
            // The checkers of the link simulator verify that no link is refused where every cable
            // joins two ports.
            LinkEvent::Refused { .. } | LinkEvent::RefusalOver { .. } => {}
        }
    }

    fn tree_event(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Attached { root, port, .. } => {
                let at = self.ports.get(usize::from(port)).copied();
                if let (Some(at), Some(root)) = (at, node_of_mesh(root, self.nodes)) {
                    self.witness.see(&MeshFact::Attached { at, root });
                }
            }
            NodeEvent::Lost { root } => {
                let node = self.node;
                if let Some(root) = node_of_mesh(root, self.nodes) {
                    self.witness.see(&MeshFact::Lost { node, root });
                }
            }
            NodeEvent::Called { .. } => {}
            NodeEvent::Twin | NodeEvent::Full { .. } | NodeEvent::NoNeighborIndex { .. } => {
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

/// The node of a mesh of so many that has a GUID of [`guid`].
pub(super) fn node_of_mesh(guid: u64, nodes: usize) -> Option<u16> {
    let number = (guid >> 8).checked_sub(1)?;
    (number < nodes as u64).then_some(number as u16)
}
