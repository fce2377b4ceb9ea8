//! Checks that stability reports are true.

use super::{Checker, Fact, Groups, Scene, Verdict, forbid};

/// Whatever is reported stable was taken by the applications of all members.
#[derive(Debug)]
pub struct Stable;

impl Checker<Groups> for Stable {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        let Fact::Stable { by, view, position } = fact else {
            return Ok(());
        };
        let Some(order) = scene
            .book
            .order_of(*by)
            .filter(|order| order.view.number == *view)
        else {
            return Err(format!(
                "s{by} was notified that {position} of view {view} is stable and is not in it"
            ));
        };
        let below = order.below(*position);
        let id = (order.view.group, order.view.number);
        for member in order.view.members.iter() {
            let Some(membership) = scene.book.membership_of(member.incarnation) else {
                continue;
            };
            let other = &scene.book.stays[membership];
            let taken = match other.view {
                Some(at) if at == id => other.taken,
                // It went on, and did so behind all of them.
                Some(at) if at.1 > id.1 => below,
                _ => 0,
            };
            forbid(taken < below, || {
                format!(
                    "s{by} was notified that {position} of view {view} is stable; s{membership} \
                     took \
                     {taken} of the {below} messages below"
                )
            })?;
        }
        Ok(())
    }
}
