//! Latches: the responder's memory of the last exchange of each slot, with its whole reply.
//!
//! An initiator does not reuse a slot before it knows the outcome of its last exchange. A latched
//! outcome is therefore never overwritten before it was queried. Latches belong to the
//! *initiator's* port and outlive epochs and re-cabling. They are lost when the peer restarts (it
//! forgot its queries), when this side restarts (a new incarnation informs the peer), and when they
//! are evicted for others.
//!
//! Path ends are many and serve many nodes. Their latches record whether the initiator has
//! *learned* the outcome: then it never queries, and the latch is evicted without a trace. Other
//! evicted latches are recorded as lost up to their latest epoch ([`Lost`]). All path ends of a
//! node share one epoch count, so later exchanges are not among the lost ones.

use alloc::{vec, vec::Vec};
use core::hash::{Hash, Hasher};

use crate::{ExchangeId, Execution, Refusal, Reply, exchange::PATH_PORTS, payloads::Payloads};

/// How the last exchange of a slot stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Standing {
    /// There was none.
    Empty,
    /// Unknown: the latch was evicted for others.
    Forgotten,
    /// There may have been any up to the epoch of the latch, and none in later ones.
    ForgottenUntil,
    /// 2PC, kept; the buffer holds the request. Only while the link is up in the epoch of the
    /// request.
    Tentative,
    /// Executed; the buffer holds the reply.
    Committed {
        /// In 2PC, so the reply is message 4 and not message 2.
        two_phase: bool,
    },
    /// Refused at message 1.
    Refused(Refusal),
    /// Reversed: nothing was executed and nothing will be.
    Undone,
    /// A query for it arrived before the exchange, which now is too late: nothing was executed and
    /// nothing will be.
    NeverSeen,
}

/// Use of a slot in the epoch in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Use {
    /// Nothing.
    Unused,
    /// It was used, so the next sequence is the next number exactly.
    Used,
    /// It was used. Since then its initiator, for which the epoch has ended, queried the outcome.
    Queried,
}

/// An answer to a resolution that waits for transmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Verdict {
    /// The port of the initiator whose exchange is queried.
    pub port: u16,
    /// The epoch that it was open in.
    pub epoch: u32,
    pub slot: u8,
    pub sequence: u32,
}

/// The last exchange of one slot. Its bytes lie in the set.
#[derive(Clone)]
pub(crate) struct Latch {
    pub sequence: u32,
    /// The epoch of the request.
    pub epoch: u32,
    pub standing: Standing,
    pub used: Use,
    /// A reply, or its last fragment, waits for transmission.
    pub answer_due: bool,
    /// The record with the answer that was sent last.
    pub answer_record: u32,
    /// [`Execution::DurableAt`] of a committed exchange; 0 if its outcome could be reported at
    /// once.
    durable_at: u64,
    len: u16,
}

impl Latch {
    const EMPTY: Self = Self {
        sequence: 0,
        epoch: 0,
        standing: Standing::Empty,
        used: Use::Unused,
        answer_due: false,
        answer_record: 0,
        durable_at: 0,
        len: 0,
    };

    #[cfg(feature = "arbitrary-state")]
    pub(crate) fn scramble(&mut self, draw: &mut crate::draw::Draw) {
        self.sequence = draw.sequence();
        self.epoch = draw.sequence();
        self.standing = [
            Standing::Empty,
            Standing::Forgotten,
            Standing::ForgottenUntil,
            Standing::Tentative,
            Standing::Committed { two_phase: true },
            Standing::Committed { two_phase: false },
            Standing::Refused(Refusal::NoResources),
            Standing::Undone,
            Standing::NeverSeen,
        ][draw.below(9) as usize];
        self.used = [Use::Unused, Use::Used, Use::Queried][draw.below(3) as usize];
        self.answer_due = draw.flag();
        self.answer_record = draw.sequence();
        // Host state, not a register: a random value would withhold the outcome forever.
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

    /// Whether it was executed and must not be reported while only records up to `durable` are on
    /// disk.
    #[inline]
    pub const fn is_withheld(&self, durable: u64) -> bool {
        self.durable_at > durable && matches!(self.standing, Standing::Committed { .. })
    }

    /// Whether a question is about this very exchange.
    pub const fn is_of(&self, queried: &Verdict) -> bool {
        self.sequence == queried.sequence && self.epoch == queried.epoch
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

    /// Whether the queried exchange is known never to have been received.
    pub const fn never_saw(&self, queried: &Verdict) -> bool {
        match self.standing {
            Standing::Empty => true,
            Standing::Forgotten => false,
            Standing::ForgottenUntil => is_later(queried.epoch, self.epoch),
            _ => is_later(queried.sequence, self.sequence),
        }
    }

    /// Whether the slot's sequence is not known.
    pub const fn is_blank(&self) -> bool {
        matches!(
            self.standing,
            Standing::Empty | Standing::Forgotten | Standing::ForgottenUntil
        )
    }

    /// The last of the epoch is over, or another one begins.
    pub const fn leave_epoch(&mut self) {
        self.used = Use::Unused;
        self.answer_due = false;
    }

    /// The bytes may stay, because their length is cleared.
    fn forget(&mut self) {
        *self = Self::EMPTY;
    }
}

/// Without the record that answered, which counts at ends of paths only.
impl Hash for Latch {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            sequence,
            epoch,
            standing,
            used,
            answer_due,
            answer_record: _,
            durable_at,
            len,
        } = self;
        (sequence, epoch, standing, used).hash(state);
        (answer_due, durable_at, len).hash(state);
    }
}

