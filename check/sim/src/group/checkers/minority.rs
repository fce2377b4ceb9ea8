//! Checks that a member without a quorum delivers nothing and reports that it stopped.

use covalent_protocol::group::{Members, Stop};

use super::{Checker, Fact, Groups, Scene, Verdict, forbid};
use crate::group::{book::ViewId, keys::KeySet};

/// A wedged member delivers only what a quorum decided. A member that reaches no quorum of its view
/// reports that it stopped, once all evidence is reported.
#[derive(Debug, Default)]
pub struct Minority {
    /// Incarnations that reported themselves wedged, by view.
    wedged: KeySet<(usize, ViewId)>,
}

impl Checker<Groups> for Minority {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::SentEnvelope { by, sent, .. } if sent.row.wedged => {
                self.wedged.insert((*by, (sent.group, sent.view)));
                Ok(())
            }
            Fact::Delivered { by, placed, .. } => {
                let membership = &scene.book.stays[*by];
                let Some(order) = scene.book.order_of(*by) else {
                    return Ok(());
                };
                let id = (order.view.group, order.view.number);
                let rank = order.view.rank_of(membership.contact.incarnation);
                let alone =
                    rank.is_some_and(|rank| Members::only(rank).is_quorum_of(order.view.voters));
                forbid(
                    self.wedged.contains(&(*by, id))
                        && !alone
                        && scene.book.decided(&order.view, rank).next().is_none(),
                    || {
                        format!(
                            "s{by} delivered message {} of view {}, in which it wedged and nothing \
                             is decided",
                            placed.message, order.view.number
                        )
                    },
                )
            }
            Fact::Stopped {
                by,
                why: Stop::Minority { .. },
                ..
            } => {
                let order = scene.book.order_of(*by);
                forbid(order.is_none(), || {
                    format!("s{by} is stopped as a minority of no view")
                })
            }
            Fact::Calm => (0..scene.book.stays.len())
                .try_for_each(|membership| reported_stop(membership, scene)),
            _ => Ok(()),
        }
    }
}

fn reported_stop(by: usize, scene: &Scene<'_>) -> Verdict {
    let membership = &scene.book.stays[by];
    let Some(order) = scene
        .book
        .order_of(by)
        .filter(|_| membership.is_alive && !membership.left && membership.stopped.is_none())
    else {
        return Ok(());
    };
    let view = &order.view;
    let reached = (0..view.members.len()).filter(|rank| {
        let member = scene.book.membership_of(view.members[*rank].incarnation);
        member.is_some_and(|member| scene.joined(by, member))
    });
    let reached = reached.fold(Members::NONE, Members::with);
    forbid(!reached.is_quorum_of(view.voters), || {
        format!(
            "s{by} reaches {reached:?} of view {} and did not report that it stopped; the voters \
             are {:?}",
            view.number, view.voters
        )
    })
}
