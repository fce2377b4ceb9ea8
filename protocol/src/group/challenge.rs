//! Challenges: how two incarnations exchange the tokens that they present to each other.
//!
//! ```text
//! P ── challenge: grants g ────────────────► M   not proven: M only replies, to P's queue
//! P ◄─ challenge: grants h, shows g ──────── M   only M's queue held g, so h is M's
//! P ── any envelope: grants g, shows h ────► M   only P's queue held h, so P sent it
//! ```
//! An incarnation sends only challenges to an incarnation whose token it lacks. Without a token it
//! accepts only challenges.

use alloc::vec::Vec;

use super::{
    Group,
    contact::{Contact, Incarnation, MEMBERS_MAX},
    pair::Pair,
    token::Token,
    wire::{Head, JOINERS_MAX, KNOWN_MAX},
};

/// Most answers at a time to queues of which nothing is known.
const ANSWERS_MAX: usize = 2 * MEMBERS_MAX;
/// Most of them for one node: a stranger there may send challenges too.
const ANSWERS_OF_NODE_MAX: usize = 3;
/// One answer is reserved for each queue that is in a pair or in the book, whatever unauthenticated
/// senders request.
const KEPT_MAX: usize = 2 * MEMBERS_MAX + JOINERS_MAX + KNOWN_MAX;

/// Answers to challenges that showed no token: all that is stored of their senders.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Answers {
    entries: Vec<Answer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Answer {
    to: Contact,
    /// The grant of the challenge, which the answer shows.
    token: Token,
    in_flight: bool,
    /// In the place that is kept for its queue.
    is_kept: bool,
}

impl Answers {
    /// Allocates for all answers.
    pub fn new() -> Self {
        Self {
            entries: Vec::with_capacity(ANSWERS_MAX + KEPT_MAX),
        }
    }

    /// Adds an answer if it fits. One entry is reserved for each queue that `is_known`.
    fn add(&mut self, to: Contact, token: Token, is_known: bool) {
        let is_there = |one: &Answer| one.to == to && one.token == token && !one.in_flight;
        if self.entries.iter().any(is_there) {
            return;
        }
        let (shared, kept) = (|one: &&Answer| !one.is_kept, |one: &&Answer| one.is_kept);
        let mut of_queue = self.entries.iter().filter(kept);
        let is_taken = of_queue.any(|one| (one.to.guid, one.to.rkey) == (to.guid, to.rkey));
        let is_kept = is_known && !is_taken && self.entries.iter().filter(kept).count() < KEPT_MAX;
        let of_node = self.entries.iter().filter(shared);
        let of_node = of_node.filter(|one| one.to.guid == to.guid);
        if is_kept
            || (self.entries.iter().filter(shared).count() < ANSWERS_MAX
                && of_node.count() < ANSWERS_OF_NODE_MAX)
        {
            self.entries.push(Answer {
                to,
                token,
                in_flight: false,
                is_kept,
            });
        }
    }

    /// The next answer to be sent.
    pub fn next(&self) -> Option<(Contact, Token)> {
        let due = self.entries.iter().find(|one| !one.in_flight)?;
        Some((due.to, due.token))
    }

    /// The next answer is sent.
    pub fn send(&mut self) {
        if let Some(due) = self.entries.iter_mut().find(|one| !one.in_flight) {
            due.in_flight = true;
        }
    }

    /// An answer ended. If it did not arrive, the challenge comes again.
    pub fn on_end(&mut self, guid: u64, incarnation: Incarnation) {
        let of = |one: &Answer| {
            one.in_flight && (one.to.guid, one.to.incarnation) == (guid, incarnation)
        };
        if let Some(at) = self.entries.iter().position(of) {
            self.entries.remove(at);
        }
    }
}

impl Group {
    /// The sender that an envelope names, and whether it shows that sender's token.
    pub(super) fn sender_of(&self, guid: u64, head: &Head) -> (Contact, bool) {
        let sender = Contact {
            guid,
            incarnation: head.incarnation,
            rkey: head.rkey,
        };
        let expected = self.config.secret.token_for(guid, head.rkey);
        (sender, head.token == expected)
    }

    /// Takes a challenge. Without a token it changes nothing but the answers.
    pub(super) fn take_challenge(&mut self, sender: Contact, is_proven: bool, grant: Token) {
        if sender.guid == self.config.me.guid {
            return;
        }
        if is_proven {
            self.store_token(sender, grant);
            return;
        }
        let known = self.token_of(&sender);
        // An incarnation grants one token to one queue. A different grant comes from an
        // unauthenticated sender.
        if known.is_none_or(|token| token.is_none() || token == grant) {
            self.answers.add(sender, grant, known.is_some());
        }
    }

    /// The token to present to an incarnation that is in a pair or in the book; `None` for any
    /// other.
    fn token_of(&mut self, sender: &Contact) -> Option<Token> {
        let of_sender = |pair: &&Pair| !pair.is_free() && pair.contact == *sender;
        let entry = self.book.of_node(sender.guid);
        let entry = entry.filter(|entry| entry.is_of(sender));
        let pair = self.pairs.iter().find(of_sender);
        let (pair, entry) = (pair.map(|pair| pair.token), entry.map(|entry| entry.token));
        let tokens = [pair, entry].into_iter().flatten();
        tokens.max_by_key(|token| !token.is_none())
    }

    /// Stores the token that an authenticated sender granted.
    pub(super) fn store_token(&mut self, sender: Contact, grant: Token) {
        let of_sender = |pair: &&mut Pair| !pair.is_free() && pair.contact == sender;
        for pair in self.pairs.iter_mut().filter(of_sender) {
            pair.token = grant;
        }
        self.book.store_token(sender, grant);
    }
}
