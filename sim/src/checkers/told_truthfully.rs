//! What is told of an exchange is true, and stays so.

use covalent_protocol::Outcome;

use super::{Checker, Scene, Verdict, forbid};
use crate::{book::Ended, fact::Fact};

/// "Done" is told of what was executed, with the reply that it gave; "refused" of what was not executed and never will
/// be; "forgotten" of a peer that lost its memory. Nobody is told anything before word of the peer arrives: an outcome
/// is heard, never concluded from silence.
///
/// Who asks in another's name about a later exchange of a slot has what that one has open there forgotten.
///
/// While registers hold anything the last of these alone holds, and afterwards all of them, for what is asked for then. A node
/// whose registers held anything may say that it forgot for as long as it lives, for it doubts its memory, and may be told so, for its
/// numbers may be such that its peers know of later ones.
#[derive(Debug)]
pub struct ToldTruthfully;

impl Checker for ToldTruthfully {
    fn name(&self) -> &'static str {
        "told-truthfully"
    }

    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Told {
                by, token, outcome, ..
            } => {
                let Some(exchange) = scene.book.exchange(*token) else {
                    return Ok(());
                };
                let problem = match (outcome, &exchange.executed) {
                    _ if !scene.hearing => "before anything was heard of it",
                    _ if scene.book.is_unsettled() || exchange.loose => return Ok(()),
                    (Outcome::Committed(_), None) => "but nobody executed it",
                    (Outcome::Committed(reply), Some(execution)) if *reply != execution.reply => {
                        "with a reply that was never given"
                    }
                    (Outcome::Refused(_), Some(_)) => "but it was executed",
                    (Outcome::PeerRestarted, _)
                        if scene.book.lives(exchange.to)
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
                    "{by} was told {outcome:?} of exchange {token}, {problem}: {exchange:?}"
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
                            "{at} executes exchange {token} after its initiator was told how it ended: {exchange:?}"
                        )
                    },
                )
            }
            _ => Ok(()),
        }
    }
}
