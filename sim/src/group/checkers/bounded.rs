//! Nothing grows without end.

use covalent_protocol::group::WINDOW;

use super::{Checker, Fact, Scene, Verdict, forbid};
use crate::group::{book::ViewId, keys::KeyMap, net::ENVELOPE_BYTES, said::Said};

/// Batches of a sender that not all applications took, at most.
const ROUNDS_OPEN: u64 = 64;
/// Bytes of own messages that are in no batch yet, at most.
const PENDING_BYTES: usize = 64 * 1024;
/// Bytes of a batch, at most.
const BATCH_BYTES: usize = 4_028;

/// Envelopes under way, receive queues, rounds and messages that wait stay within their bounds.
#[derive(Debug, Default)]
pub struct Bounded {
    /// Numbers of envelopes: said by one to another, and of these taken, as the first knows.
    pairs: KeyMap<(usize, usize), (u32, u32)>,
    /// Positions taken by each stay, as one knows, in a view.
    heard: KeyMap<(usize, ViewId), Vec<u64>>,
    /// Bytes that each asked for and was not told.
    waiting: KeyMap<usize, usize>,
}

impl Checker for Bounded {
    fn name(&self) -> &'static str {
        "bounded"
    }

    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Said { by, to, said } => {
                let Some(to) = scene.book.stay_of(to.life) else {
                    return Ok(());
                };
                self.window(*by, to, said)?;
                self.rounds(*by, said, scene)
            }
            Fact::Heard {
                by,
                from,
                said,
                result: Ok(()),
            } => {
                let (_, taken) = self.pairs.entry((*by, *from)).or_default();
                *taken = said.taken.max(*taken);
                let view = (said.group, said.view);
                let heard = self.heard.entry((*by, view)).or_default();
                if heard.len() <= *from {
                    heard.resize(from + 1, 0);
                }
                heard[*from] = said.row.delivered.max(heard[*from]);
                Ok(())
            }
            Fact::Queued { at, bytes } => {
                let members = scene.graph.nodes();
                let most = members * WINDOW * ENVELOPE_BYTES;
                forbid(*bytes > most, || {
                    format!(
                        "{bytes} B of envelopes with numbers are in the receive queue of s{at}, {most} B at most were to be"
                    )
                })
            }
            Fact::Holds { by, bytes } => {
                let members = scene.graph.nodes();
                let most = 2 * PENDING_BYTES
                    + (members + 1) * ROUNDS_OPEN as usize * BATCH_BYTES
                    + members * WINDOW * ENVELOPE_BYTES;
                forbid(*bytes > most, || {
                    format!("s{by} holds {bytes} B, {most} B at most were to be")
                })
            }
            Fact::Asked { by, bytes, .. } => {
                let waiting = self.waiting.entry(*by).or_default();
                *waiting += bytes;
                let most = PENDING_BYTES + (2 * ROUNDS_OPEN) as usize * BATCH_BYTES;
                forbid(*waiting > most, || {
                    format!(
                        "{waiting} B of own messages wait at s{by}, {most} B at most were to be"
                    )
                })
            }
            Fact::Delivered { by, placed, .. } => {
                let message = usize::try_from(placed.message).ok();
                let message = message.and_then(|number| scene.book.messages.get(number));
                if let Some(message) = message.filter(|message| message.by == *by) {
                    let waiting = self.waiting.entry(*by).or_default();
                    *waiting = waiting.saturating_sub(message.bytes);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Bounded {
    fn window(&mut self, by: usize, to: usize, said: &Said) -> Verdict {
        let (most, taken) = self.pairs.entry((by, to)).or_default();
        *most = said.number.max(*most);
        let under_way = most.saturating_sub(*taken) as usize;
        forbid(under_way > WINDOW, || {
            format!(
                "{under_way} envelopes of s{by} are under way to s{to}, which said that it took {taken}: {said}"
            )
        })
    }

    fn rounds(&self, by: usize, said: &Said, scene: &Scene<'_>) -> Verdict {
        if said.batch_bytes == 0 {
            return Ok(());
        }
        let view = (said.group, said.view);
        let Some(order) = scene.book.orders.get(&view) else {
            return Ok(());
        };
        let members = order.view.members.len() as u64;
        let heard = self.heard.get(&(by, view)).map_or(&[][..], Vec::as_slice);
        let low = order
            .view
            .members
            .iter()
            .map(|member| match scene.book.stay_of(member.life) {
                Some(stay) if stay == by => said.row.delivered,
                Some(stay) => heard.get(stay).copied().unwrap_or(0),
                None => 0,
            });
        let low = low.min().unwrap_or(0) / members;
        // Nulls follow what others said, who may know more.
        forbid(said.row.rounds > low + ROUNDS_OPEN, || {
            format!(
                "s{by} says {} rounds and knows of {low} that all applications took",
                said.row.rounds
            )
        })
    }
}
