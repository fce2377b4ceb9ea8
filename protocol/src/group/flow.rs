//! A view while it flows: closing batches, declaring nulls, the order, deliveries.

use super::{
    Event, Group, Phase,
    contact::MEMBERS_MAX,
    rounds::{ROUNDS_OPEN, batch_bytes_max},
    row::{Frontier, Proposal},
    wire::{BadEnvelope, Batch, split_message},
};

/// How far deliveries are.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Flow {
    /// Position of the batch that is next: round times members, plus rank.
    next: u64,
    /// Bytes of that batch whose messages were delivered.
    offset: usize,
    /// The position of the last [`Event::Stable`].
    stable_reported: u64,
    /// By rank: delivered messages of each member, over its incarnation.
    pub delivered: [u64; MEMBERS_MAX],
}

/// Where a message lies.
#[derive(Clone, Copy)]
struct Found {
    rank: usize,
    round: u64,
    position: u64,
    start: usize,
    end: usize,
}

impl Flow {
    /// A view begins.
    pub const fn begin(&mut self) {
        self.next = 0;
        self.offset = 0;
        self.stable_reported = 0;
    }
}

impl Group {
    /// Whether a round can be closed: messages are pending, and every member's application has
    /// taken the earlier batch in its buffer.
    pub(super) fn can_close_round(&self) -> bool {
        let own = self.table.row(self.me).frontier.rounds;
        let credit = self.table.taken_rounds().saturating_add(ROUNDS_OPEN);
        self.phase == Phase::Flowing && !self.pending.is_empty() && own < credit
    }

    /// Closes a round with the pending messages, as many as fit in a batch.
    pub(super) fn close_round(&mut self) {
        let (me, n) = (self.me, self.view.members.len());
        let batch = self.pending.front(batch_bytes_max(n));
        let own = &mut self.table.row_mut(me).frontier;
        self.rounds.set(me, own.rounds, batch);
        own.rounds += 1;
        own.received[me] = own.rounds;
        let len = batch.len();
        self.pending.take(len);
        self.counters.batches += 1;
        self.table.refresh();
        self.row_grew();
        self.declare_null();
    }

    /// Declares null rounds if this member has nothing to send in rounds of others: they would wait
    /// for it.
    pub(super) fn declare_null(&mut self) {
        let me = self.me;
        let until = self.table.rounds_max();
        let own = self.table.row(me).frontier.rounds;
        if self.phase != Phase::Flowing || !self.pending.is_empty() || until <= own {
            return;
        }
        self.rounds.set_null(me, own, until);
        let frontier = &mut self.table.row_mut(me).frontier;
        frontier.rounds = until;
        frontier.received[me] = until;
        self.counters.nulls += until - own;
        self.table.refresh();
        self.row_grew();
    }

    /// A row of a member, and the batch of its last round.
    pub(super) fn take_flow(
        &mut self,
        rank: usize,
        frontier: &Frontier,
        batch: Batch<'_>,
    ) -> Result<(), BadEnvelope> {
        let own = &self.table.row(self.me).frontier;
        let (received, rounds) = (own.received[rank], frontier.rounds);
        if self.phase == Phase::Flowing && rounds > received {
            let taken_rounds = own.delivered / self.view.members.len() as u64;
            if rounds > taken_rounds.saturating_add(ROUNDS_OPEN) {
                return Err(BadEnvelope::Violation);
            }
            self.rounds.set_null(rank, received, rounds - 1);
            self.rounds.set(rank, rounds - 1, batch.bytes());
            self.table.row_mut(self.me).frontier.received[rank] = rounds;
            self.row_grew();
        }
        self.table.row_mut(rank).frontier.merge(frontier);
        self.table.refresh();
        Ok(())
    }

