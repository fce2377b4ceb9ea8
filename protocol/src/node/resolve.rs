//! Resolution: after a link failed, the initiator queries the outcome of each open exchange over
//! any link to the same peer.
//!
//! A query names the initiator's port, the epoch, the slot and its sequence. The responder
//! *latches* its reply: an exchange reported as undone is never executed, even if its request is
//! still in flight on the failed link. A query may therefore be repeated over any link and needs no
//! slot of its own. Where no link leads to the peer, a neighbor relays the query
//! ([`super::relay`]).
//!
//! ```text
//!  question  ├ port u16 ┼ commit u8 ┼ 0 ┼ epoch u32 ┤
//!  answer    ├ port u16 ┼ ending u8 ┼ refusal u8 ┼ sequence the slot stands at, u32 ┼ reply… ┤
//! ```

use super::Node;
use crate::{
    Host, Outcome, Refusal,
    event::DownReason,
    host::Answer,
    latch::{LatchSet, Standing, Verdict},
    transaction::Index,
    wire::record::Header,
};

pub(super) const QUESTION_BYTES: usize = 8;
pub(super) const ANSWER_BYTES: usize = 8;

/// How an exchange ended, on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(super) enum Ending {
    /// Reversed: nothing was executed and nothing will be.
    Undone = 0,
    /// Executed; the reply follows.
    Committed = 1,
    /// Refused at message 1.
    Refused = 2,
    /// The responder no longer knows, or holds another exchange for the slot.
    Forgotten = 3,
    /// The request never arrived: nothing was executed and nothing will be.
    NeverSeen = 4,
    /// The queried neighbor has no path to the responder now, or the responder does not know the
    /// initiator yet. Gives no information about the exchange.
    NoPath = 5,
}

impl Ending {
    const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Undone,
            1 => Self::Committed,
            2 => Self::Refused,
            3 => Self::Forgotten,
            4 => Self::NeverSeen,
            5 => Self::NoPath,
            _ => return None,
        })
    }
}

/// A query about an exchange of a known initiator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Question {
    /// The exchange.
    pub verdict: Verdict,
    /// The initiator received message 2: the responder must commit the request if it still holds
    /// it.
    pub commit: bool,
}

impl Question {
    /// The payload of [`Kind::Resolve`](crate::wire::slice::Kind::Resolve): everything besides slot
    /// and sequence.
    pub const fn to_bytes(self) -> [u8; QUESTION_BYTES] {
        let [low, high] = self.verdict.port.to_le_bytes();
        let [e0, e1, e2, e3] = self.verdict.epoch.to_le_bytes();
        [low, high, self.commit as u8, 0, e0, e1, e2, e3]
    }
}

/// An answer as it arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReceivedAnswer<'a> {
    pub port: u16,
    pub ending: Ending,
    pub refusal: u8,
    /// The sequence that the slot stands at.
    pub current: u32,
    pub reply: &'a [u8],
}

