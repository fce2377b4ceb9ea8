//! Records all exchanges and their outcomes.

use covalent_protocol::{ExchangeId, Mode};

use crate::{operation::Operation, payload};

/// A node between two crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeIncarnation {
    /// The node.
    pub node: usize,
    /// Crashes before.
    pub number: u32,
}

/// One exchange. Its place in the book is its token.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// The initiator and its incarnation.
    pub from: NodeIncarnation,
    /// The responder, in the incarnation that the initiator knew.
    pub to: NodeIncarnation,
    /// How.
    pub mode: Mode,
    /// The requested verb.
    pub operation: Operation,
    /// The request as it was handed to the node.
    pub request: Vec<u8>,
    /// Bytes that its reply is brought to.
    pub reply_bytes: usize,
    /// The first execution.
    pub executed: Option<Execution>,
    /// Outcome at the initiator.
    pub ended: Option<Ended>,
    /// Cable that last carried it, if tracked.
    pub sent_on: Option<usize>,
    /// Name for queries about the exchange. Set once the initiator is notified that it is in doubt.
    pub name: Option<ExchangeId>,
    /// The initiator no longer needs the outcome.
    pub canceled: bool,
    /// The exchange was open while registers were arbitrary. At convergence it still waits for a
    /// peer that no cable reached.
    pub loose: bool,
}

/// An execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// Incarnation that executed it.
    pub node_incarnation: NodeIncarnation,
    /// Reply of the execution.
    pub reply: Vec<u8>,
}

/// A question for an exchange by its name. Its place in the book is its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// The querying node and its incarnation.
    pub by: NodeIncarnation,
    /// About which exchange.
    pub token: u64,
    /// The query was sent and has no reply yet.
    pub is_open: bool,
}

/// How an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Executed.
    Committed,
    /// Not executed.
    Refused,
    /// The outcome is unknown.
    Restarted,
}

/// Records all exchanges and all incarnations.
#[derive(Debug)]
pub struct Book {
    exchanges: Vec<Exchange>,
    questions: Vec<Question>,
    current: Vec<u32>,
    /// For each incarnation of each node, the incarnation in which its memory began.
    memories: Vec<Vec<u32>>,
    /// Nodes that may forget a peer without a crash.
    forgetful: Vec<bool>,
    /// Nodes whose registers were arbitrary in this incarnation.
    hit: Vec<bool>,
    /// Registers are arbitrary, and the world has not converged since.
    unsettled: bool,
    /// Token of the first exchange after the last convergence.
    settled_from: u64,
    /// A lying neighbor sends queries in the names of other nodes.
    lied_to: bool,
}

impl Book {
    /// Creates the book of `nodes` nodes. `forgetful` lists those that meet more peers than they
    /// can remember.
    #[must_use]
    pub fn new(nodes: usize, forgetful: &[usize]) -> Self {
        Self {
            exchanges: Vec::new(),
            questions: Vec::new(),
            current: vec![0; nodes],
            memories: vec![vec![0]; nodes],
            forgetful: (0..nodes).map(|node| forgetful.contains(&node)).collect(),
            hit: vec![false; nodes],
            unsettled: false,
            settled_from: 0,
            lied_to: false,
        }
    }

    /// Whether a lying neighbor queries the outcomes of exchanges in the names of other nodes.
    #[must_use]
    pub const fn is_lied_to(&self) -> bool {
        self.lied_to
    }

    pub(crate) const fn record_liar(&mut self) {
        self.lied_to = true;
    }

    /// Returns the current incarnation of a node.
    #[must_use]
    pub fn node_incarnation(&self, node: usize) -> NodeIncarnation {
        NodeIncarnation {
            node,
            number: self.current[node],
        }
    }

    /// Whether an incarnation is the current one of its node.
    #[must_use]
    pub fn is_current(&self, node_incarnation: NodeIncarnation) -> bool {
        self.node_incarnation(node_incarnation.node) == node_incarnation
    }

