//! Who asks for an exchange by its name is told the truth, once.

use std::collections::{HashMap, HashSet, VecDeque};

use covalent_protocol::{Answer, ExchangeId};

use super::{Checker, Scene, Verdict, forbid};
use crate::{
    book::{Ended, Exchange, Life},
    fact::Fact,
    node_name,
};

/// Each question by a name is answered once, in the life in which it was asked, and not before whoever waits for the exchange is told how it ended. The
/// answer is what that one was told. "Done" comes with the reply of the execution; "refused", "undone" and "never seen" are said of what was not executed and
/// never is afterwards. All answers about one exchange are the same, but that it may be forgotten, and of the last ones that ended as many are kept as there is
/// room for. At rest every question about a peer to which a cable leads is answered.
///
/// No name is given to two exchanges of a life. Only where registers held anything epochs may come again, and with them names: of such an exchange, of those
/// of that time and of what is loose afterwards, any answer may come, once.
#[derive(Debug)]
pub struct Answers {
    /// Names that a node has room for.
    names_max: usize,
    /// What was said of an exchange other than that it is forgotten.
    said: HashMap<u64, How>,
    /// Exchanges of which was said that they were not executed and never will be.
    denied: HashSet<u64>,
    /// Those whose ends were told last to each life, of those that have a name.
    ended: HashMap<Life, VecDeque<u64>>,
    /// Which exchange of a life has each name, and those whose name another one had before.
    names: HashMap<(Life, ExchangeId), u64>,
    ambiguous: HashSet<u64>,
    /// Registers held anything, somewhere.
    was_hit: bool,
    /// Lives in which somebody went who waited: what ended for nobody takes room too.
    unseen: HashSet<Life>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Committed,
    Refused,
    Undone,
}

impl Answers {
    /// Nodes have room for `transactions_max` exchanges.
    #[must_use]
    pub fn new(transactions_max: usize) -> Self {
        Self {
            names_max: (transactions_max / 4).min(64),
            said: HashMap::new(),
            denied: HashSet::new(),
            ended: HashMap::new(),
            names: HashMap::new(),
            ambiguous: HashSet::new(),
            was_hit: false,
            unseen: HashSet::new(),
        }
    }

    /// What is wrong with an answer.
    fn problem(
        &mut self,
        by: Life,
        token: u64,
        exchange: &Exchange,
        answer: &Answer<'_>,
    ) -> Option<&'static str> {
        if exchange.ended.is_none() && !exchange.cancelled {
            return Some("before who waits for it was told how it ended");
        }
        let how = match answer {
            Answer::Committed(reply) => {
                match &exchange.executed {
                    None => return Some("but nobody executed it"),
                    Some(execution) if execution.reply != *reply => {
                        return Some("with a reply that was never given");
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
            return Some("but who waited for it was told something else");
        }
        let before = *self.said.entry(token).or_insert(how);
        (before != how).then_some("but before it was something else")
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
            if question.is_open && is_cabled && scene.book.lives(question.by) {
                return Err(format!(
                    "question {number} of {} about exchange {} is not answered, at rest",
                    node_name(question.by.node),
                    question.token
                ));
            }
        }
        Ok(())
    }
}

impl Checker for Answers {
    fn name(&self) -> &'static str {
        "answers"
    }

    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Answered {
                by,
                question,
                token,
                answer,
                ..
            } => {
                let Some(asked) = scene.book.question(*question) else {
                    return Err(format!("{by} is told of a question that nobody asked"));
                };
                let again = !asked.is_open || asked.by != *by;
                forbid(again, || {
                    format!(
                        "{by} is answered question {question} a second time, or in another life: {asked:?}"
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
                        "{by} is answered {answer:?} about exchange {token}, {problem}: {exchange:?}"
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
            Fact::DoubtedAgain { by, question } => {
                let asked = scene.book.question(*question);
                let fits = asked.is_some_and(|asked| asked.is_open && asked.by == *by);
                forbid(!fits, || {
                    format!("{by} is told that question {question} is in doubt: {asked:?}")
                })
            }
            Fact::Told { by, token, .. } => {
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
            Fact::Cancelled { token } => {
                if let Some(exchange) = scene.book.exchange(*token) {
                    self.unseen.insert(exchange.from);
                }
                Ok(())
            }
            Fact::Executed { at, payload, .. } => match scene.book.of_request(payload) {
                Some((token, _)) => forbid(self.denied.contains(&token), || {
                    format!(
                        "{at} executes exchange {token}, of which was said that it never would be"
                    )
                }),
                None => Ok(()),
            },
            Fact::Scrambled { .. } => {
                // What was said of the past does not bind what holds anything.
                self.denied.clear();
                self.was_hit = true;
                Ok(())
            }
            Fact::Converged { .. } | Fact::Rested { .. } => Self::nothing_unanswered(scene),
            _ => Ok(()),
        }
    }
}