/// Whether the initiator of the last exchange of a slot is known to have learned the outcome: then
/// it never queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Word {
    /// No.
    Unlearned,
    /// Yes.
    Learned,
    /// Yes, once it reflects this record of that link: the last record of the reply to its query.
    Reported { link: usize, record: u32 },
}

/// Evicted latches of a peer: outcomes of its exchanges that are unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Lost {
    /// Latches of ports on cables: any exchange that such a port does not remember may have been
    /// executed.
    pub cables: bool,
    /// Latches of path ends: any exchange up to this epoch that a path end does not remember may
    /// have been executed.
    pub paths: Option<u32>,
}

impl Lost {
    #[cfg(feature = "arbitrary-state")]
    pub(crate) fn drawn(draw: &mut crate::draw::Draw) -> Self {
        Self {
            cables: draw.flag(),
            paths: draw.flag().then(|| draw.sequence()),
        }
    }

    /// Both were lost.
    pub const fn and(self, other: Self) -> Self {
        Self {
            cables: self.cables || other.cables,
            paths: match (self.paths, other.paths) {
                (Some(a), Some(b)) => Some(later_of(a, b)),
                (Some(until), None) | (None, Some(until)) => Some(until),
                (None, None) => None,
            },
        }
    }

    /// Whether an exchange of a port of which nothing is remembered may have been.
    pub const fn covers(&self, port: u16, epoch: u32) -> bool {
        if port < PATH_PORTS {
            return self.cables;
        }
        match self.paths {
            Some(until) => !is_later(epoch, until),
            None => false,
        }
    }

    /// No end of a path was ever in an epoch later than `latest`.
    pub const fn bound(&mut self, latest: u32) {
        if let Some(until) = self.paths
            && is_later(until, latest)
        {
            self.paths = Some(latest);
        }
    }
}

/// Whether `a` comes after `b` in 32-bit serial number arithmetic (RFC 1982). For two exactly
/// opposite numbers, which RFC 1982 leaves undefined, the larger one is later. Any two different
/// numbers are thus ordered, and both ends agree on the order.
#[inline]
pub(crate) const fn is_later(a: u32, b: u32) -> bool {
    const OPPOSITE: u32 = 1 << 31;
    match a.wrapping_sub(b) {
        OPPOSITE => a > b,
        ahead => ahead.cast_signed() > 0,
    }
}

/// The later one of two.
#[inline]
pub(crate) const fn later_of(a: u32, b: u32) -> u32 {
    if is_later(b, a) { b } else { a }
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
    /// By slot; of an end of a path only.
    words: Vec<Word>,
    payloads: Payloads,
}

