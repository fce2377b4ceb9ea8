//! What this side remembers of the exchanges that its peers started: the last one of each slot, whole with its reply.
//!
//! An initiator does not reuse a slot before it knows how its last exchange ended, so the outcome latched here is never
//! overwritten before it was asked. Latches belong to the *initiator's* port and outlive epochs and re-cabling; they are
//! lost when the peer restarts (it forgot the questions) or this side does (the peer is told by a new incarnation).

use alloc::{vec, vec::Vec};
use core::hash::{Hash, Hasher};

use crate::{ExchangeId, Execution, Refusal, Reply, link::Verdict, payloads::Payloads};

/// How the last exchange of a slot stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Standing {
    /// There was none.
    Virgin,
    /// There may have been any: the memory had to make room for others.
    Forgotten,
    /// 2PC, kept; the buffer holds the request. Only while the link is up in the epoch that it was asked for in.
    Tentative,
    /// Executed; the buffer holds the reply.
    Committed {
        /// In 2PC, so that the answer is message 4 and not message 2.
        two_phase: bool,
    },
    /// Refused at message 1.
    Refused(Refusal),
    /// Reversed: nothing was executed and nothing will be.
    Undone,
    /// It was asked about before it came, and has come too late since: nothing was executed and nothing will be.
    NeverSeen,
}

/// The last exchange of one slot. Its bytes lie in the set.
#[derive(Clone, Hash)]
pub(crate) struct Latch {
    pub sequence: u32,
    /// The epoch that it was asked for in.
    pub epoch: u32,
    pub standing: Standing,
    /// The slot was used in the epoch in force, so the next sequence is the next number exactly.
    pub used_in_epoch: bool,
    /// An answer waits for transmission.
    pub answer_due: bool,
    /// [`Execution::DurableAt`] of a committed one; 0 if its end could be told at once.
    durable_at: u64,
    len: u16,
}

impl Latch {
    const VIRGIN: Self = Self {
        sequence: 0,
        epoch: 0,
        standing: Standing::Virgin,
        used_in_epoch: false,
        answer_due: false,
        durable_at: 0,
        len: 0,
    };

    #[cfg(feature = "arbitrary-state")]
    pub(crate) fn scramble(&mut self, draw: &mut crate::node::arbitrary::Draw) {
        self.sequence = draw.sequence();
        self.epoch = draw.sequence();
        self.standing = [
            Standing::Virgin,
            Standing::Forgotten,
            Standing::Tentative,
            Standing::Committed { two_phase: true },
            Standing::Committed { two_phase: false },
            Standing::Refused(Refusal::NoResources),
            Standing::Undone,
            Standing::NeverSeen,
        ][draw.below(8) as usize];
        self.used_in_epoch = draw.flag();
        self.answer_due = draw.flag();
        // Of the host, not of a register: it would never be told.
        self.durable_at = 0;
        self.len = draw.below(40) as u16;
    }

    /// The name of the exchange, which `peer` started in slot `slot` of its port `port`.
    #[inline]
    pub const fn id(&self, peer: u64, port: u16, slot: u8) -> ExchangeId {
        ExchangeId {
            peer,
            port,
            epoch: self.epoch,
            slot,
            sequence: self.sequence,
        }
    }

    /// Whether it was executed and may not be told of while what is on disk ends with `durable`.
    #[inline]
    pub const fn is_withheld(&self, durable: u64) -> bool {
        self.durable_at > durable && matches!(self.standing, Standing::Committed { .. })
    }

    /// Whether a question is about this very exchange.
    pub const fn is_of(&self, asked: &Verdict) -> bool {
        self.sequence == asked.sequence && self.epoch == asked.epoch
    }

    /// Bytes of the answer that is due.
    #[inline]
    pub fn answer_bytes(&self) -> usize {
        match self.standing {
            Standing::Committed { .. } => usize::from(self.len),
            Standing::Refused(_) => 1,
            _ => 0,
        }
    }

    /// Whether the exchange with `sequence` is one that was not seen before: the slot's sequence is not known, or earlier.
    #[inline]
    pub const fn is_news(&self, sequence: u32) -> bool {
        self.is_blank() || is_later(sequence, self.sequence)
    }

    /// Whether the exchange with `sequence` is known never to have been seen.
    pub const fn never_saw(&self, sequence: u32) -> bool {
        !matches!(self.standing, Standing::Forgotten) && self.is_news(sequence)
    }

    /// Whether the slot's sequence is not known.
    pub const fn is_blank(&self) -> bool {
        matches!(self.standing, Standing::Virgin | Standing::Forgotten)
    }

