//! No exchange is executed twice.

use super::{Checker, Scene, Verdict};
use crate::fact::Fact;

/// No exchange is executed twice, by no life of its peer.
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