impl LatchSet {
    /// The latches of `slots` slots, for requests and replies of up to `message_bytes_max` bytes.
    pub fn new(slots: u8, message_bytes_max: usize) -> Self {
        Self {
            owner: None,
            link: None,
            taken_at: 0,
            latches: vec![Latch::EMPTY; usize::from(slots)],
            words: vec![Word::Unlearned; usize::from(slots)],
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

    /// Whether they are of an end of a path.
    pub fn is_far(&self) -> bool {
        self.owner.is_some_and(|(_, port)| port >= PATH_PORTS)
    }

    /// Marks the latches as forgotten if the loss covers their port.
    pub fn lose_memory(&mut self, lost: Lost) {
        let (standing, epoch) = match (self.is_far(), lost) {
            (false, Lost { cables: true, .. }) => (Standing::Forgotten, 0),
            (
                true,
                Lost {
                    paths: Some(until), ..
                },
            ) => (Standing::ForgottenUntil, until),
            _ => return,
        };
        for latch in &mut self.latches {
            latch.standing = standing;
            latch.epoch = epoch;
        }
    }

    /// The initiator of a slot's exchange queries the outcome, which is now settled.
    #[cold]
    pub fn record_query(&mut self, slot: u8) {
        if self.is_far() {
            let latch = &mut self.latches[usize::from(slot)];
            if latch.used == Use::Used {
                latch.used = Use::Queried;
            }
            self.words[usize::from(slot)] = Word::Unlearned;
        }
    }

    /// The last record of the answer to a question was sent on a link.
    #[cold]
    pub fn record_answer(&mut self, queried: &Verdict, link: usize, record: u32) {
        let slot = usize::from(queried.slot);
        if self.is_far()
            && self
                .latches
                .get(slot)
                .is_some_and(|latch| latch.is_of(queried))
        {
            self.words[slot] = Word::Reported { link, record };
        }
    }

    /// The epoch of the link that the port is cabled to has ended. An initiator that reflected its
    /// reply has learned the outcome.
    pub fn record_learned(&mut self, is_reflected: impl Fn(u32) -> bool) {
        if !self.is_far() {
            return;
        }
        for (latch, word) in self.latches.iter().zip(&mut self.words) {
            if latch.used != Use::Used {
                continue;
            }
            let is_answered = !latch.answer_due
                && matches!(
                    latch.standing,
                    Standing::Committed { .. } | Standing::Refused(_)
                );
            *word = if is_answered && is_reflected(latch.answer_record) {
                Word::Learned
            } else {
                Word::Unlearned
            };
        }
    }

    /// The epoch of a link has ended. An initiator that received its outcome over it has learned it
    /// if it reflected the record; otherwise it queries again.
    pub fn end_words(&mut self, of_link: usize, is_reflected: impl Fn(u32) -> bool) {
        for word in &mut self.words {
            if let Word::Reported { link, record } = *word
                && link == of_link
            {
                *word = if is_reflected(record) {
                    Word::Learned
                } else {
                    Word::Unlearned
                };
            }
        }
    }

    /// The latest epoch of an exchange here that may still be queried; `None` if there is none.
    pub fn unlearned_until(&self, is_reflected: impl Fn(usize, u32) -> bool) -> Option<u32> {
        let of_slots = self.latches.iter().zip(&self.words);
        let unlearned = of_slots.filter(|(latch, word)| {
            latch.standing != Standing::Empty
                && match **word {
                    Word::Unlearned => true,
                    Word::Learned => false,
                    Word::Reported { link, record } => !is_reflected(link, record),
                }
        });
        unlearned.map(|(latch, _)| latch.epoch).reduce(later_of)
    }

    /// The port enters `epoch`, which is later than all its earlier epochs and in which nothing was
    /// requested. A latch of this or a later epoch cannot be true. An exception is a query for an
    /// exchange that this side never received: the peer may have been up in the epoch first.
    pub fn distrust(&mut self, epoch: u32) {
        for latch in &mut self.latches {
            latch.leave_epoch();
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
        self.words.fill(Word::Unlearned);
    }

    #[cfg(feature = "arbitrary-state")]
    pub(crate) fn scramble_words(&mut self, links: usize, draw: &mut crate::draw::Draw) {
        for word in &mut self.words {
            *word = match draw.below(3) {
                0 => Word::Unlearned,
                1 => Word::Learned,
                _ => Word::Reported {
                    link: draw.below(links as u32) as usize,
                    record: draw.sequence(),
                },
            };
        }
    }
}

/// Excludes the time when it was taken, which matters only relative to other sets, and the bytes
/// beyond each latch's length.
impl Hash for LatchSet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            owner,
            link,
            taken_at: _,
            latches,
            words,
            payloads: _,
        } = self;
        (owner, link, latches).hash(state);
        if self.is_far() {
            words.hash(state);
            for latch in latches.iter().filter(|latch| latch.used == Use::Used) {
                latch.answer_record.hash(state);
            }
        }
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
        fn of_two_sequences_one_is_later(
            a in any::<u32>(),
            ahead in prop_oneof![any::<u32>(), (1 << 31) - 2..=(1 << 31) + 2u32],
        ) {
            let b = a.wrapping_add(ahead);
            prop_assert_eq!(is_later(b, a), ahead != 0 && !is_later(a, b));
            if (1..1 << 31).contains(&ahead) {
                prop_assert!(is_later(b, a));
            }
        }
    }
}
