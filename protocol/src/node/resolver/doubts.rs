//! Exchanges of failed links whose outcome is not known yet.
//!
//! Each is in exactly one place: in a list of its peer, in the list of queries of one link, or in a
//! query at one neighbor. Its slot is withheld from its peer until it is settled. The counts of
//! exchanges in doubt and of orphans are those of the marks in the table of the initiator. The
//! caller of an exchange in doubt was notified, and receives one outcome.
//!
//! Exchanges that no caller waits for are still resolved, up to a bound, and their outcomes are
//! kept in [`Names`]. The reply to a query by name therefore does not depend on whether the
//! responder's latch was overwritten since, or on whether the exchange was applied again under
//! another identifier.

use alloc::vec::Vec;

use super::{
    super::{
        Whole,
        exchanges::{
            initiator::{Initiator, List, SentQuery},
            question::{Ending, QUESTION_BYTES, Question, ReceivedAnswer},
        },
        links::Links,
    },
    names::Names,
};
use crate::{
    Answer, ExchangeId, Host, Outcome, QueryError, Refusal,
    clock::Clock,
    event::DownReason,
    exchange::Index,
    latch::Verdict,
    link::{Attachment, Blocked, Link, Part},
    wire::{frame::FrameWriter, slice::Kind},
};

/// The exchanges with one peer that wait.
#[derive(Debug, Clone, Hash)]
struct Waiting {
    /// Open on a link that failed, and not being queried now.
    unresolved: List,
    /// Not executed, as a neighbor reported on behalf of the peer. To be queried once more over a
    /// link to the peer.
    undone: List,
    /// Unresolved exchanges without a waiting caller, kept for later queries.
    orphans: u32,
}

/// See the module.
#[derive(Clone, Hash)]
pub(in crate::node) struct Doubts {
    /// By peer.
    waiting: Vec<Waiting>,
    /// Transactions whose caller was notified that they are in doubt.
    in_doubt: u64,
    /// Transactions that are kept only because they have a name, and how many these may be.
    orphans: u32,
    names_max: u32,
    /// Exchanges that were in doubt, and queries for them.
    names: Names,
    /// Longest reply that this node takes, in bytes.
    reply_bytes_max: usize,
}

impl Doubts {
    /// Nothing is in doubt. Up to `names_max` exchanges are kept for their names.
    pub fn new(names_max: usize, message_bytes_max: usize) -> Self {
        Self {
            waiting: Vec::new(),
            in_doubt: 0,
            orphans: 0,
            names_max: names_max as u32,
            names: Names::new(names_max, message_bytes_max),
            reply_bytes_max: message_bytes_max,
        }
    }

    /// Grows to `peers` peers.
    pub fn grow(&mut self, peers: usize) {
        let waiting = Waiting {
            unresolved: List::new(),
            undone: List::new(),
            orphans: 0,
        };
        self.waiting.resize(peers, waiting);
    }

    /// Exchanges whose caller was notified and has no outcome yet.
    pub const fn in_doubt(&self) -> u64 {
        self.in_doubt
    }

    /// Most queries by name that may wait. As many outcomes are kept.
    pub const fn names_max(&self) -> u32 {
        self.names_max
    }

    /// Entries of the initiator's table that are reserved for exchanges kept for their names.
    pub const fn reserved(&self) -> u32 {
        self.names_max - self.orphans
    }

    /// Whether an exchange with a peer waits for a link to it.
    pub fn waits(&self, peer: usize) -> bool {
        let waiting = &self.waiting[peer];
        !(waiting.unresolved.is_empty() && waiting.undone.is_empty())
    }

    /// Whether one of those waits for a query.
    #[inline]
    pub fn has_unresolved(&self, peer: usize) -> bool {
        !self.waiting[peer].unresolved.is_empty()
    }

    /// Exchanges with a peer that wait for their query, or for a second one.
    pub fn len(&self, peer: usize) -> u32 {
        let waiting = &self.waiting[peer];
        waiting.unresolved.len() + waiting.undone.len()
    }

    /// Whether nothing with a peer waits that a caller waits for.
    pub fn is_idle(&self, peer: usize) -> bool {
        let waiting = &self.waiting[peer];
        waiting.undone.is_empty() && waiting.unresolved.len() == waiting.orphans
    }

    /// Whether exchanges with a peer are kept for their names.
    pub fn has_orphans(&self, peer: usize) -> bool {
        self.waiting[peer].orphans > 0
    }

