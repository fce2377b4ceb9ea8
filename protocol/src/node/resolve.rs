//! Resolution: after a link failed, the initiator asks over any link to the same peer how each open exchange ended.
//!
//! A question names the initiator's port, the slot and its sequence. The responder *latches* its answer: what it called
//! undone will never be executed, though the request itself may still be under way on the failed link. So a question may
//! be asked again over any link, and needs no slot of its own.
//!
//! ```text
//!  question  ├ port u16 ┼ commit u8 ┼ 0 ┤
//!  answer    ├ port u16 ┼ ending u8 ┼ refusal u8 ┼ sequence the slot stands at, u32 ┼ reply… ┤
//! ```

use super::Node;
use crate::{
    Host, Outcome, Refusal,
    event::DownReason,
    latch::{LatchSet, Standing},
    link::Verdict,
    transaction::Index,
    wire::record::Header,
};

pub(super) const QUESTION_BYTES: usize = 4;
/// Bytes of an answer before the reply.
pub(super) const ANSWER_BYTES: usize = 8;

/// How an exchange ended, on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Ending {
    /// Never seen, or reversed: nothing was executed and nothing will be.
    Undone = 0,
    /// Executed; the reply follows.
    Committed = 1,
    /// Refused at message 1.
    Refused = 2,
    /// The responder no longer knows, or holds another sequence for the slot.
    Forgotten = 3,
}

impl Ending {
    const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Undone,
            1 => Self::Committed,
            2 => Self::Refused,
            3 => Self::Forgotten,
            _ => return None,
        })
    }
}

/// Writes the question about an exchange that was open on the port `port`.
pub(super) fn question(port: u16, commit: bool) -> [u8; QUESTION_BYTES] {
    let [low, high] = port.to_le_bytes();
    [low, high, u8::from(commit), 0]
}

impl Node {
    /// A question arrived: settle the exchange that it names, for good, and have the answer sent.
    #[cold]
    pub(super) fn on_resolve(
        &mut self,
        at: usize,
        header: &Header,
        payload: &[u8],
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let attachment = self.links[at].attachment.ok_or(DownReason::Violation)?;
        let slots = usize::from(self.links[at].slots());
        let (number, sequence) = (header.slot, header.slot_sequence);
        // As many questions may be under way as the peer has slots here.
        let &[port_low, port_high, commit, _] = payload else {
            return Err(DownReason::Violation);
        };
        if usize::from(number) >= slots || self.links[at].verdicts.len() >= slots {
            return Err(DownReason::Violation);
        }
        let port = u16::from_le_bytes([port_low, port_high]);
        let commit = commit != 0;
        let reply_bytes_max = self.message_bytes_max(attachment.peer);
        if let Some(set) = self.remembered_set(attachment.peer, port) {
            let Self {
                links,
                peers,
                latches,
                reply,
                ..
            } = self;
            let set = &mut latches[set];
            let latch = &mut set.latches[usize::from(number)];
            if !commit && latch.never_saw(sequence) {
                latch.sequence = sequence;
                latch.standing = Standing::Undone;
            } else if latch.sequence == sequence && latch.standing == Standing::Tentative {
                let id = latch.id(peers[attachment.peer].guid, port, number);
                if commit {
                    reply.begin(reply_bytes_max);
                    host.execute(&id, set.bytes(number), reply);
                    set.commit(number, reply, true);
                    links[at].counters.executed += 1;
                } else {
                    latch.standing = Standing::Undone;
                    host.reverse(&id, set.bytes(number));
                }
            }
        }
        self.links[at].verdicts.push_back(Verdict {
            port,
            slot: number,
            sequence,
        });
        Ok(())
    }