    fn forget(&mut self) {
        // The bytes may stay: their length is gone.
        self.sequence = 0;
        self.epoch = 0;
        self.standing = Standing::Virgin;
        self.used_in_epoch = false;
        self.answer_due = false;
        self.durable_at = 0;
        self.len = 0;
    }
}

/// Whether `a` comes after `b` in the circle of 32-bit sequences (RFC 1982). Of two that lie exactly opposite, which RFC 1982
/// leaves open, the larger number does: of any two that differ one is the later one, and both ends say the same of them.
#[inline]
pub(crate) const fn is_later(a: u32, b: u32) -> bool {
    const OPPOSITE: u32 = 1 << 31;
    match a.wrapping_sub(b) {
        OPPOSITE => a > b,
        ahead => ahead.cast_signed() > 0,
    }
}

/// The latches of all slots of one port of one peer.
#[derive(Clone)]
pub(crate) struct LatchSet {
    /// Index of the peer and its port; `None` while the set is free.
    pub owner: Option<(usize, u16)>,
    /// The link that the port is cabled to now.
    pub link: Option<usize>,
    /// When a link last took it, on the node's own count.
    pub taken_at: u64,
    pub latches: Vec<Latch>,
    payloads: Payloads,
}

impl LatchSet {
    /// The latches of `slots` slots, for requests and replies of up to `message_bytes_max` bytes.
    pub fn new(slots: u8, message_bytes_max: usize) -> Self {
        Self {
            owner: None,
            link: None,
            taken_at: 0,
            latches: vec![Latch::VIRGIN; usize::from(slots)],
            payloads: Payloads::new(usize::from(slots), message_bytes_max),
        }
    }

    /// The request of the tentative exchange of a slot, the reply of a committed one.
    #[inline]
    pub fn bytes(&self, slot: u8) -> &[u8] {
        let slot = usize::from(slot);
        self.payloads.get(slot, usize::from(self.latches[slot].len))
    }

    /// Keeps the request of a slot; `payload` must fit.
    #[inline]
    pub fn keep(&mut self, slot: u8, payload: &[u8]) {
        self.latch(slot, payload, Standing::Tentative);
    }

    /// Latches that the exchange of a slot was executed.
    #[inline]
    pub fn commit(&mut self, slot: u8, reply: &Reply, two_phase: bool, execution: Execution) {
        self.latch(slot, reply.as_bytes(), Standing::Committed { two_phase });
        self.latches[usize::from(slot)].durable_at = match execution {
            Execution::Done => 0,
            Execution::DurableAt(lsn) => lsn,
        };
    }

    #[inline]
    fn latch(&mut self, slot: u8, bytes: &[u8], standing: Standing) {
        let slot = usize::from(slot);
        self.payloads.set(slot, bytes);
        let latch = &mut self.latches[slot];
        latch.len = bytes.len() as u16;
        latch.standing = standing;
    }

    /// Of everything before now it is not known whether it was.
    pub fn lose_memory(&mut self) {
        self.latches
            .iter_mut()
            .for_each(|latch| latch.standing = Standing::Forgotten);
    }

    /// The port enters `epoch`, which is later than all that it was in before, and nothing was asked for in it. What is latched of it or a later one
    /// cannot be true; but it may have been asked about what this side never saw, by whoever was up in it first.
    pub fn distrust(&mut self, epoch: u32) {
        for latch in &mut self.latches {
            latch.used_in_epoch = false;
            latch.answer_due = false;
            let is_of_before = is_later(epoch, latch.epoch);
            let is_of_now = latch.epoch == epoch && latch.standing == Standing::NeverSeen;
            if !latch.is_blank() && !is_of_before && !is_of_now {
                latch.standing = Standing::Forgotten;
            }
        }
    }

    /// Frees the set.
    pub fn clear(&mut self) {
        self.owner = None;
        self.link = None;
        self.latches.iter_mut().for_each(Latch::forget);
    }
}

/// Without when it was taken, which counts beside other sets only, and without the bytes behind the length of each latch.
impl Hash for LatchSet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            owner,
            link,
            taken_at: _,
            latches,
            payloads: _,
        } = self;
        (owner, link, latches).hash(state);
        for slot in 0..latches.len() {
            self.bytes(slot as u8).hash(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_later;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn of_two_sequences_one_is_later(a in any::<u32>(), ahead in prop_oneof![any::<u32>(), (1 << 31) - 2..=(1 << 31) + 2u32]) {
            let b = a.wrapping_add(ahead);
            prop_assert_eq!(is_later(b, a), ahead != 0 && !is_later(a, b));
            if (1..1 << 31).contains(&ahead) {
                prop_assert!(is_later(b, a));
            }
        }
    }
}