    /// An exchange became unresolved, or its query brought nothing.
    pub fn push(&mut self, peer: usize, initiator: &mut Initiator, transaction: Index) {
        self.waiting[peer]
            .unresolved
            .push_back(&mut initiator.pool, transaction);
    }

    /// Takes the first unresolved exchange with a peer.
    pub fn pop(&mut self, peer: usize, initiator: &Initiator) -> Option<Index> {
        self.waiting[peer].unresolved.pop_front(&initiator.pool)
    }

    /// Queries the exchanges that neighbors reported as not executed at the peer itself.
    pub fn recall_undone(&mut self, peer: usize, initiator: &mut Initiator) {
        let pool = &mut initiator.pool;
        let Waiting {
            unresolved, undone, ..
        } = &mut self.waiting[peer];
        while let Some(transaction) = undone.pop_front(pool) {
            unresolved.push_back(pool, transaction);
        }
    }

    /// A link failed: its open exchanges, and those queried over it, become unresolved. Returns how
    /// many were open.
    pub fn abandon(&mut self, peer: usize, initiator: &mut Initiator, link: &mut Link) -> u32 {
        let unresolved = &mut self.waiting[peer].unresolved;
        initiator.abandon(link, |pool, transaction| {
            unresolved.push_back(pool, transaction);
        })
    }

    /// Ends an exchange that is in no list and holds no slot.
    pub fn finish(
        &mut self,
        initiator: &mut Initiator,
        transaction: Index,
        outcome: Outcome<'_>,
        clock: &mut Clock,
        host: &mut impl Host,
    ) {
        if !initiator.finish(transaction, outcome, clock, host) {
            self.release(initiator, transaction, outcome.into(), clock, host);
        }
    }

    /// Releases a transaction whose caller knows the outcome or does not need it. Others may still
    /// query it.
    #[cold]
    pub fn release(
        &mut self,
        initiator: &mut Initiator,
        transaction: Index,
        answer: Answer<'_>,
        clock: &Clock,
        host: &mut impl Host,
    ) {
        self.clear_doubt(initiator, transaction);
        let entry = &initiator.pool[transaction];
        let name = entry.name;
        if entry.orphan {
            self.orphans -= 1;
            self.waiting[entry.peer].orphans -= 1;
        }
        initiator.pool.release(transaction);
        if let Some(name) = name {
            host.on_clock(clock.now());
            self.names.end(&name, answer, host);
        }
    }

    fn clear_doubt(&mut self, initiator: &mut Initiator, transaction: Index) {
        let entry = &mut initiator.pool[transaction];
        if entry.in_doubt {
            entry.in_doubt = false;
            self.in_doubt -= 1;
        }
    }

    /// Notifies the callers of unresolved exchanges with a peer to which no link leads. The caller
    /// must have called [`Self::drop_unwanted`].
    pub fn report(
        &mut self,
        peer: usize,
        guid: u64,
        initiator: &mut Initiator,
        clock: &Clock,
        host: &mut impl Host,
    ) {
        host.on_clock(clock.now());
        let Self {
            waiting, in_doubt, ..
        } = self;
        waiting[peer]
            .unresolved
            .for_each(&mut initiator.pool, |transaction| {
                if transaction.in_doubt || transaction.orphan {
                    return;
                }
                transaction.in_doubt = true;
                *in_doubt += 1;
                if transaction.wanted
                    && let Some(unresolved) = transaction.unresolved
                {
                    let id = ExchangeId {
                        peer: guid,
                        port: unresolved.port,
                        epoch: unresolved.epoch,
                        slot: transaction.slot,
                        sequence: unresolved.sequence,
                    };
                    // It may have been applied again since its caller got an identifier.
                    let name = *transaction.name.get_or_insert(id);
                    host.in_doubt(transaction.token, &name);
                }
            });
    }

