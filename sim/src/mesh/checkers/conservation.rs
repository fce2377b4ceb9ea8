//! What was done is there, and nothing else.

use std::collections::VecDeque;

use super::{MeshChecker, Verdict};
use crate::mesh::{
    book::{Ask, Told},
    errand::{self, Errand},
    fact::{Counts, MeshFact},
    fault::MeshFault,
    scene::MeshScene,
};

/// Each verb answers and leaves behind what those that the node executed before, one after the other, and this one make of a counter, a word
/// and a queue; each message is taken once, in the order of execution, byte for byte. At rest all of it is in the node's memory, and each counter is the
/// sum of what was added by those who were told "committed", and of no more than what was asked for by those who were not told how it ended, or who died.
#[derive(Debug, Default)]
pub(super) struct Conservation {
    /// What the memory of each node should be.
    models: Vec<Model>,
}

#[derive(Debug, Clone, Default)]
struct Model {
    counter: u64,
    word: u64,
    /// Messages that were not taken, by their tokens and lengths.
    inbox: VecDeque<(u64, u16)>,
}

impl MeshChecker for Conservation {
    fn name(&self) -> &'static str {
        "conservation"
    }

    fn see(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) -> Verdict {
        self.models.resize(scene.shape.nodes, Model::default());
        match *fact {
            MeshFact::Executed { token, at, answer } => {
                let Some(ask) = scene.book.ask(token) else {
                    return Ok(());
                };
                let found = self.models[usize::from(at)].execute(token, ask.errand);
                if found != answer.found {
                    return Err(format!(
                        "{token} ({}) finds {:#x} at {}; {found:#x} is what those before it left",
                        ask.errand,
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
                        "{} takes the message of {} in {} bytes; {next:?} is the next, with its bytes",
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
                let told = told(scene);
                for counts in counts {
                    self.at_rest(counts, told[usize::from(counts.node)], scene)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Conservation {
    /// `least` and `most`: what was added to the counter, as far as anybody knows.
    fn at_rest(&self, counts: &Counts, [least, most]: [u64; 2], scene: &MeshScene) -> Verdict {
        let name = scene.shape.node_name(usize::from(counts.node));
        let model = &self.models[usize::from(counts.node)];
        if (model.counter, model.word) != (counts.counter, counts.word) || !model.inbox.is_empty() {
            return Err(format!(
                "at rest {name} has {:#x} and {:#x} in its memory, and {model:x?} is what was executed",
                counts.counter, counts.word
            ));
        }
        if (least..=most).contains(&counts.counter) {
            return Ok(());
        }
        Err(format!(
            "at rest the counter of {name} is {}; those who were told that they added to it added {least}, and nobody knows of {} more",
            counts.counter,
            most - least
        ))
    }
}

/// By node, what was added to its counter in its present life, as far as those who asked were told: at least, and at most.
fn told(scene: &MeshScene) -> Vec<[u64; 2]> {
    let mut sums = vec![[0; 2]; scene.shape.nodes];
    for ask in scene.book.asks() {
        let Errand::Add { delta } = ask.errand else {
            continue;
        };
        let life = Some(scene.life(ask.to.0));
        let surely = Some(ask.asked_in) == life && matches!(ask.told, Some(Told::Committed(_)));
        let [least, most] = &mut sums[usize::from(ask.to.0)];
        *least += if surely { delta } else { 0 };
        *most += if may_be_there(ask, life) { delta } else { 0 };
    }
    sums
}

/// Whether what was asked for may have been done in this life of whoever was asked. Who was told before that life began was told of another one.
fn may_be_there(ask: &Ask, life: Option<u32>) -> bool {
    let is_denied = matches!(ask.told, Some(Told::Refused | Told::NotExecuted));
    !is_denied && (ask.told.is_none() || ask.told_in == life)
}

impl Model {
    /// Executes an errand; gives what it finds.
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
