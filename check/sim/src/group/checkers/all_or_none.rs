//! Checks that survivors deliver whatever any member delivered.

use super::{Checker, Fact, Groups, Scene, Verdict, forbid};
use crate::group::{book::ViewId, keys::KeyMap, sent::SentEnvelope};

/// Every message that any member delivered in a view, even a dead one, is delivered by all members
/// that install the next view. No member reports that it holds a batch that has not arrived,
/// because the others rely on that report.
#[derive(Debug, Default)]
pub struct AllOrNone {
    /// Rounds that arrived at an incarnation in a view, by rank.
    came: KeyMap<(usize, ViewId), Vec<u64>>,
}

impl Checker<Groups> for AllOrNone {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Received { by, sent, .. } if sent.number > 0 => {
                let view = (sent.group, sent.view);
                let came = self.came.entry((*by, view)).or_default();
                let rank = usize::from(sent.from);
                if came.len() <= rank {
                    came.resize(rank + 1, 0);
                }
                came[rank] = sent.row.rounds.max(came[rank]);
                Ok(())
            }
            Fact::SentEnvelope { by, sent, .. } => self.holds_received(*by, sent),
            Fact::View { by, view } => {
                let membership = &scene.book.stays[*by];
                let Some(order) = scene.book.order_of(*by).filter(|_| membership.has_state) else {
                    return Ok(());
                };
                let reported = order.closed.unwrap_or(order.messages.len());
                forbid(membership.taken != reported, || {
                    format!(
                        "s{by} left view {} for view {} with {} of its messages, others received \
                         {reported}",
                        order.view.number, view.number, membership.taken
                    )
                })
            }
            Fact::Delivered { by, placed, .. } => {
                let taken = scene.book.stays[*by].taken;
                let order = scene.book.order_of(*by);
                let closed = order.and_then(|order| order.closed);
                forbid(closed.is_some_and(|closed| taken >= closed), || {
                    format!(
                        "s{by} delivered message {} as number {taken} of a view that others left \
                         with {closed:?}",
                        placed.message
                    )
                })
            }
            _ => Ok(()),
        }
    }
}

impl AllOrNone {
    fn holds_received(&self, by: usize, sent: &SentEnvelope) -> Verdict {
        let came = self.came.get(&(by, (sent.group, sent.view)));
        let came = came.map_or(&[][..], Vec::as_slice);
        let mut received = sent.row.received.iter().enumerate();
        let more = received.find(|(rank, received)| {
            let came = came.get(*rank).copied().unwrap_or(0);
            *rank != usize::from(sent.from) && **received > came
        });
        forbid(more.is_some(), || {
            format!("s{by} reports (rank, rounds) {more:?} as held, which did not arrive: {sent}")
        })
    }
}