    /// Drops unresolved exchanges whose outcomes no caller needs, with a peer to which no link
    /// leads: it may never return. Their slots need not be withheld from the peer, because the next
    /// request in a slot shows that the previous exchange has ended. Up to `names_max` exchanges
    /// with an identifier are kept for later queries.
    pub fn drop_unwanted(&mut self, peer: usize, initiator: &mut Initiator, links: &mut Links) {
        let Self {
            waiting,
            in_doubt,
            orphans,
            names_max,
            names,
            ..
        } = self;
        let Waiting {
            unresolved,
            undone,
            orphans: of_peer,
        } = &mut waiting[peer];
        unresolved.retain(&mut initiator.pool, |transaction| {
            if transaction.wanted || transaction.orphan {
                return true;
            }
            *in_doubt -= u64::from(transaction.in_doubt);
            transaction.in_doubt = false;
            if transaction.name.is_some() && *orphans < *names_max {
                transaction.orphan = true;
                *orphans += 1;
                *of_peer += 1;
                return true;
            }
            if let Some(name) = &transaction.name {
                names.note(name, Answer::Forgotten);
            }
            links[transaction.link]
                .outbound
                .settle(transaction.slot, false);
            false
        });
        undone.retain(&mut initiator.pool, |transaction| {
            if !transaction.wanted {
                if let Some(name) = &transaction.name {
                    names.note(name, Answer::Undone);
                }
                links[transaction.link]
                    .outbound
                    .settle(transaction.slot, false);
            }
            transaction.wanted
        });
    }

    /// Gives up the exchanges with a peer, which forgot them or is forgotten. Those were counted at
    /// their links if `counted`.
    pub fn forget(
        &mut self,
        peer: usize,
        counted: bool,
        initiator: &mut Initiator,
        links: &mut Links,
        clock: &mut Clock,
        host: &mut impl Host,
    ) {
        while let Some(transaction) = self.pop(peer, initiator) {
            let link = settle_slot(initiator, transaction, links);
            links[link].counters.forgotten += u64::from(counted);
            self.finish(initiator, transaction, Outcome::PeerRestarted, clock, host);
        }
    }
}

/// Queries over links to the peer itself.
impl Doubts {
    /// Whether one more query may be in flight on a link.
    pub fn may_query(link: &Link, attachment: Attachment) -> bool {
        link.outbound.queried.len() < usize::from(attachment.slots.min(link.slots()))
    }

    /// Writes queries about unresolved exchanges with the peer at the other end of the link `at`.
    #[inline]
    pub fn write_questions(
        &mut self,
        at: usize,
        attachment: Attachment,
        link: &mut Link,
        initiator: &mut Initiator,
        clock: &mut Clock,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        let unresolved = &mut self.waiting[attachment.peer].unresolved;
        while let Some(transaction) = unresolved.first() {
            if !Self::may_query(link, attachment) {
                return Ok(());
            }
            if !link.may_send(writer, QUESTION_BYTES) {
                return Err(Blocked);
            }
            unresolved.pop_front(&initiator.pool);
            let Some(question) = question(initiator, transaction) else {
                continue;
            };
            let bytes = question.to_bytes();
            let piggyback = link.outbound.take_commit();
            let verdict = question.verdict;
            let part = Part {
                piggyback,
                ..Part::whole(Kind::Resolve, verdict.slot, verdict.sequence, &bytes)
            };
            let record_sequence = link.write(writer, clock, &part);
            link.outbound.committing(piggyback, record_sequence);
            initiator.pool[transaction].queried = Some(SentQuery {
                link: at,
                place: link.outbound.queried.len(),
                record_sequence,
            });
            link.outbound.queried.push(transaction);
        }
        Ok(())
    }

    /// A reply arrived on the link `at`: the exchange has ended, or is resubmitted.
    #[cold]
    pub fn on_resolved(
        &mut self,
        at: usize,
        message: Whole<'_>,
        initiator: &mut Initiator,
        links: &mut Links,
        clock: &mut Clock,
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let answer = ReceivedAnswer::read(message.payload, self.reply_bytes_max)
            .filter(|answer| answer.ending != Ending::NoPath)
            .ok_or(DownReason::Violation)?;
        let (slot, sequence) = (message.header.slot, message.header.slot_sequence);
        let is_it = |&transaction: &Index| {
            let entry = &initiator.pool[transaction];
            entry.slot == slot
                && entry.unresolved.is_some_and(|unresolved| {
                    (unresolved.port, unresolved.sequence) == (answer.port, sequence)
                })
        };
        let queried = links[at].outbound.queried.iter().copied().find(is_it);
        let transaction = queried.ok_or(DownReason::Violation)?;
        withdraw_question(initiator, transaction, links);
        if answer.ending == Ending::Forgotten {
            // New exchanges of this slot need a later sequence than the responder holds. Not while
            // another peer is attached: it expects the sequence to advance by one.
            let entry = &initiator.pool[transaction];
            let subject = &mut links[entry.link];
            let is_free = subject
                .attachment()
                .is_none_or(|attachment| attachment.peer == entry.peer);
            if is_free {
                subject.outbound.advance(slot, answer.current);
            }
        }
        let is_wanted = initiator.pool[transaction].wanted;
        match answer.ending {
            Ending::Undone | Ending::NeverSeen if is_wanted => {
                let link = settle_slot(initiator, transaction, links);
                links[link]
                    .counters
                    .count_undone(answer.ending == Ending::NeverSeen);
                self.clear_doubt(initiator, transaction);
                initiator.apply_again(transaction);
            }
            _ => self.resolve(transaction, &answer, initiator, links, clock, host),
        }
        Ok(())
    }

