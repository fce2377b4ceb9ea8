//! Selection of the messages of the next frame.
//!
//! The order is: a handshake, alone; the rest of a long message; replies of exchanges; replies to
//! queries; queries; relayed messages; control messages of trees and channels; frames of paths; new
//! exchanges; commits and reflections that were not piggybacked on any of these; and otherwise the
//! keepalive when it is due. Everything waits in a queue, so an idle link costs a few comparisons.

use super::{LinkState, Mode, Node, PATH_PORTS, resolve};
use crate::{
    latch::{LatchSet, Standing, Verdict},
    link::{Attachment, Link, Part, handshake::Hello, keepalive::Keepalive, outbound::Progress},
    transaction::{Index, List, SentQuery},
    wire::{
        FRAME_PAYLOAD_BYTES_MAX,
        frame::{BROADCAST, FrameWriter},
        message::records_for,
        record::NO_PIGGYBACK,
        slice::Kind,
    },
};

/// The next message does not fit into this frame or into the window.
pub(super) struct Blocked;

impl Node {
    /// Whether [`Node::poll_transmit`] would give a frame for `port`.
    #[inline]
    #[must_use]
    pub fn has_work(&self, port: u16) -> bool {
        self.link_of(port).is_some_and(|at| self.has_work_at(at))
    }

    /// Likewise for a link.
    #[inline]
    pub(super) fn has_work_at(&self, at: usize) -> bool {
        let link = &self.links[at];
        if link.state() != LinkState::Down && link.epochs.handshake.due {
            return true;
        }
        if link.epochs.handshake.is_owed() {
            return false;
        }
        let Some(attachment) = link.attachment() else {
            return false;
        };
        #[cfg(feature = "arbitrary-state")]
        if self.has_lies(link) {
            return true;
        }
        let peer = &self.peers[attachment.peer];
        // The first message in the order of `write_messages`: nothing overtakes it. A longer
        // message counts as one frame.
        let first = if link.departing.is_in_flight() {
            Some(link.departing.next_bytes())
        } else if let Some(number) = link.inbound.next_answer() {
            Some(self.latches[attachment.set].latches[usize::from(number)].answer_bytes())
        } else if let Some(verdict) = link.inbound.next_verdict() {
            let (head, reply) = Self::answer(self.verdict_set(attachment, verdict), verdict);
            Some(head.len() + reply.len())
        } else if !peer.unresolved.is_empty() && Self::may_query(link, attachment) {
            Some(resolve::QUESTION_BYTES)
        } else if let Some(bytes) = self.relay_bytes(at) {
            Some(bytes)
        } else if let Some(bytes) = self.fabric_bytes(link) {
            Some(bytes)
        } else if let Some(transaction) = self.next_request(link, &peer.queue) {
            Some(self.transactions.payload_bytes(transaction))
        } else if link.outbound.has_commits() || link.inbound.has_reflections() {
            Some(0)
        } else {
            None
        };
        first.is_some_and(|bytes| {
            let records = records_for(bytes.min(FRAME_PAYLOAD_BYTES_MAX));
            link.feedback.may_send(records) || link.must_ping()
        }) || (link.liveness.keepalive_due() && link.feedback.may_send_keepalive())
    }

    /// The latches that a resolution reply is about.
    fn verdict_set(&self, attachment: Attachment, verdict: Verdict) -> Option<&LatchSet> {
        self.set_of(attachment.peer, verdict.port)
            .map(|set| &self.latches[set])
    }

    /// The exchange that takes the next slot of `link`, if one may now.
    #[inline]
    pub(super) fn next_request(&self, link: &Link, queue: &List) -> Option<Index> {
        let transaction = queue.first().filter(|_| link.outbound.has_free())?;
        let waits = self.transactions[transaction].mode == Mode::TwoPhase
            && link.outbound.holds_back(queue.len());
        (!waits).then_some(transaction)
    }

    /// Writes one whole Ethernet frame for `port` into `frame` and returns its length. `frame` must
    /// have at least [`FRAME_BYTES_MAX`](crate::FRAME_BYTES_MAX) bytes. Call it until it returns
    /// `None`. The caller must send each frame once and in order, or report it with
    /// [`Node::on_transmit_failed`].
    #[inline]
    pub fn poll_transmit(&mut self, port: u16, frame: &mut [u8]) -> Option<usize> {
        let at = self.link_of(port)?;
        self.clock.begin_frame();
        self.poll_transmit_at(at, frame)
    }

