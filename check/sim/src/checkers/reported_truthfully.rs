//! Checks that reported outcomes are true and final.

use covalent_protocol::Outcome;

use super::{Checker, Links, Scene, Verdict, forbid};
use crate::{book::Ended, fact::Fact};

/// "Committed" is reported only for an executed exchange, with the reply of its execution.
/// "Refused" is reported only for an exchange that is not executed and never will be. "Peer
/// restarted" is reported only for a peer that lost its memory. No outcome is reported before a
/// frame of the peer arrives: an outcome is received, never inferred from silence.
///
/// A query in another node's name about a later exchange of a slot makes the responder forget that
/// node's open exchange there.
///
/// While registers are arbitrary, only the rule about frames holds. Afterwards all rules hold for
/// new exchanges. A node whose registers were arbitrary may report "forgotten" for the rest of its
/// incarnation, because it distrusts its memory. It may also receive "forgotten", because its peers
/// may know of later numbers than its own.
#[derive(Debug)]
pub struct ReportedTruthfully;

impl Checker<Links> for ReportedTruthfully {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Reported {
                by, token, outcome, ..
            } => {
                let Some(exchange) = scene.book.exchange(*token) else {
                    return Ok(());
                };
                let problem = match (outcome, &exchange.executed) {
                    _ if !scene.receiving => "before anything was received about it",
                    _ if scene.book.is_unsettled() || exchange.loose => return Ok(()),
                    (Outcome::Committed(_), None) => "but no node executed it",
                    (Outcome::Committed(reply), Some(execution)) if *reply != execution.reply => {
                        "with a reply that was never sent"
                    }
                    (Outcome::Refused(_), Some(_)) => "but it was executed",
                    (Outcome::PeerRestarted, _)
                        if scene.book.is_current(exchange.to)
                            && !scene.book.is_lied_to()
                            && !scene.book.is_forgetful(exchange.to.node)
                            && !scene.book.was_hit(exchange.to.node)
                            && !scene.book.was_hit(exchange.from.node) =>
                    {
                        "but the peer never lost its memory"
                    }
                    _ => return Ok(()),
                };
                Err(format!(
                    "{by} was notified of {outcome:?} for exchange {token}, {problem}: {exchange:?}"
                ))
            }
            Fact::Executed { at, payload, .. } => {
                let Some((token, exchange)) = scene.book.of_request(payload) else {
                    return Ok(());
                };
                forbid(
                    !scene.book.is_unsettled()
                        && !exchange.loose
                        && matches!(exchange.ended, Some(Ended::Refused | Ended::Committed)),
                    || {
                        format!(
                            "{at} executes exchange {token} after the notification of its \
                             initiator: {exchange:?}"
                        )
                    },
                )
            }
            _ => Ok(()),
        }
    }
}
