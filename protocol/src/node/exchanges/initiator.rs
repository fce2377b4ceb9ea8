//! The exchanges that this node started: a table of fixed size.
//!
//! Each entry is in exactly one place: free, in the queue of its peer, in a slot of a link, or
//! unresolved, which is the [`Resolver`](super::super::resolver)'s. A slot has one exchange at a
//! time, whose sequence follows that of the last one. An outcome is reported once, to the caller
//! that still wants it.

use alloc::{vec, vec::Vec};
use core::hash::{Hash, Hasher};

use crate::{
    ExchangeId, Host, Outcome, Refusal, SubmitError,
    clock::Clock,
    event::DownReason,
    exchange::Index,
    link::{
        Blocked, Link, Part,
        outbound::{OutSlot, Progress},
    },
    mode::Mode,
    payloads::Payloads,
    wire::{FRAME_PAYLOAD_BYTES_MAX, frame::FrameWriter, record::Header, slice::Kind},
};

const NONE: Index = Index::MAX;

/// One exchange that this node started and whose outcome its caller does not have yet.
#[derive(Debug, Clone, Hash)]
pub(in crate::node) struct Transaction {
    pub token: u64,
    pub peer: usize,
    pub mode: Mode,
    /// A caller still needs the outcome.
    pub wanted: bool,
    /// The caller received an in-doubt report and no outcome yet.
    pub in_doubt: bool,
    /// The name by which the caller may query it: the name it had when it was first in doubt.
    pub name: Option<ExchangeId>,
    /// It has no waiting caller, but it has a name and no path to its outcome, so it is kept for
    /// later queries.
    pub orphan: bool,
    /// Link and slot that it took, while it is open or unresolved.
    pub link: usize,
    pub slot: u8,
    /// Set from the failure of that link until the outcome is known. The slot itself is then free
    /// for other peers.
    pub unresolved: Option<Unresolved>,
    /// The link on which it is queried, and its position in the list of that link.
    pub queried: Option<SentQuery>,
    len: u16,
    next: Index,
    live: bool,
}

/// The data that a query about an exchange of a failed link needs besides the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::node) struct Unresolved {
    /// The port of the link that it was open on.
    pub port: u16,
    /// Its sequence in its slot.
    pub sequence: u32,
    /// The epoch that it was open in.
    pub epoch: u32,
    /// Message 2 had been received: the peer must commit.
    pub commit: bool,
}

/// A query about a transaction, in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::node) struct SentQuery {
    /// The link that carries it.
    pub link: usize,
    /// Its place in that link's list.
    pub place: usize,
    /// The record that carried it.
    pub record_sequence: u32,
}

/// Transactions and their payloads. Payloads are stored separately, so that a walk over the
/// transactions touches few cache lines.
#[derive(Clone)]
pub(in crate::node) struct Pool {
    entries: Vec<Transaction>,
    payloads: Payloads,
    free: List,
}

/// A queue of transactions of one pool, linked through the entries. A transaction is in at most one
/// list at a time.
#[derive(Debug, Clone, Copy, Hash)]
pub(in crate::node) struct List {
    head: Index,
    tail: Index,
    len: u32,
}

impl List {
    pub const fn new() -> Self {
        Self {
            head: NONE,
            tail: NONE,
            len: 0,
        }
    }

    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub const fn len(&self) -> u32 {
        self.len
    }

    /// The first, left where it is.
    #[inline]
    pub const fn first(&self) -> Option<Index> {
        if self.head == NONE {
            None
        } else {
            Some(self.head)
        }
    }

    #[inline]
    pub fn push_back(&mut self, pool: &mut Pool, index: Index) {
        pool[index].next = NONE;
        if self.tail == NONE {
            self.head = index;
        } else {
            pool[self.tail].next = index;
        }
        self.tail = index;
        self.len += 1;
    }

    pub fn push_front(&mut self, pool: &mut Pool, index: Index) {
        pool[index].next = self.head;
        if self.head == NONE {
            self.tail = index;
        }
        self.head = index;
        self.len += 1;
    }

    #[inline]
    pub fn pop_front(&mut self, pool: &Pool) -> Option<Index> {
        let index = self.first()?;
        self.head = pool[index].next;
        if self.head == NONE {
            self.tail = NONE;
        }
        self.len -= 1;
        Some(index)
    }

    /// Calls `visit` for each.
    pub fn for_each(&self, pool: &mut Pool, mut visit: impl FnMut(&mut Transaction)) {
        let mut at = self.head;
        while at != NONE {
            let entry = &mut pool[at];
            at = entry.next;
            visit(entry);
        }
    }

