//! One order for all.

use super::{Checker, Fact, Groups, Scene, Verdict, forbid};

/// Of two members' messages in a view, one sequence is a prefix of the other. The sequences are
/// equal for all members that install the next view.
#[derive(Debug)]
pub struct TotalOrder;

impl Checker<Groups> for TotalOrder {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        let Fact::Delivered {
            by, placed, view, ..
        } = fact
        else {
            return Ok(());
        };
        let membership = &scene.book.stays[*by];
        let Some(order) = scene.book.order_of(*by) else {
            return Err(format!(
                "s{by} delivered message {} before any view",
                placed.message
            ));
        };
        forbid(order.view.number != *view, || {
            format!(
                "s{by} is in view {} and delivered in view {view}",
                order.view.number
            )
        })?;
        let others = order.messages.get(membership.taken);
        forbid(others.is_some_and(|others| *others != **placed), || {
            format!(
                "as number {} of view {view} s{by} delivered {placed:?}, others {others:?}",
                membership.taken
            )
        })?;
        let last = order.messages.get(membership.taken.wrapping_sub(1));
        forbid(
            last.is_some_and(|last| last.position > placed.position),
            || {
                format!(
                    "s{by} delivered position {} behind {last:?}",
                    placed.position
                )
            },
        )
    }
}
