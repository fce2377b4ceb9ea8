//! An idle group says next to nothing.

use std::collections::BTreeMap;

use super::{Checker, Fact, Scene, Verdict, forbid};
use crate::group::{book::Stay, said::Kind};

/// At rest nothing is said but balls: one in a pace by each member to the next rank, and an answer to every fourth.
#[derive(Debug, Default)]
pub struct Quiet {
    said: Option<BTreeMap<usize, u64>>,
}

impl Checker for Quiet {
    fn name(&self) -> &'static str {
        "quiet"
    }

    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Idle => {
                self.said = Some(BTreeMap::new());
                Ok(())
            }
            Fact::Said { by, said, .. } => {
                let Some(counts) = &mut self.said else {
                    return Ok(());
                };
                let stopped = scene.book.stays[*by].stopped.is_some();
                // Whoever looks for a group asks at each pace, and is answered.
                let asks = matches!(said.kind, Kind::Hello | Kind::Known | Kind::Challenge);
                if asks && scene.book.stays.iter().any(Stay::seeks) {
                    return Ok(());
                }
                forbid(
                    !stopped && (said.kind != Kind::Flow || said.batch_bytes > 0),
                    || format!("s{by} says at rest: {said}"),
                )?;
                if !stopped {
                    *counts.entry(*by).or_default() += 1;
                }
                Ok(())
            }
            Fact::Rested { paces } => {
                let most = 2 * (paces + 1);
                let counts = self.said.take().unwrap_or_default();
                let loud = counts.into_iter().find(|(_, count)| *count > most);
                forbid(loud.is_some(), || {
                    format!("in {paces} paces of rest, (who, envelopes said): {loud:?}")
                })
            }
            _ => Ok(()),
        }
    }
}