    /// Removes the transactions that `keep` rejects from the list and the pool.
    pub fn retain(&mut self, pool: &mut Pool, mut keep: impl FnMut(&mut Transaction) -> bool) {
        let mut rest = core::mem::replace(self, Self::new());
        while let Some(index) = rest.pop_front(pool) {
            if keep(&mut pool[index]) {
                self.push_back(pool, index);
            } else {
                pool.release(index);
            }
        }
    }
}

impl Pool {
    /// A pool for `capacity` transactions with payloads of up to `payload_bytes_max` bytes.
    pub fn new(capacity: usize, payload_bytes_max: usize) -> Self {
        let capacity = capacity.min(NONE as usize);
        let entry = Transaction {
            token: 0,
            peer: 0,
            mode: Mode::OnePhase,
            wanted: false,
            in_doubt: false,
            name: None,
            orphan: false,
            link: 0,
            slot: 0,
            unresolved: None,
            queried: None,
            len: 0,
            next: NONE,
            live: false,
        };
        let mut pool = Self {
            entries: vec![entry; capacity],
            payloads: Payloads::new(capacity, payload_bytes_max),
            free: List::new(),
        };
        let mut free = List::new();
        for index in 0..capacity as Index {
            free.push_back(&mut pool, index);
        }
        pool.free = free;
        pool
    }

    /// Takes a free entry and fills it; `None` when all are taken. `payload` must fit.
    #[inline]
    pub fn take(&mut self, token: u64, peer: usize, mode: Mode, payload: &[u8]) -> Option<Index> {
        let mut free = self.free;
        let index = free.pop_front(self)?;
        self.free = free;
        self.payloads.set(index as usize, payload);
        let entry = &mut self[index];
        entry.token = token;
        entry.peer = peer;
        entry.mode = mode;
        entry.wanted = true;
        entry.in_doubt = false;
        entry.name = None;
        entry.orphan = false;
        entry.unresolved = None;
        entry.queried = None;
        entry.len = payload.len() as u16;
        entry.live = true;
        Some(index)
    }

    /// Gives an entry back. It must be in no list.
    #[inline]
    pub fn release(&mut self, index: Index) {
        self[index].live = false;
        let mut free = self.free;
        // The last one used is the one in the cache.
        free.push_front(self, index);
        self.free = free;
    }

    #[inline]
    pub fn payload(&self, index: Index) -> &[u8] {
        self.payloads.get(index as usize, self.payload_bytes(index))
    }

    /// Length of a payload, in bytes.
    #[inline]
    pub fn payload_bytes(&self, index: Index) -> usize {
        usize::from(self[index].len)
    }

    /// All entries that are taken.
    pub fn live(&self) -> impl Iterator<Item = &Transaction> {
        self.entries.iter().filter(|entry| entry.live)
    }

    /// All entries that are taken.
    pub fn live_mut(&mut self) -> impl Iterator<Item = &mut Transaction> {
        self.entries.iter_mut().filter(|entry| entry.live)
    }

    /// Entries that are free.
    pub const fn free(&self) -> u32 {
        self.free.len()
    }
}

/// The entry of a transaction counts. Leftovers of earlier transactions do not.
impl Hash for Pool {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for index in (0..self.entries.len() as Index).filter(|&index| self[index].live) {
            (index, &self[index], self.payload(index)).hash(state);
        }
    }
}

impl core::ops::Index<Index> for Pool {
    type Output = Transaction;

    #[inline]
    fn index(&self, index: Index) -> &Transaction {
        &self.entries[index as usize]
    }
}

impl core::ops::IndexMut<Index> for Pool {
    #[inline]
    fn index_mut(&mut self, index: Index) -> &mut Transaction {
        &mut self.entries[index as usize]
    }
}

/// See the module.
#[derive(Clone, Hash)]
pub(in crate::node) struct Initiator {
    pub pool: Pool,
    /// By peer: never sent, or reversed, and free to go over any link.
    queues: Vec<List>,
    /// Longest reply that this node takes, in bytes.
    reply_bytes_max: usize,
}

impl Initiator {
    /// A table for `capacity` exchanges with requests and replies of up to `message_bytes_max`
    /// bytes.
    pub fn new(capacity: usize, message_bytes_max: usize) -> Self {
        Self {
            pool: Pool::new(capacity, message_bytes_max),
            queues: Vec::new(),
            reply_bytes_max: message_bytes_max,
        }
    }

    /// Grows to `peers` peers.
    pub fn grow(&mut self, peers: usize) {
        self.queues.resize(peers, List::new());
    }

