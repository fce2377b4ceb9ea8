//! Reception of envelopes: those of each pair are taken in order.

use super::{
    Group, Phase, Stop,
    contact::{Contact, View},
    pair::{Pair, Place},
    wire::{BadEnvelope, Body, Envelope},
};

impl Group {
    /// Takes an envelope from an application of the node `sender_guid`, if it carries the token of
    /// the sender that it names.
    ///
    /// # Errors
    /// It is no envelope, its sender is not authenticated, or it breaks a bound. It was dropped and
    /// counted, and evicts no other state.
    pub fn on_envelope(&mut self, sender_guid: u64, bytes: &[u8]) -> Result<(), BadEnvelope> {
        let result =
            Envelope::decode(bytes).and_then(|envelope| self.admit(sender_guid, &envelope, bytes));
        if let Err(error) = &result {
            self.count(*error);
        }
        result
    }

    /// Takes an envelope of an authenticated sender, or a challenge. Nothing else has an effect.
    fn admit(
        &mut self,
        sender_guid: u64,
        envelope: &Envelope<'_>,
        bytes: &[u8],
    ) -> Result<(), BadEnvelope> {
        let head = &envelope.head;
        let (sender, is_proven) = self.sender_of(sender_guid, head);
        let is_challenge = matches!(envelope.body, Body::Challenge);
        if !is_proven && !is_challenge {
            return Err(BadEnvelope::Unproven);
        }
        if !sender.owns_incarnation() {
            return Err(BadEnvelope::Incarnation);
        }
        if is_challenge {
            self.take_challenge(sender, is_proven, head.grant);
            return Ok(());
        }
        let result = self.receive(sender, envelope, bytes);
        self.settle();
        result
    }

    fn count(&mut self, error: BadEnvelope) {
        self.counters.bad_envelopes[error.index()] += 1;
    }

    fn receive(
        &mut self,
        sender: Contact,
        envelope: &Envelope<'_>,
        bytes: &[u8],
    ) -> Result<(), BadEnvelope> {
        let head = &envelope.head;
        if matches!(self.phase, Phase::Stopped | Phase::Left) {
            return self.receive_after_end(sender, envelope, bytes);
        }
        match envelope.body {
            Body::Hello {
                contact,
                terms,
                founders,
                ..
            } => {
                if contact != sender {
                    return Err(BadEnvelope::Sender);
                }
                self.on_group_of_sender(sender, head.group);
                self.take_hello((sender, head.grant), terms, founders, head.view > 0);
                return Ok(());
            }
            Body::Known {
                members,
                excluded,
                contacts,
            } => {
                if !self.believes(sender) {
                    return Err(BadEnvelope::Sender);
                }
                self.store_token(sender, head.grant);
                self.on_group_of_sender(sender, head.group);
                let of = (head.group, head.view);
                self.take_known(of, (members, excluded), contacts);
                return Ok(());
            }
            _ => {}
        }
        let searching = self.phase == Phase::Searching;
        if !searching && head.group != self.view.group {
            self.answer_non_member(sender);
            self.is_elsewhere(sender);
            return Err(BadEnvelope::OtherGroup);
        }
        let at = match self.pair_of(head.incarnation) {
            Some(at) => at,
            None if !searching && head.view <= self.view.number => {
                // An obsolete envelope of a former member.
                self.answer_non_member(sender);
                return Ok(());
            }
            None if head.number.is_none() => return Ok(()),
            None => self.pair_ahead(sender).ok_or(BadEnvelope::NoRoom)?,
        };
        let pair = &mut self.pairs[at];
        if pair.contact != sender {
            return Err(BadEnvelope::Sender);
        }
        pair.token = head.grant;
        if head.view < pair.since {
            return Ok(());
        }
        let Some(number) = head.number else {
            return pair.on_acknowledged(head.taken);
        };
        self.take_or_keep(at, number, envelope, bytes)
    }

    /// An envelope of a pair's order: it is taken if it is next, and kept if others come first.
    fn take_or_keep(
        &mut self,
        at: usize,
        number: u32,
        envelope: &Envelope<'_>,
        bytes: &[u8],
    ) -> Result<(), BadEnvelope> {
        match self.pairs[at].place(number)? {
            Place::Duplicate => self.counters.duplicates += 1,
            Place::Next if self.is_takeable(envelope) => self.take(at, envelope)?,
            Place::Next | Place::Early => self.pairs[at].keep(number, bytes),
        }
        Ok(())
    }

    /// A member that is out still reports the end of its last view. Acknowledgments free slots for
    /// that report, and a member that continued knows the end already. A member that left waits for
    /// both. It therefore continues to take envelopes, which carry acknowledgments and fill
    /// windows.
    fn receive_after_end(
        &mut self,
        sender: Contact,
        envelope: &Envelope<'_>,
        bytes: &[u8],
    ) -> Result<(), BadEnvelope> {
        let Envelope { head, body } = envelope;
        let Some(at) = self.pair_of(head.incarnation) else {
            return Ok(());
        };
        let pair = &mut self.pairs[at];
        if pair.contact != sender || head.group != self.view.group || head.view < pair.since {
            return Ok(());
        }
        if matches!(body, Body::Known { .. }) {
            pair.owes_end &= head.view <= self.view.number;
            return Ok(());
        }
        match head.number.filter(|_| self.phase == Phase::Left) {
            Some(number) => self.take_or_keep(at, number, envelope, bytes),
            None => pair.on_acknowledged(head.taken),
        }
    }