    /// Likewise for a link, in a frame that has begun.
    #[inline]
    pub(super) fn poll_transmit_at(&mut self, at: usize, frame: &mut [u8]) -> Option<usize> {
        let link = &self.links[at];
        if link.state() == LinkState::Down {
            return None;
        }
        let mut writer = FrameWriter::new(frame)?;
        let destination = if link.epochs.handshake.due {
            self.write_handshake(at, &mut writer);
            BROADCAST
        } else if link.epochs.handshake.is_owed() {
            return None;
        } else {
            let attachment = link.attachment()?;
            if self.links[at].epochs.sent_era == self.clock.era() || self.write_era(at, &mut writer)
            {
                // A blocked message stays in its queue, and nothing overtakes it.
                let blocked = self.write_messages(at, attachment, &mut writer).is_err();
                let link = &mut self.links[at];
                if blocked && writer.records() == 0 && link.must_ping() {
                    link.liveness.ping();
                }
                self.write_keepalive(at, &mut writer);
            }
            attachment.mac
        };
        if writer.records() == 0 {
            return None;
        }
        let link = &mut self.links[at];
        link.counters.tx_frames += 1;
        Some(writer.finish(destination, link.mac, self.config.ethertype))
    }

    fn write_messages(
        &mut self,
        at: usize,
        attachment: Attachment,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        self.write_departing(at, attachment, writer)?;
        self.write_answers(at, attachment, writer)?;
        self.write_verdicts(at, attachment, writer)?;
        self.write_questions(at, attachment, writer)?;
        self.write_relays(at, attachment, writer)?;
        #[cfg(feature = "arbitrary-state")]
        self.write_lies(at, writer)?;
        self.write_fabric(at, attachment, writer)?;
        self.write_requests(at, attachment, writer)?;
        self.write_commits(at, writer)?;
        self.write_reflections(at, attachment, writer)
    }

    #[cold]
    fn write_handshake(&mut self, at: usize, writer: &mut FrameWriter<'_>) {
        let link = &mut self.links[at];
        Hello {
            epoch: link.epoch(),
            guid: self.config.guid,
            incarnation: self.config.incarnation,
            received: link.epochs.handshake.received,
            echo_is_old: link.epochs.wiring.is_echo_old(),
            port: link.port,
            slots: link.slots(),
            grant: link.inbound.grant(),
            window_records: link.inbound.window_records(),
            expects_reply: link.state() != LinkState::Up,
            name: self.config.name,
        }
        .write(writer);
        link.epochs.handshake_sent();
    }

    /// Writes the rest of a loaded message, with a piggybacked slot on each fragment.
    #[inline]
    pub(super) fn write_departing(
        &mut self,
        at: usize,
        attachment: Attachment,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        while self.links[at].departing.is_in_flight() {
            self.write_fragment(at, attachment, writer)?;
        }
        Ok(())
    }

    #[cold]
    fn write_fragment(
        &mut self,
        at: usize,
        attachment: Attachment,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        let Self {
            links,
            latches,
            clock,
            ..
        } = self;
        let link = &mut links[at];
        if !link.may_send(writer, link.departing.next_bytes()) {
            return Err(Blocked);
        }
        // Lent, because the link writes it.
        let mut departing = core::mem::take(&mut link.departing);
        if let Some(mut part) = departing.next() {
            let is_request = matches!(part.kind, Kind::Request | Kind::Tentative);
            part.piggyback = if is_request {
                link.outbound.take_commit()
            } else if part.kind == Kind::Pass {
                NO_PIGGYBACK
            } else {
                link.inbound.take_reflection(&mut latches[attachment.set])
            };
            let record_sequence = link.write(writer, clock, &part);
            if is_request {
                link.outbound.committing(part.piggyback, record_sequence);
                link.outbound.sent(part.slot, record_sequence);
            }
        }
        let was = departing.advance();
        link.departing = departing;
        if let Some((kind, number)) = was {
            self.on_departed(at, attachment, kind, number);
        }
        Ok(())
    }

    /// The last fragment of a message was written.
    #[cold]
    fn on_departed(&mut self, at: usize, attachment: Attachment, kind: Kind, number: u8) {
        let link = &mut self.links[at];
        let record = link.feedback.next_sequence().wrapping_sub(1);
        match kind {
            Kind::Reflecting | Kind::Committed => {
                let latches = &mut self.latches[attachment.set].latches;
                if let Some(latch) = latches.get_mut(usize::from(number)) {
                    latch.answer_due = false;
                    latch.answer_record = record;
                }
            }
            Kind::Resolved => {
                if let Some(verdict) = link.inbound.departing_verdict.take()
                    && let Some(set) = self.set_of(attachment.peer, verdict.port)
                {
                    self.latches[set].record_answer(&verdict, at, record);
                }
            }
            _ => {}
        }
    }