    /// Exchanges with a peer that wait for a link or a slot.
    #[inline]
    pub fn queue(&self, peer: usize) -> &List {
        &self.queues[peer]
    }

    /// Queues a new exchange with a peer.
    ///
    /// # Errors
    /// The table is full.
    #[inline]
    pub fn submit(
        &mut self,
        peer: usize,
        mode: Mode,
        payload: &[u8],
        token: u64,
    ) -> Result<(), SubmitError> {
        let taken = self.pool.take(token, peer, mode, payload);
        let transaction = taken.ok_or(SubmitError::Full)?;
        self.queues[peer].push_back(&mut self.pool, transaction);
        Ok(())
    }

    /// Queues an exchange again that was reversed. It is older than everything that was never sent.
    pub fn apply_again(&mut self, transaction: Index) {
        let peer = self.pool[transaction].peer;
        self.queues[peer].push_front(&mut self.pool, transaction);
    }

    /// Takes the first exchange from the queue of a peer.
    pub fn unqueue(&mut self, peer: usize) -> Option<Index> {
        self.queues[peer].pop_front(&self.pool)
    }

    /// Drops the queued exchanges with a peer that no caller wants; `dropped` receives the name of
    /// each that has one.
    pub fn drop_unwanted(&mut self, peer: usize, mut dropped: impl FnMut(&ExchangeId)) {
        self.queues[peer].retain(&mut self.pool, |transaction| {
            if let (false, Some(name)) = (transaction.wanted, &transaction.name) {
                dropped(name);
            }
            transaction.wanted
        });
    }

    /// Cancels the reports for exchanges whose token `filter` accepts.
    pub fn cancel(&mut self, mut filter: impl FnMut(u64) -> bool) {
        for transaction in self
            .pool
            .live_mut()
            .filter(|transaction| transaction.wanted)
        {
            transaction.wanted = !filter(transaction.token);
        }
    }

    /// The exchange with a peer that takes the next slot of `link`, if one may now.
    #[inline]
    pub fn next_request(&self, peer: usize, link: &Link) -> Option<Index> {
        let queue = &self.queues[peer];
        let transaction = queue.first().filter(|_| link.outbound.has_free())?;
        let waits =
            self.pool[transaction].mode == Mode::TwoPhase && link.outbound.holds_back(queue.len());
        (!waits).then_some(transaction)
    }

    /// Writes message 1 of the queued exchanges with a peer, on its link `at`.
    #[inline]
    pub fn write_requests(
        &mut self,
        peer: usize,
        at: usize,
        link: &mut Link,
        clock: &mut Clock,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        while let Some(transaction) = self.next_request(peer, link) {
            let bytes = self.pool.payload_bytes(transaction);
            if bytes <= FRAME_PAYLOAD_BYTES_MAX && !link.may_send(writer, bytes) {
                return Err(Blocked);
            }
            let (kind, progress) = match self.pool[transaction].mode {
                Mode::OnePhase => (Kind::Request, Progress::Executing),
                Mode::TwoPhase => (Kind::Tentative, Progress::Tentative),
            };
            let Some((number, sequence)) = link.outbound.take(transaction, progress) else {
                return Ok(());
            };
            self.queues[peer].pop_front(&self.pool);
            let entry = &mut self.pool[transaction];
            entry.link = at;
            entry.slot = number;
            let payload = self.pool.payload(transaction);
            if bytes > FRAME_PAYLOAD_BYTES_MAX {
                link.departing.load(kind, number, sequence, &[], payload);
                Self::write_departing(link, clock, writer)?;
                continue;
            }
            let piggyback = link.outbound.take_commit();
            let part = Part {
                piggyback,
                ..Part::whole(kind, number, sequence, payload)
            };
            let record_sequence = link.write_here(writer, clock, &part);
            link.outbound.committing(piggyback, record_sequence);
            link.outbound.sent(number, record_sequence);
        }
        Ok(())
    }

    /// Writes the rest of a request of several fragments, with a commit on each.
    pub fn write_departing(
        link: &mut Link,
        clock: &mut Clock,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        link.write_departing(writer, clock, |link| link.outbound.take_commit())?;
        Ok(())
    }

    /// Writes message 3 of the slots whose commits were not piggybacked, two in each record.
    #[inline]
    pub fn write_commits(
        link: &mut Link,
        clock: &mut Clock,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        while link.outbound.has_commits() {
            if !link.may_send(writer, 0) {
                return Err(Blocked);
            }
            let number = link.outbound.take_commit();
            let piggyback = link.outbound.take_commit();
            let sequence = link
                .outbound
                .get_mut(number)
                .map_or(0, |slot| slot.sequence);
            let part = Part {
                piggyback,
                ..Part::whole(Kind::Commit, number, sequence, &[])
            };
            let record_sequence = link.write(writer, clock, &part);
            link.outbound.committing(number, record_sequence);
            link.outbound.committing(piggyback, record_sequence);
        }
        Ok(())
    }

