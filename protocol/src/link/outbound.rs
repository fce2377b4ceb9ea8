//! The slots of the exchanges that this side starts on one link.
//!
//! Slots are the credit between the two ends: the peer grants a number of slots, and each carries
//! one exchange at a time. A slot is free, or has an exchange in flight, or is withheld for an
//! unresolved one. Its message 3 waits here exactly while its progress is
//! [`Progress::CommitDue`].

use alloc::{collections::VecDeque, vec, vec::Vec};

use crate::{exchange::Index, latch::is_later, wire::record::NO_PIGGYBACK};

/// Where the exchange of a slot stands, as the initiator knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Progress {
    /// No exchange.
    Free,
    /// 1PC message 1 was sent.
    Executing,
    /// 2PC message 1 was sent.
    Tentative,
    /// Message 2 was received; message 3 waits for transmission.
    CommitDue,
    /// Message 3 was sent.
    Committing,
}

#[cfg(feature = "arbitrary-state")]
impl Progress {
    /// Every state of an open exchange.
    pub const OPEN: [Self; 4] = [
        Self::Executing,
        Self::Tentative,
        Self::CommitDue,
        Self::Committing,
    ];
}

/// One slot.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct OutSlot {
    /// Sequence of its last exchange. It continues across epochs.
    pub sequence: u32,
    pub progress: Progress,
    /// The exchange, where there is one.
    pub transaction: Index,
    /// The last record that was sent for it.
    pub record_sequence: u32,
}

/// All slots of one link.
#[derive(Debug, Clone, Hash)]
pub(crate) struct Outbound {
    slots: Vec<OutSlot>,
    /// Slots that may be taken in this epoch. The last one released is taken first, because it is
    /// in the cache at both ends.
    free: Vec<u8>,
    granted: u8,
    open: u32,
    /// Slots in which message 1 of a 2PC was sent and message 2 has not arrived.
    tentative: u32,
    /// Exchanges in flight in the epoch in force.
    busy: u32,
    /// Slots whose message 3 is due.
    commits: VecDeque<u8>,
    /// Transactions being queried on this link.
    pub queried: Vec<Index>,
}

impl Outbound {
    /// All slots free, none granted; the first exchange of each has the sequence behind `first`.
    pub fn new(slots: u8, first: u32) -> Self {
        let slot = OutSlot {
            sequence: first,
            progress: Progress::Free,
            transaction: 0,
            record_sequence: 0,
        };
        Self {
            slots: vec![slot; usize::from(slots)],
            free: Vec::with_capacity(usize::from(slots)),
            granted: 0,
            open: 0,
            tentative: 0,
            busy: 0,
            commits: VecDeque::with_capacity(usize::from(slots)),
            queried: Vec::with_capacity(usize::from(slots)),
        }
    }

    #[inline]
    pub fn slots(&self) -> u8 {
        self.slots.len() as u8
    }

    /// Exchanges that took a slot here and have not ended, unresolved ones among them.
    pub const fn open(&self) -> u32 {
        self.open
    }

    #[cfg(feature = "arbitrary-state")]
    pub(crate) fn scramble(&mut self, granted: u8, draw: &mut crate::draw::Draw) {
        self.commits.clear();
        self.enter_epoch(granted);
        for number in 0..self.slots() {
            let slot = &mut self.slots[usize::from(number)];
            slot.sequence = draw.sequence();
            if slot.progress == Progress::Free {
                continue;
            }
            slot.progress = Progress::OPEN[draw.below(4) as usize];
            slot.record_sequence = draw.sequence();
            self.busy += 1;
            self.tentative += u32::from(slot.progress == Progress::Tentative);
            if slot.progress == Progress::CommitDue {
                self.commits.push_back(number);
            }
            self.withhold(number);
        }
    }

    #[cfg(feature = "arbitrary-state")]
    pub(crate) fn is_busy(&self, number: u8) -> bool {
        self.slots[usize::from(number)].progress != Progress::Free
    }

    #[cfg(feature = "arbitrary-state")]
    pub(crate) fn scramble_slot(
        &mut self,
        number: u8,
        transaction: Index,
        progress: Progress,
        draw: &mut crate::draw::Draw,
    ) {
        self.scramble_unresolved(number);
        self.busy += 1;
        self.tentative += u32::from(progress == Progress::Tentative);
        let slot = &mut self.slots[usize::from(number)];
        slot.progress = progress;
        slot.transaction = transaction;
        slot.record_sequence = draw.sequence();
        if progress == Progress::CommitDue {
            self.commits.push_back(number);
        }
    }

    #[cfg(feature = "arbitrary-state")]
    pub(crate) fn scramble_unresolved(&mut self, number: u8) {
        self.withhold(number);
        self.open += 1;
    }

    /// Sets the peer's grant and frees every slot within it.
    pub fn enter_epoch(&mut self, granted: u8) {
        self.busy = 0;
        self.granted = granted.min(self.slots());
        self.tentative = 0;
        self.free.clear();
        self.free.extend((0..self.granted).rev());
    }

    /// The peer grants another number of slots. Open exchanges continue. Newly granted slots
    /// without an exchange become free.
    pub fn set_grant(&mut self, granted: u8) {
        let before = self.granted;
        self.granted = granted.min(self.slots());
        self.free.retain(|&number| number < granted);
        for number in before..self.granted {
            if self.slots[usize::from(number)].progress == Progress::Free {
                self.free.push(number);
            }
        }
    }

