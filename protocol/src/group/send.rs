//! What there is to say, and to whom.

use super::{
    Group, Parcel, Phase, Ticket,
    pair::{Pair, What},
    wire::{Batch, Body, Envelope, Head},
};
use crate::verb::SEND_BYTES_MAX;

/// What is said to a member next.
#[derive(Clone, Copy)]
enum Say {
    /// The envelope of this number once more.
    Again(u64),
    /// The batch of a round.
    Batch(u64),
    /// A batch that is closed for it.
    Close,
    /// The row.
    Row,
    /// What was taken, outside of the order.
    Ball,
}

impl Group {
    /// Whether [`Group::poll_send`] has something.
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.pairs.iter().any(|pair| self.next_for(pair).is_some())
    }

    /// The next envelope to be sent, written into `buffer`. Call it until it gives `None`.
    ///
    /// Envelopes are posted in this order or any other. For each one [`Group::on_end`] is called once.
    pub fn poll_send(&mut self, buffer: &mut [u8; SEND_BYTES_MAX]) -> Option<Parcel> {
        let count = self.pairs.len();
        let order = (0..count).map(|step| (self.next_pair + step) % count);
        let (at, say) = order
            .filter_map(|at| Some((at, self.next_for(&self.pairs[at])?)))
            .next()?;
        // Everybody in turn, so that each batch is said to all before the next one is closed.
        self.next_pair = (at + 1) % count;
        Some(self.say(at, say, buffer))
    }

    fn next_for(&self, pair: &Pair) -> Option<Say> {
        if pair.is_free() || !pair.is_reached() {
            return None;
        }
        if let Some(number) = pair.again() {
            return Some(Say::Again(number));
        }
        pair.rank?;
        if self.phase == Phase::Flowing {
            if pair.has_bulk_room() {
                if let Some(round) = self.unsaid_batch(pair) {
                    return Some(Say::Batch(round));
                }
                if self.can_close_round() {
                    return Some(Say::Close);
                }
            }
            if pair.row_is_news && pair.has_room() && !pair.has_row_under_way() {
                return Some(Say::Row);
            }
        }
        pair.has_ball().then_some(Say::Ball)
    }

    /// The first own batch that a member lacks.
    fn unsaid_batch(&self, pair: &Pair) -> Option<u64> {
        let own = self.table.row(self.me).frontier.rounds;
        (pair.said_rounds..own).find(|&round| !self.rounds.batch(self.me, round).is_empty())
    }

    fn say(&mut self, at: usize, say: Say, buffer: &mut [u8; SEND_BYTES_MAX]) -> Parcel {
        let own = self.table.row(self.me).frontier.rounds;
        let (number, what, rounds) = match say {
            Say::Again(number) => {
                let sent = self.pairs[at].sent(number);
                self.counters.envelopes_said_again += 1;
                (Some(number), sent.what, sent.rounds)
            }
            Say::Batch(round) => (None, What::Batch(round), round + 1),
            Say::Close => {
                self.close_round();
                (None, What::Batch(own), own + 1)
            }
            Say::Row => {
                let unsaid = self.unsaid_batch(&self.pairs[at]);
                (None, What::Row, unsaid.unwrap_or(own))
            }
            Say::Ball => return self.say_ball(at, buffer),
        };
        let own = self.table.row(self.me).frontier.rounds;
        let view = self.view.number;
        let pair = &mut self.pairs[at];
        let head_of = pair.contact;
        let number = pair.say(number, what, view, rounds);
        pair.said_rounds = pair.said_rounds.max(rounds);
        // Nulls behind a batch are said by the next row.
        pair.row_is_news = pair.said_rounds < own;
        let ticket = Ticket {
            life: head_of.life,
            number: number as u32,
        };
        let head = self.head(at, Some(ticket.number), rounds);
        let body = match what {
            What::Batch(round) => self.rounds.batch(self.me, round),
            _ => &[],
        };
        let envelope = Envelope {
            head,
            body: Body::Flow(Batch::of_checked(body)),
        };
        let len = envelope.encode(buffer);
        self.counters.envelopes_said += 1;
        Parcel {
            to: head_of,
            len,
            ticket,
        }
    }

    fn say_ball(&mut self, at: usize, buffer: &mut [u8; SEND_BYTES_MAX]) -> Parcel {
        let pair = &mut self.pairs[at];
        pair.tell_taken();
        let (to, rounds) = (pair.contact, pair.said_rounds);
        let head = self.head(at, None, rounds);
        let body = Body::Flow(Batch::default());
        let len = Envelope { head, body }.encode(buffer);
        self.counters.envelopes_said += 1;
        let ticket = Ticket {
            life: to.life,
            number: 0,
        };
        Parcel { to, len, ticket }
    }

    /// What all envelopes of this view to a member say. `rounds` are those that it has with and before this one: of them its row may tell.
    fn head(&self, at: usize, number: Option<u32>, rounds: u64) -> Head {
        let mut frontier = self.table.row(self.me).frontier;
        frontier.rounds = rounds;
        frontier.received[self.me] = rounds;
        Head {
            from: u8::try_from(self.me).ok(),
            number,
            group: self.view.group,
            view: self.view.number,
            life: self.config.me.life,
            taken: self.pairs[at].taken(),
            members: self.view.members.len() as u8,
            decided: false,
            frontier,
        }
    }
}