    /// Message 2: done with a reply (1PC), or kept (2PC). Returns the exchange if it has ended with
    /// the reply `payload`.
    #[inline]
    pub fn on_reflecting(
        &self,
        link: &mut Link,
        header: &Header,
        payload: &[u8],
    ) -> Result<Option<Index>, DownReason> {
        match answered_slot(link, header)?.progress {
            Progress::Executing => self.conclude(link, header.slot, payload).map(Some),
            Progress::Tentative if payload.is_empty() => kept(link, header.slot).map(|()| None),
            _ => Err(DownReason::Violation),
        }
    }

    /// Message 4. Returns the exchange, which has ended with the reply `payload`.
    #[inline]
    pub fn on_committed(
        &self,
        link: &mut Link,
        header: &Header,
        payload: &[u8],
    ) -> Result<Index, DownReason> {
        match answered_slot(link, header)?.progress {
            Progress::Committing => self.conclude(link, header.slot, payload),
            _ => Err(DownReason::Violation),
        }
    }

    /// Message 2, JAM. Returns the exchange and why it was refused.
    pub fn on_refused(
        link: &mut Link,
        header: &Header,
        payload: &[u8],
    ) -> Result<(Index, Refusal), DownReason> {
        let slot = answered_slot(link, header)?;
        let transaction = slot.transaction;
        if !matches!(slot.progress, Progress::Executing | Progress::Tentative) {
            return Err(DownReason::Violation);
        }
        let &[reason] = payload else {
            return Err(DownReason::Violation);
        };
        link.outbound.release(header.slot);
        link.counters.refused += 1;
        Ok((transaction, Refusal::from_byte(reason)))
    }

    /// Frees the answered slot, whose exchange ends as committed, with `reply`.
    #[inline]
    fn conclude(&self, link: &mut Link, number: u8, reply: &[u8]) -> Result<Index, DownReason> {
        if reply.len() > self.reply_bytes_max {
            return Err(DownReason::Violation);
        }
        let slot = link.outbound.get_mut(number);
        let transaction = slot.ok_or(DownReason::Violation)?.transaction;
        link.outbound.release(number);
        link.counters.committed += 1;
        Ok(transaction)
    }

    /// Ends an exchange that is in no list and holds no slot: reports the outcome to its caller,
    /// and frees the entry. Returns `false` if the resolver must free it, because it is in doubt or
    /// others may query it.
    #[inline]
    pub fn finish(
        &mut self,
        transaction: Index,
        outcome: Outcome<'_>,
        clock: &mut Clock,
        host: &mut impl Host,
    ) -> bool {
        let entry = &self.pool[transaction];
        if entry.wanted {
            // Each end has a place of its own.
            clock.tick();
            host.on_clock(clock.now());
            host.complete(entry.token, outcome);
        }
        let is_done = !entry.in_doubt && !entry.orphan && entry.name.is_none();
        if is_done {
            self.pool.release(transaction);
        }
        is_done
    }

    /// The open exchanges of a failed link become unresolved: `unresolved` receives each, also
    /// those that were being queried over it. Returns how many were open.
    pub fn abandon(
        &mut self,
        link: &mut Link,
        mut unresolved: impl FnMut(&mut Pool, Index),
    ) -> u32 {
        let (port, epoch) = (link.port, link.epoch());
        let mut open = 0;
        for slot in link.outbound.iter_mut() {
            let commit = match slot.progress {
                Progress::Free => continue,
                Progress::Executing | Progress::Tentative => false,
                Progress::CommitDue | Progress::Committing => true,
            };
            slot.progress = Progress::Free;
            self.pool[slot.transaction].unresolved = Some(Unresolved {
                port,
                sequence: slot.sequence,
                epoch,
                commit,
            });
            unresolved(&mut self.pool, slot.transaction);
            open += 1;
        }
        for transaction in link.outbound.queried.drain(..) {
            self.pool[transaction].queried = None;
            unresolved(&mut self.pool, transaction);
        }
        open
    }

    /// Withholds the slots of unresolved exchanges of the link `at` with this peer.
    pub fn withhold_unresolved(&self, at: usize, peer: usize, link: &mut Link) {
        self.pool
            .live()
            .filter(|entry| entry.unresolved.is_some() && (entry.link, entry.peer) == (at, peer))
            .for_each(|entry| link.outbound.withhold(entry.slot));
    }

