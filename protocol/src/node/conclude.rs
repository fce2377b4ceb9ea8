//! The initiator's half of an exchange.

use super::Node;
use crate::{
    Host, Outcome, Refusal,
    event::DownReason,
    link::{
        Due,
        ball::Ball,
        outbound::{OutSlot, Progress},
    },
    wire::{MAX_PAYLOAD_BYTES, message::Message, record},
};

impl Node {
    /// Message 2: done with a reply (1PC), or kept (2PC).
    #[inline]
    pub(super) fn on_reflecting(
        &mut self,
        at: usize,
        message: &Message<'_>,
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let slot = self.answered_slot(at, message)?;
        match slot.progress {
            Progress::Executing => {
                self.conclude(at, message, host);
                Ok(())
            }
            Progress::Tentative if message.payload_bytes() == 0 => {
                slot.progress = Progress::CommitDue;
                self.links[at]
                    .due
                    .push_back(Due::Commit(message.header.slot));
                Ok(())
            }
            _ => Err(DownReason::Violation),
        }
    }

    /// Message 4: done with a reply.
    #[inline]
    pub(super) fn on_committed(
        &mut self,
        at: usize,
        message: &Message<'_>,
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        match self.answered_slot(at, message)?.progress {
            Progress::Committing => {
                self.conclude(at, message, host);
                Ok(())
            }
            _ => Err(DownReason::Violation),
        }
    }

    /// Message 2, JAM.
    pub(super) fn on_refused(
        &mut self,
        at: usize,
        message: &Message<'_>,
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let slot = self.answered_slot(at, message)?;
        let transaction = slot.transaction;
        if !matches!(slot.progress, Progress::Executing | Progress::Tentative)
            || message.payload_bytes() != 1
        {
            return Err(DownReason::Violation);
        }
        let reason = message
            .record_bytes()
            .first()
            .map_or(0, |bytes| record::payload(bytes)[0]);
        self.release_slot(transaction);
        self.links[at].counters.refused += 1;
        self.finish(
            transaction,
            Outcome::Refused(Refusal::from_byte(reason)),
            host,
        );
        Ok(())
    }

    /// The ball. Its sender must be the one of the handshake, and if it owes nothing it must have answered everything
    /// that it heard. `reflects` tells whether it reflects something new.
    ///
    /// This is what brings a link back from *any* state of its two ends: an exchange that one end holds for open and
    /// the other does not know of would otherwise wait for ever on a link that is up.
    pub(super) fn on_ball(
        &mut self,
        at: usize,
        message: &Message<'_>,
        reflects: bool,
    ) -> Result<(), DownReason> {
        let ball = Ball::read(message).ok_or(DownReason::Violation)?;
        let attachment = self.links[at].attachment.ok_or(DownReason::Violation)?;
        let peer = &self.peers[attachment.peer];
        if (ball.guid, ball.port) != (peer.guid, attachment.port) {
            return Err(DownReason::PeerMoved);
        }
        if ball.grant > attachment.slots {
            return Err(DownReason::Violation);
        }
        if ball.incarnation != peer.incarnation {
            return Err(DownReason::PeerRestarted);
        }
        if ball.grant != attachment.granted {
            self.on_grant(at, attachment.peer, ball.grant);
        }
        let link = &mut self.links[at];
        if ball.asks {
            link.liveness.answer();
        }
        if !reflects && link.feedback.awaits_reflection() && link.liveness.unreflected_ball() {
            return Err(DownReason::Unreflected);
        }
        if ball.owes {
            return Ok(());
        }
        let link = &self.links[at];
        let waits = |slot: &OutSlot| {
            matches!(
                slot.progress,
                Progress::Executing | Progress::Tentative | Progress::Committing
            ) && link.feedback.is_reflected(slot.record_sequence)
        };
        let asks = |&transaction| {
            let asked = self.transactions[transaction].asked;
            asked.is_some_and(|asked| link.feedback.is_reflected(asked.record_sequence))
        };
        if link.outbound.iter().any(waits) || link.asked.iter().any(asks) {
            return Err(DownReason::Unanswered);
        }
        Ok(())
    }

    /// The slot that an answer is about.
    #[inline]
    fn answered_slot(
        &mut self,
        at: usize,
        message: &Message<'_>,
    ) -> Result<&mut OutSlot, DownReason> {
        let header = &message.header;
        match self.links[at].outbound.get_mut(header.slot) {
            Some(slot)
                if slot.sequence == header.slot_sequence
                    && message.payload_bytes() <= MAX_PAYLOAD_BYTES =>
            {
                Ok(slot)
            }
            _ => Err(DownReason::Violation),
        }
    }

    /// Ends the exchange of the answered slot as committed, with the message's payload as the reply.
    #[inline]
    fn conclude(&mut self, at: usize, message: &Message<'_>, host: &mut impl Host) {
        let Some(slot) = self.links[at].outbound.get_mut(message.header.slot) else {
            return;
        };
        let transaction = slot.transaction;
        self.release_slot(transaction);
        self.links[at].counters.committed += 1;
        self.clear_doubt(transaction);
        let entry = &self.transactions[transaction];
        let told = entry.wanted.then_some(entry.token);
        self.transactions.release(transaction);
        if let Some(token) = told {
            host.complete(
                token,
                Outcome::Committed(message.payload(&mut self.scratch)),
            );
        }
    }
}
