//! Checks that transfers keep the sum, and that both ends agree on what was done.

use std::collections::HashMap;

use covalent_protocol::Outcome;

use super::{Checker, Links, Scene, Verdict, forbid};
use crate::{
    book::{Ended, NodeIncarnation},
    fact::Fact,
    model::{Answer, Model},
    operation::Operation,
    payload,
    region::{self, ACCOUNTS, FIRST_ACCOUNT, OPENING_BALANCE},
};

/// The sum over a node's accounts is the same after every execution. At rest, the counter and the
/// accounts hold what was reported to initiators. Beyond that they hold only effects of submitted
/// exchanges without a reported outcome.
///
/// The checker compares with reported outcomes and not with executions: this is the external view.
///
/// The sum never changes, not even while registers are arbitrary. Outcomes that are reported then
/// do not count: the accounting restarts at convergence.
#[derive(Debug, Default)]
pub struct Conservation {
    /// Net effect of the reported outcomes on each node since its memory began.
    reported: HashMap<NodeIncarnation, Balance>,
    /// Contents when the accounting restarted, if that was not at the beginning of its memory.
    brought_forward: HashMap<NodeIncarnation, Balance>,
}

/// The counter, and the net change of each account.
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

    /// Change since `before`.
    fn since(mut self, before: &Self) -> Self {
        self.counter -= before.counter;
        for (account, before) in self.accounts.iter_mut().zip(before.accounts) {
            *account -= before;
        }
        self
    }

    fn add(&mut self, operation: &Operation) {
        match operation {
            Operation::Count { delta } => self.counter += i128::from(*delta),
            Operation::Transfer(changes) => {
                for change in changes {
                    self.accounts[change.account] += i128::from(change.delta.cast_signed());
                }
            }
            _ => {}
        }
    }
}

impl Checker<Links> for Conservation {
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
            Fact::Reported {
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
                    self.reported
                        .entry(scene.book.memory_of(execution.node_incarnation))
                        .or_default()
                        .add(&exchange.operation);
                }
                Ok(())
            }
            Fact::Converged { .. } => {
                self.reported.clear();
                self.brought_forward = (0..scene.regions.len())
                    .map(|node| {
                        let held = Balance::of(&region::words(&scene.regions[node]));
                        (
                            scene.book.memory_of(scene.book.node_incarnation(node)),
                            held,
                        )
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
    /// Compares the region of a node with the outcomes reported for its current memory.
    fn audit(&self, node: usize, scene: &Scene<'_>) -> Verdict {
        let memory = scene.book.memory_of(scene.book.node_incarnation(node));
        let reported = self.reported.get(&memory).copied().unwrap_or_default();
        // An exchange without a reported outcome may or may not have been executed.
        let (mut least, mut most) = (reported, reported);
        let unreported = (0..)
            .zip(scene.book.exchanges())
            .filter(|(token, exchange)| {
                let is_unreported = matches!(exchange.ended, None | Some(Ended::Restarted))
                    && !scene.book.is_written_off(*token);
                exchange.to.node == node && (is_unreported || exchange.loose)
            });
        for (_, exchange) in unreported {
            match &exchange.operation {
                Operation::Count { .. } => most.add(&exchange.operation),
                Operation::Transfer(changes) => {
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
                "node {} holds {held:?}, but the reported outcomes allow {least:?} to {most:?}",
                crate::node_name(node)
            )
        })
    }
}
