//! The responder's half of an exchange.

use super::Node;
use crate::{
    Host, Mode,
    event::DownReason,
    latch::Standing,
    link::Due,
    wire::{MAX_PAYLOAD_BYTES, message::Message},
};

impl Node {
    /// Message 1: execute this (1PC) or keep this (2PC).
    #[inline]
    pub(super) fn on_request(
        &mut self,
        at: usize,
        message: &Message<'_>,
        two_phase: bool,
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let Self {
            links,
            peers,
            latches,
            scratch,
            reply,
            ..
        } = self;
        let link = &mut links[at];
        let attachment = link.attachment.ok_or(DownReason::Violation)?;
        let sequence = message.header.slot_sequence;
        let number = message.header.slot;
        // A slot beyond the grant does not exist.
        let latch = latches[attachment.set]
            .latches
            .get_mut(usize::from(number))
            .ok_or(DownReason::Violation)?;
        if !(1..=MAX_PAYLOAD_BYTES).contains(&message.payload_bytes()) || latch.answer_due {
            return Err(DownReason::Violation);
        }
        if sequence == latch.sequence && latch.standing == Standing::Undone {
            // The initiator saw the link fail before this side did, or before this side saw it come up, asked over another,
            // and was told "undone". What it had sent before arrives now.
            link.counters.drops.late += 1;
            return Ok(());
        }
        // What else comes first in an epoch is new, whatever its number: what was sent before it is of another epoch. So slots
        // that disagree, for whatever reason, find together. Then a slot serves one exchange at a time, and a tentative one
        // is settled before its slot is used anew.
        if latch.used_in_epoch
            && (sequence != latch.sequence.wrapping_add(1) || latch.standing == Standing::Tentative)
        {
            return Err(DownReason::Violation);
        }
        latch.sequence = sequence;
        latch.epoch = link.epoch;
        latch.used_in_epoch = true;
        let id = latch.id(peers[attachment.peer].guid, attachment.port, number);
        let payload = message.payload(scratch);
        let mode = if two_phase {
            Mode::TwoPhase
        } else {
            Mode::OnePhase
        };
        match host.admit(&id, mode, payload) {
            Err(refusal) => latch.standing = Standing::Refused(refusal),
            Ok(()) if two_phase => latch.keep(payload),
            Ok(()) => {
                reply.clear();
                host.execute(&id, payload, reply);
                latch.commit(reply, false);
                link.counters.executed += 1;
            }
        }
        latch.answer_due = true;
        link.due.push_back(Due::Answer(number));
        Ok(())
    }

    /// Message 3: execute what was kept.
    #[inline]
    pub(super) fn on_commit(
        &mut self,
        at: usize,
        message: &Message<'_>,
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let Self {
            links,
            peers,
            latches,
            reply,
            ..
        } = self;
        let link = &mut links[at];
        let attachment = link.attachment.ok_or(DownReason::Violation)?;
        let number = message.header.slot;
        let latch = latches[attachment.set]
            .latches
            .get_mut(usize::from(number))
            .ok_or(DownReason::Violation)?;
        // A commit before message 2 left answers something that was never said.
        if latch.sequence != message.header.slot_sequence
            || latch.answer_due
            || message.payload_bytes() != 0
        {
            return Err(DownReason::Violation);
        }
        match latch.standing {
            Standing::Tentative => {
                let id = latch.id(peers[attachment.peer].guid, attachment.port, number);
                reply.clear();
                host.execute(&id, latch.bytes(), reply);
                latch.commit(reply, true);
                link.counters.executed += 1;
                latch.answer_due = true;
                link.due.push_back(Due::Answer(number));
                Ok(())
            }
            // The initiator saw the link fail before this side did and had it committed over another.
            Standing::Committed { two_phase: true } => {
                link.counters.drops.late += 1;
                Ok(())
            }
            _ => Err(DownReason::Violation),
        }
    }
}
