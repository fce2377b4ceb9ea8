//! What goes into the next frame.
//!
//! In this order: a handshake, alone; messages due (commits and answers); answers to resolutions; questions; new
//! exchanges; and if none of that, the ball when it is due. Everything waits in a queue, so an idle link costs a few
//! comparisons.

use super::{LinkState, Mode, Node, resolve};
use crate::{
    latch::{Latch, Standing},
    link::{Attachment, Due, Verdict, ball::Ball, handshake::Hello, outbound::Progress},
    transaction::Asked,
    wire::{
        frame::{BROADCAST, FrameWriter},
        message::records_for,
        slice::Kind,
    },
};

/// The next message does not fit into this frame or into the window.
struct Blocked;

impl Node {
    /// Whether [`Node::poll_transmit`] would give a frame for `port`.
    #[inline]
    #[must_use]
    pub fn has_work(&self, port: u16) -> bool {
        let Some(link) = self.link_of(port).map(|at| &self.links[at]) else {
            return false;
        };
        if link.state != LinkState::Down && link.handshake.due {
            return true;
        }
        let Some(attachment) = link.attachment else {
            return false;
        };
        let peer = &self.peers[attachment.peer];
        // What is first in the order of `write_messages`, for nothing overtakes it.
        let first = if let Some(due) = link.due.front() {
            Some(match due {
                Due::Commit(_) => 0,
                Due::Answer(number) => {
                    self.latches[attachment.set].latches[usize::from(*number)].answer_bytes()
                }
            })
        } else if let Some(verdict) = link.verdicts.front() {
            Some(Self::answer_bytes(self.verdict_latch(attachment, *verdict)))
        } else if !peer.unresolved.is_empty() && self.may_ask(link.asked.len(), attachment) {
            Some(resolve::QUESTION_BYTES)
        } else {
            peer.queue
                .first()
                .filter(|_| link.outbound.has_free())
                .map(|transaction| self.transactions.payload_bytes(transaction))
        };
        first.is_some_and(|bytes| link.feedback.may_send(records_for(bytes)))
            || ((link.ball_due || link.liveness.ball_due()) && link.feedback.may_send_ball())
    }

    /// The latch that an answer to a resolution tells of.
    fn verdict_latch(&self, attachment: Attachment, verdict: Verdict) -> Option<&Latch> {
        self.set_of(attachment.peer, verdict.port)
            .and_then(|set| self.latches[set].latches.get(usize::from(verdict.slot)))
    }

