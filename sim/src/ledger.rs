//! Watches every exchange of a world and says at once when one of them goes wrong.
//!
//! What it holds against:
//! - an exchange is executed once at most, byte for byte as it was asked for, and never after its initiator was told
//!   that it was not;
//! - its initiator is told once at most how it ended, in the same life in which it asked;
//! - "committed" is told only of what was executed, with the reply that it gave; "refused" only of what was not;
//! - "the peer restarted" is told only of a peer that did;
//! - nobody is told anything about what he said he does not care about.
//!
//! And at the end: each exchange of a node that never crashed has ended, and those that were executed are those that
//! committed (or that nobody cares about, or whose peer restarted). Exchanges with a peer to which no cable leads may wait.
//! What the regions hold is judged by what the initiators were told, not by what the node executed.

use std::collections::HashMap;

use covalent_protocol::{Mode, Outcome, Refusal, Reply};

/// Accounts of each node, and what is in each at the beginning.
pub const ACCOUNTS: usize = 8;
const OPENING_BALANCE: i64 = 1000;
/// What every request and every reply starts with: its number and its checksum of sorts.
const HEADER_BYTES: usize = 16;

/// What is asked of a node's region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Count one more.
    Count,
    /// Move an amount between two accounts.
    Transfer {
        /// Account to take from.
        from: usize,
        /// Account to give to.
        to: usize,
        /// How much.
        amount: i64,
    },
}

/// One exchange.
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
    /// Length of the request, in bytes.
    pub request_bytes: usize,
    /// Length of the reply, in bytes.
    pub reply_bytes: usize,
    /// The life that executed it.
    pub executed: Option<Life>,
    /// How it ended for the one who asked.
    pub ended: Option<Ended>,
    /// The one who asked does not care any more.
    pub cancelled: bool,
}

/// A node between two crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// The node.
    pub node: usize,
    /// Crashes before.
    pub number: u32,
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

/// What a node's applications share. It is lost in a crash.
#[derive(Debug, Clone)]
struct Region {
    counter: u64,
    accounts: [i64; ACCOUNTS],
}

/// Everything that was asked, and what became of it.
#[derive(Debug)]
pub struct Ledger {
    exchanges: Vec<Exchange>,
    lives: Vec<u32>,
    regions: Vec<Region>,
    /// What the initiators were told that each life of a node executed, by node and life.
    told: HashMap<(usize, u32), Region>,
    /// Nodes that may forget a peer without a crash.
    forgetful: Vec<bool>,
    violation: Option<String>,
}

impl Ledger {
    /// A ledger of `nodes` nodes. Those that `forgetful` names meet more peers than they can remember.
    #[must_use]
    pub fn new(nodes: usize, forgetful: &[usize]) -> Self {
        Self {
            exchanges: Vec::new(),
            lives: vec![0; nodes],
            regions: vec![Region::new(); nodes],
            told: HashMap::new(),
            forgetful: (0..nodes).map(|node| forgetful.contains(&node)).collect(),
            violation: None,
        }
    }

    /// The life that a node lives now.
    #[must_use]
    pub fn life(&self, node: usize) -> Life {
        Life {
            node,
            number: self.lives[node],
        }
    }

    /// All exchanges; the index of each is its token.
    #[must_use]
    pub fn exchanges(&self) -> &[Exchange] {
        &self.exchanges
    }

