//! Final completions that wait for a group.

use std::collections::VecDeque;

use crate::{
    outstanding::Posted,
    verb::{Outcome, VerbId},
};

/// How something that a group posted ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// A verb.
    Verb(Outcome),
    /// A lookup that found a region: the bytes that describe it.
    Found(Box<[u8]>),
    /// A watch: the node is reached now, or lost.
    Path {
        /// It is reached.
        up: bool,
    },
}

/// The completions of a group's queue that it has not taken. Each holds an entry of the table of
/// outstanding verbs until it is taken, which bounds their number.
#[derive(Debug, Default)]
pub(crate) struct Ends(VecDeque<(VerbId, u64, Ended)>);

impl Ends {
    /// Keeps one.
    pub(crate) fn push(&mut self, id: VerbId, posted: &Posted, ended: Ended) {
        self.0.push_back((id, posted.user_data, ended));
    }

    /// Takes the oldest: its number, its user data and its result.
    pub(crate) fn take(&mut self) -> Option<(VerbId, u64, Ended)> {
        self.0.pop_front()
    }
}
