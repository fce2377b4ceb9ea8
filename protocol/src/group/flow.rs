//! A view while it flows: closing batches, declaring nulls, the order, deliveries.

use super::{
    Event, Group, Phase,
    contact::MEMBERS_MAX,
    rounds::{ROUNDS_OPEN, batch_bytes_max},
    row::Frontier,
    wire::{BadEnvelope, Batch, split_message},
};

/// How far deliveries are.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Flow {
    /// Position of the batch that is next: round times members, plus rank.
    next: u64,
    /// Bytes of it whose messages were delivered.
    offset: usize,
    /// The position of the last [`Event::Stable`].
    stable_told: u64,
    /// By rank: messages of each that were delivered, over its life.
    delivered: [u64; MEMBERS_MAX],
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
        self.stable_told = 0;
    }
}

impl Group {
    /// Whether a round can be closed: there is something for it, and everybody's application has taken what was in its place.
    pub(super) fn can_close_round(&self) -> bool {
        let own = self.table.row(self.me).frontier.rounds;
        let credit = self.table.taken_rounds().saturating_add(ROUNDS_OPEN);
        self.phase == Phase::Flowing && !self.pending.is_empty() && own < credit
    }

    /// Closes a round with what is pending, as much as a batch holds.
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

    /// Who has nothing to say in rounds in which others spoke says so: they would wait for it.
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
        if core::mem::take(&mut self.view_is_news) {
            return Some(Event::View(&self.view));
        }
        // Nobody is there to whom a batch would be said.
        while self.view.members.len() == 1 && self.can_close_round() {
            self.close_round();
        }
        if let Some(found) = self.next_message() {
            self.counters.deliveries += 1;
            let batch = self.rounds.batch(found.rank, found.round);
            return Some(Event::Delivered {
                sender: *self.view.members.get(found.rank)?,
                sequence: self.flow.delivered[found.rank],
                view: self.view.number,
                position: found.position,
                data: batch.get(found.start..found.end)?,
            });
        }
        let stable = self.table.taken();
        if self.phase == Phase::Flowing && stable > self.flow.stable_told {
            self.flow.stable_told = stable;
            return Some(Event::Stable {
                view: self.view.number,
                position: stable,
            });
        }
        None
    }

    /// Whether the batch of this round is held by every member, or is null: nobody can miss what is not there.
    fn is_deliverable(&self, rank: usize, round: u64) -> bool {
        let own = self.table.row(self.me).frontier.received[rank];
        self.table.is_held(rank, round)
            || (own > round && self.rounds.batch(rank, round).is_empty())
    }

    /// Goes on to the next message that every member holds.
    fn next_message(&mut self) -> Option<Found> {
        if self.phase != Phase::Flowing || !self.has_state {
            return None;
        }
        let n = self.view.members.len() as u64;
        let from = self.flow.next;
        let mut found = None;
        while found.is_none() {
            let position = self.flow.next;
            let (round, rank) = (position / n, (position % n) as usize);
            if !self.is_deliverable(rank, round) {
                break;
            }
            let start = self.flow.offset + 2;
            let rest = self.rounds.batch(rank, round).get(self.flow.offset..);
            let ended = match rest.and_then(split_message) {
                Some((message, behind)) => {
                    let end = start + message.len();
                    self.flow.offset = end;
                    self.flow.delivered[rank] += 1;
                    found = Some(Found {
                        rank,
                        round,
                        position,
                        start,
                        end,
                    });
                    behind.is_empty()
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