    /// Returns the incarnation in which the memory of `node_incarnation` began. It is an earlier
    /// one if the node restarted with a journal.
    #[must_use]
    pub fn memory_of(&self, node_incarnation: NodeIncarnation) -> NodeIncarnation {
        let number = self.memories[node_incarnation.node]
            .get(node_incarnation.number as usize)
            .copied();
        NodeIncarnation {
            number: number.unwrap_or(node_incarnation.number),
            ..node_incarnation
        }
    }

    /// Whether a node may forget a peer without a crash.
    #[must_use]
    pub fn is_forgetful(&self, node: usize) -> bool {
        self.forgetful[node]
    }

    /// Whether registers were arbitrary and the world has not converged since. Only convergence is
    /// guaranteed meanwhile.
    #[must_use]
    pub const fn is_unsettled(&self) -> bool {
        self.unsettled
    }

    /// Whether the registers of a node were arbitrary in its current incarnation. The node may then
    /// not know its peers' numbers and cannot trust its memory.
    #[must_use]
    pub fn was_hit(&self, node: usize) -> bool {
        self.hit[node]
    }

    /// Whether an exchange was submitted before convergence from arbitrary registers. It was
    /// executed any number of times. It has ended unless it is loose.
    #[must_use]
    pub const fn is_written_off(&self, token: u64) -> bool {
        token < self.settled_from
    }

    /// All exchanges, by token.
    #[must_use]
    pub fn exchanges(&self) -> &[Exchange] {
        &self.exchanges
    }

    /// The exchange with this token.
    #[must_use]
    pub fn exchange(&self, token: u64) -> Option<&Exchange> {
        self.exchanges.get(usize::try_from(token).ok()?)
    }

    /// The exchange that a request claims to belong to.
    #[must_use]
    pub fn of_request(&self, payload: &[u8]) -> Option<(u64, &Exchange)> {
        let token = payload::token_of(payload)?;
        Some((token, self.exchange(token)?))
    }

    /// All questions, by number.
    #[must_use]
    pub fn questions(&self) -> &[Question] {
        &self.questions
    }

    /// The question with this number.
    #[must_use]
    pub fn question(&self, number: u64) -> Option<&Question> {
        self.questions.get(usize::try_from(number).ok()?)
    }

    /// The token of the next exchange.
    #[must_use]
    pub fn next_token(&self) -> u64 {
        self.exchanges.len() as u64
    }

    /// Whether an initiator waits for the outcome of an exchange.
    #[must_use]
    pub fn is_waited_for(&self, exchange: &Exchange) -> bool {
        exchange.ended.is_none() && !exchange.canceled && self.is_current(exchange.from)
    }

    /// Number of exchanges that ended as forgotten by a peer whose incarnation is still the same.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        let forgotten = |exchange: &&Exchange| {
            exchange.ended == Some(Ended::Restarted) && self.is_current(exchange.to)
        };
        self.exchanges.iter().filter(forgotten).count() as u64
    }

    pub(crate) fn enter(&mut self, exchange: Exchange) {
        self.exchanges.push(exchange);
    }

    pub(crate) fn open_query(&mut self, by: NodeIncarnation, token: u64) {
        self.questions.push(Question {
            by,
            token,
            is_open: true,
        });
    }

    pub(crate) fn close(&mut self, question: u64) {
        if let Some(question) = usize::try_from(question)
            .ok()
            .and_then(|number| self.questions.get_mut(number))
        {
            question.is_open = false;
        }
    }

    pub(crate) fn exchange_mut(&mut self, token: u64) -> Option<&mut Exchange> {
        self.exchanges.get_mut(usize::try_from(token).ok()?)
    }

    pub(crate) fn crash(&mut self, node: usize) {
        self.restart(node);
        let memories = &mut self.memories[node];
        memories.pop();
        memories.push(self.current[node]);
    }

    pub(crate) fn restart(&mut self, node: usize) {
        self.current[node] += 1;
        self.hit[node] = false;
        let memories = &mut self.memories[node];
        memories.extend(memories.last().copied());
    }

    pub(crate) fn scramble(&mut self, node: usize) {
        self.unsettled = true;
        self.hit[node] = true;
    }

    pub(crate) fn settle(&mut self) {
        self.unsettled = false;
        for exchange in &mut self.exchanges {
            exchange.loose = exchange.ended.is_none();
        }
        self.settled_from = self.next_token();
    }
}
