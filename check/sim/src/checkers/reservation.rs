//! Checks that an admitted request is executed or reversed, and holds its words until then.

use std::collections::{HashMap, HashSet};

use covalent_protocol::{ExchangeId, LinkEvent, Mode, Refusal};

use super::{Checker, Links, Scene, Verdict, forbid};
use crate::{
    book::NodeIncarnation,
    fact::Fact,
    hold::{Hold, touched},
    node_guid,
    operation::Operation,
};

/// Every admitted request is executed or reversed, once, under the name of its admission and with
/// the same payload. No name is used twice. A 1PC request is executed at once. When a link fails,
/// nothing stays reserved for its peer. At rest, nothing is reserved at all.
///
/// The words held are exactly those that open two-phase exchanges will change. A request is refused
/// as busy if and only if it touches a word with a conflicting hold.
///
/// While registers are arbitrary, names are too: a name may be used twice then. Everything else
/// always holds.
#[derive(Debug, Default)]
pub struct Reservation {
    open: HashMap<(NodeIncarnation, ExchangeId), Open>,
    /// Every name ever used, with the incarnations of the responder and the initiator.
    used: HashSet<(NodeIncarnation, NodeIncarnation, ExchangeId)>,
}

#[derive(Debug)]
struct Open {
    payload: Vec<u8>,
    mode: Mode,
    call: u64,
    /// The words that it holds, and how.
    words: Vec<usize>,
    hold: Hold,
}

impl Checker<Links> for Reservation {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Admitted {
                at,
                id,
                mode,
                payload,
                ..
            } => {
                if let Some((token, requested)) = scene.book.of_request(payload)
                    && let Some(word) = self.busy(*at, &requested.operation)
                {
                    return Err(format!(
                        "{at} admits exchange {token} though another one holds word {word}"
                    ));
                }
                let held = scene
                    .book
                    .of_request(payload)
                    .map(|(_, requested)| {
                        (
                            touched(&requested.operation),
                            Hold::of(&requested.operation),
                        )
                    })
                    .filter(|(_, hold)| *mode == Mode::TwoPhase && *hold != Hold::Read);
                let (words, hold) = held.unwrap_or((Vec::new(), Hold::Read));
                let open = Open {
                    payload: payload.to_vec(),
                    mode: *mode,
                    call: scene.call,
                    words,
                    hold,
                };
                let twice = self.open.insert((*at, **id), open).is_some();
                let initiator = scene
                    .book
                    .of_request(payload)
                    .map(|(_, requested)| requested.from);
                let repeated = initiator.is_some_and(|node_incarnation| {
                    !scene.book.is_unsettled() && !self.used.insert((*at, node_incarnation, **id))
                });
                forbid(twice || repeated, || {
                    format!("{at} admits {id:?} under a name that was used before")
                })?;
                self.compare(*at, scene)
            }
            Fact::Declined {
                at,
                payload,
                refusal: Refusal::Busy,
                ..
            } => match scene.book.of_request(payload) {
                Some((token, requested)) if self.busy(*at, &requested.operation).is_none() => {
                    Err(format!(
                        "{at} refuses exchange {token} as busy, but no other one holds its words"
                    ))
                }
                _ => Ok(()),
            },
            Fact::Executed {
                at, id, payload, ..
            } => {
                let open = self.settle(*at, id, payload, "executes")?;
                forbid(
                    open.mode == Mode::OnePhase && open.call != scene.call,
                    || format!("{at} admitted the one-phase {id:?} and executed it only later"),
                )?;
                self.compare(*at, scene)
            }
            Fact::Reversed {
                at, id, payload, ..
            } => {
                let open = self.settle(*at, id, payload, "reverses")?;
                forbid(open.mode == Mode::OnePhase, || {
                    format!("{at} reverses the one-phase {id:?}")
                })?;
                self.compare(*at, scene)
            }
            Fact::Crashed { node, .. } | Fact::Restarted { node, .. } => {
                self.open
                    .retain(|(node_incarnation, _), _| node_incarnation.node != *node);
                Ok(())
            }
            Fact::Link {
                at,
                event: LinkEvent::Down { .. },
            } => self.nothing_left(scene.book.node_incarnation(at.node), *at, scene),
            Fact::Converged { .. } => {
                // Numbers may come again that were used before they became arbitrary.
                self.used.clear();
                self.nothing_reserved(scene)
            }
            Fact::Rested { .. } => self.nothing_reserved(scene),
            _ => Ok(()),
        }
    }
}

impl Reservation {
    /// Nothing is reserved any more.
    fn nothing_reserved(&self, scene: &Scene<'_>) -> Verdict {
        match self.open.keys().next() {
            Some((at, id)) => Err(format!("{id:?} is still reserved at {at}, at rest")),
            None => (0..scene.regions.len())
                .try_for_each(|node| self.compare(scene.book.node_incarnation(node), scene)),
        }
    }

    /// Returns a word that `operation` touches and that another exchange holds in a conflicting
    /// way.
    fn busy(&self, at: NodeIncarnation, operation: &Operation) -> Option<usize> {
        let wanted = Hold::of(operation);
        touched(operation).into_iter().find(|word| {
            self.held(at)
                .any(|open| open.words.contains(word) && !open.hold.lets(wanted))
        })
    }

    /// The exchanges that hold words of `at`.
    fn held(&self, at: NodeIncarnation) -> impl Iterator<Item = &Open> {
        self.open
            .iter()
            .filter(move |((node_incarnation, _), open)| {
                *node_incarnation == at && !open.words.is_empty()
            })
            .map(|(_, open)| open)
    }

    /// The engine holds the words of the exchanges that are open, and no others.
    fn compare(&self, at: NodeIncarnation, scene: &Scene<'_>) -> Verdict {
        let words: HashSet<usize> = self
            .held(at)
            .flat_map(|open| open.words.iter().copied())
            .collect();
        let held = scene.regions[at.node].reserved_words();
        forbid(held != words.len(), || {
            format!(
                "{at} holds {held} words; its open exchanges need {}",
                words.len()
            )
        })
    }

    fn settle(
        &mut self,
        at: NodeIncarnation,
        id: &ExchangeId,
        payload: &[u8],
        what: &str,
    ) -> Result<Open, String> {
        match self.open.remove(&(at, *id)) {
            Some(open) if open.payload == payload => Ok(open),
            Some(_) => Err(format!(
                "{at} {what} {id:?} with other bytes than it was admitted with"
            )),
            None => Err(format!(
                "{at} {what} {id:?}, which was not admitted or is settled"
            )),
        }
    }

    /// Checks that nothing stays reserved for the peer of a failed link.
    fn nothing_left(
        &self,
        node_incarnation: NodeIncarnation,
        at: crate::fact::Place,
        scene: &Scene<'_>,
    ) -> Verdict {
        let far = scene.cables[at.cable][1 - at.end];
        // Other cables may join the same two nodes, and their links may be up: check only if this
        // is the only cable.
        let alone = scene
            .cables
            .iter()
            .filter(|ends| ends.contains(&node_incarnation.node) && ends.contains(&far))
            .count()
            == 1;
        let left = |(open_at, id): &&(NodeIncarnation, ExchangeId)| {
            alone && *open_at == node_incarnation && id.peer == node_guid(far)
        };
        match self.open.keys().find(left) {
            Some((_, id)) => Err(format!(
                "{id:?} is still reserved at {node_incarnation}, whose only link to its initiator \
                 failed"
            )),
            None => Ok(()),
        }
    }
}