    /// The next event. Call it until it gives `None`.
    pub fn poll_event(&mut self) -> Option<Event<'_>> {
        self.end_showing_state();
        loop {
            if core::mem::take(&mut self.notices.state_void) {
                return Some(Event::StateVoid);
            }
            if core::mem::take(&mut self.notices.view) {
                return Some(Event::View(&self.view));
            }
            if let Some(delivered_to) = self.notices.outcome.take() {
                return Some(Event::Outcome { delivered_to });
            }
            if self.phase == Phase::Flowing
                && let Some(rank) = self.transfer.next_wanted()
            {
                let to = *self.view.members.get(rank)?;
                return Some(Event::StateWanted { to });
            }
            if let Some(at) = self.show_state() {
                let (_, last, data) = self.transfer.piece(at);
                let delivered_to = self.flow.delivered[self.me];
                return Some(Event::State {
                    data,
                    last,
                    delivered_to,
                });
            }
            if let Some(why) = self.notices.stopped.take() {
                let undelivered = self.flow.delivered[self.me] + 1;
                return Some(Event::Stopped { why, undelivered });
            }
            if self.notices.left && !self.pairs.iter().any(|p| p.is_reached() && p.awaits_end()) {
                self.notices.left = false;
                return Some(Event::Left);
            }
            // There is no other member to send a batch to.
            while self.view.members.len() == 1 && self.can_close_round() {
                self.close_round();
            }
            if let Some(found) = self.next_message() {
                return self.deliver(found);
            }
            let (phase, view) = (self.phase, self.view.number);
            self.settle();
            if (phase, view) == (self.phase, self.view.number) {
                return self.next_stable();
            }
        }
    }

    fn deliver(&mut self, found: Found) -> Option<Event<'_>> {
        self.counters.deliveries += 1;
        let batch = self.rounds.batch(found.rank, found.round);
        Some(Event::Delivered {
            sender: *self.view.members.get(found.rank)?,
            sequence: self.flow.delivered[found.rank],
            view: self.view.number,
            position: found.position,
            data: batch.get(found.start..found.end)?,
        })
    }

    fn next_stable(&mut self) -> Option<Event<'_>> {
        let position = self.table.taken();
        if self.phase != Phase::Flowing || position <= self.flow.stable_reported {
            return None;
        }
        self.flow.stable_reported = position;
        Some(Event::Stable {
            view: self.view.number,
            position,
        })
    }

    /// Whether a batch can be delivered. While the view flows: every member holds the batch, or it
    /// is null, so no member can lack it. After the view has ended: the batch is within the decided
    /// trim, or it is skipped and never delivered.
    fn is_deliverable(&self, rank: usize, round: u64) -> bool {
        match (&self.phase, &self.trying.decided) {
            (Phase::Flowing, _) => {
                let own = self.table.row(self.me).frontier.received[rank];
                let null = own > round && self.rounds.batch(rank, round).is_empty();
                self.table.is_held(rank, round) || null
            }
            (Phase::Ending, Some(decided)) => {
                decided.survivors.contains(self.me) && decided.trim.iter().any(|&trim| trim > round)
            }
            _ => false,
        }
    }

    /// The bytes of a batch that are delivered.
    fn deliverable(&self, rank: usize, round: u64) -> &[u8] {
        match &self.trying.decided {
            Some(decided) if decided.trim[rank] <= round => &[],
            _ => self.rounds.batch(rank, round),
        }
    }

    /// Whether something of the view that ended is still to be delivered.
    pub(super) fn has_more(&self, decided: &Proposal) -> bool {
        let n = self.view.members.len() as u64;
        let rounds = decided.trim.iter().max().copied().unwrap_or(0);
        (self.flow.next..rounds.saturating_mul(n)).any(|position| {
            let (round, rank) = (position / n, (position % n) as usize);
            !self.deliverable(rank, round).is_empty()
        })
    }

    /// Requests to leave once all own messages are delivered.
    pub(super) fn request_leave(&mut self) {
        let own = &self.table.row(self.me).frontier;
        let all = self.pending.is_empty() && self.flow.delivered[self.me] == self.accepted;
        if self.leaving && all && !own.leaving {
            self.table.row_mut(self.me).frontier.leaving = true;
            self.row_grew();
        }
    }

    /// Advances to the next message that every member holds.
    fn next_message(&mut self) -> Option<Found> {
        if !self.has_state {
            return None;
        }
        let n = self.view.members.len().max(1) as u64;
        let from = self.flow.next;
        let mut found = None;
        while found.is_none() {
            let position = self.flow.next;
            let (round, rank) = (position / n, (position % n) as usize);
            if !self.is_deliverable(rank, round) {
                break;
            }
            let start = self.flow.offset + 2;
            let rest = self.deliverable(rank, round).get(self.flow.offset..);
            let message = rest.and_then(split_message);
            let message = message.map(|(message, behind)| (message.len(), behind.is_empty()));
            let ended = match message {
                Some((len, is_last)) => {
                    let end = start + len;
                    self.flow.offset = end;
                    self.flow.delivered[rank] += 1;
                    found = Some(Found {
                        rank,
                        round,
                        position,
                        start,
                        end,
                    });
                    is_last
                }
                None => true,
            };
            if ended {
                self.flow.next += 1;
                self.flow.offset = 0;
            }
        }
        if self.flow.next > from {
            self.table.row_mut(self.me).frontier.delivered = self.flow.next;
            self.table.refresh();
            self.row_grew();
        }
        found
    }
}
