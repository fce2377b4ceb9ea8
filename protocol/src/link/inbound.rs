//! The slots of the exchanges that the peer starts on one link: which replies are due, and the
//! credit that this side grants.
//!
//! A slot waits in at most one of the queues of replies, because a latch with a due reply takes no
//! message. A resolution query waits in one of its two queues, and there are at most as many as
//! slots. Every queue is as long as there are slots, so none allocates.

use alloc::collections::VecDeque;

use super::feedback::{WINDOW_RECORDS_MAX, WINDOW_RECORDS_MIN, message_window};
use crate::{
    latch::{LatchSet, Standing, Verdict},
    wire::record::NO_PIGGYBACK,
};

/// Part of the records for the peer's messages that, accepted and not yet reflected, triggers a
/// keepalive without other traffic. An end that only receives thus never stalls one that only
/// sends.
pub(super) const REFLECT_PART: u32 = 3;

/// See the module.
#[derive(Clone, Hash)]
pub(crate) struct Inbound {
    /// Slots that the peer may use now, granted by this side.
    grant: u8,
    /// Receive buffers of this side, in records.
    window_records: u16,
    /// Slots whose message 2 of a 2PC is due.
    reflections: VecDeque<u8>,
    /// Slots whose other replies are due.
    answers: VecDeque<u8>,
    /// Slots whose other replies become due when their executions are durable, in that order.
    withheld_answers: VecDeque<u8>,
    /// Due replies to resolution queries. The peer may have as many queries in flight as it has
    /// slots here.
    verdicts: VecDeque<Verdict>,
    /// Replies that become due when their executions are durable. They count as in flight.
    withheld_verdicts: VecDeque<Verdict>,
    /// The one that is departing, if it is about an exchange over a path.
    pub departing_verdict: Option<Verdict>,
}

impl Inbound {
    /// Nothing is due, and all slots are granted.
    pub fn new(slots: u8) -> Self {
        let len = usize::from(slots);
        Self {
            grant: slots,
            window_records: WINDOW_RECORDS_MAX,
            reflections: VecDeque::with_capacity(len),
            answers: VecDeque::with_capacity(len),
            withheld_answers: VecDeque::with_capacity(len),
            verdicts: VecDeque::with_capacity(len),
            withheld_verdicts: VecDeque::with_capacity(len),
            departing_verdict: None,
        }
    }

    /// Slots that the peer may use now.
    pub const fn grant(&self) -> u8 {
        self.grant
    }

    /// Grants another number of slots. Returns whether it changed.
    pub const fn set_grant(&mut self, slots: u8) -> bool {
        let changed = self.grant != slots;
        self.grant = slots;
        changed
    }

    /// Receive buffers of this side, in records.
    pub const fn window_records(&self) -> u16 {
        self.window_records
    }

    /// Sets the number of receive buffers, as near as a receiver may issue.
    pub fn set_window(&mut self, records: u16) {
        self.window_records = records.clamp(WINDOW_RECORDS_MIN, WINDOW_RECORDS_MAX);
    }

    /// Whether so many received records must be reflected although nothing else is sent.
    #[inline]
    pub const fn must_reflect(&self, unreflected: u32) -> bool {
        unreflected >= message_window(self.window_records) / REFLECT_PART
    }

    /// A request was kept: its message 2 is due.
    #[inline]
    pub fn reflect(&mut self, slot: u8) {
        self.reflections.push_back(slot);
    }

    /// Whether the message 2 of a kept request is still due.
    pub fn is_reflection_due(&self, slot: u8) -> bool {
        self.reflections.contains(&slot)
    }

    /// Whether the message 2 of any kept request is due.
    #[inline]
    pub fn has_reflections(&self) -> bool {
        !self.reflections.is_empty()
    }

    /// The next slot whose message 2 is due, or [`NO_PIGGYBACK`]. Skips slots that were settled
    /// over another link meanwhile: the initiator no longer expects them here.
    #[inline]
    pub fn take_reflection(&mut self, set: &mut LatchSet) -> u8 {
        while let Some(slot) = self.reflections.pop_front() {
            let latch = &mut set.latches[usize::from(slot)];
            latch.answer_due = false;
            if latch.standing == Standing::Tentative {
                return slot;
            }
        }
        NO_PIGGYBACK
    }

    /// The reply of a slot that was refused is due.
    #[inline]
    pub fn refuse(&mut self, slot: u8) {
        self.answers.push_back(slot);
    }

    /// The reply of a slot that was executed is due, at once or when it is durable.
    #[inline]
    pub fn answer(&mut self, slot: u8, set: &LatchSet, durable: u64) {
        if set.latches[usize::from(slot)].is_withheld(durable) {
            self.withheld_answers.push_back(slot);
        } else {
            self.answers.push_back(slot);
        }
    }

