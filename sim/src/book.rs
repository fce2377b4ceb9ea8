//! Everything that was asked, and what became of it.

use covalent_protocol::{ExchangeId, Mode};

use crate::{ask::Ask, payload};

/// A node between two crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Life {
    /// The node.
    pub node: usize,
    /// Crashes before.
    pub number: u32,
}

/// One exchange. Its place in the book is its token.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// Who asked, and in which life.
    pub from: Life,
    /// Who was asked, and the life of it that the one who asked knew.
    pub to: Life,
    /// How.
    pub mode: Mode,
    /// For what.
    pub ask: Ask,
    /// The request as it was handed to the node.
    pub request: Vec<u8>,
    /// Bytes that its reply is brought to.
    pub reply_bytes: usize,
    /// The first execution.
    pub executed: Option<Execution>,
    /// How it ended for the one who asked.
    pub ended: Option<Ended>,
    /// The cable that it was last sent on, if that is followed.
    pub sent_on: Option<usize>,
    /// The one who asked was told that it is in doubt, and may ask for it by this name.
    pub name: Option<ExchangeId>,
    /// The one who asked does not care any more.
    pub cancelled: bool,
    /// It was open while registers held anything, and waits for a peer to which no cable led when all else had come to its end.
    pub loose: bool,
}

/// An execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// The life that executed.
    pub life: Life,
    /// What it replied.
    pub reply: Vec<u8>,
}

/// A question for an exchange by its name. Its place in the book is its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// Who asked, and in which life.
    pub by: Life,
    /// About which exchange.
    pub token: u64,
    /// It was asked and is not answered.
    pub is_open: bool,
}

/// How an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Executed.
    Committed,
    /// Not executed.
    Refused,
    /// Nobody knows.
    Restarted,
}

/// All exchanges and all lives.
#[derive(Debug)]
pub struct Book {
    exchanges: Vec<Exchange>,
    questions: Vec<Question>,
    lives: Vec<u32>,
    /// For each life of each node the life in which its memory began.
    memories: Vec<Vec<u32>>,
    /// Nodes that may forget a peer without a crash.
    forgetful: Vec<bool>,
    /// Nodes whose registers held anything in this life.
    hit: Vec<bool>,
    /// Registers hold anything, and not everything has come to its end since.
    unsettled: bool,
    /// The first exchange that was asked for since.
    settled_from: u64,
    /// Somebody asks in the names of others.
    lied_to: bool,
}

impl Book {
    /// The book of `nodes` nodes. Those that `forgetful` names meet more peers than they can remember.
    #[must_use]
    pub fn new(nodes: usize, forgetful: &[usize]) -> Self {
        Self {
            exchanges: Vec::new(),
            questions: Vec::new(),
            lives: vec![0; nodes],
            memories: vec![vec![0]; nodes],
            forgetful: (0..nodes).map(|node| forgetful.contains(&node)).collect(),
            hit: vec![false; nodes],
            unsettled: false,
            settled_from: 0,
            lied_to: false,
        }
    }

    /// Whether somebody asks in the names of others how their exchanges ended.
    #[must_use]
    pub const fn is_lied_to(&self) -> bool {
        self.lied_to
    }

    pub(crate) const fn note_liar(&mut self) {
        self.lied_to = true;
    }

    /// The life that a node lives now.
    #[must_use]
    pub fn life(&self, node: usize) -> Life {
        Life {
            node,
            number: self.lives[node],
        }
    }

    /// Whether this life is still lived.
    #[must_use]
    pub fn lives(&self, life: Life) -> bool {
        self.life(life.node) == life
    }

    /// The life in which the memory of a life began: an earlier one, if it started again with a journal.
    #[must_use]
    pub fn memory_of(&self, life: Life) -> Life {
        let number = self.memories[life.node].get(life.number as usize).copied();
        Life {
            number: number.unwrap_or(life.number),
            ..life
        }
    }

    /// Whether a node may forget a peer without a crash.
    #[must_use]
    pub fn is_forgetful(&self, node: usize) -> bool {
        self.forgetful[node]
    }

    /// Whether registers held anything, and everything has not come to its end since. Nothing is promised then but that it will.
    #[must_use]
    pub const fn is_unsettled(&self) -> bool {
        self.unsettled
    }

    /// Whether the registers of a node held anything in its present life. It may not know its peers' numbers then, nor trust its memory.
    #[must_use]
    pub fn was_hit(&self, node: usize) -> bool {
        self.hit[node]
    }

    /// Whether an exchange was asked for before everything had come to its end behind arbitrary registers: it was executed any
    /// number of times, and it has ended unless it is loose.
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

    /// Whether somebody waits for the end of an exchange.
    #[must_use]
    pub fn is_waited_for(&self, exchange: &Exchange) -> bool {
        exchange.ended.is_none() && !exchange.cancelled && self.lives(exchange.from)
    }

    /// Exchanges that ended as forgotten by a peer that lives still.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        let forgotten = |exchange: &&Exchange| {
            exchange.ended == Some(Ended::Restarted) && self.lives(exchange.to)
        };
        self.exchanges.iter().filter(forgotten).count() as u64
    }

    pub(crate) fn enter(&mut self, exchange: Exchange) {
        self.exchanges.push(exchange);
    }

    pub(crate) fn ask(&mut self, by: Life, token: u64) {
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
        memories.push(self.lives[node]);
    }

    pub(crate) fn restart(&mut self, node: usize) {
        self.lives[node] += 1;
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
