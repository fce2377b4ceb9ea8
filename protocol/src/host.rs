//! The interface from a node to its host program.

use crate::{
    ExchangeId, Mode, Refusal, Reply,
    event::{LinkEvent, NodeEvent},
};

/// The outcome of an exchange, reported to the initiator exactly once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// Executed exactly once at the peer; with the peer's reply.
    Committed(&'a [u8]),
    /// Refused at message 1; nothing was executed.
    Refused(Refusal),
    /// The peer restarted and lost its memory of the exchange while the exchange was open. The peer
    /// before the restart executed it at most once; whether it did cannot be determined.
    PeerRestarted,
}

/// The outcome of an exchange that was queried by its identifier. Final: a later query returns the
/// same, or that it is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<'a> {
    /// Executed exactly once at the peer; with the peer's reply.
    Committed(&'a [u8]),
    /// Refused at message 1; nothing was executed.
    Refused(Refusal),
    /// Reversed by the peer: nothing was executed and nothing will be.
    Undone,
    /// The peer never saw it: nothing was executed and nothing will be.
    NeverSeen,
    /// Unknown: one of the two nodes restarted, or the outcome is not kept any more. It was
    /// executed at most once.
    Forgotten,
}

impl<'a> From<Outcome<'a>> for Answer<'a> {
    fn from(outcome: Outcome<'a>) -> Self {
        match outcome {
            Outcome::Committed(reply) => Self::Committed(reply),
            Outcome::Refused(refusal) => Self::Refused(refusal),
            Outcome::PeerRestarted => Self::Forgotten,
        }
    }
}

/// When the outcome of an executed exchange may be reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Execution {
    /// At once.
    Done,
    /// Once [`Node::on_durable`](crate::Node::on_durable) received this number or a higher one: the
    /// execution, or something that the reply shows, is not on disk yet. Never lower than the
    /// previous value.
    DurableAt(u64),
}

/// The host program of a node. All methods are called from inside the node's `on_…` methods, must
/// not block, and are on the fast path.
pub trait Host {
    /// Checks whether `payload` of the exchange `id` of a peer may be executed. Called at the first
    /// message. Its only visible effect may be that others find a resource busy, because in
    /// [`Mode::TwoPhase`] the exchange may still be reversed.
    ///
    /// Each admitted exchange is followed by one of [`Host::execute`] and [`Host::reverse`] with
    /// the same `id` and payload. In [`Mode::OnePhase`], [`Host::execute`] follows at once. No
    /// exchange stays open after its link has failed.
    ///
    /// # Errors
    /// The refusal that the initiator receives.
    fn admit(&mut self, id: &ExchangeId, mode: Mode, payload: &[u8]) -> Result<(), Refusal>;

    /// Executes `payload` of the exchange `id` of a peer. Called exactly once for each exchange
    /// that commits: at message 3 in 2PC, at message 1 in 1PC. `reply` is empty at the call.
    /// [`Reply::moment`] returns the position of this execution among all executions of the node.
    ///
    /// The node reports the execution to no other node, on any path, before the returned value
    /// permits it.
    fn execute(&mut self, id: &ExchangeId, payload: &[u8], reply: &mut Reply) -> Execution;

    /// The exchange `id`, admitted in [`Mode::TwoPhase`], is reversed: it will never be executed.
    /// Its initiator requests the operation again under another `id`.
    fn reverse(&mut self, id: &ExchangeId, payload: &[u8]);

    /// The node's Lamport clock, reported before each [`Host::complete`], [`Host::answered`],
    /// [`Host::in_doubt`] and [`Host::path`]. A host that uses no timestamps need not implement it.
    fn on_clock(&mut self, _clock: u64) {}

    /// The exchange submitted with `token` has ended.
    fn complete(&mut self, token: u64, outcome: Outcome<'_>);

    /// The outcome of the exchange submitted with `token` is in doubt: its link failed, and neither
    /// another link nor a neighbor leads to the same peer. [`Host::complete`] follows when a path
    /// returns. Called once for each loss of the last path. `id` identifies the exchange for
    /// [`Node::query`](crate::Node::query), even if no caller waits for it any more.
    ///
    /// Also called once for a token passed to [`Node::query`](crate::Node::query), before
    /// [`Host::answered`].
    fn in_doubt(&mut self, token: u64, id: &ExchangeId);

    /// The outcome of the exchange that was queried with `token`. A host that never calls
    /// [`Node::query`](crate::Node::query) need not implement it.
    fn answered(&mut self, _token: u64, _answer: Answer<'_>) {}

    /// The node `guid` is now reachable, because a link to it came up, or unreachable. Unreachable:
    /// no link to it is up, and each link on which it was last received has no carrier or was
    /// silent for too long. Called on each change, first when the node is met. A failure that is
    /// repaired within one or two round trips is not reported. A host may ignore it.
    fn path(&mut self, _guid: u64, _up: bool) {}

    /// A link came up or went down.
    fn link_event(&mut self, event: LinkEvent);

    /// The tree of a node changed. Called once for each change. A host whose node has no
    /// [`fabric`](crate::NodeConfig::fabric) need not implement it.
    fn tree_event(&mut self, _event: NodeEvent) {}
}
