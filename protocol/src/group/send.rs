//! Selection and encoding of the next envelope, and its recipient.

use super::{
    Group, GroupConfig, Parcel, Phase, Ticket,
    contact::{Contact, MEMBERS_MAX, Members},
    event::TicketOf,
    evidence::Claim,
    found::ToNonMember,
    pair::{Content, Pair, Sent},
    row::{Change, Frontier},
    token::Token,
    wire::{Batch, Body, Envelope, Head, KNOWN_MAX, KnownContacts, Outcomes, Terms},
};
use crate::verb::SEND_BYTES_MAX;

/// The next envelope to a member.
#[derive(Clone, Copy)]
enum ToSend {
    /// The envelope of this number again, with its current content.
    Resend(u64, Content),
    /// A new envelope.
    New(Content),
    /// A batch that is closed for it.
    Close,
    /// An unordered acknowledgment.
    Keepalive,
    /// A challenge, outside of the order too.
    Challenge,
}

impl Group {
    /// Whether [`Group::poll_send`] has something.
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.answers.next().is_some()
            || self.book.next(self.is_discovering()).is_some()
            || self.pairs.iter().any(|pair| self.next_for(pair).is_some())
    }

    /// Writes the next envelope to send into `buffer`. Call it until it returns `None`.
    ///
    /// Envelopes may be posted in any order. [`Group::on_end`] is called once for each.
    pub fn poll_send(&mut self, buffer: &mut [u8; SEND_BYTES_MAX]) -> Option<Parcel> {
        if let Some((to, token)) = self.answers.next() {
            self.answers.send();
            return Some(self.send_challenge(to, token, TicketOf::Answer, buffer));
        }
        if let Some((to, token, outgoing)) = self.book.next(self.is_discovering()) {
            self.book.send(to.guid, outgoing);
            return Some(self.send_to_non_member((to, token), outgoing, buffer));
        }
        let count = self.pairs.len();
        let order = (0..count).map(|step| (self.next_pair + step) % count);
        let (at, send) = order
            .filter_map(|at| Some((at, self.next_for(&self.pairs[at])?)))
            .next()?;
        // Round-robin: each batch is sent to all before the next one is closed.
        self.next_pair = (at + 1) % count;
        Some(self.send(at, send, buffer))
    }

    fn next_for(&self, pair: &Pair) -> Option<ToSend> {
        if pair.is_free() || !pair.is_reached() {
            return None;
        }
        if pair.token.is_none() {
            let is_due =
                pair.has_challenge() && (pair.owes_something() || self.reports_taken(pair));
            return is_due.then_some(ToSend::Challenge);
        }
        if let Some(number) = pair.next_resend()
            && let Some(content) = self.resend_content(pair, pair.sent(number))
        {
            return Some(ToSend::Resend(number, content));
        }
        let news = if pair.owes_welcome {
            // It can take nothing else before.
            (pair.has_room() && self.end_is_sent()).then_some(ToSend::New(Content::Welcome))
        } else if pair.owes_end {
            // Nothing of a view comes before the end of the one before it.
            pair.has_room().then_some(ToSend::New(Content::End))
        } else {
            self.news_for(pair)
        };
        // Two members with full windows to each other get free slots once each reports what it
        // took.
        news.or_else(|| {
            (self.reports_taken(pair) && pair.has_keepalive()).then_some(ToSend::Keepalive)
        })
    }

    /// Whether the end of the last view is in the queues of all reachable members that stay. Only
    /// then is the new view sent to joining members. Otherwise all members that know the decision
    /// could be gone before a member of the last view learns it.
    fn end_is_sent(&self) -> bool {
        let waits = |pair: &Pair| pair.rank.is_some() && pair.is_reached() && pair.awaits_end();
        !self.pairs.iter().any(waits)
    }

    /// The next envelope to a member of the view to which neither a view nor an end is owed.
    fn news_for(&self, pair: &Pair) -> Option<ToSend> {
        let rank = pair.rank?;
        match self.phase {
            Phase::Flowing => self.news_of_flow(pair, rank),
            Phase::Wedged => {
                // Also to excluded members: they would wait for a member that does not wait for
                // them.
                let send_now = pair.change_is_news && pair.has_room();
                send_now.then_some(ToSend::New(Content::Change))
            }
            Phase::Ending | Phase::Searching | Phase::Stopped | Phase::Left => None,
        }
    }

    /// Whether the taken count is reported to it: to a member, or to a former member that may have
    /// to report how its last view ended. A member that left reports it to members to which it owes
    /// that end. It thus detects members that are gone, even without a slot for the end itself.
    const fn reports_taken(&self, pair: &Pair) -> bool {
        match self.phase {
            Phase::Flowing | Phase::Wedged | Phase::Ending => pair.rank.is_some() || pair.leftover,
            Phase::Left => pair.owes_end,
            Phase::Searching | Phase::Stopped => false,
        }
    }

    fn news_of_flow(&self, pair: &Pair, rank: usize) -> Option<ToSend> {
        if pair.has_bulk_room() {
            if let Some(piece) = self.transfer.ready(rank).filter(|_| rank != self.me) {
                return Some(ToSend::New(Content::State(piece)));
            }
            if let Some(round) = self.unsent_batch(pair) {
                return Some(ToSend::New(Content::Batch(round)));
            }
            if self.can_close_round() {
                return Some(ToSend::Close);
            }
        }
        let send_now = pair.row_is_news && pair.has_row_room() && !pair.has_row_in_flight();
        send_now.then_some(ToSend::New(Content::Row))
    }

    /// The first own batch that a member lacks.
    fn unsent_batch(&self, pair: &Pair) -> Option<u64> {
        let own = self.table.row(self.me).frontier.rounds;
        (pair.sent_rounds..own).find(|&round| !self.rounds.batch(self.me, round).is_empty())
    }

    fn send(&mut self, at: usize, send: ToSend, buffer: &mut [u8; SEND_BYTES_MAX]) -> Parcel {
        if let ToSend::Challenge = send {
            let pair = &mut self.pairs[at];
            pair.challenge();
            let to = pair.contact;
            return self.send_challenge(to, Token::NONE, TicketOf::Pair, buffer);
        }
        self.counters.envelopes_sent += 1;
        let (number, content) = match send {
            ToSend::Resend(number, content) => {
                self.counters.envelopes_resent += 1;
                (Some(number), content)
            }
            ToSend::New(content) => (None, content),
            ToSend::Close => {
                let round = self.table.row(self.me).frontier.rounds;
                self.close_round();
                (None, Content::Batch(round))
            }
            ToSend::Keepalive | ToSend::Challenge => return self.send_keepalive(at, buffer),
        };
        let own = self.table.row(self.me).frontier.rounds;
        let rounds = match (number, content) {
            // It must not announce rounds sent after it.
            (Some(number), _) => self.pairs[at].sent(number).rounds,
            (None, Content::Batch(round)) => round + 1,
            (None, Content::Row) => self.unsent_batch(&self.pairs[at]).unwrap_or(own),
            (None, _) => self.pairs[at].sent_rounds,
        };
        let view = match content {
            Content::End => self.ended.view.number,
            _ => self.view.number,
        };
        let pair = &mut self.pairs[at];
        let to = pair.contact;
        // A retransmission may have arrived the first time. Then the receiver drops newer content
        // in it, which stays unsent.
        let is_new = number.is_none();
        let number = pair.send(number, content, view, rounds);
        match content {
            _ if !is_new => {}
            Content::End => pair.owes_end = false,
            Content::Welcome => pair.owes_welcome = false,
            Content::State(piece) => self.transfer.send(piece),
            Content::Change => pair.change_is_news = false,
            Content::Row | Content::Batch(_) => {
                pair.sent_rounds = pair.sent_rounds.max(rounds);
                // The next row announces nulls after a batch.
                pair.row_is_news = pair.sent_rounds < own;
            }
        }
        let ticket = Ticket {
            guid: to.guid,
            incarnation: to.incarnation,
            number: number as u32,
            of: TicketOf::Pair,
        };
        let head = match content {
            Content::End => self.head_of_end(at, ticket.number),
            _ => self.head(at, Some(ticket.number), rounds),
        };
        let body = self.body(content);
        let len = Envelope { head, body }.encode(buffer);
        Parcel { to, len, ticket }
    }

    /// The content of a retransmitted envelope. The receiver must take its number, but its original
    /// content may be obsolete.
    ///
    /// `None`: nothing. A member that was excluded from its first view knows no ended view.
    fn resend_content(&self, pair: &Pair, sent: Sent) -> Option<Content> {
        let end = self.ended.is_known().then_some(Content::End);
        if sent.view != self.view.number || pair.rank.is_none() {
            return end;
        }
        match self.phase {
            Phase::Flowing => Some(sent.content),
            // Without it nothing else can be taken.
            _ if sent.content == Content::Welcome => Some(Content::Welcome),
            Phase::Wedged => Some(Content::Change),
            _ => end,
        }
    }

    fn body(&self, content: Content) -> Body<'_> {
        match content {
            Content::Batch(round) => {
                Body::Flow(Batch::of_checked(self.rounds.batch(self.me, round)))
            }
            Content::Row => Body::Flow(Batch::default()),
            Content::Change => {
                change_body(self.me, self.table.row(self.me).change, &self.trying.claims)
            }
            Content::Welcome => Body::Welcome {
                contacts: self.view.members,
                voters: self.view.voters,
                sequences: self.begun,
                outcomes: Outcomes::new(&self.outcomes),
            },
            Content::State(piece) => {
                let (offset, last, data) = self.transfer.piece(piece);
                Body::State { offset, last, data }
            }
            Content::End => change_body(self.ended.me, self.ended.row.change, &self.ended.claims),
        }
    }

    /// Encodes an envelope to a node that is no member: a hello, or the list of known nodes.
    fn send_to_non_member(
        &mut self,
        (to, token): (Contact, Token),
        outgoing: ToNonMember,
        buffer: &mut [u8; SEND_BYTES_MAX],
    ) -> Parcel {
        let GroupConfig {
            me,
            former,
            founders,
            ..
        } = self.config;
        let head = self.head_to_non_member(to, token);
        let mut room = [(Contact::default(), Terms::default()); KNOWN_MAX];
        let body = match outgoing {
            ToNonMember::Challenge => {
                return self.send_challenge(to, token, TicketOf::Book, buffer);
            }
            ToNonMember::Hello => Body::Hello {
                contact: me,
                terms: self.config.terms(),
                former: former.unwrap_or_default(),
                founders,
            },
            ToNonMember::Known => {
                let (count, members) = self.list_known(&mut room);
                Body::Known {
                    members,
                    excluded: self.is_excluded(to.incarnation),
                    contacts: KnownContacts::new(&room[..count]),
                }
            }
        };
        self.counters.envelopes_sent += 1;
        let len = Envelope { head, body }.encode(buffer);
        let ticket = Ticket {
            guid: to.guid,
            incarnation: to.incarnation,
            number: 0,
            of: TicketOf::Book,
        };
        Parcel { to, len, ticket }
    }

    /// Challenges an incarnation, or answers its challenge with the token that it granted.
    fn send_challenge(
        &mut self,
        to: Contact,
        token: Token,
        of: TicketOf,
        buffer: &mut [u8; SEND_BYTES_MAX],
    ) -> Parcel {
        self.counters.envelopes_sent += 1;
        let head = self.head_to_non_member(to, token);
        let body = Body::Challenge;
        let len = Envelope { head, body }.encode(buffer);
        let ticket = Ticket {
            guid: to.guid,
            incarnation: to.incarnation,
            number: 0,
            of,
        };
        Parcel { to, len, ticket }
    }

    /// The head of envelopes outside of every pair's order.
    fn head_to_non_member(&self, to: Contact, token: Token) -> Head {
        Head {
            from: None,
            number: None,
            // Also of a group in founding: a node that waits for this member to found another one
            // learns that it does not.
            group: self.view.group,
            view: self.view.number,
            incarnation: self.config.me.incarnation,
            rkey: self.config.me.rkey,
            token,
            grant: self.config.secret.token_for(to.guid, to.rkey),
            taken: 0,
            members: 0,
            decided: false,
            frontier: Frontier::default(),
        }
    }

    fn send_keepalive(&mut self, at: usize, buffer: &mut [u8; SEND_BYTES_MAX]) -> Parcel {
        let pair = &mut self.pairs[at];
        pair.report_taken();
        let (to, rounds) = (pair.contact, pair.sent_rounds);
        let head = self.head(at, None, rounds);
        let body = Body::Flow(Batch::default());
        let len = Envelope { head, body }.encode(buffer);
        let ticket = Ticket {
            guid: to.guid,
            incarnation: to.incarnation,
            number: 0,
            of: TicketOf::Pair,
        };
        Parcel { to, len, ticket }
    }

    /// The common head of all envelopes of this view to a member. `rounds` counts the own rounds
    /// sent up to and including this envelope; its row may announce no others.
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
            incarnation: self.config.me.incarnation,
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

/// The state of a view's end, with the known claims of this attempt.
fn change_body(me: usize, change: Change, claims: &[Claim; MEMBERS_MAX]) -> Body<'static> {
    let mut known = Members::NONE;
    let mut outgoing = [Members::NONE; MEMBERS_MAX];
    for (rank, claim) in claims.iter().enumerate() {
        if claim.attempt == change.attempt && (rank == me || !claim.members.is_empty()) {
            known = known.with(rank);
            outgoing[rank] = claim.members;
        }
    }
    Body::Change {
        change,
        known,
        claims: outgoing,
    }
}
