//! How an exchange ended is told once, to the one who asked.

use super::{Checker, Scene, Verdict};
use crate::fact::Fact;

/// How an exchange ended is told once at most, in the same life in which it was asked for, and not to somebody who said
/// that it does not care any more. "In doubt" is told before, never after.
#[derive(Debug)]
pub struct ToldOnce;

impl Checker for ToldOnce {
    fn name(&self) -> &'static str {
        "told-once"
    }

    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        let (by, token) = match fact {
            Fact::Told { by, token, .. } | Fact::Doubted { by, token, .. } => (by, *token),
            _ => return Ok(()),
        };
        let Some(exchange) = scene.book.exchange(token) else {
            return Err(format!(
                "{by} was told of exchange {token}, which does not exist"
            ));
        };
        let problem = if exchange.from != *by {
            "which another life asked for"
        } else if exchange.cancelled {
            "which it does not care about"
        } else if exchange.ended.is_some() {
            "after it had been told how that ended"
        } else {
            return Ok(());
        };
        Err(format!(
            "{by} was told of exchange {token}, {problem}: {exchange:?}"
        ))
    }
}
