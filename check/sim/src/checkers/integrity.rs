//! Checks that payloads arrive as they were sent.

use super::{Checker, Links, Scene, Verdict, forbid};
use crate::fact::Fact;

/// Every payload that reaches a program equals, byte for byte, one that was sent to that node.
/// [`super::ReportedTruthfully`] compares the replies. While registers are arbitrary, a node may
/// invent a payload.
#[derive(Debug)]
pub struct Integrity;

impl Checker<Links> for Integrity {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        let (at, payload) = match fact {
            Fact::Invented { .. } if scene.book.is_unsettled() => return Ok(()),
            Fact::Invented { at, payload, .. }
            | Fact::Admitted { at, payload, .. }
            | Fact::Declined { at, payload, .. }
            | Fact::Executed { at, payload, .. }
            | Fact::Reversed { at, payload, .. } => (at, *payload),
            _ => return Ok(()),
        };
        let sent = scene.book.of_request(payload).is_some_and(|(_, exchange)| {
            exchange.to.node == at.node && exchange.request == payload
        });
        forbid(!sent, || {
            format!(
                "{at} received {} bytes that no node sent to it",
                payload.len()
            )
        })
    }
}
