//! Checks the replies to queries by exchange name.

use std::collections::{HashMap, HashSet, VecDeque};

use covalent_protocol::{Answer, ExchangeId};

use super::{Checker, Links, Scene, Verdict, forbid};
use crate::{
    book::{Ended, Exchange, NodeIncarnation},
    fact::Fact,
    node_name,
};

/// Each query by name gets one reply, in the incarnation that sent the query. The reply does not
/// precede the notification of a waiting initiator, and it matches the outcome in that
/// notification.
///
/// "Committed" carries the reply of the execution. "Refused", "undone" and "never seen" are
/// reported only for exchanges that are not executed and never will be. All replies about one
/// exchange agree, except that it may be forgotten. A node keeps as many of the last outcomes as it
/// has capacity for. At rest, every query about a cabled peer has a reply.
///
/// No name is given to two exchanges of one incarnation. After arbitrary registers, epochs may
/// repeat, and names with them. An exchange with a repeated name, one of that time, or a loose one
/// may get any reply, once.
#[derive(Debug)]
pub struct Answers {
    /// Names that a node has capacity for.
    names_max: usize,
    /// Reply reported about each exchange, other than forgotten.
    reported: HashMap<u64, How>,
    /// Exchanges that were reported as not executed for good.
    denied: HashSet<u64>,
    /// Exchanges with a name whose outcomes each incarnation received last.
    ended: HashMap<NodeIncarnation, VecDeque<u64>>,
    /// Exchange of each name in an incarnation. `ambiguous` holds the exchanges that share a name
    /// with another one.
    names: HashMap<(NodeIncarnation, ExchangeId), u64>,
    ambiguous: HashSet<u64>,
    /// Registers held anything, somewhere.
    was_hit: bool,
    /// Incarnations in which a waiter canceled: outcomes without a waiter take capacity too.
    unseen: HashSet<NodeIncarnation>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Committed,
    Refused,
    Undone,
}

impl Answers {
    /// Creates the checker. Nodes have capacity for `transactions_max` exchanges.
    #[must_use]
    pub fn new(transactions_max: usize) -> Self {
        Self {
            names_max: (transactions_max / 4).min(64),
            reported: HashMap::new(),
            denied: HashSet::new(),
            ended: HashMap::new(),
            names: HashMap::new(),
            ambiguous: HashSet::new(),
            was_hit: false,
            unseen: HashSet::new(),
        }
    }

    /// Returns what is wrong with a reply, if anything.
    fn problem(
        &mut self,
        by: NodeIncarnation,
        token: u64,
        exchange: &Exchange,
        answer: &Answer<'_>,
    ) -> Option<&'static str> {
        if exchange.ended.is_none() && !exchange.canceled {
            return Some("before the waiting caller received its outcome");
        }
        let how = match answer {
            Answer::Committed(reply) => {
                match &exchange.executed {
                    None => return Some("but no node executed it"),
                    Some(execution) if execution.reply != *reply => {
                        return Some("with a reply that was never sent");
                    }
                    Some(_) => {}
                }
                How::Committed
            }
            Answer::Refused(_) => How::Refused,
            Answer::Undone | Answer::NeverSeen => How::Undone,
            Answer::Forgotten => {
                let is_kept = exchange.ended != Some(Ended::Restarted)
                    && !self.unseen.contains(&by)
                    && self
                        .ended
                        .get(&by)
                        .is_some_and(|ended| ended.contains(&token));
                return is_kept.then_some("which is one of the last that ended");
            }
        };
        if how != How::Committed {
            self.denied.insert(token);
            if exchange.executed.is_some() {
                return Some("but it was executed");
            }
        }
        let fits = match exchange.ended {
            None => true,
            Some(Ended::Committed) => how == How::Committed,
            Some(Ended::Refused) => how == How::Refused,
            Some(Ended::Restarted) => false,
        };
        if !fits {
            return Some("but the waiting caller received another outcome");
        }
        let before = *self.reported.entry(token).or_insert(how);
        (before != how).then_some("but it had another outcome before")
    }

    /// Every question that can be answered is.
    fn nothing_unanswered(scene: &Scene<'_>) -> Verdict {
        for (number, question) in scene.book.questions().iter().enumerate() {
            let Some(exchange) = scene.book.exchange(question.token) else {
                continue;
            };
            let ends = [exchange.from.node, exchange.to.node];
            let is_cabled = scene
                .cables
                .iter()
                .any(|cable| *cable == ends || *cable == [ends[1], ends[0]]);
            if question.is_open && is_cabled && scene.book.is_current(question.by) {
                return Err(format!(
                    "query {number} of {} about exchange {} has no reply, at rest",
                    node_name(question.by.node),
                    question.token
                ));
            }
        }
        Ok(())
    }
}

impl Checker<Links> for Answers {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Answered {
                by,
                question,
                token,
                answer,
                ..
            } => {
                let Some(query) = scene.book.question(*question) else {
                    return Err(format!("{by} is notified of a query that no caller sent"));
                };
                let repeated = !query.is_open || query.by != *by;
                forbid(repeated, || {
                    format!(
                        "{by} receives the reply to query {question} a second time, or in another \
                         incarnation: {query:?}"
                    )
                })?;
                let Some(exchange) = scene.book.exchange(*token) else {
                    return Ok(());
                };
                if scene.book.is_unsettled()
                    || exchange.loose
                    || scene.book.is_written_off(*token)
                    || self.ambiguous.contains(token)
                {
                    return Ok(());
                }
                match self.problem(*by, *token, exchange, answer) {
                    Some(problem) => Err(format!(
                        "{by} receives the reply {answer:?} about exchange {token}, {problem}: \
                         {exchange:?}"
                    )),
                    None => Ok(()),
                }
            }
            Fact::Doubted { by, token, name } => {
                let before = self.names.insert((*by, **name), *token);
                if before.is_none_or(|before| before == *token) {
                    return Ok(());
                }
                self.ambiguous.extend([*token].into_iter().chain(before));
                forbid(!self.was_hit, || {
                    format!(
                        "{by} is given the name {name:?} for exchange {token} and for {before:?}"
                    )
                })
            }
            Fact::QueryDoubted { by, question } => {
                let query = scene.book.question(*question);
                let fits = query.is_some_and(|query| query.is_open && query.by == *by);
                forbid(!fits, || {
                    format!("{by} is notified that query {question} is in doubt: {query:?}")
                })
            }
            Fact::Reported { by, token, .. } => {
                if scene
                    .book
                    .exchange(*token)
                    .is_some_and(|exchange| exchange.name.is_some())
                {
                    let ended = self.ended.entry(*by).or_default();
                    ended.push_back(*token);
                    if ended.len() > self.names_max {
                        ended.pop_front();
                    }
                }
                Ok(())
            }
            Fact::Canceled { token } => {
                if let Some(exchange) = scene.book.exchange(*token) {
                    self.unseen.insert(exchange.from);
                }
                Ok(())
            }
            Fact::Executed { at, payload, .. } => match scene.book.of_request(payload) {
                Some((token, _)) => forbid(self.denied.contains(&token), || {
                    format!("{at} executes exchange {token}, which was reported as never executed")
                }),
                None => Ok(()),
            },
            Fact::Scrambled { .. } => {
                // Earlier reports do not bind a node with arbitrary registers.
                self.denied.clear();
                self.was_hit = true;
                Ok(())
            }
            Fact::Converged { .. } | Fact::Rested { .. } => Self::nothing_unanswered(scene),
            _ => Ok(()),
        }
    }
}
