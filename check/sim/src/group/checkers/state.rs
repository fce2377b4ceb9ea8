//! Checks that a joiner gets the state of the group.

use covalent_protocol::group::View;

use super::{Checker, Fact, Groups, Scene, Verdict, forbid};

/// The state of a joiner equals a replay of all messages before its view. No member votes before it
/// has the state.
#[derive(Debug)]
pub struct State;

impl Checker<Groups> for State {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::State {
                by,
                last: true,
                digest,
                delivered_to,
            } => {
                let own = scene.book.stays[*by].contact.incarnation;
                let within = scene.book.delivered_before(*by);
                forbid(*delivered_to != within, || {
                    format!(
                        "s{by} was notified that {delivered_to} of its messages are in the state; \
                         {within} of {own:?} are"
                    )
                })?;
                let order = scene.book.order_of(*by);
                let begun = order.and_then(|order| order.begun);
                forbid(begun.is_none() || begun != *digest, || {
                    format!("s{by} got the state {digest:?}; its view began with {begun:?}")
                })
            }
            Fact::View { by, view } if view.number > 1 => {
                let first = scene.book.orders.get(&(view.group, 1));
                let votes = |view: &View, membership: usize| {
                    let rank = view.rank_of(scene.book.stays[membership].contact.incarnation);
                    rank.is_some_and(|rank| view.voters.contains(rank))
                };
                // A founder has the state from the start, even before it is notified of the first
                // view.
                let has_it = |membership: usize| {
                    scene.book.stays[membership].has_state
                        || first.is_some_and(|first| votes(&first.view, membership))
                };
                let mut stays = 0..scene.book.stays.len();
                let without =
                    stays.find(|membership| votes(view, *membership) && !has_it(*membership));
                forbid(without.is_some(), || {
                    format!(
                        "s{by} installed view {}, with a voter that never had the state: \
                         {without:?}",
                        view.number
                    )
                })
            }
            Fact::Delivered { by, placed, .. } => forbid(!scene.book.stays[*by].has_state, || {
                format!(
                    "s{by} received message {} and has no state that it belongs to",
                    placed.message
                )
            }),
            _ => Ok(()),
        }
    }
}
