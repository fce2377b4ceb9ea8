//! What one was told, all who go on are told.

use super::{Checker, Fact, Scene, Verdict, forbid};
use crate::group::{book::ViewId, keys::KeyMap, said::Said};

/// What anybody, also one who is dead, was told in a view is told to all who installed the next. And nobody says that it holds what did not come: that
/// is what the others go by.
#[derive(Debug, Default)]
pub struct AllOrNone {
    /// Rounds that came to one, in a view, by rank.
    came: KeyMap<(usize, ViewId), Vec<u64>>,
}

impl Checker for AllOrNone {
    fn name(&self) -> &'static str {
        "all-or-none"
    }

    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Heard { by, said, .. } if said.number > 0 => {
                let view = (said.group, said.view);
                let came = self.came.entry((*by, view)).or_default();
                let rank = usize::from(said.from);
                if came.len() <= rank {
                    came.resize(rank + 1, 0);
                }
                came[rank] = said.row.rounds.max(came[rank]);
                Ok(())
            }
            Fact::Said { by, said, .. } => self.holds_what_came(*by, said),
            Fact::View { by, view } => {
                let stay = &scene.book.stays[*by];
                let Some(order) = scene.book.order_of(*by).filter(|_| stay.has_state) else {
                    return Ok(());
                };
                let told = order.closed.unwrap_or(order.messages.len());
                forbid(stay.taken != told, || {
                    format!(
                        "s{by} left view {} for view {} with {} of its messages, others were told {told}",
                        order.view.number, view.number, stay.taken
                    )
                })
            }
            Fact::Delivered { by, placed, .. } => {
                let taken = scene.book.stays[*by].taken;
                let order = scene.book.order_of(*by);
                let closed = order.and_then(|order| order.closed);
                forbid(closed.is_some_and(|closed| taken >= closed), || {
                    format!(
                        "s{by} delivered message {} as number {taken} of a view that others left with {closed:?}",
                        placed.message
                    )
                })
            }
            _ => Ok(()),
        }
    }
}

impl AllOrNone {
    fn holds_what_came(&self, by: usize, said: &Said) -> Verdict {
        let came = self.came.get(&(by, (said.group, said.view)));
        let came = came.map_or(&[][..], Vec::as_slice);
        let mut received = said.row.received.iter().enumerate();
        let more = received.find(|(rank, received)| {
            let came = came.get(*rank).copied().unwrap_or(0);
            *rank != usize::from(said.from) && **received > came
        });
        forbid(more.is_some(), || {
            format!("s{by} says that it holds (rank, rounds) {more:?}, which did not come: {said}")
        })
    }
}
