//! What tells two members apart: all that decides how they go on. A model checker takes two with one hash for the same.

use core::hash::{Hash, Hasher};

use super::Group;

impl Hash for Group {
    fn hash<H: Hasher>(&self, state: &mut H) {
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
            leaving,
            notices,
            counters: _,
        } = self;
        (config.me, phase, view, me, table, rounds, pending).hash(state);
        (accepted, has_state, flow, pairs, next_pair).hash(state);
        (trying, ended, fates, leaving, notices).hash(state);
    }
}
