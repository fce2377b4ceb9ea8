//! Money is neither made nor lost, and the books of both ends agree.

use std::collections::HashMap;

use covalent_protocol::Outcome;

use super::{Checker, Scene, Verdict, forbid};
use crate::{
    ask::Ask,
    book::{Ended, Life},
    fact::Fact,
    model::{Answer, Model},
    payload,
    region::{self, ACCOUNTS, FIRST_ACCOUNT, OPENING_BALANCE},
};

/// The sum over a node's accounts is the same after every execution. At rest counter and accounts hold what initiators
/// were told, and beyond that nothing but what somebody asked for who was told nothing.
///
/// They are held against what was told, not against what was executed: this is what people see from outside.
///
/// The sum is never another one. What was told while registers held anything does not count: the books begin anew when
/// everything has come to its end behind that.
#[derive(Debug, Default)]
pub struct Conservation {
    /// What each node did since its memory began, by what was told.
    told: HashMap<Life, Balance>,
    /// What it held when its books began, if that was not at its beginning.
    brought_forward: HashMap<Life, Balance>,
}

/// The counter, and what each account won or lost.
#[derive(Debug, Clone, Copy)]
struct Balance {
    counter: i128,
    accounts: [i128; ACCOUNTS],
}

impl Default for Balance {
    fn default() -> Self {
        Self {
            counter: 0,
            accounts: [0; ACCOUNTS],
        }
    }
}

impl Balance {
    fn of(model: &[u64]) -> Self {
        let won = |at: usize| {
            let difference = model[FIRST_ACCOUNT + at].wrapping_sub(OPENING_BALANCE);
            i128::from(difference.cast_signed())
        };
        Self {
            counter: i128::from(model[region::COUNTER]),
            accounts: std::array::from_fn(won),
        }
    }

    /// What came to it since it was `before`.
    fn since(mut self, before: &Self) -> Self {
        self.counter -= before.counter;
        for (account, before) in self.accounts.iter_mut().zip(before.accounts) {
            *account -= before;
        }
        self
    }

    fn add(&mut self, ask: &Ask) {
        match ask {
            Ask::Count { delta } => self.counter += i128::from(*delta),
            Ask::Transfer(changes) => {
                for change in changes {
                    self.accounts[change.account] += i128::from(change.delta.cast_signed());
                }
            }
            _ => {}
        }
    }
}

impl Checker for Conservation {
    fn name(&self) -> &'static str {
        "conservation"
    }

    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Executed { at, .. } => {
                let sum = |words: &[u64]| {
                    words[FIRST_ACCOUNT..FIRST_ACCOUNT + ACCOUNTS]
                        .iter()
                        .fold(0, |sum: u64, balance| sum.wrapping_add(*balance))
                };
                let held = sum(&region::words(&scene.regions[at.node]));
                let opening = sum(Model::new().words());
                forbid(held != opening, || {
                    format!("the accounts of {at} hold {held} together, and held {opening}")
                })
            }
            Fact::Told {
                token,
                outcome: Outcome::Committed(reply),
                ..
            } => {
                let done = payload::answer_of(reply)
                    .and_then(Answer::read)
                    .is_some_and(|answer| answer.is_ok());
                if done
                    && let Some(exchange) = scene.book.exchange(*token)
                    && !exchange.loose
                    && let Some(execution) = &exchange.executed
                {
                    self.told
                        .entry(scene.book.memory_of(execution.life))
                        .or_default()
                        .add(&exchange.ask);
                }
                Ok(())
            }
            Fact::Converged { .. } => {
                self.told.clear();
                self.brought_forward = (0..scene.regions.len())
                    .map(|node| {
                        let held = Balance::of(&region::words(&scene.regions[node]));
                        (scene.book.memory_of(scene.book.life(node)), held)
                    })
                    .collect();
                Ok(())
            }
            Fact::Rested { .. } => {
                (0..scene.regions.len()).try_for_each(|node| self.audit(node, scene))
            }
            _ => Ok(()),
        }
    }
}

impl Conservation {
    /// Holds the region of a node against what was told of its present life.
    fn audit(&self, node: usize, scene: &Scene<'_>) -> Verdict {
        let memory = scene.book.memory_of(scene.book.life(node));
        let told = self.told.get(&memory).copied().unwrap_or_default();
        // Each exchange of which nobody was told may have happened or not.
        let (mut least, mut most) = (told, told);
        let untold = (0..)
            .zip(scene.book.exchanges())
            .filter(|(token, exchange)| {
                let is_untold = matches!(exchange.ended, None | Some(Ended::Restarted))
                    && !scene.book.is_written_off(*token);
                exchange.to.node == node && (is_untold || exchange.loose)
            });
        for (_, exchange) in untold {
            match &exchange.ask {
                Ask::Count { .. } => most.add(&exchange.ask),
                Ask::Transfer(changes) => {
                    for change in changes {
                        let delta = i128::from(change.delta.cast_signed());
                        let bound = if delta < 0 { &mut least } else { &mut most };
                        bound.accounts[change.account] += delta;
                    }
                }
                _ => {}
            }
        }
        let before = self.brought_forward.get(&memory).copied();
        let held =
            Balance::of(&region::words(&scene.regions[node])).since(&before.unwrap_or_default());
        let within = (least.counter..=most.counter).contains(&held.counter)
            && (0..ACCOUNTS)
                .all(|at| (least.accounts[at]..=most.accounts[at]).contains(&held.accounts[at]));
        forbid(!within, || {
            format!(
                "node {} holds {held:?}, but by what was told between {least:?} and {most:?}",
                crate::node_name(node)
            )
        })
    }
}
