//! Checks that all members install the same view under one number.

use super::{Checker, Fact, Groups, Scene, Verdict, forbid};

/// Views of one group and number are equal at all members that install them. Numbers only grow. A
/// member belongs to each view that it installs.
#[derive(Debug)]
pub struct ViewAgreement;

impl Checker<Groups> for ViewAgreement {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        let Fact::View { by, view } = fact else {
            return Ok(());
        };
        let membership = &scene.book.stays[*by];
        forbid(
            view.rank_of(membership.contact.incarnation).is_none(),
            || {
                format!(
                    "s{by} installed view {} and is no member of it",
                    view.number
                )
            },
        )?;
        forbid(!view.voters.without(view.all_members()).is_empty(), || {
            format!("view {} has voters that are no members", view.number)
        })?;
        for before in &membership.views {
            forbid(before.0 != view.group, || {
                format!(
                    "s{by} went from group {:x} to group {:x}",
                    before.0, view.group
                )
            })?;
            forbid(before.1 >= view.number, || {
                format!(
                    "s{by} installed view {} behind view {}",
                    view.number, before.1
                )
            })?;
        }
        let known = scene.book.orders.get(&(view.group, view.number));
        forbid(known.is_some_and(|known| known.view != **view), || {
            format!(
                "s{by} installed another view {} than s{}",
                view.number,
                known
                    .and_then(|known| known.members.first())
                    .map_or(0, |first| *first)
            )
        })
    }
}
