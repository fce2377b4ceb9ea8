//! A member that is built wrong on purpose: for simulators, which must find that.

use super::{
    Group, Phase, View,
    contact::{Contact, Incarnation, MEMBERS_MAX, Members},
    row::Row,
    token::Token,
};

/// State of a member that a simulator may change.
#[derive(Debug)]
pub struct Inside<'a> {
    /// The own rank.
    pub me: usize,
    /// The view that it is in, or was in last.
    pub view: &'a mut View,
    /// The rows of that view, by rank.
    pub rows: &'a mut [Row],
    /// The latest known accusations of each member, by rank.
    pub claims: [Members; MEMBERS_MAX],
    /// Whether it holds the view for ended. Changes nothing where a view is being begun.
    pub wedged: bool,
}

impl Group {
    /// Gives the member each token that it lacks, as if all challenges were answered. For
    /// simulators.
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

    /// Whether the member knows this incarnation under the group's name. The incarnation of a queue
    /// found by its name is unknown.
    #[must_use]
    pub fn knows(&self, incarnation: Incarnation) -> bool {
        let entries = self.book.entries();
        entries
            .iter()
            .any(|entry| entry.contact.incarnation == incarnation)
    }

    /// Lets a simulator change the member into the state of a faulty implementation.
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
