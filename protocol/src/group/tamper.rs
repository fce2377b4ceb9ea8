//! A member that is built wrong on purpose: for simulators, which must find that.

use super::{
    Group, Phase, View,
    contact::{Contact, Life, MEMBERS_MAX, Members},
    row::Row,
    token::Token,
};

/// What a simulator may change in a member.
#[derive(Debug)]
pub struct Inside<'a> {
    /// The own rank.
    pub me: usize,
    /// The view that it is in, or was in last.
    pub view: &'a mut View,
    /// The rows of that view, by rank.
    pub rows: &'a mut [Row],
    /// Whom each member accused last, by rank, as far as is known.
    pub claims: [Members; MEMBERS_MAX],
    /// Whether it holds the view for ended. Changes nothing where a view is being begun.
    pub wedged: bool,
}

impl Group {
    /// Lets a simulator give the member each token that it lacks, as if all challenges were answered.
    pub fn acquaint(&mut self, token_of: impl Fn(Contact) -> Token) {
        for pair in &mut self.pairs {
            if !pair.is_free() && pair.token.is_none() {
                pair.token = token_of(pair.contact);
            }
        }
        for entry in self.book.entries_mut() {
            if entry.token.is_none() {
                entry.token = token_of(entry.contact);
            }
        }
    }

    /// Whether the member knows this stay under the group's name. Of a queue that was found no stay is known.
    #[must_use]
    pub fn knows(&self, life: Life) -> bool {
        let entries = self.book.entries();
        entries.iter().any(|entry| entry.contact.life == life)
    }

    /// Lets a simulator change the member, as one that is built wrong would have it.
    pub fn tamper(&mut self, change: impl FnOnce(&mut Inside<'_>)) {
        let mut inside = Inside {
            me: self.me,
            view: &mut self.view,
            rows: self.table.rows_mut(),
            claims: self.trying.claims.map(|claim| claim.members),
            wedged: self.phase == Phase::Wedged,
        };
        change(&mut inside);
        let (wedged, claims) = (inside.wedged, inside.claims);
        for (claim, members) in self.trying.claims.iter_mut().zip(claims) {
            claim.members = members;
        }
        match self.phase {
            Phase::Flowing if wedged => self.phase = Phase::Wedged,
            Phase::Wedged if !wedged => self.phase = Phase::Flowing,
            _ => {}
        }
        self.table.refresh();
    }
}
