//! Nothing is visible before it is committed.

use std::collections::HashMap;

use covalent_protocol::{ExchangeId, Mode};

use super::{Checker, Scene, Verdict};
use crate::{book::Life, fact::Fact, payload, region};

/// A region changes in an execution and never else: not when a request is admitted, refused or reversed, and not between
/// calls. A two-phase request is executed only after its node said something since it was admitted, for the initiator
/// cannot commit what it was not told of.
/// (While registers hold anything, the initiator may take itself for told. A neighbor that lies may
/// have it committed in the initiator's name.)
#[derive(Debug, Default)]
pub struct Isolation {
    /// Writes to each node's region up to its last execution.
    writes: HashMap<Life, u64>,
    /// The call in which each open two-phase request was admitted.
    admitted: HashMap<(Life, ExchangeId), u64>,
    /// The call before which each node last gave out a frame.
    spoke: HashMap<Life, u64>,
}

impl Checker for Isolation {
    fn name(&self) -> &'static str {
        "isolation"
    }

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
                    .is_some_and(|call| self.spoke.get(at).is_none_or(|spoke| *spoke < call));
                if early {
                    return Err(format!(
                        "{at} executes the two-phase request {} before it told anybody that it has it",
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
                self.spoke.insert(scene.book.life(from.node), scene.call);
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
            let life = scene.book.life(node);
            let known = self.writes.get(&life).copied().unwrap_or(0);
            if region::writes(region) != known {
                return Err(format!(
                    "the region of {life} was written after its last execution"
                ));
            }
        }
        Ok(())
    }
}

fn clean(at: Life, payload: &[u8], wrote: bool, when: &str) -> Verdict {
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
