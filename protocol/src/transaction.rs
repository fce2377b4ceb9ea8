//! The exchanges that this node started, in a pool of fixed size.

use alloc::{vec, vec::Vec};
use core::hash::{Hash, Hasher};

use crate::{ExchangeId, mode::Mode, payloads::Payloads};

/// Index of a transaction in its pool.
pub(crate) type Index = u32;

const NONE: Index = Index::MAX;

/// One exchange that this node started and whose outcome its caller does not have yet.
#[derive(Debug, Clone, Hash)]
pub(crate) struct Transaction {
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

/// The data that a query about an exchange of a failed link needs besides link and slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Unresolved {
    /// Its sequence in its slot.
    pub sequence: u32,
    /// The epoch that it was open in.
    pub epoch: u32,
    /// Message 2 had been received: the peer must commit.
    pub commit: bool,
}

/// A query about a transaction, in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SentQuery {
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
pub(crate) struct Pool {
    entries: Vec<Transaction>,
    payloads: Payloads,
    free: List,
}

/// A queue of transactions of one pool, linked through the entries. A transaction is in at most one
/// list at a time.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct List {
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

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

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
