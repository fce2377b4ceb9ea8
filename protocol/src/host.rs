//! What a node asks of the program around it.

use crate::{
    Answer, ExchangeId, Mode, Refusal, Reply,
    event::{LinkEvent, NodeEvent},
};

/// How an exchange ended, told to the initiator exactly once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// Executed exactly once at the peer; with the peer's reply.
    Committed(&'a [u8]),
    /// Refused at message 1; nothing was executed.
    Refused(Refusal),
    /// The peer lost its memory of the exchange (it restarted) while the exchange was open: it was executed at most
    /// once, by a peer that is no more, and nobody can tell whether it was.
    PeerRestarted,
}

/// When the end of an exchange that was executed may be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Execution {
    /// At once.
    Done,
    /// Once [`Node::on_durable`](crate::Node::on_durable) was told this number or a higher one: what was executed, or something
    /// that the reply shows, is not on disk yet. Never lower than the one before it.
    DurableAt(u64),
}

/// The program around a node. All methods are called from inside the node's `on_…` methods, must not block, and are
/// on the fast path.
pub trait Host {
    /// May `payload` of the exchange `id` of a peer be executed? Called at message 1. Must have no effect that others can
    /// see but that they may find it busy, for in [`Mode::TwoPhase`] the exchange may still be reversed.
    ///
    /// Each admitted exchange is followed by one of [`Host::execute`] and [`Host::reverse`] with the same `id` and
    /// payload, in [`Mode::OnePhase`] by [`Host::execute`] at once. None is left open when its link has failed.
    ///
    /// # Errors
    /// The refusal that the initiator is told.
    fn admit(&mut self, id: &ExchangeId, mode: Mode, payload: &[u8]) -> Result<(), Refusal>;

    /// Executes `payload` of the exchange `id` of a peer. Called exactly once for each exchange that commits: at message
    /// 3 in 2PC, at message 1 in 1PC. `reply` is empty at the call, and [`Reply::moment`] says
    /// what place it has among all that the node executes.
    ///
    /// Nobody is told of the execution before what is returned allows it, by whatever way they ask.
    fn execute(&mut self, id: &ExchangeId, payload: &[u8], reply: &mut Reply) -> Execution;

    /// The exchange `id`, admitted in [`Mode::TwoPhase`], is reversed: it will never be executed. What its initiator
    /// wants done is asked for afresh, under another `id`.
    fn reverse(&mut self, id: &ExchangeId, payload: &[u8]);

    /// The node's clock of Lamport, told before each [`Host::complete`], [`Host::answered`], [`Host::in_doubt`] and [`Host::path`]. A host
    /// that stamps nothing needs none.
    fn on_clock(&mut self, _clock: u64) {}

    /// The exchange submitted with `token` has ended.
    fn complete(&mut self, token: u64, outcome: Outcome<'_>);

    /// The outcome of the exchange submitted with `token` cannot be learned now: its link failed, and neither another link
    /// nor a neighbour leads to the same peer. [`Host::complete`] follows when a path returns. Told once for each loss of
    /// the last path. `id` is the name by which [`Node::ask`](crate::Node::ask) tells of it, also when nobody waits for the
    /// exchange any more.
    ///
    /// Told of a token given to [`Node::ask`](crate::Node::ask) as well, once, before [`Host::answered`].
    fn in_doubt(&mut self, token: u64, id: &ExchangeId);

    /// What became of the exchange that was asked for with `token`. A host that never calls
    /// [`Node::ask`](crate::Node::ask) needs none.
    fn answered(&mut self, _token: u64, _answer: Answer<'_>) {}

    /// The node `guid` is reached from now on, as a link to it came up, or no longer: none is up, and each on which it spoke last
    /// has no carrier or was silent for too long. Told on each change, at first when it is met. A failure that is mended within a
    /// round trip or two is none. A host that does not care needs none.
    fn path(&mut self, _guid: u64, _up: bool) {}

    /// A link came up or went down.
    fn link_event(&mut self, event: LinkEvent);

    /// Something happened to the tree of a node. Told once for each change; a host whose node has no
    /// [`fabric`](crate::NodeConfig::fabric) needs none.
    fn tree_event(&mut self, _event: NodeEvent) {}
}
