//! Records all requests between nodes and their outcomes.

use std::collections::BTreeSet;

use super::errand::{Answer, Errand};

/// Outcome of a request, as reported to its initiator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reported {
    /// Executed, with this answer.
    Committed(Answer),
    /// Not executed, for the peer refused it.
    Refused,
    /// Not executed: the reply to a query by name states that it is not and never will be.
    NotExecuted,
    /// The responder lost its memory.
    Restarted,
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The initiator and its incarnation.
    pub from: (u16, u32),
    /// The responder, in the incarnation that the initiator knows.
    pub to: (u16, u32),
    /// The requested verb.
    pub errand: Errand,
    /// Incarnation of the responder at the submission, or the one that it began next.
    pub requested_in: u32,
    /// How often it was executed.
    pub executed: u32,
    /// Answer of the first execution.
    pub answer: Option<Answer>,
    /// Outcome that was reported to the initiator.
    pub reported: Option<Reported>,
    /// Incarnation of the responder at that report, or the one that it began next.
    pub reported_in: Option<u32>,
    /// The initiator was notified that the request is in doubt.
    pub doubted: bool,
    /// The initiator then queried the outcome by name, and no longer needs the request if it was
    /// not executed.
    pub given_up: bool,
}

/// All of them, by their tokens.
#[derive(Debug, Clone, Default)]
pub struct Book {
    requests: Vec<Request>,
    /// Open requests with a waiting initiator: initiator and token.
    open: BTreeSet<(u16, u64)>,
}

impl Book {
    /// Token of the next request.
    #[must_use]
    pub fn next_token(&self) -> u64 {
        self.requests.len() as u64
    }

    /// Returns the request with this token.
    #[must_use]
    pub fn request(&self, token: u64) -> Option<&Request> {
        self.requests.get(usize::try_from(token).ok()?)
    }

    /// Open requests with their tokens, by initiator and then in order.
    pub fn open(&self) -> impl Iterator<Item = (u64, &Request)> {
        self.of_tokens(self.open.iter())
    }

    /// Open requests of a node with their tokens, in order.
    pub fn open_of(&self, node: u16) -> impl Iterator<Item = (u64, &Request)> {
        self.of_tokens(self.open.range((node, 0)..=(node, u64::MAX)))
    }

    fn of_tokens<'a>(
        &'a self,
        tokens: impl Iterator<Item = &'a (u16, u64)>,
    ) -> impl Iterator<Item = (u64, &'a Request)> {
        tokens.filter_map(|&(_, token)| Some((token, self.request(token)?)))
    }

    /// All requests.
    #[must_use]
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    pub(super) fn add(&mut self, request: Request) {
        self.open.insert((request.from.0, self.next_token()));
        self.requests.push(request);
    }

    pub(super) fn change(&mut self, token: u64, change: impl FnOnce(&mut Request)) {
        let at = usize::try_from(token).ok();
        if let Some(request) = at.and_then(|at| self.requests.get_mut(at)) {
            change(request);
            if request.reported.is_some() {
                self.open.remove(&(request.from.0, token));
            }
        }
    }

    /// Handles the death of a node: its requests have no waiting initiator any more.
    pub(super) fn forget(&mut self, node: u16) {
        self.open.retain(|(from, _)| *from != node);
    }
}
