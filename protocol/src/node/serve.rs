//! The responder's half of an exchange.

use super::Node;
use crate::{
    Host, Mode,
    event::DownReason,
    latch::{Standing, Use},
    wire::record::Header,
};

impl Node {
    /// Message 1: execute this (1PC) or keep this (2PC).
    #[inline]
    pub(super) fn on_request(
        &mut self,
        at: usize,
        header: &Header,
        payload: &[u8],
        mode: Mode,
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let attachment = self.links[at].attachment().ok_or(DownReason::Violation)?;
        let reply_bytes_max = self.message_bytes_max(attachment.peer);
        let request_bytes_max = usize::from(self.config.message_bytes_max);
        let Self {
            links,
            peers,
            latches,
            reply,
            durable,
            clock,
            ..
        } = self;
        let link = &mut links[at];
        let sequence = header.slot_sequence;
        let number = header.slot;
        let set = &mut latches[attachment.set];
        // A slot beyond the grant does not exist.
        let latch = set
            .latches
            .get_mut(usize::from(number))
            .ok_or(DownReason::Violation)?;
        if !(1..=request_bytes_max).contains(&payload.len()) || latch.answer_due {
            return Err(DownReason::Violation);
        }
        if sequence == latch.sequence
            && latch.epoch == link.epoch()
            && matches!(latch.standing, Standing::Undone | Standing::NeverSeen)
        {
            // The initiator saw the link fail before this side saw it fail or come up. It queried
            // over another link and got "undone". Its earlier request arrives now.
            link.counters.drops.late += 1;
            return Ok(());
        }
        // The first message of an epoch is new, whatever its sequence, so disagreeing slots
        // converge. A slot serves one exchange at a time, and a tentative one is settled before
        // reuse.
        if latch.standing == Standing::Tentative
            || latch.used != Use::Unused && sequence != latch.sequence.wrapping_add(1)
        {
            return Err(DownReason::Violation);
        }
        latch.sequence = sequence;
        latch.epoch = link.epoch();
        latch.used = Use::Used;
        latch.answer_due = true;
        let id = latch.id(peers[attachment.peer].guid, attachment.port, number);
        match host.admit(&id, mode, payload) {
            Err(refusal) => {
                latch.standing = Standing::Refused(refusal);
                link.inbound.refuse(number);
            }
            Ok(()) if mode == Mode::TwoPhase => {
                set.keep(number, payload);
                link.inbound.reflect(number);
            }
            Ok(()) => {
                reply.begin(reply_bytes_max, clock.execute());
                let execution = host.execute(&id, payload, reply);
                set.commit(number, reply, false, execution);
                link.counters.executed += 1;
                link.inbound.answer(number, set, *durable);
            }
        }
        Ok(())
    }

    /// Message 3: executes the kept request.
    #[inline]
    pub(super) fn on_commit(
        &mut self,
        at: usize,
        header: &Header,
        payload: &[u8],
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        if !payload.is_empty() {
            return Err(DownReason::Violation);
        }
        self.commit_slot(at, header.slot, Some(header.slot_sequence), host)
    }

    /// Message 3 for a slot. A piggybacked commit has no sequence: it applies to the current one of
    /// the slot.
    #[inline]
    pub(super) fn commit_slot(
        &mut self,
        at: usize,
        number: u8,
        sequence: Option<u32>,
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let attachment = self.links[at].attachment().ok_or(DownReason::Violation)?;
        let reply_bytes_max = self.message_bytes_max(attachment.peer);
        let Self {
            links,
            peers,
            latches,
            reply,
            durable,
            clock,
            ..
        } = self;
        let link = &mut links[at];
        let set = &mut latches[attachment.set];
        let latch = set
            .latches
            .get_mut(usize::from(number))
            .ok_or(DownReason::Violation)?;
        // A commit before message 2 left confirms a message that was never sent.
        if sequence.is_some_and(|sequence| latch.sequence != sequence) || latch.answer_due {
            return Err(DownReason::Violation);
        }
        match latch.standing {
            Standing::Tentative => {
                latch.answer_due = true;
                let id = latch.id(peers[attachment.peer].guid, attachment.port, number);
                reply.begin(reply_bytes_max, clock.execute());
                let execution = host.execute(&id, set.bytes(number), reply);
                set.commit(number, reply, true, execution);
                link.counters.executed += 1;
                link.inbound.answer(number, set, *durable);
                Ok(())
            }
            // The initiator saw the link fail first and committed the exchange over another link.
            Standing::Committed { two_phase: true } => {
                link.counters.drops.late += 1;
                Ok(())
            }
            _ => Err(DownReason::Violation),
        }
    }
}
