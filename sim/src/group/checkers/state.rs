//! Who joins has what the others have.

use covalent_protocol::group::View;

use super::{Checker, Fact, Scene, Verdict, forbid};

/// Who joined has what a replay of all messages before its view gives, and nobody votes before that.
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
                delivered_to,
            } => {
                let own = scene.book.stays[*by].contact.life;
                let within = scene.book.delivered_before(*by);
                forbid(*delivered_to != within, || {
                    format!(
                        "s{by} was told that {delivered_to} of its messages are in the state; {within} of {own:?} are"
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
                let votes = |view: &View, stay: usize| {
                    let rank = view.rank_of(scene.book.stays[stay].contact.life);
                    rank.is_some_and(|rank| view.voters.contains(rank))
                };
                // Who founded has it from the start, whether it was told of the first view or not.
                let has_it = |stay: usize| {
                    scene.book.stays[stay].has_state
                        || first.is_some_and(|first| votes(&first.view, stay))
                };
                let mut stays = 0..scene.book.stays.len();
                let without = stays.find(|stay| votes(view, *stay) && !has_it(*stay));
                forbid(without.is_some(), || {
                    format!(
                        "s{by} installed view {}, in which one votes who never had the state: {without:?}",
                        view.number
                    )
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
