//! Checks verbs against a model, one after the other.

use std::collections::HashMap;

use covalent_protocol::Refusal;

use super::{Checker, Links, Scene, Verdict, forbid};
use crate::{
    book::NodeIncarnation,
    fact::Fact,
    model::{Answer, Model},
    payload, region,
};

/// Each verb is one step. After the preceding verbs of all initiators and links, it returns and
/// leaves what an independent model of the region computes. A verb that cannot be executed is
/// refused with the matching reason.
#[derive(Debug, Default)]
pub struct Serial {
    models: HashMap<NodeIncarnation, Model>,
}

impl Checker<Links> for Serial {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Admitted { at, payload, .. } => match scene.book.of_request(payload) {
                Some((token, exchange)) => match Model::refusal(&exchange.operation) {
                    Some(refusal) => Err(format!(
                        "{at} admits exchange {token}, which it must refuse: {refusal}"
                    )),
                    None => Ok(()),
                },
                None => Ok(()),
            },
            Fact::Declined {
                at,
                payload,
                refusal,
                ..
            } => match scene.book.of_request(payload) {
                // Any node may be short of something.
                Some((token, exchange)) if *refusal != Refusal::NoResources => {
                    // The reservation checker verifies whether a word is busy.
                    let fitting = Model::refusal(&exchange.operation).unwrap_or(Refusal::Busy);
                    forbid(fitting != *refusal, || {
                        format!(
                            "{at} refuses exchange {token}, {refusal}; the model returns \
                             {fitting:?}"
                        )
                    })
                }
                _ => Ok(()),
            },
            Fact::Restarted { node, words, .. } => {
                // The durability checker verifies whether these are the right words.
                let NodeIncarnation { node, number } = scene.book.node_incarnation(*node);
                let node_incarnation = NodeIncarnation {
                    node,
                    number: number + 1,
                };
                self.models.insert(node_incarnation, Model::of(*words));
                Ok(())
            }
            Fact::Executed {
                at, payload, reply, ..
            } => self.execute(*at, payload, reply, scene),
            _ => Ok(()),
        }
    }
}

impl Serial {
    fn execute(
        &mut self,
        at: NodeIncarnation,
        payload: &[u8],
        reply: &[u8],
        scene: &Scene<'_>,
    ) -> Verdict {
        let Some((token, exchange)) = scene.book.of_request(payload) else {
            return Ok(());
        };
        let model = self.models.entry(at).or_default();
        let expected = model.apply(&exchange.operation);
        let answer = payload::answer_of(reply).and_then(Answer::read);
        forbid(answer.as_ref() != Some(&expected), || {
            format!(
                "{at} replies to exchange {token} with {answer:?}; the model of its region returns \
                 {expected:?}"
            )
        })?;
        let words = region::words(&scene.regions[at.node]);
        let differs = words.iter().zip(model.words()).position(|(a, b)| a != b);
        match differs {
            Some(word) => Err(format!(
                "after exchange {token} word {word} of {at} is {}; in the model it is {}",
                words[word],
                model.words()[word]
            )),
            None => Ok(()),
        }
    }
}
