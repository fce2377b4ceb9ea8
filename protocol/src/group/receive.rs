//! Envelopes that come: each pair's are taken in order.

use super::{
    Group, Phase,
    pair::Place,
    wire::{BadEnvelope, Body, Envelope},
};

impl Group {
    /// An envelope came, from an application of the node `sender_guid`.
    ///
    /// # Errors
    /// It is not one, or breaks a bound. It was dropped and counted, and evicts nobody.
    pub fn on_envelope(&mut self, sender_guid: u64, bytes: &[u8]) -> Result<(), BadEnvelope> {
        let result = Envelope::decode(bytes)
            .and_then(|envelope| self.receive(sender_guid, &envelope, bytes));
        if let Err(error) = &result {
            self.count(*error);
        }
        self.settle();
        result
    }

    fn count(&mut self, error: BadEnvelope) {
        self.counters.bad_envelopes[error.index()] += 1;
    }

    fn receive(
        &mut self,
        sender_guid: u64,
        envelope: &Envelope<'_>,
        bytes: &[u8],
    ) -> Result<(), BadEnvelope> {
        let head = &envelope.head;
        if matches!(self.phase, Phase::Stopped | Phase::Left) {
            return Ok(());
        }
        let Some(at) = self.pair_of(head.life) else {
            // One who was a member says what is worth nothing any more.
            let old = head.group == self.view.group && head.view <= self.view.number;
            return if old {
                Ok(())
            } else {
                Err(BadEnvelope::NoRoom)
            };
        };
        let pair = &mut self.pairs[at];
        if pair.contact.guid != sender_guid {
            return Err(BadEnvelope::Sender);
        }
        if head.group != self.view.group {
            return Err(BadEnvelope::OtherGroup);
        }
        if head.view < pair.since {
            return Ok(());
        }
        let Some(number) = head.number else {
            return pair.on_acknowledged(head.taken);
        };
        match pair.place(number)? {
            Place::Duplicate => self.counters.duplicates += 1,
            Place::Next if self.is_takeable(envelope) => self.take(at, envelope)?,
            Place::Next | Place::Early => self.pairs[at].keep(number, bytes),
        }
        Ok(())
    }

    /// Whether an envelope that is next in its pair's order can be taken now.
    fn is_takeable(&self, envelope: &Envelope<'_>) -> bool {
        envelope.head.view <= self.view.number
    }

    fn take(&mut self, at: usize, envelope: &Envelope<'_>) -> Result<(), BadEnvelope> {
        let Envelope { head, body } = envelope;
        let pair = &mut self.pairs[at];
        pair.take();
        self.counters.envelopes_taken += 1;
        pair.on_acknowledged(head.taken)?;
        let Some(rank) = pair.rank.filter(|_| head.view == self.view.number) else {
            return Ok(());
        };
        let (from, n) = (head.from.map(usize::from), usize::from(head.members));
        if from != Some(rank) || n != self.view.members.len() {
            return Err(BadEnvelope::Violation);
        }
        match body {
            Body::Flow(batch) => self.take_flow(rank, &head.frontier, *batch),
            Body::Change {
                change,
                known,
                claims,
            } => {
                let row = (&head.frontier, head.decided);
                self.take_change(rank, row, change, (*known, claims));
                Ok(())
            }
            _ => Err(BadEnvelope::Kind(0)),
        }
    }

    /// Does all that follows from what is known, until nothing more does.
    pub(super) fn settle(&mut self) {
        loop {
            while self.take_kept() {}
            match self.phase {
                Phase::Flowing => {
                    self.declare_null();
                    self.ask_to_leave();
                    if !self.must_change() {
                        break;
                    }
                    self.wedge();
                }
                Phase::Wedged => {
                    self.pursue_change();
                    if self.phase == Phase::Wedged {
                        break;
                    }
                }
                Phase::Ending => {
                    if !self.install() {
                        break;
                    }
                }
                Phase::Seeking | Phase::Stopped | Phase::Left => break,
            }
        }
        self.sweep_pairs();
    }

    fn take_kept(&mut self) -> bool {
        let mut took = false;
        for at in 0..self.pairs.len() {
            while let Some(Ok(envelope)) = self.pairs[at].kept().map(Envelope::decode) {
                if !self.is_takeable(&envelope) {
                    break;
                }
                let bytes = self.pairs[at].take_kept();
                if let Ok(envelope) = Envelope::decode(&bytes)
                    && let Err(error) = self.take(at, &envelope)
                {
                    self.count(error);
                }
                self.pairs[at].return_room(bytes);
                took = true;
            }
        }
        took
    }
}
