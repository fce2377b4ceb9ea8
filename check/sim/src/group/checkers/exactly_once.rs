//! Checks that each message arrives once, complete, and in its sender's order.

use super::{Checker, Fact, Groups, Scene, Verdict, forbid};
use crate::group::keys::KeySet;

/// A member delivers each message at most once, as it was sent, in the order of its sender's
/// numbers and without a gap.
#[derive(Debug, Default)]
pub struct ExactlyOnce {
    reported: KeySet<(usize, u64)>,
}

impl Checker<Groups> for ExactlyOnce {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        let Fact::Delivered {
            by, placed, whole, ..
        } = fact
        else {
            return Ok(());
        };
        let number = placed.message;
        let requested = usize::try_from(number)
            .ok()
            .and_then(|number| scene.book.messages.get(number));
        let Some(requested) = requested else {
            return Err(format!(
                "s{by} delivered message {number}, which no member sent"
            ));
        };
        let sender = scene.book.stays[requested.by].contact.incarnation;
        forbid(
            !whole || requested.sequence != placed.sequence || sender != placed.sender,
            || {
                format!(
                    "s{by} delivered message {number} as {placed:?}, whole: {whole}; it is \
                     {requested:?}"
                )
            },
        )?;
        forbid(!self.reported.insert((*by, number)), || {
            format!("s{by} delivered message {number} again")
        })?;
        // A member that follows an existing order is covered by the total order checker.
        let membership = &scene.book.stays[*by];
        let first = scene
            .book
            .order_of(*by)
            .is_some_and(|order| order.messages.len() == membership.taken);
        let last = scene.book.last.get(&placed.sender).copied().unwrap_or(0);
        forbid(first && placed.sequence != last + 1, || {
            format!(
                "s{by} delivered the {}. message of its sender behind the {last}.",
                placed.sequence
            )
        })
    }
}