    /// Writes one whole Ethernet frame for `port` into `frame`, which must have [`crate::FRAME_BYTES_MAX`] bytes at
    /// least, and returns its length. Call it until it returns `None`. Each frame given out must be sent, once and in
    /// order, or be reported by [`Node::on_transmit_failed`].
    #[inline]
    pub fn poll_transmit(&mut self, port: u16, frame: &mut [u8]) -> Option<usize> {
        let at = self.link_of(port)?;
        let link = &self.links[at];
        if link.state == LinkState::Down {
            return None;
        }
        let mut writer = FrameWriter::new(frame)?;
        let destination = if link.handshake.due {
            self.write_handshake(at, &mut writer);
            BROADCAST
        } else {
            let attachment = link.attachment?;
            // Whatever is blocked stays where it is; nothing overtakes it.
            let _blocked = self.write_messages(at, attachment, &mut writer);
            self.write_ball(at, &mut writer);
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
        self.write_due(at, attachment, writer)?;
        self.write_verdicts(at, attachment, writer)?;
        self.write_questions(at, attachment, writer)?;
        self.write_requests(at, attachment, writer)
    }

    #[cold]
    fn write_handshake(&mut self, at: usize, writer: &mut FrameWriter<'_>) {
        let link = &mut self.links[at];
        Hello {
            epoch: link.epoch,
            guid: self.config.guid,
            incarnation: self.config.incarnation,
            heard: link.handshake.heard,
            port: link.port,
            slots: self.config.slots,
            grant: link.grant,
            window_records: link.window_records,
            asks: link.state != LinkState::Up,
            name: self.config.name,
        }
        .write(writer);
        link.handshake.sent(link.epoch);
    }

    #[inline]
    fn write_due(
        &mut self,
        at: usize,
        attachment: Attachment,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        let link = &mut self.links[at];
        while let Some(&due) = link.due.front() {
            match due {
                Due::Commit(number) => {
                    if !link.may_send(writer, 0) {
                        return Err(Blocked);
                    }
                    let sequence = link
                        .outbound
                        .get_mut(number)
                        .map_or(0, |slot| slot.sequence);
                    let record_sequence = link.write(writer, Kind::Commit, number, sequence, &[]);
                    if let Some(slot) = link.outbound.get_mut(number) {
                        slot.progress = Progress::Committing;
                        slot.record_sequence = record_sequence;
                    }
                }
                Due::Answer(number) => {
                    let latch = &mut self.latches[attachment.set].latches[usize::from(number)];
                    if !link.may_send(writer, latch.answer_bytes()) {
                        return Err(Blocked);
                    }
                    latch.answer_due = false;
                    let refusal;
                    let answer = match latch.standing {
                        Standing::Tentative => Some((Kind::Reflecting, &[][..])),
                        Standing::Committed { two_phase: false } => {
                            Some((Kind::Reflecting, latch.bytes()))
                        }
                        Standing::Committed { two_phase: true } => {
                            Some((Kind::Committed, latch.bytes()))
                        }
                        Standing::Refused(reason) => {
                            refusal = [reason.to_byte()];
                            Some((Kind::Refused, &refusal[..]))
                        }
                        // Reversed over another link meanwhile: the initiator no longer listens here.
                        Standing::Undone | Standing::Virgin | Standing::Forgotten => None,
                    };
                    if let Some((kind, payload)) = answer {
                        link.write(writer, kind, number, latch.sequence, payload);
                    }
                }
            }
            link.due.pop_front();
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
        while let Some(&verdict) = self.links[at].verdicts.front() {
            let latch = self
                .set_of(attachment.peer, verdict.port)
                .and_then(|set| self.latches[set].latches.get(usize::from(verdict.slot)));
            if !self.links[at].may_send(writer, Self::answer_bytes(latch)) {
                return Err(Blocked);
            }
            let len = Self::answer(latch, verdict, &mut self.scratch);
            let link = &mut self.links[at];
            link.write(
                writer,
                Kind::Resolved,
                verdict.slot,
                verdict.sequence,
                &self.scratch[..len],
            );
            link.verdicts.pop_front();
        }
        Ok(())
    }

    fn may_ask(&self, asked: usize, attachment: Attachment) -> bool {
        asked < usize::from(attachment.slots.min(self.config.slots))
    }

    #[inline]
    fn write_questions(
        &mut self,
        at: usize,
        attachment: Attachment,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        while let Some(transaction) = self.peers[attachment.peer].unresolved.first() {
            if !self.may_ask(self.links[at].asked.len(), attachment) {
                return Ok(());
            }
            if !self.links[at].may_send(writer, resolve::QUESTION_BYTES) {
                return Err(Blocked);
            }
            self.peers[attachment.peer]
                .unresolved
                .pop_front(&self.transactions);
            let entry = &mut self.transactions[transaction];
            let Some(unresolved) = entry.unresolved else {
                continue;
            };
            let question = resolve::question(self.links[entry.link].port, unresolved.commit);
            let link = &mut self.links[at];
            let record_sequence = link.write(
                writer,
                Kind::Resolve,
                entry.slot,
                unresolved.sequence,
                &question,
            );
            entry.asked = Some(Asked {
                link: at,
                place: link.asked.len(),
                record_sequence,
            });
            link.asked.push(transaction);
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
        let Self {
            links,
            peers,
            transactions,
            ..
        } = self;
        let link = &mut links[at];
        let queue = &mut peers[attachment.peer].queue;
        while link.outbound.has_free()
            && let Some(transaction) = queue.first()
        {
            if !link.may_send(writer, transactions.payload_bytes(transaction)) {
                return Err(Blocked);
            }
            let (kind, progress) = match transactions[transaction].mode {
                Mode::OnePhase => (Kind::Request, Progress::Executing),
                Mode::TwoPhase => (Kind::Tentative, Progress::Tentative),
            };
            let Some((number, sequence)) = link.outbound.take(transaction, progress) else {
                return Ok(());
            };
            queue.pop_front(transactions);
            let record_sequence = link.write(
                writer,
                kind,
                number,
                sequence,
                transactions.payload(transaction),
            );
            if let Some(slot) = link.outbound.get_mut(number) {
                slot.record_sequence = record_sequence;
            }
            let entry = &mut transactions[transaction];
            entry.link = at;
            entry.slot = number;
        }
        Ok(())
    }

    /// The ball, if it asks or was asked for; or if it is due and nothing else is said, for whatever is said reflects as
    /// well as it does.
    #[inline]
    fn write_ball(&mut self, at: usize, writer: &mut FrameWriter<'_>) {
        let link = &mut self.links[at];
        let due = link.liveness.ball_due() || (link.ball_due && writer.records() == 0);
        if due && writer.room() > 0 && link.feedback.may_send_ball() {
            let ball = Ball {
                owes: link.owes(),
                asks: link.liveness.ask_due(),
                grant: link.grant,
                port: link.port,
                guid: self.config.guid,
                incarnation: self.config.incarnation,
            };
            let sequence = link.write(writer, Kind::Ball, 0, 0, &ball.to_bytes());
            link.liveness.said_ball(sequence);
        }
    }
}
