//! No exchange is executed twice.

use super::{Checker, Links, Scene, Verdict, forbid};
use crate::fact::Fact;

/// No exchange is executed twice, in any incarnation of its peer.
///
/// While registers are arbitrary, the checker cannot know what is new. After convergence, no
/// earlier exchange is executed, except one that waits for a peer that no cable reached.
#[derive(Debug)]
pub struct ExactlyOnce;

impl Checker<Links> for ExactlyOnce {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        let Fact::Executed { at, payload, .. } = fact else {
            return Ok(());
        };
        match scene.book.of_request(payload) {
            _ if scene.book.is_unsettled() => Ok(()),
            Some((token, exchange)) if scene.book.is_written_off(token) => {
                forbid(!exchange.loose, || {
                    format!("{at} executes exchange {token}, which had ended")
                })
            }
            Some((token, exchange)) => match &exchange.executed {
                Some(before) => Err(format!(
                    "exchange {token} was executed by {} and again by {at}",
                    before.node_incarnation
                )),
                None => Ok(()),
            },
            None => Err(format!("{at} executes an exchange that no node requested")),
        }
    }
}
