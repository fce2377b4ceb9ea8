//! Checks that an idle group sends almost nothing.

use std::collections::BTreeMap;

use super::{Checker, Fact, Groups, Scene, Verdict, forbid};
use crate::group::{book::Membership, sent::Kind};

/// At rest a member sends only keepalives: one per tick to the next rank, and a reply to every
/// fourth.
#[derive(Debug, Default)]
pub struct Quiet {
    sent: Option<BTreeMap<usize, u64>>,
}

impl Checker<Groups> for Quiet {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Idle => {
                self.sent = Some(BTreeMap::new());
                Ok(())
            }
            Fact::SentEnvelope { by, sent, .. } => {
                let Some(counts) = &mut self.sent else {
                    return Ok(());
                };
                let stopped = scene.book.stays[*by].stopped.is_some();
                // An application that searches for a group sends a query at each tick and gets a
                // reply.
                let is_query = matches!(sent.kind, Kind::Hello | Kind::Known | Kind::Challenge);
                if is_query && scene.book.stays.iter().any(Membership::is_searching) {
                    return Ok(());
                }
                forbid(
                    !stopped && (sent.kind != Kind::Flow || sent.batch_bytes > 0),
                    || format!("s{by} sends at rest: {sent}"),
                )?;
                if !stopped {
                    *counts.entry(*by).or_default() += 1;
                }
                Ok(())
            }
            Fact::Rested { ticks } => {
                let most = 2 * (ticks + 1);
                let counts = self.sent.take().unwrap_or_default();
                let loud = counts.into_iter().find(|(_, count)| *count > most);
                forbid(loud.is_some(), || {
                    format!("in {ticks} ticks of rest, (member, envelopes sent): {loud:?}")
                })
            }
            _ => Ok(()),
        }
    }
}
