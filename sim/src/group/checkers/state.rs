//! Who joins has what the others have.

use super::{Checker, Fact, Scene, Verdict, forbid};

/// Who joined has what a replay of all messages before its view gives.
#[derive(Debug)]
pub struct State;

impl Checker for State {
    fn name(&self) -> &'static str {
        "state"
    }

    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::State {
                by,
                last: true,
                digest,
            } => {
                let order = scene.book.order_of(*by);
                let begun = order.and_then(|order| order.begun);
                forbid(begun.is_none() || begun != *digest, || {
                    format!("s{by} got the state {digest:?}; its view began with {begun:?}")
                })
            }
            Fact::Delivered { by, placed, .. } => forbid(!scene.book.stays[*by].has_state, || {
                format!(
                    "s{by} was told message {} and has no state that it belongs to",
                    placed.message
                )
            }),
            _ => Ok(()),
        }
    }
}
