//! Nothing is visible before it is committed.

use std::collections::HashMap;

use covalent_protocol::{ExchangeId, Mode};

use super::{Checker, Links, Scene, Verdict};
use crate::{book::NodeIncarnation, fact::Fact, payload, region};

/// A region changes only in an execution. It does not change when a request is admitted, refused or
/// reversed, and not between calls. A two-phase request is executed only after its node sent a
/// frame since the admission: the initiator cannot commit a request before it learns of the
/// admission.
///
/// There are two exceptions. While registers are arbitrary, the initiator may believe that it was
/// notified. A lying neighbor may commit in the initiator's name.
#[derive(Debug, Default)]
pub struct Isolation {
    /// Writes to each node's region up to its last execution.
    writes: HashMap<NodeIncarnation, u64>,
    /// The call in which each open two-phase request was admitted.
    admitted: HashMap<(NodeIncarnation, ExchangeId), u64>,
    /// The call before which each node last gave out a frame.
    sent: HashMap<NodeIncarnation, u64>,
}

impl Checker<Links> for Isolation {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Admitted {
                at,
                id,
                mode,
                payload,
                wrote,
            } => {
                let is_held = !scene.book.is_unsettled() && !scene.book.is_lied_to();
                if *mode == Mode::TwoPhase && is_held {
                    self.admitted.insert((*at, **id), scene.call);
                }
                clean(*at, payload, *wrote, "admitted")
            }
            Fact::Declined {
                at, payload, wrote, ..
            } => clean(*at, payload, *wrote, "refused"),
            Fact::Reversed {
                at,
                id,
                payload,
                wrote,
            } => {
                self.admitted.remove(&(*at, **id));
                clean(*at, payload, *wrote, "reversed")
            }
            Fact::Executed {
                at,
                id,
                payload,
                writes_before,
                ..
            } => {
                let early = self
                    .admitted
                    .remove(&(*at, **id))
                    .is_some_and(|call| self.sent.get(at).is_none_or(|sent| *sent < call));
                if early {
                    return Err(format!(
                        "{at} executes the two-phase request {} before it acknowledged it",
                        described(payload)
                    ));
                }
                let known = self
                    .writes
                    .insert(*at, region::writes(&scene.regions[at.node]))
                    .unwrap_or(0);
                super::forbid(known != *writes_before, || {
                    format!("the region of {at} was written outside of an execution")
                })
            }
            Fact::Sent { from, .. } => {
                self.sent
                    .insert(scene.book.node_incarnation(from.node), scene.call);
                Ok(())
            }
            Fact::Rested { .. } => self.nothing_else_wrote(scene),
            _ => Ok(()),
        }
    }
}

impl Isolation {
    fn nothing_else_wrote(&self, scene: &Scene<'_>) -> Verdict {
        for (node, region) in scene.regions.iter().enumerate() {
            let node_incarnation = scene.book.node_incarnation(node);
            let known = self.writes.get(&node_incarnation).copied().unwrap_or(0);
            if region::writes(region) != known {
                return Err(format!(
                    "the region of {node_incarnation} was written after its last execution"
                ));
            }
        }
        Ok(())
    }
}

fn clean(at: NodeIncarnation, payload: &[u8], wrote: bool, when: &str) -> Verdict {
    super::forbid(wrote, || {
        format!(
            "the region of {at} changed when request {} was {when}",
            described(payload)
        )
    })
}

fn described(payload: &[u8]) -> String {
    payload::token_of(payload).map_or("without a token".into(), |token| token.to_string())
}