    /// What the answer to a question says before the reply, and the reply.
    pub(super) fn answer(set: Option<&LatchSet>, verdict: Verdict) -> ([u8; ANSWER_BYTES], &[u8]) {
        let latch = set.and_then(|set| set.latches.get(usize::from(verdict.slot)));
        let (ending, refusal) = match latch {
            Some(latch) if latch.sequence == verdict.sequence => match latch.standing {
                Standing::Undone => (Ending::Undone, 0),
                Standing::Committed { .. } => (Ending::Committed, 0),
                Standing::Refused(refusal) => (Ending::Refused, refusal.to_byte()),
                Standing::Virgin | Standing::Forgotten | Standing::Tentative => {
                    (Ending::Forgotten, 0)
                }
            },
            _ => (Ending::Forgotten, 0),
        };
        let current = latch
            .filter(|latch| !latch.is_blank())
            .map_or(verdict.sequence, |latch| latch.sequence);
        let mut head = [0; ANSWER_BYTES];
        head[0..2].copy_from_slice(&verdict.port.to_le_bytes());
        head[2] = ending as u8;
        head[3] = refusal;
        head[4..8].copy_from_slice(&current.to_le_bytes());
        let reply = match (ending, set) {
            (Ending::Committed, Some(set)) => set.bytes(verdict.slot),
            _ => &[],
        };
        (head, reply)
    }

    /// An answer arrived: the exchange has ended, or starts afresh.
    #[cold]
    pub(super) fn on_resolved(
        &mut self,
        at: usize,
        header: &Header,
        payload: &[u8],
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let Some((&[port_low, port_high, ending, refusal, ref current @ ..], reply)) =
            payload.split_first_chunk::<ANSWER_BYTES>()
        else {
            return Err(DownReason::Violation);
        };
        let ending = Ending::from_byte(ending).ok_or(DownReason::Violation)?;
        if reply.len() > usize::from(self.config.message_bytes_max) {
            return Err(DownReason::Violation);
        }
        let current = u32::from_le_bytes(*current);
        let transaction = self
            .asked(
                at,
                u16::from_le_bytes([port_low, port_high]),
                header.slot,
                header.slot_sequence,
            )
            .ok_or(DownReason::Violation)?;
        self.withdraw_question(transaction);
        let link = self.settle_slot(transaction);
        let counters = &mut self.links[link].counters;
        counters.resolved += 1;
        match ending {
            Ending::Undone => {
                counters.reversed += 1;
                self.clear_doubt(transaction);
                let peer = self.transactions[transaction].peer;
                if self.transactions[transaction].wanted {
                    // It is older than everything that was never sent.
                    self.peers[peer]
                        .queue
                        .push_front(&mut self.transactions, transaction);
                } else {
                    self.transactions.release(transaction);
                }
            }
            Ending::Committed => {
                counters.committed += 1;
                self.finish(transaction, Outcome::Committed(reply), host);
            }
            Ending::Refused => {
                counters.refused += 1;
                self.finish(
                    transaction,
                    Outcome::Refused(Refusal::from_byte(refusal)),
                    host,
                );
            }
            Ending::Forgotten => {
                counters.forgotten += 1;
                // Exchanges of this slot must come after whatever the responder holds for it. Not while another peer is
                // cabled there, who counts on the sequence to advance by one.
                let peer = self.transactions[transaction].peer;
                let subject = &mut self.links[link];
                if subject
                    .attachment
                    .is_none_or(|attachment| attachment.peer == peer)
                {
                    subject.outbound.advance(header.slot, current);
                }
                self.finish(transaction, Outcome::PeerRestarted, host);
            }
        }
        Ok(())
    }

    /// The transaction that was asked about on the link `at` and is named by the rest.
    fn asked(&self, at: usize, port: u16, number: u8, sequence: u32) -> Option<Index> {
        let link = self.link_of(port)?;
        self.links[at].asked.iter().copied().find(|&transaction| {
            let entry = &self.transactions[transaction];
            (entry.link, entry.slot) == (link, number)
                && entry
                    .unresolved
                    .is_some_and(|unresolved| unresolved.sequence == sequence)
        })
    }

    /// Takes a transaction off the list of those being asked about.
    fn withdraw_question(&mut self, transaction: Index) {
        let Some(asked) = self.transactions[transaction].asked.take() else {
            return;
        };
        let list = &mut self.links[asked.link].asked;
        list.swap_remove(asked.place);
        if let Some(&moved) = list.get(asked.place)
            && let Some(moved) = &mut self.transactions[moved].asked
        {
            moved.place = asked.place;
        }
    }
}