    /// Withholds a free slot: an exchange of it with the peer of this epoch is unresolved. The
    /// peer's latch must not be overwritten before it was queried.
    pub fn withhold(&mut self, number: u8) {
        self.free.retain(|&free| free != number);
    }

    #[inline]
    pub fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Takes a free slot for `transaction` and gives it its next sequence.
    #[inline]
    pub fn take(&mut self, transaction: Index, progress: Progress) -> Option<(u8, u32)> {
        let number = self.free.pop()?;
        let slot = &mut self.slots[usize::from(number)];
        slot.sequence = slot.sequence.wrapping_add(1);
        slot.progress = progress;
        slot.transaction = transaction;
        self.open += 1;
        self.tentative += u32::from(progress == Progress::Tentative);
        self.busy += 1;
        Some((number, slot.sequence))
    }

    /// Frees a slot whose exchange has ended while the link is up.
    #[inline]
    pub fn release(&mut self, number: u8) {
        let slot = &mut self.slots[usize::from(number)];
        self.tentative -= u32::from(slot.progress == Progress::Tentative);
        slot.progress = Progress::Free;
        self.busy -= 1;
        self.settle(number, true);
    }

    /// Message 2 of a 2PC arrived for a slot: message 3 is due. Returns `false` if no exchange
    /// expects it.
    #[inline]
    pub fn kept(&mut self, number: u8) -> bool {
        match self.slots.get_mut(usize::from(number)) {
            Some(slot) if slot.progress == Progress::Tentative => {
                slot.progress = Progress::CommitDue;
                self.tentative -= 1;
                self.commits.push_back(number);
                true
            }
            _ => false,
        }
    }

    /// The next slot whose message 3 is due, or [`NO_PIGGYBACK`].
    #[inline]
    pub fn take_commit(&mut self) -> u8 {
        self.commits.pop_front().unwrap_or(NO_PIGGYBACK)
    }

    /// Whether the message 3 of any slot is due.
    #[inline]
    pub fn has_commits(&self) -> bool {
        !self.commits.is_empty()
    }

    /// Whether an exchange or a query of this side waits for the peer.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.busy > 0 || !self.queried.is_empty()
    }

    /// The epoch ended: nothing is sent in it any more.
    pub fn clear(&mut self) {
        self.commits.clear();
    }

    /// Message 3 of a slot was sent in the record with this sequence.
    #[inline]
    pub fn committing(&mut self, number: u8, record_sequence: u32) {
        if let Some(slot) = self.get_mut(number) {
            slot.progress = Progress::Committing;
            slot.record_sequence = record_sequence;
        }
    }

    /// Message 1 of a slot was sent, and the record with this sequence was its last.
    #[inline]
    pub fn sent(&mut self, number: u8, record_sequence: u32) {
        if let Some(slot) = self.get_mut(number) {
            slot.record_sequence = record_sequence;
        }
    }

    /// Whether the next exchange of a 2PC should wait, with `waiting` of them queued, although a
    /// slot is free.
    ///
    /// If more exchanges wait than there are slots, half of the slots are at message 1 and half at
    /// message 3. Each request can then carry a commit, and each reply a reflection. If all were at
    /// the same message, every message would need a record of its own.
    #[inline]
    pub fn holds_back(&self, waiting: u32) -> bool {
        waiting as usize > self.free.len() && self.tentative >= u32::from(self.granted.div_ceil(2))
    }

    /// An unresolved exchange of a slot has ended. `withheld`: the slot was withheld for it in the
    /// epoch in force.
    #[inline]
    pub fn settle(&mut self, number: u8, withheld: bool) {
        self.open -= 1;
        if withheld && number < self.granted {
            self.free.push(number);
        }
    }

    /// Exchanges of a free slot must come after `sequence`.
    pub fn advance(&mut self, number: u8, sequence: u32) {
        if let Some(slot) = self.get_mut(number)
            && slot.progress == Progress::Free
            && is_later(sequence, slot.sequence)
        {
            slot.sequence = sequence;
        }
    }

    /// The slot with this number, if there is one.
    #[inline]
    pub fn get_mut(&mut self, number: u8) -> Option<&mut OutSlot> {
        self.slots.get_mut(usize::from(number))
    }

    pub fn iter(&self) -> impl Iterator<Item = &OutSlot> {
        self.slots.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut OutSlot> {
        self.slots.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_one_exchange_and_one_place() {
        let mut outbound = Outbound::new(2, 0);
        assert!(!outbound.has_free(), "nothing is granted");
        outbound.enter_epoch(1);
        assert_eq!(outbound.take(7, Progress::Tentative), Some((0, 1)));
        assert_eq!(outbound.take(8, Progress::Tentative), None);
        outbound.set_grant(2);
        assert_eq!(outbound.take(8, Progress::Executing), Some((1, 1)));
        outbound.release(1);
        assert_eq!((outbound.open(), outbound.busy), (1, 1));
        outbound.withhold(1);
        assert!(!outbound.has_free(), "withheld for another exchange");
    }

    #[test]
    fn a_commit_is_due_exactly_once() {
        let mut outbound = Outbound::new(1, 0);
        outbound.enter_epoch(1);
        assert!(!outbound.kept(0), "nothing was sent");
        assert!(outbound.take(7, Progress::Tentative).is_some());
        assert!(outbound.kept(0));
        assert!(!outbound.kept(0), "it is due already");
        assert_eq!(outbound.take_commit(), 0);
        outbound.committing(0, 3);
        assert_eq!(outbound.take_commit(), NO_PIGGYBACK);
    }
}
