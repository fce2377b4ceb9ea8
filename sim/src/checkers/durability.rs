//! What was acknowledged of a node with a journal is there when it starts again.

use std::collections::HashMap;

use covalent_protocol::{Answer, Outcome};

use super::{Checker, Scene, Verdict, forbid};
use crate::{ask::Ask, fact::Fact, model::Model};

/// When a node starts again with its journal, its memory is what the verbs that it executed made of it up to some moment, one after the other: no part
/// of one, and nothing that nobody asked for. That moment is not before the execution of anything of which anybody was told, by whatever way, and nobody is told
/// afterwards of what came behind it.
///
/// Nothing follows from what was told while registers hold anything. What memory is, does, then as ever.
#[derive(Debug)]
pub struct Durability {
    nodes: Vec<Option<Kept>>,
    /// Where each exchange was executed last.
    places: HashMap<u64, Place>,
}

/// What a node with a journal executed since it started.
#[derive(Debug, Default)]
struct Kept {
    /// What it held at its start.
    before: Model,
    executed: Vec<(u64, Ask)>,
    /// So many of them must be there, for somebody knows of the last one.
    acknowledged: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// So many were executed at this node with it, since it started.
    At(usize, usize),
    /// It is there for good, or was told of a memory that is gone with the disk.
    Settled,
    /// It was not on disk when its node stopped.
    Lost(usize),
}

impl Durability {
    /// The nodes that `durable` says have a journal.
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

    fn tell(&mut self, token: u64, scene: &Scene<'_>) -> Verdict {
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
                "exchange {token} is told as done, but was not in the journal of {} when that started again",
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
        // The latest moment that fits: of two the words of which are the same it makes no difference.
        let mut found = (model.words() == words).then_some(0);
        for (count, (_, ask)) in (1..).zip(&kept.executed) {
            model.apply(ask);
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
            // What was executed again since lies behind.
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
                "{} starts again with the first {found} of {executed} that it executed, but {acknowledged} were acknowledged",
                crate::node_name(node)
            ),
            None => format!(
                "{} starts again with what no number of the {executed} that it executed, of which {acknowledged} were acknowledged, make of its memory",
                crate::node_name(node)
            ),
        })
    }
}

impl Checker for Durability {
    fn name(&self) -> &'static str {
        "durability"
    }

    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Executed { at, payload, .. } => {
                if let Some(kept) = &mut self.nodes[at.node]
                    && let Some((token, exchange)) = scene.book.of_request(payload)
                {
                    kept.executed.push((token, exchange.ask.clone()));
                    let place = Place::At(at.node, kept.executed.len());
                    self.places.insert(token, place);
                }
                Ok(())
            }
            Fact::Told {
                token,
                outcome: Outcome::Committed(_),
                ..
            }
            | Fact::Answered {
                token,
                answer: Answer::Committed(_),
                ..
            } => self.tell(*token, scene),
            Fact::Restarted { node, words, .. } => self.restart(*node, *words),
            Fact::Crashed { node, .. } => {
                if let Some(kept) = &mut self.nodes[*node] {
                    // The disk is gone, and so is whatever it was to keep.
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
