//! Checks that each outcome is reported once, to its initiator.

use super::{Checker, Links, Scene, Verdict};
use crate::fact::Fact;

/// An outcome is reported at most once, in the incarnation that submitted the exchange, and not to
/// an initiator that canceled. "In doubt" is reported before the outcome, never after.
#[derive(Debug)]
pub struct ReportedOnce;

impl Checker<Links> for ReportedOnce {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        let (by, token) = match fact {
            Fact::Reported { by, token, .. } | Fact::Doubted { by, token, .. } => (by, *token),
            _ => return Ok(()),
        };
        let Some(exchange) = scene.book.exchange(token) else {
            return Err(format!(
                "{by} was notified of exchange {token}, which does not exist"
            ));
        };
        let problem = if exchange.from != *by {
            "which another incarnation requested"
        } else if exchange.canceled {
            "which it canceled"
        } else if exchange.ended.is_some() {
            "after the notification of its outcome"
        } else {
            return Ok(());
        };
        Err(format!(
            "{by} was notified of exchange {token}, {problem}: {exchange:?}"
        ))
    }
}
