//! What tells two members apart: all that decides how they go on. A model checker takes two with one hash for the same.

use core::hash::{Hash, Hasher};

use super::Group;

impl Group {
    /// All that decides how it goes on, but the answers to challenges, which a stranger may change.
    pub fn hash_but_answers<H: Hasher>(&self, state: &mut H) {
        // Without `..`, so that whoever adds a field decides here whether it counts.
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
            fates,
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
        (trying, ended, fates, begun, book, transfer).hash(state);
        (leaving, notices).hash(state);
    }
}

impl Hash for Group {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash_but_answers(state);
        self.answers.hash(state);
    }
}
