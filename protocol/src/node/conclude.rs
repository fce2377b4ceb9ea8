//! The initiator's half of an exchange.

use super::Node;
use crate::{
    Host, Outcome, Refusal,
    event::DownReason,
    latch::{Latch, Standing},
    link::{
        keepalive::Keepalive,
        outbound::{OutSlot, Progress},
    },
    wire::record::Header,
};

impl Node {
    /// Message 2: done with a reply (1PC), or kept (2PC).
    #[inline]
    pub(super) fn on_reflecting(
        &mut self,
        at: usize,
        header: &Header,
        payload: &[u8],
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        match self.answered_slot(at, header)?.progress {
            Progress::Executing => self.conclude(at, header.slot, payload, host),
            Progress::Tentative if payload.is_empty() => self.kept(at, header.slot),
            _ => Err(DownReason::Violation),
        }
    }

    /// Message 2 of a 2PC for a slot: the peer keeps the request.
    #[inline]
    pub(super) fn kept(&mut self, at: usize, number: u8) -> Result<(), DownReason> {
        let link = &mut self.links[at];
        if link.outbound.kept(number) {
            Ok(())
        } else {
            Err(DownReason::Violation)
        }
    }

    /// Message 4: done with a reply.
    #[inline]
    pub(super) fn on_committed(
        &mut self,
        at: usize,
        header: &Header,
        payload: &[u8],
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        match self.answered_slot(at, header)?.progress {
            Progress::Committing => self.conclude(at, header.slot, payload, host),
            _ => Err(DownReason::Violation),
        }
    }

    /// Message 2, JAM.
    pub(super) fn on_refused(
        &mut self,
        at: usize,
        header: &Header,
        payload: &[u8],
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let slot = self.answered_slot(at, header)?;
        let transaction = slot.transaction;
        if !matches!(slot.progress, Progress::Executing | Progress::Tentative) {
            return Err(DownReason::Violation);
        }
        let &[reason] = payload else {
            return Err(DownReason::Violation);
        };
        self.release_slot(transaction);
        self.links[at].counters.refused += 1;
        self.finish(
            transaction,
            Outcome::Refused(Refusal::from_byte(reason)),
            host,
        );
        Ok(())
    }

    /// A keepalive. Its sender must be the one of the handshake. If it owes nothing, it must have
    /// answered everything that it received. `reflects`: it reflects something new.
    ///
    /// This recovers a link from *any* state of its two ends: otherwise an exchange that is open at
    /// one end and unknown at the other would wait forever, or keep its reservations.
    pub(super) fn on_keepalive(
        &mut self,
        at: usize,
        payload: &[u8],
        reflects: bool,
    ) -> Result<(), DownReason> {
        let keepalive = Keepalive::read(payload).ok_or(DownReason::Violation)?;
        let attachment = self.links[at].attachment().ok_or(DownReason::Violation)?;
        let peer = &self.peers[attachment.peer];
        // Must match the handshake, if that was its own.
        if (
            keepalive.guid,
            keepalive.port,
            keepalive.slots,
            keepalive.name,
        ) != (
            peer.guid,
            attachment.port,
            attachment.slots,
            attachment.name,
        ) {
            return Err(DownReason::PeerMoved);
        }
        if keepalive.incarnation != peer.incarnation {
            return Err(DownReason::PeerRestarted);
        }
        if keepalive.grant != attachment.granted {
            self.on_grant(at, attachment.peer, keepalive.grant);
        }
        self.on_window(at, keepalive.window_records.into());
        let link = &mut self.links[at];
        link.epochs.received_era = keepalive.era;
        if keepalive.expects_reply {
            link.liveness.answer();
        }
        if !reflects
            && link.feedback.awaits_reflection()
            && link.liveness.count_unreflected_keepalive()
        {
            return Err(DownReason::Unreflected);
        }
        // The peer has received at most a part of a message that is still departing.
        if keepalive.owes || link.departing.is_in_flight() {
            return Ok(());
        }
        let waits = |slot: &OutSlot| {
            matches!(
                slot.progress,
                Progress::Executing | Progress::Tentative | Progress::Committing
            ) && link.feedback.is_reflected(slot.record_sequence)
        };
        let expects_reply = |&transaction| {
            let queried = self.transactions[transaction].queried;
            queried.is_some_and(|queried| link.feedback.is_reflected(queried.record_sequence))
        };
        let relayed = |record| link.feedback.is_reflected(record);
        // An initiator that received message 2 owes message 3, or has sent it.
        let is_kept = |(slot, latch): (usize, &Latch)| {
            latch.standing == Standing::Tentative && !link.inbound.is_reflection_due(slot as u8)
        };
        let latches = &self.latches[attachment.set].latches;
        let is_forgotten = || latches.iter().enumerate().any(is_kept);
        if !link.feedback.awaits_reflection() && is_forgotten() {
            return Err(DownReason::Unanswered);
        }
        if link.outbound.iter().any(waits)
            || link.outbound.queried.iter().any(expects_reply)
            || self.relays[at].waits().any(relayed)
        {
            return Err(DownReason::Unanswered);
        }
        Ok(())
    }

    /// The slot that an answer is about.
    #[inline]
    fn answered_slot(&mut self, at: usize, header: &Header) -> Result<&mut OutSlot, DownReason> {
        match self.links[at].outbound.get_mut(header.slot) {
            Some(slot) if slot.sequence == header.slot_sequence => Ok(slot),
            _ => Err(DownReason::Violation),
        }
    }

    /// Ends the exchange of the answered slot as committed, with `reply`.
    #[inline]
    fn conclude(
        &mut self,
        at: usize,
        number: u8,
        reply: &[u8],
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        if reply.len() > usize::from(self.config.message_bytes_max) {
            return Err(DownReason::Violation);
        }
        let slot = self.links[at].outbound.get_mut(number);
        let transaction = slot.ok_or(DownReason::Violation)?.transaction;
        self.release_slot(transaction);
        self.links[at].counters.committed += 1;
        self.finish(transaction, Outcome::Committed(reply), host);
        Ok(())
    }
}
