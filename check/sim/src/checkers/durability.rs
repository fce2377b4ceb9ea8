//! Checks that acknowledged work of a node with a journal survives its restart.

use std::collections::HashMap;

use covalent_protocol::{Answer, Outcome};

use super::{Checker, Links, Scene, Verdict, forbid};
use crate::{fact::Fact, model::Model, operation::Operation};

/// After a restart with its journal, a node's memory is the result of a prefix of the verbs that it
/// executed, in order. It holds no part of a verb, and nothing that no initiator requested. The
/// prefix includes every execution that was reported to any initiator, by any path. No execution
/// behind the prefix is reported afterwards.
///
/// Reports made while registers are arbitrary imply nothing. The memory is a prefix even then.
#[derive(Debug)]
pub struct Durability {
    nodes: Vec<Option<Kept>>,
    /// Where each exchange was executed last.
    places: HashMap<u64, Place>,
}

/// Verbs that a node with a journal executed since it started.
#[derive(Debug, Default)]
struct Kept {
    /// Its memory at the start.
    before: Model,
    executed: Vec<(u64, Operation)>,
    /// Length of the prefix that must survive, because its last execution was reported.
    acknowledged: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// So many were executed at this node with it, since it started.
    At(usize, usize),
    /// The execution is durable, or belonged to a memory that is gone with its disk.
    Settled,
    /// It was not on disk when its node stopped.
    Lost(usize),
}

impl Durability {
    /// Creates the checker. `durable` marks the nodes that have a journal.
    #[must_use]
    pub fn new(durable: &[bool]) -> Self {
        Self {
            nodes: durable
                .iter()
                .map(|durable| durable.then(Kept::default))
                .collect(),
            places: HashMap::new(),
        }
    }

    fn on_report(&mut self, token: u64, scene: &Scene<'_>) -> Verdict {
        let is_loose = scene
            .book
            .exchange(token)
            .is_some_and(|exchange| exchange.loose);
        if scene.book.is_unsettled() || is_loose {
            return Ok(());
        }
        match self.places.get(&token) {
            Some(&Place::At(node, count)) => {
                if let Some(kept) = &mut self.nodes[node] {
                    kept.acknowledged = kept.acknowledged.max(count);
                }
                Ok(())
            }
            Some(&Place::Lost(node)) => Err(format!(
                "exchange {token} is reported as done, but was not in the journal of {} at its \
                 restart",
                crate::node_name(node)
            )),
            Some(Place::Settled) | None => Ok(()),
        }
    }

    fn restart(&mut self, node: usize, words: &[u64]) -> Verdict {
        let Self { nodes, places } = self;
        let Some(kept) = &mut nodes[node] else {
            return Err(format!("{} has no journal", crate::node_name(node)));
        };
        let mut model = kept.before.clone();
        // Take the latest match: prefixes that leave the same words are equivalent.
        let mut found = (model.words() == words).then_some(0);
        for (count, (_, operation)) in (1..).zip(&kept.executed) {
            model.apply(operation);
            if model.words() == words {
                found = Some(count);
            }
        }
        let there = found.filter(|found| *found >= kept.acknowledged);
        for (at, (token, _)) in kept.executed.iter().enumerate() {
            let is_there = there.is_some_and(|there| at < there);
            let place = if is_there {
                Place::Settled
            } else {
                Place::Lost(node)
            };
            // Skip an exchange that was executed again later.
            if places.get(token) == Some(&Place::At(node, at + 1)) {
                places.insert(*token, place);
            }
        }
        let (executed, acknowledged) = (kept.executed.len(), kept.acknowledged);
        *kept = Kept {
            before: Model::of(words),
            ..Kept::default()
        };
        forbid(there.is_none(), || match found {
            Some(found) => format!(
                "{} restarts with the first {found} of its {executed} executions, but \
                 {acknowledged} were acknowledged",
                crate::node_name(node)
            ),
            None => format!(
                "{} restarts with a memory that results from no prefix of its {executed} \
                 executions, of which {acknowledged} were acknowledged",
                crate::node_name(node)
            ),
        })
    }
}

impl Checker<Links> for Durability {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Executed { at, payload, .. } => {
                if let Some(kept) = &mut self.nodes[at.node]
                    && let Some((token, exchange)) = scene.book.of_request(payload)
                {
                    kept.executed.push((token, exchange.operation.clone()));
                    let place = Place::At(at.node, kept.executed.len());
                    self.places.insert(token, place);
                }
                Ok(())
            }
            Fact::Reported {
                token,
                outcome: Outcome::Committed(_),
                ..
            }
            | Fact::Answered {
                token,
                answer: Answer::Committed(_),
                ..
            } => self.on_report(*token, scene),
            Fact::Restarted { node, words, .. } => self.restart(*node, *words),
            Fact::Crashed { node, .. } => {
                if let Some(kept) = &mut self.nodes[*node] {
                    // The disk is lost, with everything that it had to keep.
                    *kept = Kept::default();
                    let is_here = |place: &Place| matches!(place, Place::At(at, _) if at == node);
                    self.places
                        .values_mut()
                        .filter(|place| is_here(place))
                        .for_each(|place| *place = Place::Settled);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
