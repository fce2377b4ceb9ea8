//! What there is to say, and to whom.

use super::{
    Group, GroupConfig, Parcel, Phase, Ticket,
    contact::{Contact, MEMBERS_MAX, Members},
    event::TicketOf,
    evidence::Claim,
    found::ToStranger,
    pair::{Pair, Sent, What},
    row::{Change, Frontier},
    token::Token,
    wire::{Batch, Body, Envelope, Fates, Head, KNOWN_MAX, KnownContacts, Terms},
};
use crate::verb::SEND_BYTES_MAX;

/// What is said to a member next.
#[derive(Clone, Copy)]
enum Say {
    /// The envelope of this number once more, with what it bears now.
    Again(u64, What),
    /// A new envelope.
    New(What),
    /// A batch that is closed for it.
    Close,
    /// What was taken, outside of the order.
    Ball,
    /// A challenge, outside of the order too.
    Challenge,
}

impl Group {
    /// Whether [`Group::poll_send`] has something.
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.answers.next().is_some()
            || self.book.next(self.looks()).is_some()
            || self.pairs.iter().any(|pair| self.next_for(pair).is_some())
    }

    /// The next envelope to be sent, written into `buffer`. Call it until it gives `None`.
    ///
    /// Envelopes are posted in this order or any other. For each one [`Group::on_end`] is called once.
    pub fn poll_send(&mut self, buffer: &mut [u8; SEND_BYTES_MAX]) -> Option<Parcel> {
        if let Some((to, token)) = self.answers.next() {
            self.answers.say();
            return Some(self.say_challenge(to, token, TicketOf::Answer, buffer));
        }
        if let Some((to, token, said)) = self.book.next(self.looks()) {
            self.book.say(to.guid, said);
            return Some(self.say_to_stranger((to, token), said, buffer));
        }
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
        if pair.token.is_none() {
            let is_due = pair.has_challenge() && (pair.owes_something() || self.tells_taken(pair));
            return is_due.then_some(Say::Challenge);
        }
        if let Some(number) = pair.again()
            && let Some(what) = self.what_again(pair, pair.sent(number))
        {
            return Some(Say::Again(number, what));
        }
        let news = if pair.owes_welcome {
            // It can take nothing else before.
            (pair.has_room() && self.has_told_the_end()).then_some(Say::New(What::Welcome))
        } else if pair.owes_end {
            // Nothing of a view comes before the end of the one before it.
            pair.has_room().then_some(Say::New(What::End))
        } else {
            self.news_for(pair)
        };
        // Two who owe each other something behind full windows have room for it once each tells what it took.
        news.or_else(|| (self.tells_taken(pair) && pair.has_ball()).then_some(Say::Ball))
    }

    /// Whether the end of the last view is in the queues of all who stay and are reached. Who joins hears of a view only then: else all who knew
    /// the decision may be gone before anybody of the last view knows it.
    fn has_told_the_end(&self) -> bool {
        let waits = |pair: &Pair| pair.rank.is_some() && pair.is_reached() && pair.hears_end();
        !self.pairs.iter().any(waits)
    }

    /// What there is to say to a member of the view that owes it nothing.
    fn news_for(&self, pair: &Pair) -> Option<Say> {
        let rank = pair.rank?;
        match self.phase {
            Phase::Flowing => self.news_of_flow(pair, rank),
            Phase::Wedged => {
                // To those who are left out too: they would wait for who does not wait for them.
                let told = pair.change_is_news && pair.has_room();
                told.then_some(Say::New(What::Change))
            }
            Phase::Ending | Phase::Seeking | Phase::Stopped | Phase::Left => None,
        }
    }

    /// Whether it is told what was taken of it: a member, or who did not stay and may have to say how its last view ended. A member that left
    /// tells it to whom it owes that end: so those who are gone are found out, though there is no room for the end itself.
    const fn tells_taken(&self, pair: &Pair) -> bool {
        match self.phase {
            Phase::Flowing | Phase::Wedged | Phase::Ending => pair.rank.is_some() || pair.leftover,
            Phase::Left => pair.owes_end,
            Phase::Seeking | Phase::Stopped => false,
        }
    }

    fn news_of_flow(&self, pair: &Pair, rank: usize) -> Option<Say> {
        if pair.has_bulk_room() {
            if let Some(piece) = self.transfer.ready(rank).filter(|_| rank != self.me) {
                return Some(Say::New(What::State(piece)));
            }
            if let Some(round) = self.unsaid_batch(pair) {
                return Some(Say::New(What::Batch(round)));
            }
            if self.can_close_round() {
                return Some(Say::Close);
            }
        }
        let told = pair.row_is_news && pair.has_row_room() && !pair.has_row_under_way();
        told.then_some(Say::New(What::Row))
    }

    /// The first own batch that a member lacks.
    fn unsaid_batch(&self, pair: &Pair) -> Option<u64> {
        let own = self.table.row(self.me).frontier.rounds;
        (pair.said_rounds..own).find(|&round| !self.rounds.batch(self.me, round).is_empty())
    }

    fn say(&mut self, at: usize, say: Say, buffer: &mut [u8; SEND_BYTES_MAX]) -> Parcel {
        if let Say::Challenge = say {
            let pair = &mut self.pairs[at];
            pair.challenge();
            let to = pair.contact;
            return self.say_challenge(to, Token::NONE, TicketOf::Pair, buffer);
        }
        self.counters.envelopes_said += 1;
        let (number, what) = match say {
            Say::Again(number, what) => {
                self.counters.envelopes_said_again += 1;
                (Some(number), what)
            }
            Say::New(what) => (None, what),
            Say::Close => {
                let round = self.table.row(self.me).frontier.rounds;
                self.close_round();
                (None, What::Batch(round))
            }
            Say::Ball | Say::Challenge => return self.say_ball(at, buffer),
        };
        let own = self.table.row(self.me).frontier.rounds;
        let rounds = match (number, what) {
            // What came after it is not to be told by it.
            (Some(number), _) => self.pairs[at].sent(number).rounds,
            (None, What::Batch(round)) => round + 1,
            (None, What::Row) => self.unsaid_batch(&self.pairs[at]).unwrap_or(own),
            (None, _) => self.pairs[at].said_rounds,
        };
        let view = match what {
            What::End => self.ended.view.number,
            _ => self.view.number,
        };
        let pair = &mut self.pairs[at];
        let to = pair.contact;
        // What is said again may have come the first time: then all that grew since is dropped with it, and stays news.
        let is_new = number.is_none();
        let number = pair.say(number, what, view, rounds);
        match what {
            _ if !is_new => {}
            What::End => pair.owes_end = false,
            What::Welcome => pair.owes_welcome = false,
            What::State(piece) => self.transfer.say(piece),
            What::Change => pair.change_is_news = false,
            What::Row | What::Batch(_) => {
                pair.said_rounds = pair.said_rounds.max(rounds);
                // Nulls behind a batch are said by the next row.
                pair.row_is_news = pair.said_rounds < own;
            }
        }
        let ticket = Ticket {
            guid: to.guid,
            life: to.life,
            number: number as u32,
            of: TicketOf::Pair,
        };
        let head = match what {
            What::End => self.head_of_end(at, ticket.number),
            _ => self.head(at, Some(ticket.number), rounds),
        };
        let body = self.body(what);
        let len = Envelope { head, body }.encode(buffer);
        Parcel { to, len, ticket }
    }

    /// What an envelope bears that is said again. Its number has to be taken, but what it bore may be worth nothing any more.
    ///
    /// `None`: nothing. A member that was put out of its first view knows no view that ended.
    fn what_again(&self, pair: &Pair, sent: Sent) -> Option<What> {
        let end = self.ended.is_known().then_some(What::End);
        if sent.view != self.view.number || pair.rank.is_none() {
            return end;
        }
        match self.phase {
            Phase::Flowing => Some(sent.what),
            // Without it nothing else can be taken.
            _ if sent.what == What::Welcome => Some(What::Welcome),
            Phase::Wedged => Some(What::Change),
            _ => end,
        }
    }

    fn body(&self, what: What) -> Body<'_> {
        match what {
            What::Batch(round) => Body::Flow(Batch::of_checked(self.rounds.batch(self.me, round))),
            What::Row => Body::Flow(Batch::default()),
            What::Change => {
                change_body(self.me, self.table.row(self.me).change, &self.trying.claims)
            }
            What::Welcome => Body::Welcome {
                contacts: self.view.members,
                voters: self.view.voters,
                sequences: self.begun,
                fates: Fates::new(&self.fates),
            },
            What::State(piece) => {
                let (offset, last, data) = self.transfer.piece(piece);
                Body::State { offset, last, data }
            }
            What::End => change_body(self.ended.me, self.ended.row.change, &self.ended.claims),
        }
    }

    /// To one who is no member: a hello, or whom this one knows.
    fn say_to_stranger(
        &mut self,
        (to, token): (Contact, Token),
        said: ToStranger,
        buffer: &mut [u8; SEND_BYTES_MAX],
    ) -> Parcel {
        let GroupConfig {
            me,
            former,
            founders,
            ..
        } = self.config;
        let head = self.head_to_stranger(to, token);
        let mut room = [(Contact::default(), Terms::default()); KNOWN_MAX];
        let body = match said {
            ToStranger::Challenge => {
                return self.say_challenge(to, token, TicketOf::Book, buffer);
            }
            ToStranger::Hello => Body::Hello {
                contact: me,
                terms: self.config.terms(),
                former: former.unwrap_or_default(),
                founders,
            },
            ToStranger::Known => {
                let (count, members) = self.list_known(&mut room);
                Body::Known {
                    members,
                    excluded: self.is_excluded(to.life),
                    contacts: KnownContacts::new(&room[..count]),
                }
            }
        };
        self.counters.envelopes_said += 1;
        let len = Envelope { head, body }.encode(buffer);
        let ticket = Ticket {
            guid: to.guid,
            life: to.life,
            number: 0,
            of: TicketOf::Book,
        };
        Parcel { to, len, ticket }
    }

    /// Challenges a stay, or answers its challenge with the token that it granted.
    fn say_challenge(
        &mut self,
        to: Contact,
        token: Token,
        of: TicketOf,
        buffer: &mut [u8; SEND_BYTES_MAX],
    ) -> Parcel {
        self.counters.envelopes_said += 1;
        let head = self.head_to_stranger(to, token);
        let body = Body::Challenge;
        let len = Envelope { head, body }.encode(buffer);
        let ticket = Ticket {
            guid: to.guid,
            life: to.life,
            number: 0,
            of,
        };
        Parcel { to, len, ticket }
    }

    /// What envelopes say that are in no pair's order.
    fn head_to_stranger(&self, to: Contact, token: Token) -> Head {
        Head {
            from: None,
            number: None,
            // Also of a group that is still to be founded: who waits for this member to found another one learns that it does not.
            group: self.view.group,
            view: self.view.number,
            life: self.config.me.life,
            rkey: self.config.me.rkey,
            token,
            grant: self.config.secret.token_for(to.guid, to.rkey),
            taken: 0,
            members: 0,
            decided: false,
            frontier: Frontier::default(),
        }
    }

    fn say_ball(&mut self, at: usize, buffer: &mut [u8; SEND_BYTES_MAX]) -> Parcel {
        let pair = &mut self.pairs[at];
        pair.tell_taken();
        let (to, rounds) = (pair.contact, pair.said_rounds);
        let head = self.head(at, None, rounds);
        let body = Body::Flow(Batch::default());
        let len = Envelope { head, body }.encode(buffer);
        let ticket = Ticket {
            guid: to.guid,
            life: to.life,
            number: 0,
            of: TicketOf::Pair,
        };
        Parcel { to, len, ticket }
    }

    /// What all envelopes of this view to a member say. `rounds` are those that it has with and before this one: of them its row may tell.
    fn head(&self, at: usize, number: Option<u32>, rounds: u64) -> Head {
        let mut frontier = self.table.row(self.me).frontier;
        frontier.rounds = rounds;
        frontier.received[self.me] = rounds;
        let Contact { guid, rkey, .. } = self.pairs[at].contact;
        Head {
            from: u8::try_from(self.me).ok(),
            number,
            group: self.view.group,
            view: self.view.number,
            life: self.config.me.life,
            rkey: self.config.me.rkey,
            token: self.pairs[at].token,
            grant: self.config.secret.token_for(guid, rkey),
            taken: self.pairs[at].taken(),
            members: self.view.members.len() as u8,
            decided: false,
            frontier,
        }
    }

    /// The same of the view that ended.
    fn head_of_end(&self, at: usize, number: u32) -> Head {
        let ended = &self.ended;
        Head {
            from: u8::try_from(ended.me).ok(),
            view: ended.view.number,
            members: ended.view.members.len() as u8,
            decided: true,
            frontier: ended.row.frontier,
            ..self.head(at, Some(number), 0)
        }
    }
}

/// What is said of a view's end, with the claims of this attempt that are known.
fn change_body(me: usize, change: Change, claims: &[Claim; MEMBERS_MAX]) -> Body<'static> {
    let mut known = Members::NONE;
    let mut said = [Members::NONE; MEMBERS_MAX];
    for (rank, claim) in claims.iter().enumerate() {
        if claim.attempt == change.attempt && (rank == me || !claim.members.is_empty()) {
            known = known.with(rank);
            said[rank] = claim.members;
        }
    }
    Body::Change {
        change,
        known,
        claims: said,
    }
}