    #[inline]
    fn write_answers(
        &mut self,
        at: usize,
        attachment: Attachment,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        while let Some(number) = self.links[at].inbound.next_answer() {
            let Self {
                links,
                latches,
                clock,
                ..
            } = self;
            let link = &mut links[at];
            let set = &mut latches[attachment.set];
            let latch = &mut set.latches[usize::from(number)];
            let bytes = latch.answer_bytes();
            if bytes <= FRAME_PAYLOAD_BYTES_MAX && !link.may_send(writer, bytes) {
                return Err(Blocked);
            }
            link.inbound.answer_taken();
            let sequence = latch.sequence;
            let refusal;
            let (kind, payload) = match latch.standing {
                Standing::Committed { two_phase } => {
                    let kind = if two_phase {
                        Kind::Committed
                    } else {
                        Kind::Reflecting
                    };
                    (kind, None)
                }
                Standing::Refused(reason) => {
                    refusal = [reason.to_byte()];
                    (Kind::Refused, Some(&refusal[..]))
                }
                // The initiator no longer expects it on this link.
                Standing::Tentative
                | Standing::Undone
                | Standing::NeverSeen
                | Standing::Empty
                | Standing::Forgotten
                | Standing::ForgottenUntil => {
                    latch.answer_due = false;
                    continue;
                }
            };
            if bytes > FRAME_PAYLOAD_BYTES_MAX {
                link.departing
                    .load(kind, number, sequence, &[], set.bytes(number));
                self.write_departing(at, attachment, writer)?;
                continue;
            }
            latch.answer_due = false;
            // The peer receives all records of the message or none.
            latch.answer_record = link.feedback.next_sequence();
            let piggyback = link.inbound.take_reflection(set);
            let payload = payload.unwrap_or_else(|| set.bytes(number));
            let part = Part {
                piggyback,
                ..Part::whole(kind, number, sequence, payload)
            };
            link.write_here(writer, clock, &part);
        }
        Ok(())
    }

    #[inline]
    fn write_verdicts(
        &mut self,
        at: usize,
        attachment: Attachment,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        while let Some(verdict) = self.links[at].inbound.take_verdict() {
            if self.is_withheld(attachment.peer, verdict) {
                // The latch held another exchange when the query arrived.
                self.links[at].inbound.report(verdict, true);
                continue;
            }
            let set = self.set_of(attachment.peer, verdict.port);
            let (head, reply) = Self::answer(set.map(|set| &self.latches[set]), verdict);
            let link = &mut self.links[at];
            link.inbound.departing_verdict = (verdict.port >= PATH_PORTS).then_some(verdict);
            link.departing
                .load(Kind::Resolved, verdict.slot, verdict.sequence, &head, reply);
            self.write_departing(at, attachment, writer)?;
        }
        Ok(())
    }

    fn may_query(link: &Link, attachment: Attachment) -> bool {
        link.outbound.queried.len() < usize::from(attachment.slots.min(link.slots()))
    }

    #[inline]
    fn write_questions(
        &mut self,
        at: usize,
        attachment: Attachment,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        while let Some(transaction) = self.peers[attachment.peer].unresolved.first() {
            if !Self::may_query(&self.links[at], attachment) {
                return Ok(());
            }
            if !self.links[at].may_send(writer, resolve::QUESTION_BYTES) {
                return Err(Blocked);
            }
            self.peers[attachment.peer]
                .unresolved
                .pop_front(&self.transactions);
            let Some(question) = self.question(transaction) else {
                continue;
            };
            let bytes = question.to_bytes();
            let link = &mut self.links[at];
            let piggyback = link.outbound.take_commit();
            let verdict = question.verdict;
            let part = Part {
                piggyback,
                ..Part::whole(Kind::Resolve, verdict.slot, verdict.sequence, &bytes)
            };
            let record_sequence = link.write(writer, &mut self.clock, &part);
            link.outbound.committing(piggyback, record_sequence);
            self.transactions[transaction].queried = Some(SentQuery {
                link: at,
                place: link.outbound.queried.len(),
                record_sequence,
            });
            link.outbound.queried.push(transaction);
        }
        Ok(())
    }