impl<'a> ReceivedAnswer<'a> {
    fn read(payload: &'a [u8]) -> Option<Self> {
        let (&[port_low, port_high, ending, refusal, ref current @ ..], reply) =
            payload.split_first_chunk::<ANSWER_BYTES>()?;
        Some(Self {
            port: u16::from_le_bytes([port_low, port_high]),
            ending: Ending::from_byte(ending)?,
            refusal,
            current: u32::from_le_bytes(*current),
            reply,
        })
    }
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
        let attachment = self.links[at].attachment().ok_or(DownReason::Violation)?;
        // The exchange may have been on a link of more slots than this one.
        let slots = usize::from(self.links[at].slots());
        let &[port_low, port_high, commit, _, ref epoch @ ..] = payload else {
            return Err(DownReason::Violation);
        };
        let question = Question {
            verdict: Verdict {
                port: u16::from_le_bytes([port_low, port_high]),
                epoch: u32::from_le_bytes(epoch.try_into().map_err(|_| DownReason::Violation)?),
                slot: header.slot,
                sequence: header.slot_sequence,
            },
            commit: commit != 0,
        };
        // A peer may have as many queries in flight as it has slots here.
        if header.slot >= self.config.slots || self.links[at].inbound.questions() >= slots {
            return Err(DownReason::Violation);
        }
        self.settle(at, attachment.peer, question, host);
        let verdict = question.verdict;
        let withheld = self.is_withheld(attachment.peer, verdict);
        self.links[at].inbound.report(verdict, withheld);
        Ok(())
    }

    /// Settles for good the exchange of `peer` that a query on the link `at` names. It is committed
    /// if the query requests that, or else will never be executed. The slot must exist.
    pub(super) fn settle(
        &mut self,
        at: usize,
        peer: usize,
        question: Question,
        host: &mut impl Host,
    ) {
        let Question { verdict, commit } = question;
        let reply_bytes_max = self.message_bytes_max(peer);
        let Some(set) = self.remembered_set(at, peer, verdict) else {
            return;
        };
        let Self {
            links,
            peers,
            latches,
            reply,
            clock,
            ..
        } = self;
        let set = &mut latches[set];
        let guid = peers[peer].guid;
        let Some(latch) = set.latches.get_mut(usize::from(verdict.slot)) else {
            return;
        };
        if !commit && latch.never_saw(&verdict) {
            if latch.standing == Standing::Tentative {
                // The initiator no longer knows the earlier exchange, or it would not have reused
                // the slot.
                let id = latch.id(guid, verdict.port, verdict.slot);
                host.reverse(&id, set.bytes(verdict.slot));
            }
            let latch = &mut set.latches[usize::from(verdict.slot)];
            latch.sequence = verdict.sequence;
            latch.epoch = verdict.epoch;
            latch.standing = Standing::NeverSeen;
            set.record_query(verdict.slot);
        } else if latch.is_of(&verdict) {
            if latch.standing == Standing::Tentative {
                let id = latch.id(guid, verdict.port, verdict.slot);
                if commit {
                    reply.begin(reply_bytes_max, clock.execute());
                    let execution = host.execute(&id, set.bytes(verdict.slot), reply);
                    set.commit(verdict.slot, reply, true, execution);
                    links[at].counters.executed += 1;
                } else {
                    latch.standing = Standing::Undone;
                    host.reverse(&id, set.bytes(verdict.slot));
                }
            }
            set.record_query(verdict.slot);
        }
    }

    /// The header of the reply to a query, and the reply of the exchange.
    pub(super) fn answer(set: Option<&LatchSet>, verdict: Verdict) -> ([u8; ANSWER_BYTES], &[u8]) {
        let latch = set.and_then(|set| set.latches.get(usize::from(verdict.slot)));
        let (ending, refusal) = match latch {
            Some(latch) if latch.is_of(&verdict) => match latch.standing {
                Standing::NeverSeen => (Ending::NeverSeen, 0),
                Standing::Undone => (Ending::Undone, 0),
                Standing::Committed { .. } => (Ending::Committed, 0),
                Standing::Refused(refusal) => (Ending::Refused, refusal.to_byte()),
                Standing::Empty
                | Standing::Forgotten
                | Standing::ForgottenUntil
                | Standing::Tentative => (Ending::Forgotten, 0),
            },
            _ => (Ending::Forgotten, 0),
        };
        let current = latch
            .filter(|latch| !latch.is_blank())
            .map_or(verdict.sequence, |latch| latch.sequence);
        let reply = match (ending, set) {
            (Ending::Committed, Some(set)) => set.bytes(verdict.slot),
            _ => &[],
        };
        (
            Self::answer_header(verdict.port, ending, refusal, current),
            reply,
        )
    }

    pub(super) const fn answer_header(
        port: u16,
        ending: Ending,
        refusal: u8,
        current: u32,
    ) -> [u8; ANSWER_BYTES] {
        let [low, high] = port.to_le_bytes();
        let [c0, c1, c2, c3] = current.to_le_bytes();
        [low, high, ending as u8, refusal, c0, c1, c2, c3]
    }

    /// A reply arrived: the exchange has ended, or is resubmitted.
    #[cold]
    pub(super) fn on_resolved(
        &mut self,
        at: usize,
        header: &Header,
        payload: &[u8],
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let received_answer = self.read_answer(payload).ok_or(DownReason::Violation)?;
        let (slot, sequence) = (header.slot, header.slot_sequence);
        let transaction = self
            .queried(at, received_answer.port, slot, sequence)
            .filter(|_| received_answer.ending != Ending::NoPath)
            .ok_or(DownReason::Violation)?;
        self.withdraw_question(transaction);
        if received_answer.ending == Ending::Forgotten {
            // New exchanges of this slot need a later sequence than the responder holds. Not while
            // another peer is attached: it expects the sequence to advance by one.
            let entry = &self.transactions[transaction];
            let subject = &mut self.links[entry.link];
            let is_free = subject
                .attachment()
                .is_none_or(|attachment| attachment.peer == entry.peer);
            if is_free {
                subject.outbound.advance(slot, received_answer.current);
            }
        }
        if matches!(received_answer.ending, Ending::Undone | Ending::NeverSeen) {
            self.apply_again(transaction, received_answer.ending, host);
        } else {
            self.resolve(transaction, &received_answer, host);
        }
        Ok(())
    }

    /// `None` for bytes that no node sends.
    pub(super) fn read_answer<'a>(&self, payload: &'a [u8]) -> Option<ReceivedAnswer<'a>> {
        ReceivedAnswer::read(payload).filter(|received_answer| {
            received_answer.reply.len() <= usize::from(self.config.message_bytes_max)
        })
    }

    /// The responder reports that it did not execute an exchange and never will.
    fn apply_again(&mut self, transaction: Index, ending: Ending, host: &mut impl Host) {
        if !self.transactions[transaction].wanted {
            self.give_up(transaction, ending, host);
            return;
        }
        let link = self.settle_slot(transaction);
        self.links[link]
            .counters
            .count_undone(ending == Ending::NeverSeen);
        self.clear_doubt(transaction);
        // It is older than everything that was never sent.
        let peer = self.transactions[transaction].peer;
        self.peers[peer]
            .queue
            .push_front(&mut self.transactions, transaction);
    }

    /// An exchange without a waiting caller was not executed, so it has ended.
    pub(super) fn give_up(&mut self, transaction: Index, ending: Ending, host: &mut impl Host) {
        let link = self.settle_slot(transaction);
        self.links[link]
            .counters
            .count_undone(ending == Ending::NeverSeen);
        let answer = if ending == Ending::NeverSeen {
            Answer::NeverSeen
        } else {
            Answer::Undone
        };
        self.release(transaction, answer, host);
    }

    /// Ends an exchange as reported by the responder, or by a neighbor that queried it.
    pub(super) fn resolve(
        &mut self,
        transaction: Index,
        received_answer: &ReceivedAnswer<'_>,
        host: &mut impl Host,
    ) {
        let link = self.settle_slot(transaction);
        let counters = &mut self.links[link].counters;
        counters.resolved += 1;
        match received_answer.ending {
            Ending::Committed => {
                counters.committed += 1;
                self.finish(transaction, Outcome::Committed(received_answer.reply), host);
            }
            Ending::Refused => {
                counters.refused += 1;
                let refusal = Refusal::from_byte(received_answer.refusal);
                self.finish(transaction, Outcome::Refused(refusal), host);
            }
            _ => {
                counters.forgotten += 1;
                self.finish(transaction, Outcome::PeerRestarted, host);
            }
        }
    }

    /// The question about an unresolved transaction.
    pub(super) fn question(&self, transaction: Index) -> Option<Question> {
        let entry = &self.transactions[transaction];
        entry.unresolved.map(|unresolved| Question {
            verdict: Verdict {
                port: self.links[entry.link].port,
                epoch: unresolved.epoch,
                slot: entry.slot,
                sequence: unresolved.sequence,
            },
            commit: unresolved.commit,
        })
    }

    /// The transaction that was queried on the link `at` and has this port, slot and sequence.
    fn queried(&self, at: usize, port: u16, number: u8, sequence: u32) -> Option<Index> {
        let link = self.any_link_of(port)?;
        self.links[at]
            .outbound
            .queried
            .iter()
            .copied()
            .find(|&transaction| {
                let entry = &self.transactions[transaction];
                (entry.link, entry.slot) == (link, number)
                    && entry
                        .unresolved
                        .is_some_and(|unresolved| unresolved.sequence == sequence)
            })
    }

    /// Removes a transaction from the list of transactions being queried.
    fn withdraw_question(&mut self, transaction: Index) {
        let Some(queried) = self.transactions[transaction].queried.take() else {
            return;
        };
        let list = &mut self.links[queried.link].outbound.queried;
        list.swap_remove(queried.place);
        if let Some(&moved) = list.get(queried.place)
            && let Some(moved) = &mut self.transactions[moved].queried
        {
            moved.place = queried.place;
        }
    }
}
