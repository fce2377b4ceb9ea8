//! Checks that reported values never regress.

use super::{Checker, Fact, Groups, Scene, Verdict, forbid};
use crate::group::{
    book::ViewId,
    keys::KeyMap,
    sent::{Proposal, Row, SentEnvelope},
};

/// No reported field of a row decreases. `received` is final once its owner wedged. A ballot has
/// one proposal. Nothing is accepted below a promise.
#[derive(Debug, Default)]
pub struct Grows {
    rows: KeyMap<(usize, ViewId), Row>,
    /// Last envelope number, and the rounds in it, that one incarnation sent to another in a view.
    rounds: KeyMap<(usize, u64, ViewId), (u32, u64)>,
    /// Greatest promise, and the ballot accepted last, of each in a view.
    ballots: KeyMap<(usize, ViewId), (u64, u64)>,
    proposals: KeyMap<(ViewId, u64), Proposal>,
}

impl Checker<Groups> for Grows {
    fn see(&mut self, fact: &Fact<'_>, _: &Scene<'_>) -> Verdict {
        match fact {
            Fact::SentEnvelope { by, to, sent } => {
                self.rounds(*by, to.incarnation.0, sent)?;
                self.row(*by, sent)?;
                self.ballot(*by, sent)
            }
            Fact::Garbled { by, why } => Err(format!("s{by} sends an invalid envelope: {why}")),
            _ => Ok(()),
        }
    }
}

impl Grows {
    /// Each receiver gets the sender's rounds with their batches, so they grow separately for each.
    /// A retransmission repeats its original values.
    fn rounds(&mut self, by: usize, to: u64, sent: &SentEnvelope) -> Verdict {
        let view = (sent.group, sent.view);
        let (number, rounds) = self.rounds.entry((by, to, view)).or_default();
        if sent.number <= *number {
            return Ok(());
        }
        let before = std::mem::replace(rounds, sent.row.rounds);
        *number = sent.number;
        forbid(sent.row.rounds < before, || {
            format!(
                "the rounds of s{by} go back in view {} from {before} to {}",
                sent.view, sent.row.rounds
            )
        })
    }

    fn row(&mut self, by: usize, sent: &SentEnvelope) -> Verdict {
        if sent.row.received.is_empty() {
            return Ok(());
        }
        let now = &sent.row;
        let Some(before) = self.rows.get_mut(&(by, (sent.group, sent.view))) else {
            self.rows.insert((by, (sent.group, sent.view)), now.clone());
            return Ok(());
        };
        let back = |what: &str, from: u64, to: u64| {
            forbid(to < from, || {
                format!(
                    "{what} of s{by} goes back in view {} from {from} to {to}",
                    sent.view
                )
            })
        };
        let own = usize::from(sent.from);
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
                    "s{by} wedged in view {} with {from} rounds of rank {rank} and now reports \
                     {to}",
                    sent.view
                )
            })?;
        }
        before.clone_from(now);
        Ok(())
    }

    fn ballot(&mut self, by: usize, sent: &SentEnvelope) -> Verdict {
        // A decided proposal is adopted whatever was promised.
        let Some(change) = sent.row.change.as_ref().filter(|_| !sent.decided) else {
            return Ok(());
        };
        let view = (sent.group, sent.view);
        let (promised, accepted) = self.ballots.entry((by, view)).or_default();
        forbid(change.promised < *promised, || {
            format!(
                "the promise of s{by} goes back in view {} from {promised:x} to {:x}",
                sent.view, change.promised
            )
        })?;
        forbid(
            change.accepted != *accepted && change.accepted < *promised.max(accepted),
            || {
                format!(
                    "s{by} accepted {:x} in view {}, had accepted {accepted:x} and promised \
                     {promised:x}",
                    change.accepted, sent.view
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
                    change.accepted, sent.view
                )
            })?;
        }
        Ok(())
    }
}