    #[inline]
    fn write_requests(
        &mut self,
        at: usize,
        attachment: Attachment,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        while let Some(transaction) =
            self.next_request(&self.links[at], &self.peers[attachment.peer].queue)
        {
            let Self {
                links,
                peers,
                transactions,
                clock,
                ..
            } = self;
            let link = &mut links[at];
            let bytes = transactions.payload_bytes(transaction);
            if bytes <= FRAME_PAYLOAD_BYTES_MAX && !link.may_send(writer, bytes) {
                return Err(Blocked);
            }
            let (kind, progress) = match transactions[transaction].mode {
                Mode::OnePhase => (Kind::Request, Progress::Executing),
                Mode::TwoPhase => (Kind::Tentative, Progress::Tentative),
            };
            let Some((number, sequence)) = link.outbound.take(transaction, progress) else {
                return Ok(());
            };
            peers[attachment.peer].queue.pop_front(transactions);
            let entry = &mut transactions[transaction];
            entry.link = at;
            entry.slot = number;
            let payload = transactions.payload(transaction);
            if bytes > FRAME_PAYLOAD_BYTES_MAX {
                link.departing.load(kind, number, sequence, &[], payload);
                self.write_departing(at, attachment, writer)?;
                continue;
            }
            let piggyback = link.outbound.take_commit();
            let part = Part {
                piggyback,
                ..Part::whole(kind, number, sequence, payload)
            };
            let record_sequence = link.write_here(writer, clock, &part);
            link.outbound.committing(piggyback, record_sequence);
            link.outbound.sent(number, record_sequence);
        }
        Ok(())
    }

    /// Writes message 3 of the slots whose commits were not piggybacked, two in each record.
    #[inline]
    fn write_commits(&mut self, at: usize, writer: &mut FrameWriter<'_>) -> Result<(), Blocked> {
        let link = &mut self.links[at];
        while link.outbound.has_commits() {
            if !link.may_send(writer, 0) {
                return Err(Blocked);
            }
            let number = link.outbound.take_commit();
            let piggyback = link.outbound.take_commit();
            let sequence = link
                .outbound
                .get_mut(number)
                .map_or(0, |slot| slot.sequence);
            let part = Part {
                piggyback,
                ..Part::whole(Kind::Commit, number, sequence, &[])
            };
            let record_sequence = link.write(writer, &mut self.clock, &part);
            link.outbound.committing(number, record_sequence);
            link.outbound.committing(piggyback, record_sequence);
        }
        Ok(())
    }

    /// Writes message 2 of the slots whose reflections were not piggybacked, two in each record.
    #[inline]
    fn write_reflections(
        &mut self,
        at: usize,
        attachment: Attachment,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        let link = &mut self.links[at];
        let set = &mut self.latches[attachment.set];
        while link.inbound.has_reflections() {
            if !link.may_send(writer, 0) {
                return Err(Blocked);
            }
            let number = link.inbound.take_reflection(set);
            let Some(latch) = set.latches.get(usize::from(number)) else {
                return Ok(());
            };
            let sequence = latch.sequence;
            let piggyback = link.inbound.take_reflection(set);
            let part = Part {
                piggyback,
                ..Part::whole(Kind::Reflecting, number, sequence, &[])
            };
            link.write(writer, &mut self.clock, &part);
        }
        Ok(())
    }

    /// Writes the keepalive if it is a ping or a reply to one, or if it is due and only control
    /// messages are sent. Any other message reflects as well as a keepalive.
    #[inline]
    fn write_keepalive(&mut self, at: usize, writer: &mut FrameWriter<'_>) {
        let link = &self.links[at];
        if link.liveness.keepalive_due() {
            self.write_keepalive_now(at, writer);
        }
    }

    /// Sends the era of the clock before any message that counts in it. Returns whether it was
    /// sent. Without a message to send, the era waits for the next one.
    #[cold]
    fn write_era(&mut self, at: usize, writer: &mut FrameWriter<'_>) -> bool {
        if !self.has_work_at(at) {
            return false;
        }
        self.write_keepalive_now(at, writer);
        self.links[at].epochs.sent_era == self.clock.era()
    }

    fn write_keepalive_now(&mut self, at: usize, writer: &mut FrameWriter<'_>) {
        let link = &mut self.links[at];
        if writer.room() == 0 || !link.feedback.may_send_keepalive() {
            return;
        }
        let era = self.clock.era();
        let keepalive = Keepalive {
            owes: link.owes() || self.relays[at].owes(),
            expects_reply: link.liveness.ping_due(),
            grant: link.inbound.grant(),
            port: link.port,
            guid: self.config.guid,
            incarnation: self.config.incarnation,
            era,
            window_records: link.inbound.window_records() as u8,
            slots: link.slots(),
            name: self.config.name.mark(),
        };
        let payload = keepalive.to_bytes();
        let sequence = link.write(
            writer,
            &mut self.clock,
            &Part::whole(Kind::Keepalive, 0, 0, &payload),
        );
        link.epochs.sent_era = era;
        link.liveness.keepalive_sent(sequence);
    }
}