    /// Whether the peer received a message of an open exchange, or a query, and owes the next one.
    pub fn is_owed(&self, link: &Link) -> bool {
        let waits = |slot: &OutSlot| {
            matches!(
                slot.progress,
                Progress::Executing | Progress::Tentative | Progress::Committing
            ) && link.feedback.is_reflected(slot.record_sequence)
        };
        let expects_reply = |&transaction| {
            let queried = self.pool[transaction].queried;
            queried.is_some_and(|queried| link.feedback.is_reflected(queried.record_sequence))
        };
        link.outbound.iter().any(waits) || link.outbound.queried.iter().any(expects_reply)
    }
}

/// Message 2 of a 2PC for a slot: the peer keeps the request.
#[inline]
pub(in crate::node) fn kept(link: &mut Link, number: u8) -> Result<(), DownReason> {
    if link.outbound.kept(number) {
        Ok(())
    } else {
        Err(DownReason::Violation)
    }
}

/// The slot that an answer is about.
#[inline]
fn answered_slot<'a>(link: &'a mut Link, header: &Header) -> Result<&'a mut OutSlot, DownReason> {
    match link.outbound.get_mut(header.slot) {
        Some(slot) if slot.sequence == header.slot_sequence => Ok(slot),
        _ => Err(DownReason::Violation),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::{
        node::counting_host::CountingHost,
        wire::{
            FRAME_BYTES_MAX,
            record::{NO_PIGGYBACK, Shape},
        },
    };

    #[test]
    fn an_outcome_is_reported_once_and_only_to_a_caller_that_wants_it() {
        let mut initiator = Initiator::new(2, 64);
        initiator.grow(1);
        let (mut clock, mut host) = (Clock::default(), CountingHost::default());
        let mut link = Link::new(0, [0; 6], 2, 64, 0);
        link.outbound.enter_epoch(2);
        for (token, taken) in [(10, Ok(())), (11, Ok(())), (12, Err(SubmitError::Full))] {
            assert_eq!(initiator.submit(0, Mode::OnePhase, &[1], token), taken);
        }
        initiator.cancel(|token| token == 11);
        let mut frame = [0; FRAME_BYTES_MAX];
        let mut writer = FrameWriter::new(&mut frame).expect("it is long enough");
        let written = initiator.write_requests(0, 0, &mut link, &mut clock, &mut writer);
        assert!(written.is_ok() && initiator.queue(0).is_empty());
        for slot in 0..2 {
            let header = Header {
                kind: Kind::Reflecting,
                yours: 0,
                epoch: 1,
                record_sequence: 0,
                slot_sequence: 1,
                slot,
                piggyback: NO_PIGGYBACK,
                clock: 0,
                shape: Shape::whole(1),
            };
            let ended = initiator.on_reflecting(&mut link, &header, &[5]);
            let transaction = ended
                .ok()
                .flatten()
                .expect("a request was sent in the slot");
            assert!(initiator.on_reflecting(&mut link, &header, &[5]).is_err());
            let outcome = Outcome::Committed(&[5]);
            assert!(initiator.finish(transaction, outcome, &mut clock, &mut host));
        }
        assert_eq!(
            (host.completed, initiator.pool.free()),
            (Vec::from([10]), 2)
        );
    }

    #[test]
    fn lists_keep_order_and_the_pool_its_size() {
        let mut pool = Pool::new(4, 1);
        let mut list = List::new();
        for token in 0..4 {
            let index = pool
                .take(token, 0, Mode::TwoPhase, &[token as u8])
                .expect("four fit");
            list.push_back(&mut pool, index);
        }
        assert!(
            pool.take(9, 0, Mode::TwoPhase, &[9]).is_none(),
            "the pool is full"
        );
        list.retain(&mut pool, |entry| entry.token != 2 && entry.token != 3);
        assert_eq!((list.len(), pool.free()), (2, 2));
        let first = list.pop_front(&pool).expect("two are left");
        list.push_front(&mut pool, first);
        let mut tokens = Vec::new();
        list.for_each(&mut pool, |entry| tokens.push(entry.token));
        assert_eq!(tokens, [0, 1]);
        let last = pool.take(7, 0, Mode::OnePhase, &[7]).expect("two are free");
        list.push_back(&mut pool, last);
        assert_eq!(
            core::iter::from_fn(|| list.pop_front(&pool))
                .map(|at| pool[at].token)
                .collect::<Vec<_>>(),
            [0, 1, 7]
        );
    }
}
