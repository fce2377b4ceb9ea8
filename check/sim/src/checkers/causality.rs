//! Checks that stamps respect causality.

use std::collections::HashMap;

use covalent_protocol::{Answer, Moment, Outcome};

use super::{Checker, Links, Scene, Verdict, forbid};
use crate::{
    book::NodeIncarnation,
    fact::Fact,
    payload::{self, moment_of},
};

/// Completions are ordered without wall clocks. The stamp of an execution has a greater clock than
/// every execution known to the initiator at submission or to the responder. Knowledge spreads
/// through exchanges. The clock of a node that receives an outcome is greater than all that it
/// knows. The executions of one incarnation are numbered in order, without a gap.
///
/// The checker takes the stamps from the replies. While registers are arbitrary, received data may
/// have no sender. Then only the order of one node's executions is checked. Knowledge from before a
/// restart does not count.
#[derive(Debug, Default)]
pub struct Causality {
    /// Greatest clock among the executions that each incarnation knows.
    known: HashMap<NodeIncarnation, u64>,
    /// The same by exchange: of the initiator at submission, and in `refused` of the node that
    /// refused it.
    requested: HashMap<u64, u64>,
    refused: HashMap<u64, u64>,
    executed: HashMap<NodeIncarnation, Executed>,
}

/// Executions of an incarnation.
#[derive(Debug, Default)]
struct Executed {
    last: Moment,
    /// A request that no initiator sent was executed, so the next number may skip.
    gap: bool,
}

impl Causality {
    fn known(&self, node_incarnation: NodeIncarnation) -> u64 {
        self.known
            .get(&node_incarnation)
            .copied()
            .unwrap_or_default()
    }

    fn learn(&mut self, node_incarnation: NodeIncarnation, clock: u64) {
        let known = self.known.entry(node_incarnation).or_default();
        *known = clock.max(*known);
    }

    fn execute(
        &mut self,
        at: NodeIncarnation,
        token: u64,
        now: Moment,
        scene: &Scene<'_>,
    ) -> Verdict {
        let mut known = self.known(at);
        let is_loose = scene
            .book
            .exchange(token)
            .is_some_and(|exchange| exchange.loose);
        if !scene.book.is_unsettled() && !is_loose {
            known = known.max(self.requested.get(&token).copied().unwrap_or_default());
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

    /// Notes that `by` learns an outcome, which has the clock `ended` if it has one. An outcome
    /// needs a clock of its own. The reply to a query by name need not have one.
    fn on_report(
        &mut self,
        by: NodeIncarnation,
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
                "{by} is notified of exchange {token} at clock {clock}, though it knows of one at \
                 {known}"
            )
        })
    }
}

fn clock_of(reply: &[u8]) -> Option<u64> {
    Some(moment_of(reply)?.clock)
}

impl Checker<Links> for Causality {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        let is_checkable = |token: u64| {
            let exchange = scene.book.exchange(token);
            !scene.book.is_unsettled() && exchange.is_some_and(|exchange| !exchange.loose)
        };
        match fact {
            Fact::Requested { token, exchange } => {
                self.requested.insert(*token, self.known(exchange.from));
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
            Fact::Reported {
                by,
                token,
                outcome,
                clock,
            } if is_checkable(*token) => {
                let ended = match outcome {
                    Outcome::Committed(reply) => clock_of(reply),
                    Outcome::Refused(_) => self.refused.get(token).copied(),
                    Outcome::PeerRestarted => None,
                };
                self.on_report(*by, ended, *clock, *token, true)
            }
            Fact::Answered {
                by,
                token,
                answer: Answer::Committed(reply),
                clock,
                ..
            } if is_checkable(*token) => {
                self.on_report(*by, clock_of(reply), *clock, *token, false)
            }
            _ => Ok(()),
        }
    }
}
