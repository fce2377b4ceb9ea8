//! What was said stays said.

use super::{Checker, Fact, Scene, Verdict, forbid};
use crate::group::{
    book::ViewId,
    keys::KeyMap,
    said::{Proposal, Row, Said},
};

/// No field of a row that was said goes back, `received` is final once its owner wedged, a ballot has one proposal, and nothing is accepted
/// below a promise.
#[derive(Debug, Default)]
pub struct Grows {
    rows: KeyMap<(usize, ViewId), Row>,
    /// The last number, and the rounds with it, that one said to another in a view.
    rounds: KeyMap<(usize, u64, ViewId), (u32, u64)>,
    /// Greatest promise, and the ballot accepted last, of each in a view.
    ballots: KeyMap<(usize, ViewId), (u64, u64)>,
    proposals: KeyMap<(ViewId, u64), Proposal>,
}

impl Checker for Grows {
    fn name(&self) -> &'static str {
        "grows"
    }

    fn see(&mut self, fact: &Fact<'_>, _: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Said { by, to, said } => {
                self.rounds(*by, to.life.0, said)?;
                self.row(*by, said)?;
                self.ballot(*by, said)
            }
            Fact::Garbled { by, why } => Err(format!("s{by} says what cannot be read: {why}")),
            _ => Ok(()),
        }
    }
}

impl Grows {
    /// Own rounds are told to each with the batches of them, so to each they grow by themselves. What is said again says what it said.
    fn rounds(&mut self, by: usize, to: u64, said: &Said) -> Verdict {
        let view = (said.group, said.view);
        let (number, rounds) = self.rounds.entry((by, to, view)).or_default();
        if said.number <= *number {
            return Ok(());
        }
        let before = std::mem::replace(rounds, said.row.rounds);
        *number = said.number;
        forbid(said.row.rounds < before, || {
            format!(
                "the rounds of s{by} go back in view {} from {before} to {}",
                said.view, said.row.rounds
            )
        })
    }

    fn row(&mut self, by: usize, said: &Said) -> Verdict {
        if said.row.received.is_empty() {
            return Ok(());
        }
        let now = &said.row;
        let Some(before) = self.rows.get_mut(&(by, (said.group, said.view))) else {
            self.rows.insert((by, (said.group, said.view)), now.clone());
            return Ok(());
        };
        let back = |what: &str, from: u64, to: u64| {
            forbid(to < from, || {
                format!(
                    "{what} of s{by} goes back in view {} from {from} to {to}",
                    said.view
                )
            })
        };
        let own = usize::from(said.from);
        back("delivered", before.delivered, now.delivered)?;
        for (flag, from, to) in [
            ("leaving", before.leaving, now.leaving),
            ("has_state", before.has_state, now.has_state),
            ("wedged", before.wedged, now.wedged),
        ] {
            back(flag, u64::from(from), u64::from(to))?;
        }
        for rank in (0..now.received.len()).filter(|rank| *rank != own) {
            let (from, to) = (before.received[rank], now.received[rank]);
            back("received", from, to)?;
            forbid(before.wedged && from != to, || {
                format!(
                    "s{by} wedged in view {} with {from} rounds of rank {rank} and now says {to}",
                    said.view
                )
            })?;
        }
        before.clone_from(now);
        Ok(())
    }

    fn ballot(&mut self, by: usize, said: &Said) -> Verdict {
        // What is decided is taken over whatever was promised.
        let Some(change) = said.row.change.as_ref().filter(|_| !said.decided) else {
            return Ok(());
        };
        let view = (said.group, said.view);
        let (promised, accepted) = self.ballots.entry((by, view)).or_default();
        forbid(change.promised < *promised, || {
            format!(
                "the promise of s{by} goes back in view {} from {promised:x} to {:x}",
                said.view, change.promised
            )
        })?;
        forbid(
            change.accepted != *accepted && change.accepted < *promised.max(accepted),
            || {
                format!(
                    "s{by} accepted {:x} in view {}, had accepted {accepted:x} and promised {promised:x}",
                    change.accepted, said.view
                )
            },
        )?;
        *promised = change.promised;
        *accepted = change.accepted;
        if let Some(proposal) = &change.proposal {
            let known = self
                .proposals
                .entry((view, change.accepted))
                .or_insert_with(|| proposal.clone());
            forbid(known != proposal, || {
                format!(
                    "ballot {:x} of view {} has two proposals: {known:?} and {proposal:?}",
                    change.accepted, said.view
                )
            })?;
        }
        Ok(())
    }
}
