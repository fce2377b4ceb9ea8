//! Verbs do what they say, one after the other.

use std::collections::HashMap;

use covalent_protocol::Refusal;

use super::{Checker, Scene, Verdict, forbid};
use crate::{
    book::Life,
    fact::Fact,
    model::{Answer, Model},
    payload, region,
};

/// Each verb is one step: with those before it, from whichever initiator over whichever link, it answers and leaves
/// behind what an independent model of the region does. What cannot be executed is refused with the reason that fits.
#[derive(Debug, Default)]
pub struct Serial {
    models: HashMap<Life, Model>,
}

impl Checker for Serial {
    fn name(&self) -> &'static str {
        "serial"
    }

    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Admitted { at, payload, .. } => match scene.book.of_request(payload) {
                Some((token, exchange)) => match Model::refusal(&exchange.ask) {
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
                    // Whether a word is busy, the reservations tell.
                    let fitting = Model::refusal(&exchange.ask).unwrap_or(Refusal::Busy);
                    forbid(fitting != *refusal, || {
                        format!(
                            "{at} refuses exchange {token}, {refusal}; the model says {fitting:?}"
                        )
                    })
                }
                _ => Ok(()),
            },
            Fact::Restarted { node, words, .. } => {
                // Whether that is what it must hold, the durability tells.
                let Life { node, number } = scene.book.life(*node);
                let life = Life {
                    node,
                    number: number + 1,
                };
                self.models.insert(life, Model::of(*words));
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
    fn execute(&mut self, at: Life, payload: &[u8], reply: &[u8], scene: &Scene<'_>) -> Verdict {
        let Some((token, exchange)) = scene.book.of_request(payload) else {
            return Ok(());
        };
        let model = self.models.entry(at).or_default();
        let expected = model.apply(&exchange.ask);
        let answer = payload::answer_of(reply).and_then(Answer::read);
        forbid(answer.as_ref() != Some(&expected), || {
            format!(
                "{at} answers exchange {token} with {answer:?}; the model of its region says {expected:?}"
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
