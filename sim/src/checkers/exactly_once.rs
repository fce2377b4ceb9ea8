//! No exchange is executed twice.

use super::{Checker, Scene, Verdict, forbid};
use crate::fact::Fact;

/// No exchange is executed twice, by no life of its peer.
///
/// While registers hold anything there is no telling what is new. Once everything has come to its end behind that, nothing is executed any more that
/// was asked for before, but for what waits for a peer to which no cable led.
#[derive(Debug)]
pub struct ExactlyOnce;

impl Checker for ExactlyOnce {
    fn name(&self) -> &'static str {
        "exactly-once"
    }

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
                    before.life
                )),
                None => Ok(()),
            },
            None => Err(format!("{at} executes what nobody asked for")),
        }
    }
}