    /// The next slot whose reply is due.
    #[inline]
    pub fn next_answer(&self) -> Option<u8> {
        self.answers.front().copied()
    }

    /// The reply of [`Self::next_answer`] is being written.
    #[inline]
    pub fn answer_taken(&mut self) {
        self.answers.pop_front();
    }

    /// More is durable. In the order of execution: entries behind a withheld one wait too.
    pub fn release_answers(&mut self, set: &LatchSet, durable: u64) {
        while let Some(&slot) = self.withheld_answers.front()
            && !set.latches[usize::from(slot)].is_withheld(durable)
        {
            self.withheld_answers.pop_front();
            self.answers.push_back(slot);
        }
    }

    /// The reply to a query is due, at once or, if `withheld`, when its execution is durable.
    pub fn report(&mut self, verdict: Verdict, withheld: bool) {
        if withheld {
            self.withheld_verdicts.push_back(verdict);
        } else {
            self.verdicts.push_back(verdict);
        }
    }

    /// The next query whose reply is due.
    #[inline]
    pub fn next_verdict(&self) -> Option<Verdict> {
        self.verdicts.front().copied()
    }

    /// The reply of [`Self::next_verdict`] is being written.
    #[inline]
    pub fn take_verdict(&mut self) -> Option<Verdict> {
        self.verdicts.pop_front()
    }

    /// More is durable: those replies that `is_withheld` no longer holds back are due.
    pub fn release_verdicts(&mut self, is_withheld: impl Fn(Verdict) -> bool) {
        for _ in 0..self.withheld_verdicts.len() {
            if let Some(verdict) = self.withheld_verdicts.pop_front() {
                self.report(verdict, is_withheld(verdict));
            }
        }
    }

    /// Queries of the peer that are not answered.
    pub fn questions(&self) -> usize {
        self.verdicts.len() + self.withheld_verdicts.len()
    }

    /// Whether a reply waits for the host's journal.
    pub fn withholds(&self) -> bool {
        !(self.withheld_answers.is_empty() && self.withheld_verdicts.is_empty())
    }

    /// Whether a reply could be sent now.
    pub fn is_due(&self) -> bool {
        !(self.reflections.is_empty() && self.answers.is_empty() && self.verdicts.is_empty())
    }

    /// Whether exchanges or queries of the peer wait for this side.
    #[inline]
    pub fn owes(&self) -> bool {
        self.is_due() || self.withholds()
    }

    /// The epoch ended: no reply is expected on this link any more.
    pub fn clear(&mut self) {
        self.clear_queues();
        self.departing_verdict = None;
    }

    /// Empties the queues. A message that is departing goes on.
    pub fn clear_queues(&mut self) {
        self.reflections.clear();
        self.answers.clear();
        self.withheld_answers.clear();
        self.verdicts.clear();
        self.withheld_verdicts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Execution, Moment, Reply};

    #[test]
    fn replies_leave_in_the_order_of_execution_once_they_are_durable() {
        let mut set = LatchSet::new(3, 8);
        let mut inbound = Inbound::new(3);
        let mut reply = Reply::with_room(8);
        reply.begin(8, Moment::default());
        for (slot, lsn) in [(2, 7), (0, 5), (1, 9)] {
            set.commit(slot, &reply, false, Execution::DurableAt(lsn));
            inbound.answer(slot, &set, 4);
        }
        assert!(inbound.withholds() && !inbound.is_due());
        inbound.release_answers(&set, 5);
        assert_eq!(inbound.next_answer(), None, "the first one still waits");
        inbound.release_answers(&set, 8);
        let mut due = alloc::vec::Vec::new();
        while let Some(slot) = inbound.next_answer() {
            inbound.answer_taken();
            due.push(slot);
        }
        assert_eq!(due, [2, 0]);
        assert!(inbound.owes(), "the last one waits for the disk");
        inbound.clear();
        assert!(!inbound.owes());
    }

    #[test]
    fn a_settled_slot_is_not_reflected() {
        let mut set = LatchSet::new(2, 8);
        let mut inbound = Inbound::new(2);
        for slot in 0..2 {
            set.keep(slot, &[1]);
            set.latches[usize::from(slot)].answer_due = true;
            inbound.reflect(slot);
        }
        set.latches[0].standing = Standing::Undone;
        assert_eq!(inbound.take_reflection(&mut set), 1);
        assert_eq!(inbound.take_reflection(&mut set), NO_PIGGYBACK);
        assert!(set.latches.iter().all(|latch| !latch.answer_due));
    }
}
