//! Hash of a member over everything that decides its future. A model checker takes two members with
//! the same hash for the same.

use core::hash::{Hash, Hasher};

use super::Group;

impl Group {
    /// Hashes everything that decides its future, except the answers to challenges, which an
    /// unauthenticated sender may change.
    pub fn hash_but_answers<H: Hasher>(&self, state: &mut H) {
        // No `..`: a new field must be included or excluded here explicitly.
        let Self {
            config,
            phase,
            view,
            me,
            table,
            rounds,
            pending,
            accepted,
            has_state,
            flow,
            pairs,
            next_pair,
            trying,
            ended,
            outcomes,
            begun,
            book,
            answers: _,
            transfer,
            leaving,
            notices,
            counters: _,
        } = self;
        (config.me, phase, view, me, table, rounds, pending).hash(state);
        (accepted, has_state, flow, pairs, next_pair).hash(state);
        (trying, ended, outcomes, begun, book, transfer).hash(state);
        (leaving, notices).hash(state);
    }
}

impl Hash for Group {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash_but_answers(state);
        self.answers.hash(state);
    }
}