    /// A neighbor reports that the peer did not execute an exchange that a caller waits for. The
    /// doubt is over. A resubmission needs a link to the peer and a reply of the peer itself.
    pub fn hold_undone(&mut self, peer: usize, initiator: &mut Initiator, transaction: Index) {
        self.clear_doubt(initiator, transaction);
        self.waiting[peer]
            .undone
            .push_back(&mut initiator.pool, transaction);
    }

    /// Ends an exchange as reported by the responder, or by a neighbor that queried it. One that
    /// was not executed has no waiting caller.
    pub fn resolve(
        &mut self,
        transaction: Index,
        answer: &ReceivedAnswer<'_>,
        initiator: &mut Initiator,
        links: &mut Links,
        clock: &mut Clock,
        host: &mut impl Host,
    ) {
        let link = settle_slot(initiator, transaction, links);
        let counters = &mut links[link].counters;
        let outcome = match answer.ending {
            Ending::Undone | Ending::NeverSeen => {
                let never_seen = answer.ending == Ending::NeverSeen;
                counters.count_undone(never_seen);
                let answer = if never_seen {
                    Answer::NeverSeen
                } else {
                    Answer::Undone
                };
                self.release(initiator, transaction, answer, clock, host);
                return;
            }
            Ending::Committed => {
                counters.committed += 1;
                Outcome::Committed(answer.reply)
            }
            Ending::Refused => {
                counters.refused += 1;
                Outcome::Refused(Refusal::from_byte(answer.refusal))
            }
            Ending::Forgotten | Ending::NoPath => {
                counters.forgotten += 1;
                Outcome::PeerRestarted
            }
        };
        counters.resolved += 1;
        self.finish(initiator, transaction, outcome, clock, host);
    }
}

/// Queries of callers, by name.
impl Doubts {
    /// Queries the outcome of the exchange `name` for `token`. `has_link`: whether a link to a peer
    /// is up.
    pub fn query(
        &mut self,
        name: &ExchangeId,
        token: u64,
        has_link: impl Fn(usize) -> bool,
        initiator: &Initiator,
        host: &mut impl Host,
    ) -> Result<(), QueryError> {
        if let Some(answer) = self.names.get(name) {
            host.answered(token, answer);
            return Ok(());
        }
        let Some(found) = initiator
            .pool
            .live()
            .find(|entry| entry.name == Some(*name))
        else {
            host.answered(token, Answer::Forgotten);
            return Ok(());
        };
        let no_path = found.in_doubt || (found.orphan && !has_link(found.peer));
        if !self.names.wait(token, name) {
            return Err(QueryError::Full);
        }
        if no_path {
            host.in_doubt(token, name);
        }
        Ok(())
    }

    /// Cancels the queries by name whose token `filter` accepts.
    pub fn cancel(&mut self, filter: impl FnMut(u64) -> bool) {
        self.names.cancel(filter);
    }

    /// An exchange that waited to be applied again was dropped.
    pub fn note_undone(&mut self, name: &ExchangeId) {
        self.names.note(name, Answer::Undone);
    }

    /// Answers queries by name for exchanges whose end no caller was notified of.
    pub fn report_names(&mut self, initiator: &Initiator, host: &mut impl Host) {
        let pool = &initiator.pool;
        let is_live = |name: &_| pool.live().any(|entry| entry.name == Some(*name));
        self.names.report(is_live, host);
    }
}

/// The question about an unresolved transaction.
pub(super) fn question(initiator: &Initiator, transaction: Index) -> Option<Question> {
    let entry = &initiator.pool[transaction];
    entry.unresolved.map(|unresolved| Question {
        verdict: Verdict {
            port: unresolved.port,
            epoch: unresolved.epoch,
            slot: entry.slot,
            sequence: unresolved.sequence,
        },
        commit: unresolved.commit,
    })
}