    /// A pair for a node that is not yet known to be a member. Its envelopes are buffered until it
    /// is. One for each node.
    fn pair_ahead(&mut self, sender: Contact) -> Option<usize> {
        let of_node = |pair: &Pair| pair.is_ahead() && pair.contact.guid == sender.guid;
        let before = self.pairs.iter().position(of_node);
        let at = before.or_else(|| self.pairs.iter().position(Pair::is_free))?;
        let lost = self.book.is_lost(sender.guid);
        self.pairs[at].begin(sender, 0, lost);
        Some(at)
    }

    /// Whether an incarnation is trusted about the group: it was or is in a view with this member,
    /// or this member searches for others and knows it.
    fn believes(&mut self, sender: Contact) -> bool {
        let is_mate = |pair: &Pair| !pair.is_free() && !pair.is_ahead() && pair.contact == sender;
        let is_discovering = self.is_discovering();
        let entry = self.book.of_node(sender.guid);
        self.pairs.iter().any(is_mate)
            || (is_discovering && entry.is_some_and(|entry| entry.is_of(&sender)))
    }

    /// Whether an envelope that is next in its pair's order can be taken now.
    fn is_takeable(&self, envelope: &Envelope<'_>) -> bool {
        if self.phase == Phase::Left {
            return true;
        }
        if self.phase == Phase::Searching {
            return matches!(envelope.body, Body::Welcome { .. });
        }
        let now = envelope.head.view == self.view.number;
        let state = matches!(envelope.body, Body::State { .. });
        envelope.head.view <= self.view.number && !(now && state && !self.has_room_for_state())
    }

    fn take(&mut self, at: usize, envelope: &Envelope<'_>) -> Result<(), BadEnvelope> {
        let Envelope { head, body } = envelope;
        let pair = &mut self.pairs[at];
        pair.take();
        self.counters.envelopes_taken += 1;
        pair.on_acknowledged(head.taken)?;
        if self.phase == Phase::Left {
            // Nothing counts any more but whether its sender knows how the last view ended.
            let ended = head.view == self.view.number && head.decided;
            pair.owes_end &= head.view <= self.view.number && !ended;
            return Ok(());
        }
        let sender = pair.contact;
        if self.phase == Phase::Searching
            && let Body::Welcome {
                contacts,
                voters,
                sequences,
                outcomes,
            } = body
        {
            let from = contacts.get(usize::from(head.from.unwrap_or(u8::MAX)));
            if from.is_none_or(|from| {
                (from.guid, from.incarnation) != (sender.guid, sender.incarnation)
            }) {
                return Err(BadEnvelope::Violation);
            }
            let view = View {
                group: head.group,
                number: head.view,
                members: *contacts,
                voters: *voters,
            };
            self.join(view, *sequences, outcomes.iter())?;
        }
        let pair = &self.pairs[at];
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
            Body::State { offset, last, data } => {
                self.table.row_mut(rank).frontier.merge(&head.frontier);
                self.table.refresh();
                self.take_state(rank, (*offset, *last), data)
            }
            Body::Welcome { .. } => {
                self.table.row_mut(rank).frontier.merge(&head.frontier);
                self.table.refresh();
                Ok(())
            }
            // Taken before, outside of the order.
            Body::Hello { .. } | Body::Known { .. } | Body::Challenge => Ok(()),
        }
    }

    /// Takes all steps that follow from the known state, until none is left.
    pub(super) fn settle(&mut self) {
        loop {
            while self.take_kept() {}
            match self.phase {
                Phase::Flowing => {
                    self.declare_null();
                    self.request_leave();
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
                Phase::Searching => {
                    if !self.try_to_found() {
                        break;
                    }
                }
                Phase::Stopped | Phase::Left => break,
            }
        }
        self.sweep_pairs();
    }

    /// Whether the next envelope of a member, of the view `view`, proves that the group continued
    /// without this member.
    ///
    /// A member reports the end of its view before anything of the next one. If its next envelope
    /// is of a later view, its sender has ended that view too and remembers only that end. No
    /// member takes part in the end of a view that it has not begun.
    fn was_left_behind(&self, at: usize, view: u64) -> bool {
        matches!(self.phase, Phase::Flowing | Phase::Wedged)
            && self.pairs[at].rank.is_some()
            && view > self.view.number
    }

    fn take_kept(&mut self) -> bool {
        let mut took = false;
        for at in 0..self.pairs.len() {
            while let Some(Ok(envelope)) = self.pairs[at].kept().map(Envelope::decode) {
                let view = envelope.head.view;
                if !self.is_takeable(&envelope) {
                    if self.was_left_behind(at, view) {
                        self.stop(Stop::Excluded);
                        return false;
                    }
                    break;
                }
                let (place, bytes) = self.pairs[at].take_kept();
                if let Ok(envelope) = Envelope::decode(&bytes)
                    && let Err(error) = self.take(at, &envelope)
                {
                    self.count(error);
                }
                self.pairs[at].return_room(place, bytes);
                took = true;
            }
        }
        took
    }
}
