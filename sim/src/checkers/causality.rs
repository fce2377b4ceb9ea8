//! What was known comes first.

use std::collections::HashMap;

use covalent_protocol::{Answer, Moment, Outcome};

use super::{Checker, Scene, Verdict, forbid};
use crate::{
    book::Life,
    fact::Fact,
    payload::{self, moment_of},
};

/// Completions are ordered without wall clocks: the stamp of an execution has a greater clock than that of any other that was known, through exchanges,
/// to whoever asked for it when they did, or to whoever executed it; and the clock of who is told of an end is greater than all that it knows. The executions of
/// one life are counted in their order, without a gap.
///
/// The stamps are those that the replies bear. While registers hold anything, what is heard may have been said by nobody: then only the order of the executions of one
/// node is held against this. What somebody knew before it started again is not known to it.
#[derive(Debug, Default)]
pub struct Causality {
    /// The greatest clock among the executions that each life knows of.
    known: HashMap<Life, u64>,
    /// The same for whoever asked for an exchange, when it did, and for whoever refused one.
    asked: HashMap<u64, u64>,
    refused: HashMap<u64, u64>,
    executed: HashMap<Life, Executed>,
}

/// The executions of a life.
#[derive(Debug, Default)]
struct Executed {
    last: Moment,
    /// Something was executed that nobody asked for: the next one is not the next number.
    gap: bool,
}

impl Causality {
    fn known(&self, life: Life) -> u64 {
        self.known.get(&life).copied().unwrap_or_default()
    }

    fn learn(&mut self, life: Life, clock: u64) {
        let known = self.known.entry(life).or_default();
        *known = clock.max(*known);
    }

    fn execute(&mut self, at: Life, token: u64, now: Moment, scene: &Scene<'_>) -> Verdict {
        let mut known = self.known(at);
        let is_loose = scene
            .book
            .exchange(token)
            .is_some_and(|exchange| exchange.loose);
        if !scene.book.is_unsettled() && !is_loose {
            known = known.max(self.asked.get(&token).copied().unwrap_or_default());
        }
        self.learn(at, now.clock);
        let executed = self.executed.entry(at).or_default();
        let (before, gap) = (executed.last.count, executed.gap);
        *executed = Executed {
            last: now,
            gap: false,
        };
        forbid(now.clock <= known, || {
            format!(
                "{at} executes exchange {token} at clock {}, though of one at {known} was known",
                now.clock
            )
        })?;
        let follows = if gap {
            now.count > before
        } else {
            now.count == before + 1
        };
        forbid(!follows, || {
            format!(
                "{at} executes exchange {token} as number {}, behind number {before}",
                now.count
            )
        })
    }

    /// Somebody is told of an end that was at `ended`, if there is a clock to tell. The end itself has a place of its own; an answer to who asks by
    /// name need not.
    fn tell(
        &mut self,
        by: Life,
        ended: Option<u64>,
        clock: u64,
        token: u64,
        is_end: bool,
    ) -> Verdict {
        if let Some(ended) = ended {
            self.learn(by, ended);
        }
        let known = self.known(by);
        forbid(clock < known + u64::from(is_end), || {
            format!(
                "{by} is told of exchange {token} at clock {clock}, though it knows of one at {known}"
            )
        })
    }
}

fn clock_of(reply: &[u8]) -> Option<u64> {
    Some(moment_of(reply)?.clock)
}

impl Checker for Causality {
    fn name(&self) -> &'static str {
        "causality"
    }

    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        let can_tell = |token: u64| {
            let exchange = scene.book.exchange(token);
            !scene.book.is_unsettled() && exchange.is_some_and(|exchange| !exchange.loose)
        };
        match fact {
            Fact::Asked { token, exchange } => {
                self.asked.insert(*token, self.known(exchange.from));
                Ok(())
            }
            Fact::Executed {
                at, payload, reply, ..
            } => match (payload::token_of(payload), moment_of(reply)) {
                (Some(token), Some(now)) => self.execute(*at, token, now, scene),
                _ => Err(format!("{at} executes something without a stamp")),
            },
            Fact::Invented { at, .. } => {
                self.executed.entry(*at).or_default().gap = true;
                Ok(())
            }
            Fact::Declined { at, payload, .. } => {
                if let Some(token) = payload::token_of(payload) {
                    self.refused.insert(token, self.known(*at));
                }
                Ok(())
            }
            Fact::Told {
                by,
                token,
                outcome,
                clock,
            } if can_tell(*token) => {
                let ended = match outcome {
                    Outcome::Committed(reply) => clock_of(reply),
                    Outcome::Refused(_) => self.refused.get(token).copied(),
                    Outcome::PeerRestarted => None,
                };
                self.tell(*by, ended, *clock, *token, true)
            }
            Fact::Answered {
                by,
                token,
                answer: Answer::Committed(reply),
                clock,
                ..
            } if can_tell(*token) => self.tell(*by, clock_of(reply), *clock, *token, false),
            _ => Ok(()),
        }
    }
}
