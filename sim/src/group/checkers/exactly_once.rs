//! Every message once, whole, and in its place among those of its sender.

use super::{Checker, Fact, Scene, Verdict, forbid};
use crate::group::keys::KeySet;

/// Each message once at most at a member, as it was sent, in the order of its sender's numbers without a gap.
#[derive(Debug, Default)]
pub struct ExactlyOnce {
    told: KeySet<(usize, u64)>,
}

impl Checker for ExactlyOnce {
    fn name(&self) -> &'static str {
        "exactly-once"
    }

    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        let Fact::Delivered {
            by, placed, whole, ..
        } = fact
        else {
            return Ok(());
        };
        let number = placed.message;
        let asked = usize::try_from(number)
            .ok()
            .and_then(|number| scene.book.messages.get(number));
        let Some(asked) = asked else {
            return Err(format!(
                "s{by} delivered message {number}, which nobody asked for"
            ));
        };
        let sender = scene.book.stays[asked.by].contact.life;
        forbid(
            !whole || asked.sequence != placed.sequence || sender != placed.sender,
            || {
                format!(
                    "s{by} delivered message {number} as {placed:?}, whole: {whole}; it is {asked:?}"
                )
            },
        )?;
        forbid(!self.told.insert((*by, number)), || {
            format!("s{by} delivered message {number} again")
        })?;
        // Who goes along an order that others went before is held to that by the total order.
        let stay = &scene.book.stays[*by];
        let first = scene
            .book
            .order_of(*by)
            .is_some_and(|order| order.messages.len() == stay.taken);
        let last = scene.book.last.get(&placed.sender).copied().unwrap_or(0);
        forbid(first && placed.sequence != last + 1, || {
            format!(
                "s{by} delivered the {}. message of its sender behind the {last}.",
                placed.sequence
            )
        })
    }
}