/// Ends the claim of an unresolved exchange on its slot and returns the link that it was open on.
/// The slot was withheld only from the exchange's own peer, so it is already free where another
/// peer is cabled.
fn settle_slot(initiator: &mut Initiator, transaction: Index, links: &mut Links) -> usize {
    let entry = &mut initiator.pool[transaction];
    entry.unresolved = None;
    let link = &mut links[entry.link];
    let withheld = link.leads_to(entry.peer);
    link.outbound.settle(entry.slot, withheld);
    entry.link
}

/// Removes a transaction from the list of transactions being queried.
fn withdraw_question(initiator: &mut Initiator, transaction: Index, links: &mut Links) {
    let Some(queried) = initiator.pool[transaction].queried.take() else {
        return;
    };
    let list = &mut links[queried.link].outbound.queried;
    list.swap_remove(queried.place);
    if let Some(&moved) = list.get(queried.place)
        && let Some(moved) = &mut initiator.pool[moved].queried
    {
        moved.place = queried.place;
    }
}

#[cfg(feature = "arbitrary-state")]
impl Doubts {
    /// An entry was drawn as unresolved, with or without a query in flight.
    pub fn scramble(&mut self, initiator: &mut Initiator, transaction: Index) {
        let entry = &initiator.pool[transaction];
        self.in_doubt += u64::from(entry.in_doubt);
        if entry.queried.is_none() {
            self.push(entry.peer, initiator, transaction);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mode, node::exchanges::initiator::Unresolved};

    /// Unresolved exchanges of the only peer, and whether a caller wants each.
    fn doubts_with(wanted: &[bool]) -> (Doubts, Initiator, Links) {
        let mut initiator = Initiator::new(8, 8);
        initiator.grow(1);
        let mut doubts = Doubts::new(1, 8);
        doubts.grow(1);
        let mut links = Links::new();
        links.push(Link::new(0, [0; 6], 8, 64, 0));
        let slots = wanted.len() as u8;
        links[0].outbound.enter_epoch(slots);
        for (token, wanted) in wanted.iter().enumerate() {
            initiator
                .submit(0, Mode::OnePhase, &[1], token as u64)
                .expect("there is room");
            let transaction = initiator.unqueue(0).expect("it was queued");
            let taken = links[0]
                .outbound
                .take(transaction, crate::link::outbound::Progress::Executing);
            let (slot, sequence) = taken.expect("a slot is free");
            let entry = &mut initiator.pool[transaction];
            entry.slot = slot;
            entry.wanted = *wanted;
            entry.name = (!wanted).then_some(ExchangeId {
                peer: 1,
                port: 0,
                epoch: 1,
                slot,
                sequence,
            });
            entry.unresolved = Some(Unresolved {
                port: 0,
                sequence,
                epoch: 1,
                commit: false,
            });
            doubts.push(0, &mut initiator, transaction);
        }
        (doubts, initiator, links)
    }

    #[test]
    fn orphans_are_kept_up_to_the_bound_and_the_rest_is_dropped() {
        let (mut doubts, mut initiator, mut links) = doubts_with(&[false, true, false]);
        let free = initiator.pool.free();
        doubts.drop_unwanted(0, &mut initiator, &mut links);
        assert_eq!((doubts.len(0), doubts.reserved()), (2, 0));
        assert_eq!(initiator.pool.free(), free + 1, "the second orphan is gone");
        assert_eq!(links[0].outbound.open(), 2, "and its slot is settled");
        assert!(doubts.has_orphans(0) && !doubts.is_idle(0), "one is wanted");
        let marks = initiator.pool.live().filter(|entry| entry.orphan).count();
        assert_eq!(marks, 1);
    }

    #[test]
    fn a_question_names_the_port_epoch_slot_and_sequence() {
        let (mut doubts, initiator, _) = doubts_with(&[true]);
        let transaction = doubts.pop(0, &initiator).expect("one is unresolved");
        let question = question(&initiator, transaction).expect("it is unresolved");
        let entry = &initiator.pool[transaction];
        assert_eq!(question.verdict.slot, entry.slot);
        assert_eq!((question.verdict.port, question.verdict.epoch), (0, 1));
        assert_eq!(question.verdict.sequence, 1);
        assert!(!doubts.waits(0));
    }
}