    /// What went wrong first.
    #[must_use]
    pub fn violation(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    /// Notes what went wrong. The first is what counts.
    pub fn blame(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    /// Enters an exchange and returns its token and its request.
    pub fn ask(&mut self, exchange: Exchange) -> (u64, Vec<u8>) {
        let token = self.exchanges.len() as u64;
        let request = bytes_of(token, 0x51, exchange.request_bytes);
        self.exchanges.push(exchange);
        (token, request)
    }

    /// Takes back the exchange that was entered last: the node did not take it.
    pub fn take_back(&mut self) {
        self.exchanges.pop();
    }

    /// The program of the life does not care any more about its exchange `token`.
    pub fn cancel(&mut self, token: u64) {
        if let Some(exchange) = self.exchanges.get_mut(token as usize) {
            exchange.cancelled = true;
        }
    }

    /// A node loses its memory.
    pub fn crash(&mut self, node: usize) {
        self.lives[node] += 1;
        self.regions[node] = Region::new();
    }

    /// A request is executed.
    pub fn execute(&mut self, node: usize, payload: &[u8], reply: &mut Reply) {
        let Some(token) = self.token_of(node, payload) else {
            return;
        };
        let life = self.life(node);
        let exchange = &mut self.exchanges[token as usize];
        if let Some(before) = exchange.executed {
            return self.blame(format!(
                "exchange {token} was executed by {before:?} and again by {life:?}"
            ));
        }
        if let Some(ended @ (Ended::Refused | Ended::Committed)) = exchange.ended {
            return self.blame(format!(
                "exchange {token} was executed after its end as {ended:?}"
            ));
        }
        exchange.executed = Some(life);
        self.regions[node].apply(exchange.ask);
        let bytes = reply_of(token, life, exchange.reply_bytes);
        if !reply.set(&bytes) {
            self.blame(format!("the reply of exchange {token} does not fit"));
        }
    }

    /// An initiator is told how an exchange ended.
    pub fn complete(&mut self, node: usize, token: u64, outcome: Outcome<'_>) {
        let life = self.life(node);
        let Some(exchange) = self.exchanges.get(token as usize).cloned() else {
            return self.blame(format!(
                "node {node} was told of exchange {token}, which does not exist"
            ));
        };
        let (ended, problem) = match outcome {
            Outcome::Committed(reply) => (
                Ended::Committed,
                if exchange.executed.is_none() {
                    Some("which was not executed")
                } else {
                    self.enter(token, &exchange, reply)
                },
            ),
            Outcome::Refused(_) => (
                Ended::Refused,
                exchange.executed.map(|_| "which was executed"),
            ),
            Outcome::PeerRestarted => {
                let lives_still = self.life(exchange.to.node) == exchange.to;
                (
                    Ended::Restarted,
                    (lives_still && !self.forgetful[exchange.to.node])
                        .then_some("of a peer that never did"),
                )
            }
        };
        let problem = if exchange.from != life {
            Some("of another life")
        } else if exchange.cancelled {
            Some("which was cancelled")
        } else if exchange.ended.is_some() {
            Some("for the second time")
        } else {
            problem
        };
        if let Some(problem) = problem {
            self.blame(format!(
                "{life:?} was told {ended:?} about exchange {token}, {problem}: {exchange:?}"
            ));
        }
        self.exchanges[token as usize].ended = Some(ended);
    }

    /// An initiator is told that an exchange is in doubt.
    pub fn in_doubt(&mut self, node: usize, token: u64) {
        let life = self.life(node);
        match self.exchanges.get(token as usize) {
            Some(exchange)
                if exchange.from == life && !exchange.cancelled && exchange.ended.is_none() => {}
            other => self.blame(format!(
                "{life:?} was told that exchange {token} is in doubt: {other:?}"
            )),
        }
    }

    /// Whether a request may be executed. Some that are well-formed are refused too, as `refuse` says.
    ///
    /// # Errors
    /// The refusal.
    pub fn admit(&mut self, node: usize, payload: &[u8], refuse: bool) -> Result<(), Refusal> {
        match self.token_of(node, payload) {
            None => Err(Refusal::BadRequest),
            Some(_) if refuse => Err(Refusal::NoResources),
            Some(_) => Ok(()),
        }
    }

    /// Enters what an initiator was told into the account of the life that the reply names.
    fn enter(&mut self, token: u64, exchange: &Exchange, reply: &[u8]) -> Option<&'static str> {
        let number = reply.get(8..12).and_then(|bytes| bytes.first_chunk());
        let life = Life {
            node: exchange.to.node,
            number: number.map_or(0, |bytes| u32::from_le_bytes(*bytes)),
        };
        if reply != reply_of(token, life, exchange.reply_bytes) {
            return Some("with a reply that it never gave");
        }
        self.told
            .entry((life.node, life.number))
            .or_insert(Region::new())
            .apply(exchange.ask);
        None
    }

    /// Whether somebody waits for the end of an exchange.
    #[must_use]
    pub fn is_waited_for(&self, exchange: &Exchange) -> bool {
        exchange.ended.is_none()
            && !exchange.cancelled
            && exchange.from == self.life(exchange.from.node)
    }

    /// Exchanges that ended as forgotten by a peer that lives still.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        let forgotten = |exchange: &&Exchange| {
            exchange.ended == Some(Ended::Restarted) && self.life(exchange.to.node) == exchange.to
        };
        self.exchanges.iter().filter(forgotten).count() as u64
    }

    /// Holds the end of a world in which every fault stopped against everything that was asked. `cabled` tells whether
    /// a path leads from one node to another.
    ///
    /// The regions are held against what the initiators were told, and nothing else: what was told must be in them, and
    /// what is in them beyond that must have been asked by somebody who was told nothing.
    pub fn close(&mut self, cabled: impl Fn(usize, usize) -> bool) {
        for (token, exchange) in self.exchanges.iter().enumerate() {
            let waited_for =
                self.is_waited_for(exchange) && cabled(exchange.from.node, exchange.to.node);
            let problem = match (exchange.ended, exchange.executed) {
                (None, _) if waited_for => Some("never ended"),
                (Some(Ended::Committed), None) => Some("committed without being executed"),
                (Some(Ended::Refused), Some(_)) => Some("was executed although it was refused"),
                _ => None,
            };
            if let Some(problem) = problem {
                return self.blame(format!("exchange {token} {problem}: {exchange:?}"));
            }
        }
        for node in 0..self.regions.len() {
            if let Some(problem) = self.audit(node) {
                return self.blame(problem);
            }
        }
    }

    /// Holds the region of a node against what was told of its present life.
    fn audit(&self, node: usize) -> Option<String> {
        let opening = Region::new();
        let told = self.told.get(&(node, self.lives[node])).unwrap_or(&opening);
        // Each exchange of which nobody was told may have happened or not.
        let (mut least, mut most) = (told.clone(), told.clone());
        let untold = |exchange: &&Exchange| {
            exchange.to.node == node && matches!(exchange.ended, None | Some(Ended::Restarted))
        };
        for exchange in self.exchanges.iter().filter(untold) {
            match exchange.ask {
                Ask::Count => most.counter += 1,
                Ask::Transfer { from, to, amount } => {
                    least.accounts[from] -= amount;
                    most.accounts[to] += amount;
                }
            }
        }
        let region = &self.regions[node];
        let within = (least.counter..=most.counter).contains(&region.counter)
            && (0..ACCOUNTS)
                .all(|at| (least.accounts[at]..=most.accounts[at]).contains(&region.accounts[at]));
        (!within).then(|| {
            format!(
                "node {node} holds {region:?}, but by what was told between {least:?} and {most:?}"
            )
        })
    }

    /// The exchange that a request belongs to, if it arrived as it was sent, and at the right place.
    fn token_of(&mut self, node: usize, payload: &[u8]) -> Option<u64> {
        let token = u64::from_le_bytes(*payload.first_chunk()?);
        match self.exchanges.get(token as usize) {
            Some(exchange)
                if exchange.to.node == node
                    && payload == bytes_of(token, 0x51, exchange.request_bytes) =>
            {
                Some(token)
            }
            other => {
                self.blame(format!(
                    "node {node} was given {} bytes that nobody sent it: {other:?}",
                    payload.len()
                ));
                None
            }
        }
    }
}

impl Region {
    const fn new() -> Self {
        Self {
            counter: 0,
            accounts: [OPENING_BALANCE; ACCOUNTS],
        }
    }

    fn apply(&mut self, ask: Ask) {
        match ask {
            Ask::Count => self.counter += 1,
            Ask::Transfer { from, to, amount } => {
                self.accounts[from] -= amount;
                self.accounts[to] += amount;
            }
        }
    }
}

/// Shortest request and reply, in bytes.
pub const BYTES_MIN: usize = HEADER_BYTES;

/// The bytes of a reply: those of [`bytes_of`], with the number of the life that gave it.
fn reply_of(token: u64, life: Life, len: usize) -> Vec<u8> {
    let mut bytes = bytes_of(token, 0xa5, len);
    bytes[8..12].copy_from_slice(&life.number.to_le_bytes());
    bytes
}

/// The bytes of a request or a reply: the token, and what follows from it.
fn bytes_of(token: u64, salt: u8, len: usize) -> Vec<u8> {
    let mut bytes = token.to_le_bytes().to_vec();
    bytes.extend((8..len).map(|at| (token as u8).wrapping_mul(31) ^ (at as u8) ^ salt));
    bytes
}
