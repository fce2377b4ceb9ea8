//! Batches of each sender by round, and own messages that are in no batch yet.

use alloc::vec::Vec;

use super::wire::{HEAD_BYTES, split_message};
use crate::verb::SEND_BYTES_MAX;

/// Rounds of a sender that some member's application may not have taken.
pub const ROUNDS_OPEN: u64 = 64;
/// Longest batch in a view of `n` members, in bytes.
pub const fn batch_bytes_max(n: usize) -> usize {
    SEND_BYTES_MAX - HEAD_BYTES - 8 * n
}
/// Own messages that are in no batch, in bytes with their lengths, beyond which no more are taken.
pub const PENDING_BYTES_MAX: usize = 64 * 1024;

const OPEN: usize = ROUNDS_OPEN as usize;

/// The batches of a view that a member may still need.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rounds {
    /// By rank, and by round modulo [`ROUNDS_OPEN`]. A null is empty.
    batches: Vec<Vec<u8>>,
}

impl Rounds {
    /// Allocates for views of up to `members_max` members.
    pub fn new(members_max: usize) -> Self {
        let room = || Vec::with_capacity(batch_bytes_max(1));
        Self {
            batches: (0..members_max * OPEN).map(|_| room()).collect(),
        }
    }

    /// The batch of a sender's round, one of its last [`ROUNDS_OPEN`].
    pub fn batch(&self, rank: usize, round: u64) -> &[u8] {
        self.batches.get(place(rank, round)).map_or(&[], |b| b)
    }

    /// Writes the batch of a sender's round. It replaces the batch of [`ROUNDS_OPEN`] rounds
    /// before.
    pub fn set(&mut self, rank: usize, round: u64, bytes: &[u8]) {
        if let Some(batch) = self.batches.get_mut(place(rank, round)) {
            batch.clear();
            batch.extend_from_slice(bytes);
        }
    }

    /// Writes nulls into the rounds of a sender from `from` up to `until`.
    pub fn set_null(&mut self, rank: usize, from: u64, until: u64) {
        for round in from.max(until.saturating_sub(ROUNDS_OPEN))..until {
            self.set(rank, round, &[]);
        }
    }

    /// Forgets all batches.
    pub fn clear(&mut self) {
        self.batches.iter_mut().for_each(Vec::clear);
    }

    /// Bytes of all batches that are kept.
    pub fn held_bytes(&self) -> usize {
        self.batches.iter().map(Vec::len).sum()
    }
}

const fn place(rank: usize, round: u64) -> usize {
    rank * OPEN + (round % ROUNDS_OPEN) as usize
}

/// Messages of a batch: how many they are.
pub fn messages_of(batch: &[u8]) -> u64 {
    let mut rest = batch;
    let mut count = 0;
    while let Some((_, behind)) = split_message(rest) {
        count += 1;
        rest = behind;
    }
    count
}

/// Own messages that are in no batch, in order, in the format of a batch.
#[derive(Debug, Clone)]
pub struct Pending {
    /// Those before `head` went.
    bytes: Vec<u8>,
    head: usize,
}

impl Pending {
    /// Allocates for accepted messages and for all open batches of a view that ended.
    pub fn new() -> Self {
        Self {
            bytes: Vec::with_capacity(PENDING_BYTES_MAX + OPEN * batch_bytes_max(1)),
            head: 0,
        }
    }

    /// Bytes with lengths.
    pub const fn len(&self) -> usize {
        self.bytes.len() - self.head
    }

    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends a message of at most `u16::MAX` bytes. Returns `false` without a change if it does
    /// not fit.
    pub fn push(&mut self, message: &[u8]) -> bool {
        let Ok(len) = u16::try_from(message.len()) else {
            return false;
        };
        if self.len() + 2 + message.len() > PENDING_BYTES_MAX {
            return false;
        }
        if self.bytes.len() + 2 + message.len() > self.bytes.capacity() {
            self.close_gap();
        }
        self.bytes.extend_from_slice(&len.to_le_bytes());
        self.bytes.extend_from_slice(message);
        true
    }

    /// The first whole messages that fit in `bytes_max` bytes: at least one, if there is one.
    pub fn front(&self, bytes_max: usize) -> &[u8] {
        let pending = &self.bytes[self.head..];
        let mut end = 0;
        while let Some((message, _)) = split_message(&pending[end..]) {
            let next = end + 2 + message.len();
            if next > bytes_max {
                break;
            }
            end = next;
        }
        &pending[..end]
    }

    /// Removes the first `len` bytes, which [`Pending::front`] returned.
    pub fn take(&mut self, len: usize) {
        self.head = (self.head + len).min(self.bytes.len());
        if self.is_empty() {
            self.bytes.clear();
            self.head = 0;
        }
    }

    /// Puts a batch back, before all others.
    pub fn put_back(&mut self, batch: &[u8]) {
        if self.head < batch.len() {
            let (head, len) = (self.head, self.bytes.len());
            self.bytes.resize(len + batch.len() - head, 0);
            self.bytes.copy_within(head..len, batch.len());
            self.head = batch.len();
        }
        self.head -= batch.len();
        self.bytes[self.head..self.head + batch.len()].copy_from_slice(batch);
    }

    fn close_gap(&mut self) {
        self.bytes.copy_within(self.head.., 0);
        self.bytes.truncate(self.len());
        self.head = 0;
    }
}

impl PartialEq for Pending {
    fn eq(&self, other: &Self) -> bool {
        self.bytes[self.head..] == other.bytes[other.head..]
    }
}

impl Eq for Pending {}

impl core::hash::Hash for Pending {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        self.bytes[self.head..].hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_put_back_come_first_and_stay_in_order() {
        let mut pending = Pending::new();
        for message in 0..100u8 {
            assert!(pending.push(&[message; 50]));
        }
        let mut batches = std::vec![];
        for _ in 0..3 {
            let batch = pending.front(530).to_vec();
            assert_eq!(messages_of(&batch), 10);
            pending.take(batch.len());
            batches.push(batch);
        }
        for batch in batches[1..].iter().rev() {
            pending.put_back(batch);
        }
        for message in 10..100u8 {
            let front = pending.front(52).to_vec();
            assert_eq!(front[2..], [message; 50]);
            pending.take(front.len());
        }
        assert!(pending.is_empty());
        pending.put_back(&[1, 0, 9]);
        assert_eq!(pending.front(100), [1, 0, 9]);
    }

    #[test]
    fn the_free_room_is_conserved() {
        let mut pending = Pending::new();
        let capacity = pending.bytes.capacity();
        let mut taken = 0;
        for _ in 0..2000 {
            while pending.push(&[7; 300]) {
                taken += 1;
            }
            assert!(pending.len() > PENDING_BYTES_MAX - 302);
            let front = pending.front(batch_bytes_max(4)).len();
            pending.take(front);
        }
        assert!(taken > 2000);
        for _ in 0..OPEN {
            pending.put_back(&[0; batch_bytes_max(1)]);
        }
        assert_eq!(pending.bytes.capacity(), capacity);
    }
}
