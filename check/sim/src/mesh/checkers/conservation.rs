//! Checks that memory holds what was executed, and nothing else.

use std::collections::VecDeque;

use super::{Checker, Meshes, Verdict};
use crate::mesh::{
    book::{Reported, Request},
    errand::{self, Errand},
    fact::{Counts, MeshFact},
    fault::MeshFault,
    scene::MeshScene,
};

/// Each verb returns and leaves what a model computes from all verbs that the node executed, in
/// order. The model has a counter, a word and a queue. Each message is taken once, in the order of
/// execution, byte for byte.
///
/// At rest, the node's memory equals the model. Each counter is the sum of the additions that were
/// reported "committed". It may also include additions without a reported outcome, or of an
/// initiator that died.
#[derive(Debug, Default)]
pub(super) struct Conservation {
    /// Expected memory of each node.
    models: Vec<Model>,
}

#[derive(Debug, Clone, Default)]
struct Model {
    counter: u64,
    word: u64,
    /// Messages that were not taken, by their tokens and lengths.
    inbox: VecDeque<(u64, u16)>,
}

impl Checker<Meshes> for Conservation {
    fn see(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) -> Verdict {
        self.models.resize(scene.shape.nodes, Model::default());
        match *fact {
            MeshFact::Executed { token, at, answer } => {
                let Some(request) = scene.book.request(token) else {
                    return Ok(());
                };
                let found = self.models[usize::from(at)].execute(token, request.errand);
                if found != answer.found {
                    return Err(format!(
                        "{token} ({}) finds {:#x} at {}; its predecessors left {found:#x}",
                        request.errand,
                        answer.found,
                        scene.shape.node_name(usize::from(at))
                    ));
                }
            }
            MeshFact::Took { at, message } => {
                let next = self.models[usize::from(at)].inbox.pop_front();
                let expected = next.map(|(token, bytes)| errand::message(token, bytes.into()));
                if expected.as_deref() != Some(message) {
                    return Err(format!(
                        "{} takes the message of {} in {} bytes; {next:?} is the next, with its \
                         bytes",
                        scene.shape.node_name(usize::from(at)),
                        errand::token_of(message),
                        message.len()
                    ));
                }
            }
            MeshFact::Fault(MeshFault::Crash { node, .. }) => {
                self.models[usize::from(*node)] = Model::default();
            }
            MeshFact::AtRest { counts, .. } => {
                let reported = reported(scene);
                for counts in counts {
                    self.at_rest(counts, reported[usize::from(counts.node)], scene)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Conservation {
    /// Compares a node at rest with its model. `least` and `most` bound the additions to its
    /// counter, as far as outcomes were reported.
    fn at_rest(&self, counts: &Counts, [least, most]: [u64; 2], scene: &MeshScene) -> Verdict {
        let name = scene.shape.node_name(usize::from(counts.node));
        let model = &self.models[usize::from(counts.node)];
        if (model.counter, model.word) != (counts.counter, counts.word) || !model.inbox.is_empty() {
            return Err(format!(
                "at rest {name} has {:#x} and {:#x} in its memory, and the executions result in \
                 {model:x?}",
                counts.counter, counts.word
            ));
        }
        if (least..=most).contains(&counts.counter) {
            return Ok(());
        }
        Err(format!(
            "at rest the counter of {name} is {}; additions of {least} were reported as committed, \
             and {} more are unknown",
            counts.counter,
            most - least
        ))
    }
}

/// Returns, by node, the additions to its counter in its current incarnation, by reported outcomes:
/// minimum and maximum.
fn reported(scene: &MeshScene) -> Vec<[u64; 2]> {
    let mut sums = vec![[0; 2]; scene.shape.nodes];
    for request in scene.book.requests() {
        let Errand::Add { delta } = request.errand else {
            continue;
        };
        let incarnation = Some(scene.incarnation(request.to.0));
        let surely = Some(request.requested_in) == incarnation
            && matches!(request.reported, Some(Reported::Committed(_)));
        let [least, most] = &mut sums[usize::from(request.to.0)];
        *least += if surely { delta } else { 0 };
        *most += if may_be_there(request, incarnation) {
            delta
        } else {
            0
        };
    }
    sums
}

/// Whether a request may have been executed in this incarnation of its responder. An outcome
/// reported before the incarnation began belongs to another one.
fn may_be_there(request: &Request, incarnation: Option<u32>) -> bool {
    let is_denied = matches!(
        request.reported,
        Some(Reported::Refused | Reported::NotExecuted)
    );
    !is_denied && (request.reported.is_none() || request.reported_in == incarnation)
}

impl Model {
    /// Executes an errand and returns the value that it finds.
    fn execute(&mut self, token: u64, errand: Errand) -> u64 {
        match errand {
            Errand::Add { delta } => {
                let found = self.counter;
                self.counter += delta;
                found
            }
            Errand::Swap { expected, new } => {
                let found = self.word;
                if found == expected {
                    self.word = new;
                }
                found
            }
            Errand::Send { bytes } => {
                self.inbox.push_back((token, bytes));
                0
            }
        }
    }
}
