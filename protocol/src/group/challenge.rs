//! Challenges: how two stays learn the tokens that they show to each other.
//!
//! ```text
//! P ── challenge: grants g ────────────────► M   not proven: M only answers, to P's queue
//! P ◄─ challenge: grants h, shows g ──────── M   only M's queue held g, so h is M's
//! P ── any envelope: grants g, shows h ────► M   only P's queue held h, so P sent it
//! ```
//! A stay sends nothing else to a stay whose token it lacks, and takes nothing else without a token.

use alloc::vec::Vec;

use super::{
    Group,
    contact::{Contact, Life, MEMBERS_MAX},
    pair::Pair,
    token::Token,
    wire::Head,
};

/// Most answers at a time: all members of a new view challenge each other at once.
const ANSWERS_MAX: usize = 2 * MEMBERS_MAX;
/// Most of them for one node: a stranger there may send challenges too.
const ANSWERS_OF_NODE_MAX: usize = 4;

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
    under_way: bool,
}

impl Answers {
    /// With room for all.
    pub fn new() -> Self {
        Self {
            entries: Vec::with_capacity(ANSWERS_MAX),
        }
    }

    /// Adds an answer, if there is room.
    fn add(&mut self, to: Contact, token: Token) {
        let of_node = self.entries.iter().filter(|one| one.to.guid == to.guid);
        let is_known = |one: &Answer| one.to == to && one.token == token && !one.under_way;
        if self.entries.len() < ANSWERS_MAX
            && of_node.count() < ANSWERS_OF_NODE_MAX
            && !self.entries.iter().any(is_known)
        {
            self.entries.push(Answer {
                to,
                token,
                under_way: false,
            });
        }
    }

    /// The next answer to be sent.
    pub fn next(&self) -> Option<(Contact, Token)> {
        let due = self.entries.iter().find(|one| !one.under_way)?;
        Some((due.to, due.token))
    }

    /// The next answer is sent.
    pub fn say(&mut self) {
        if let Some(due) = self.entries.iter_mut().find(|one| !one.under_way) {
            due.under_way = true;
        }
    }

    /// An answer ended. If it did not arrive, the challenge comes again.
    pub fn on_end(&mut self, guid: u64, life: Life) {
        let of = |one: &Answer| one.under_way && (one.to.guid, one.to.life) == (guid, life);
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
            life: head.life,
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
            self.note_token(sender, grant);
        } else {
            self.answers.add(sender, grant);
        }
    }

    /// Stores the token that a sender granted, whose identity is proven.
    pub(super) fn note_token(&mut self, sender: Contact, grant: Token) {
        let of_sender = |pair: &&mut Pair| !pair.is_free() && pair.contact == sender;
        for pair in self.pairs.iter_mut().filter(of_sender) {
            pair.token = grant;
        }
        self.book.note_token(sender, grant);
    }
}
