//! What is admitted is executed or reversed.

use std::collections::{HashMap, HashSet};

use covalent_protocol::{ExchangeId, LinkEvent, Mode};

use super::{Checker, Scene, Verdict, forbid};
use crate::{book::Life, fact::Fact, node_guid};

/// Everything that was admitted is executed or reversed, once, under the name under which it was admitted and with the
/// same payload. No name is used twice. In 1PC it is executed at once. When a link fails nothing stays reserved for the
/// peer that was at its other end, and at rest nothing is reserved at all.
#[derive(Debug, Default)]
pub struct Reservation {
    open: HashMap<(Life, ExchangeId), Open>,
    /// Every name that was ever used, with the life of the initiator.
    used: HashSet<(Life, Life, ExchangeId)>,
}

#[derive(Debug)]
struct Open {
    payload: Vec<u8>,
    mode: Mode,
    call: u64,
}

impl Checker for Reservation {
    fn name(&self) -> &'static str {
        "reservation"
    }

    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Admitted {
                at,
                id,
                mode,
                payload,
                ..
            } => {
                let open = Open {
                    payload: payload.to_vec(),
                    mode: *mode,
                    call: scene.call,
                };
                let twice = self.open.insert((*at, **id), open).is_some();
                let initiator = scene.book.of_request(payload).map(|(_, asked)| asked.from);
                let again = initiator.is_some_and(|life| !self.used.insert((*at, life, **id)));
                forbid(twice || again, || {
                    format!("{at} admits {id:?} under a name that was used before")
                })
            }
            Fact::Executed {
                at, id, payload, ..
            } => {
                let open = self.settle(*at, id, payload, "executes")?;
                forbid(
                    open.mode == Mode::OnePhase && open.call != scene.call,
                    || format!("{at} admitted the one-phase {id:?} and executed it only later"),
                )
            }
            Fact::Reversed {
                at, id, payload, ..
            } => {
                let open = self.settle(*at, id, payload, "reverses")?;
                forbid(open.mode == Mode::OnePhase, || {
                    format!("{at} reverses the one-phase {id:?}")
                })
            }
            Fact::Crashed { node, .. } => {
                self.open.retain(|(life, _), _| life.node != *node);
                Ok(())
            }
            Fact::Link {
                at,
                event: LinkEvent::Down { .. },
            } => self.nothing_left(scene.book.life(at.node), *at, scene),
            Fact::Rested { .. } => match self.open.keys().next() {
                Some((at, id)) => Err(format!("{id:?} is still reserved at {at}, at rest")),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

impl Reservation {
    fn settle(
        &mut self,
        at: Life,
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

    /// Nothing is reserved any more for what came over a cable whose link failed.
    fn nothing_left(&self, life: Life, at: crate::fact::Place, scene: &Scene<'_>) -> Verdict {
        let far = scene.cables[at.cable][1 - at.end];
        // Other cables may join the same two nodes, and their links may be up: only what this one left counts.
        let alone = scene
            .cables
            .iter()
            .filter(|ends| ends.contains(&life.node) && ends.contains(&far))
            .count()
            == 1;
        let left = |(open_at, id): &&(Life, ExchangeId)| {
            alone && *open_at == life && id.peer == node_guid(far)
        };
        match self.open.keys().find(left) {
            Some((_, id)) => Err(format!(
                "{id:?} is still reserved at {life}, whose only link to its initiator failed"
            )),
            None => Ok(()),
        }
    }
}
