//! Nothing grows without end.

use covalent_protocol::group::WINDOW;

use super::{Checker, Fact, Groups, Scene, Verdict, forbid};
use crate::group::{book::ViewId, keys::KeyMap, net::ENVELOPE_BYTES, sent::SentEnvelope};

/// Batches of a sender that not all applications took, at most.
const ROUNDS_OPEN: u64 = 64;
/// Bytes of own messages that are in no batch yet, at most.
const PENDING_BYTES: usize = 64 * 1024;
/// Bytes of a batch, at most.
const BATCH_BYTES: usize = 4_028;

/// Envelopes in flight, receive queues, rounds and waiting messages stay within their bounds.
#[derive(Debug, Default)]
pub struct Bounded {
    /// Envelope numbers by sender and receiver: the last one sent, and the last one that the sender
    /// knows to be taken.
    pairs: KeyMap<(usize, usize), (u32, u32)>,
    /// Positions taken by each incarnation in a view, as one incarnation knows them.
    known: KeyMap<(usize, ViewId), Vec<u64>>,
    /// Bytes that each incarnation requested and that were not delivered to it.
    waiting: KeyMap<usize, usize>,
}

impl Checker<Groups> for Bounded {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::SentEnvelope { by, to, sent } => {
                let Some(to) = scene.book.membership_of(to.incarnation) else {
                    return Ok(());
                };
                self.window(*by, to, sent)?;
                self.rounds(*by, sent, scene)
            }
            Fact::Received {
                by,
                from,
                sent,
                result: Ok(()),
            } => {
                let (_, taken) = self.pairs.entry((*by, *from)).or_default();
                *taken = sent.taken.max(*taken);
                let view = (sent.group, sent.view);
                let known = self.known.entry((*by, view)).or_default();
                if known.len() <= *from {
                    known.resize(from + 1, 0);
                }
                known[*from] = sent.row.delivered.max(known[*from]);
                Ok(())
            }
            Fact::Queued { at, bytes } => {
                let members = scene.graph.nodes();
                let most = members * WINDOW * ENVELOPE_BYTES;
                forbid(*bytes > most, || {
                    format!(
                        "{bytes} B of envelopes with numbers are in the receive queue of s{at}, \
                         {most} B at most were to be"
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
            Fact::Requested { by, bytes, .. } => {
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
    fn window(&mut self, by: usize, to: usize, sent: &SentEnvelope) -> Verdict {
        let (most, taken) = self.pairs.entry((by, to)).or_default();
        *most = sent.number.max(*most);
        let in_flight = most.saturating_sub(*taken) as usize;
        forbid(in_flight > WINDOW, || {
            format!(
                "{in_flight} envelopes of s{by} are in flight to s{to}, which reported that it \
                 took {taken}: {sent}"
            )
        })
    }

    fn rounds(&self, by: usize, sent: &SentEnvelope, scene: &Scene<'_>) -> Verdict {
        if sent.batch_bytes == 0 {
            return Ok(());
        }
        let view = (sent.group, sent.view);
        let Some(order) = scene.book.orders.get(&view) else {
            return Ok(());
        };
        let members = order.view.members.len() as u64;
        let known = self.known.get(&(by, view)).map_or(&[][..], Vec::as_slice);
        let low = order.view.members.iter().map(|member| {
            match scene.book.membership_of(member.incarnation) {
                Some(membership) if membership == by => sent.row.delivered,
                Some(membership) => known.get(membership).copied().unwrap_or(0),
                None => 0,
            }
        });
        let low = low.min().unwrap_or(0) / members;
        // Null batches follow the reports of other members, which may know more.
        forbid(sent.row.rounds > low + ROUNDS_OPEN, || {
            format!(
                "s{by} reports {} rounds and knows of {low} that all applications took",
                sent.row.rounds
            )
        })
    }
}
