//! All links of one lane, the peers behind them, and the exchanges with those.
//!
//! | file | content |
//! |---|---|
//! | `receive` | reception of a frame: validation, order, dispatch |
//! | `first_epoch` | random first epochs of cables |
//! | `greet` | handshakes: the other end, and the epoch |
//! | `refuse` | faults that keep a link from coming up although another port answers |
//! | `serve` | the responder's half of an exchange |
//! | `durable` | outcomes that must not be reported before they are on disk |
//! | `conclude` | the initiator's half of an exchange |
//! | `watch` | which links still answer, measured by the others |
//! | `path` | which nodes are reachable, reported on change |
//! | `transmit` | contents of the next frame |
//! | `credit` | how much may be in flight |
//! | `failure` | a link fails: open exchanges become unresolved |
//! | `resolve` | queries for the outcome of an exchange, and replies |
//! | `relay` | the same through a neighbor |
//! | `fabric` | control messages about trees, and the trees of the node |
//! | `far` | exchanges with nodes beyond the neighbors, over paths |
//! | `query` | queries for exchanges that were in doubt, by identifier |
//! | `tables` | finding and replacing peers |
//! | `memory` | latches: lookup, eviction, and the record of what eviction loses |
//! | `leave` | graceful shutdown |
//! | `lie` | false messages, for simulations |
//! | `hash` | hash of a node, for model checkers |

#[cfg(feature = "arbitrary-state")]
mod arbitrary;
mod conclude;
mod credit;
mod durable;
mod fabric;
mod failure;
mod far;
mod first_epoch;
mod greet;
mod hash;
mod leave;
#[cfg(feature = "arbitrary-state")]
mod lie;
mod memory;
mod path;
mod query;
mod receive;
mod refuse;
mod relay;
mod resolve;
mod serve;
mod tables;
mod transmit;
mod view;
mod watch;

use alloc::{boxed::Box, vec::Vec};
use core::fmt;

use self::{fabric::Fabric, path::Paths, relay::Relays};
pub use self::{
    fabric::{FabricConfig, RouteView},
    far::PathView,
    query::QueryError,
    view::{LinkView, PeerView},
    watch::Ping,
};
use crate::{
    Host, Moment, Name, Reply,
    clock::Clock,
    event::DownReason,
    host::Answer,
    latch::{LatchSet, Lost},
    link::Link,
    names::Names,
    peer::Peer,
    transaction::{Index, Pool},
    tree::note::CONTROL_MESSAGE_BYTES_MAX,
    wire::{DEFAULT_ETHERTYPE, MAX_PAYLOAD_BYTES},
};
pub use crate::{exchange::PATH_PORTS, link::LinkState, mode::Mode};

/// Latch sets of each link: one for the current peer, one for the previous.
const SETS_PER_LINK: usize = 2;
/// Peers for each link: the owners of its sets, and one with exchanges waiting for its return.
const PEERS_PER_LINK: usize = SETS_PER_LINK + 1;

/// Most exchanges whose identifiers are kept when no caller waits for them any more. It exceeds the
/// exchanges in doubt at once with one cabled node, including those on paths that take over from
/// the cable. A cable has 64 slots by default, a path 8.
const NAMES_MAX: usize = 128;

/// Configuration of a node.
#[derive(Debug, Clone, Copy)]
pub struct NodeConfig {
    /// The node's identity. Not zero, which means none: peers ignore a node with zero.
    pub guid: u64,
    /// Random number of this incarnation of the node. A new number shows the peers that everything
    /// was forgotten.
    pub incarnation: u64,
    /// Name for people.
    pub name: Name,
    /// Exchanges that each peer, and this side, may have open on each link: 1 to 255; 0 means 1.
    pub slots: u8,
    /// Ticks without a message from the peer after which a link fails; 0 means 1.
    pub keepalive_misses_max: u32,
    /// Longest request and reply, in bytes; clamped to 1 to [`MAX_PAYLOAD_BYTES`].
    pub message_bytes_max: u16,
    /// Round trips of another link after which a link with open exchanges fails, if its ping does
    /// not come back; 0 for never.
    pub event_ratio: u32,
    /// EtherType of link frames.
    pub ethertype: u16,
    /// Exchanges of this side that may be queued, open or unresolved at once, over all peers.
    pub transactions_max: usize,
    /// Start value of epochs, records and the exchanges of a slot. The wire requires 0 for records.
    /// Another value is valid only if all nodes have it, which brings a simulation to the wrap of
    /// these counters.
    pub first_sequence: u32,
    /// Secret random number from which the first epoch of each cable is drawn: one of 2^30, unknown
    /// to a node that does not receive on the cable. With 0, epochs begin after `first_sequence`.
    pub epoch_seed: u64,
    /// Configuration of the fabric beyond its neighbors. Without it, the node takes no part in
    /// trees.
    pub fabric: Option<FabricConfig>,
}

impl NodeConfig {
    /// A configuration with the defaults: 64 slots, 10 silent ticks, messages of
    /// [`MAX_PAYLOAD_BYTES`], 32 round trips, [`DEFAULT_ETHERTYPE`], 1024 transactions, no fabric.
    #[must_use]
    pub const fn new(guid: u64, incarnation: u64, name: Name) -> Self {
        Self {
            guid,
            incarnation,
            name,
            slots: 64,
            keepalive_misses_max: 10,
            message_bytes_max: MAX_PAYLOAD_BYTES as u16,
            event_ratio: 32,
            ethertype: DEFAULT_ETHERTYPE,
            transactions_max: 1024,
            first_sequence: 0,
            epoch_seed: 0,
            fabric: None,
        }
    }
}

/// Why a link was not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddLinkError {
    /// The port has a link already.
    PortTaken,
    /// The number is reserved for paths: [`PATH_PORTS`] or higher.
    PortOfPath,
}

/// Why an exchange was not taken. Nothing was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubmitError {
    /// No link ever led to a node with this GUID, and no way to it is known.
    NoSuchPeer,
    /// [`NodeConfig::transactions_max`] exchanges are queued, open or unresolved. Retry later.
    Full,
    /// The payload is longer than this node or the peer takes.
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// Most bytes that both take.
        max: usize,
    },
    /// The payload is empty.
    Empty,
}

/// Most exchanges whose identifiers are kept when no caller waits for them any more.
fn names_max(config: &NodeConfig) -> usize {
    (config.transactions_max / 4).min(NAMES_MAX)
}

/// All links of one lane. The crate documentation has a picture.
///
/// One owner, one thread: it is `Send` and has no interior mutability. Plain data, which a model
/// checker clones and hashes.
#[derive(Clone)]
pub struct Node {
    config: NodeConfig,
    links: Vec<Link>,
    /// Resolution queries that each link forwards, by the link's index.
    relays: Vec<Relays>,
    peers: Vec<Peer>,
    latches: Vec<LatchSet>,
    transactions: Pool,
    /// Transactions whose caller was notified that they are in doubt.
    in_doubt: u64,
    /// Transactions that are kept only because they have a name, and how many these may be.
    orphans: u32,
    names_max: u32,
    /// Exchanges that were in doubt, and queries for them.
    names: Names,
    /// Counts the times that a link took a latch set, to find the one not used for longest.
    takes: u64,
    /// A link made a round trip since the caller was last quiet.
    round_trips: bool,
    /// Losses of peers that were evicted from the table.
    peers_lost: Lost,
    /// Frames of ports without a link.
    frames_without_link: u64,
    /// Counts sent and received messages of epochs and executions, and is never behind a received
    /// clock.
    clock: Clock,
    /// Up to here the host's journal is on disk.
    durable: u64,
    /// Which peers are reached.
    paths: Paths,
    /// The network beyond the neighbors.
    fabric: Option<Box<Fabric>>,
    /// Links that are ends of paths. They come first, for their number never changes.
    path_links: usize,
    /// Where the host writes a reply.
    reply: Reply,
    #[cfg(feature = "arbitrary-state")]
    lies: Option<lie::Lies>,
}

impl Node {
    /// Creates a node without links.
    ///
    /// Allocates [`NodeConfig::transactions_max`] × ([`NodeConfig::message_bytes_max`] + about 200)
    /// bytes.
    #[must_use]
    pub fn new(config: NodeConfig) -> Self {
        let config = NodeConfig {
            slots: config.slots.max(1),
            keepalive_misses_max: config.keepalive_misses_max.max(1),
            message_bytes_max: config.message_bytes_max.clamp(1, MAX_PAYLOAD_BYTES as u16),
            ..config
        };
        let message_bytes_max = usize::from(config.message_bytes_max);
        let mut node = Self {
            config,
            links: Vec::new(),
            relays: Vec::new(),
            peers: Vec::new(),
            latches: Vec::new(),
            transactions: Pool::new(
                config.transactions_max + names_max(&config),
                message_bytes_max,
            ),
            in_doubt: 0,
            orphans: 0,
            names_max: names_max(&config) as u32,
            names: Names::new(names_max(&config), message_bytes_max),
            takes: 0,
            round_trips: false,
            peers_lost: Lost::default(),
            frames_without_link: 0,
            clock: Clock::default(),
            durable: 0,
            paths: Paths::default(),
            fabric: config
                .fabric
                .map(|fabric| Box::new(Fabric::new(&config, &fabric))),
            path_links: 0,
            reply: Reply::with_room(message_bytes_max),
            #[cfg(feature = "arbitrary-state")]
            lies: None,
        };
        node.add_paths();
        node
    }

    /// Adds the link of `port`, the caller's index of a port with the address `mac`. It is down
    /// until [`Node::on_carrier`] reports a carrier. Allocates about [`NodeConfig::slots`] × 2 ×
    /// [`NodeConfig::message_bytes_max`] bytes.
    ///
    /// # Errors
    /// [`AddLinkError`]; nothing changed.
    pub fn add_link(&mut self, port: u16, mac: [u8; 6]) -> Result<(), AddLinkError> {
        if port >= PATH_PORTS {
            return Err(AddLinkError::PortOfPath);
        }
        if self.link_of(port).is_some() {
            return Err(AddLinkError::PortTaken);
        }
        let answer_bytes_max = usize::from(self.config.message_bytes_max) + resolve::ANSWER_BYTES;
        let pass_bytes_max = self.fabric.as_ref().map_or(0, |_| far::PASS_BYTES_MAX);
        let mut link = Link::new(
            port,
            mac,
            self.config.slots,
            answer_bytes_max
                .max(relay::RELAY_BYTES)
                .max(CONTROL_MESSAGE_BYTES_MAX)
                .max(pass_bytes_max),
            self.config.first_sequence,
        );
        if self.config.epoch_seed != 0 {
            let drawn = first_epoch::drawn_epoch(self.config.epoch_seed, port);
            link.epochs.skip(drawn);
        }
        self.make_link(link, Relays::new(answer_bytes_max), SETS_PER_LINK);
        if let Some(fabric) = &mut self.fabric {
            fabric.add_link();
        }
        Ok(())
    }

    /// Adds a link and its resources.
    fn make_link(&mut self, link: Link, relays: Relays, sets: usize) {
        let slots = link.slots();
        self.links.push(link);
        self.relays.push(relays);
        let peers = PEERS_PER_LINK * self.links.len();
        for relays in &mut self.relays {
            relays.grow(peers);
        }
        for _ in 0..sets {
            let message_bytes_max = usize::from(self.config.message_bytes_max);
            self.latches.push(LatchSet::new(slots, message_bytes_max));
        }
        self.peers.reserve_exact(peers - self.peers.len());
        self.paths.grow(peers);
    }

    /// The port was opened again and has another address from now on. Handshakes report it to the
    /// neighbor.
    pub fn set_address(&mut self, port: u16, mac: [u8; 6]) {
        if let Some(at) = self.link_of(port) {
            self.links[at].mac = mac;
        }
    }

    /// The port's carrier came or went. Repeating the current state has no effect.
    pub fn on_carrier(&mut self, port: u16, up: bool, host: &mut impl Host) {
        let Some(link) = self.link_of(port) else {
            return;
        };
        match (self.links[link].state(), up) {
            (LinkState::Down, true) => {
                self.paths.on_received(link);
                self.links[link].epochs.raise();
            }
            (LinkState::Init, false) => {
                let ended = self.links[link].epochs.wiring.clear();
                self.refusal_over(link, ended, host);
                self.links[link].epochs.abandon();
            }
            (LinkState::Up, false) => {
                self.fail(link, DownReason::CarrierLost, host);
                self.links[link].epochs.wiring.clear();
                self.links[link].epochs.lower();
            }
            (LinkState::Down, false) | (LinkState::Init | LinkState::Up, true) => {}
        }
        self.report_paths(host);
    }

    /// The port could not transmit a frame that [`Node::poll_transmit`] returned: on this cable
    /// that is a loss.
    pub fn on_transmit_failed(&mut self, port: u16, host: &mut impl Host) {
        if let Some(link) = self.link_of(port) {
            self.fail(link, DownReason::TransmitFailed, host);
        }
    }

    /// Processes a tick. Resends handshakes, sends keepalives on links that are idle or have open
    /// exchanges, and fails links that were silent for too long. Nothing else depends on it: no
    /// exchange is ever resent.
    pub fn on_tick(&mut self, host: &mut impl Host) {
        self.clock.refill_allowance();
        self.count_silence();
        for at in self.path_links..self.links.len() {
            let ended = self.links[at]
                .epochs
                .wiring
                .tick(self.config.keepalive_misses_max / 2);
            self.refusal_over(at, ended, host);
            let link = &mut self.links[at];
            link.epochs.handshake.tick();
            link.liveness.tick();
            match link.state() {
                LinkState::Down => {}
                LinkState::Init => link.epochs.handshake.due = true,
                LinkState::Up => {
                    if link.liveness.tick_up() >= self.config.keepalive_misses_max {
                        self.fail(at, DownReason::PeerSilent, host);
                    }
                }
            }
        }
        self.tick_trees(host);
        self.tick_paths(host);
        self.forget_dead_ends(host);
        let transactions = &self.transactions;
        let is_live = |name: &_| transactions.live().any(|entry| entry.name == Some(*name));
        host.on_clock(self.clock.now());
        self.names.report(is_live, host);
        self.report_paths(host);
        self.on_quiet();
    }

    /// Submits an exchange with the node whose GUID is `peer`. `payload` has 1 to
    /// [`NodeConfig::message_bytes_max`] bytes, the smaller limit of both nodes. [`Host::execute`]
    /// at the peer receives it, and [`Host::complete`] reports the outcome for `token` here.
    /// Concurrent exchanges are unordered. The exchange waits while no link to the peer is up. A
    /// node in a fabric requests a path to the peer meanwhile, also to a peer that it never met, by
    /// its address.
    ///
    /// # Errors
    /// [`SubmitError`]; the exchange does not exist then.
    #[inline]
    pub fn submit(
        &mut self,
        peer: u64,
        mode: Mode,
        payload: &[u8],
        token: u64,
    ) -> Result<(), SubmitError> {
        if payload.is_empty() {
            return Err(SubmitError::Empty);
        }
        let peer = match self.peer_of(peer) {
            Some(peer) => peer,
            None => self.find_far_peer(peer)?,
        };
        if self.room() == 0 {
            return Err(SubmitError::Full);
        }
        let max = self.message_bytes_max(peer);
        if payload.len() > max {
            return Err(SubmitError::TooLong {
                len: payload.len(),
                max,
            });
        }
        let transaction = self
            .transactions
            .take(token, peer, mode, payload)
            .ok_or(SubmitError::Full)?;
        self.peers[peer]
            .queue
            .push_back(&mut self.transactions, transaction);
        if self.peers[peer].links_up == 0 {
            self.want_path(peer);
        }
        Ok(())
    }

    /// Cancels the reports for exchanges and queries whose token `filter` accepts. Exchanges that
    /// are not in flight are dropped; the others complete without a report. Those in doubt may
    /// still be queried with [`Node::query`].
    pub fn cancel_interest(&mut self, mut filter: impl FnMut(u64) -> bool) {
        self.names.cancel(&mut filter);
        for transaction in self
            .transactions
            .live_mut()
            .filter(|transaction| transaction.wanted)
        {
            transaction.wanted = !filter(transaction.token);
        }
        for peer in 0..self.peers.len() {
            self.peers[peer]
                .queue
                .retain(&mut self.transactions, |transaction| {
                    if let (false, Some(name)) = (transaction.wanted, &transaction.name) {
                        // It waited to be applied again.
                        self.names.note(name, Answer::Undone);
                    }
                    transaction.wanted
                });
            self.drop_unwanted(peer);
        }
    }

    /// Exchanges whose caller received [`Host::in_doubt`] and no outcome yet.
    #[must_use]
    pub const fn in_doubt(&self) -> u64 {
        self.in_doubt
    }

    /// Exchanges that [`Node::submit`] would still take.
    #[must_use]
    pub const fn room(&self) -> u32 {
        // The rest is for those that are kept for their names.
        let reserved = self.orphans_max() - self.orphans;
        self.transactions.free().saturating_sub(reserved)
    }

    /// The Lamport clock. Each message of an epoch that is sent or accepted advances it, and so
    /// does a message with a greater clock. An event of one node before it sent a message thus has
    /// a smaller clock than an event of another node after it received that message.
    #[inline]
    #[must_use]
    pub const fn clock(&self) -> u64 {
        self.clock.now()
    }

    /// The caller received news of an event at `clock` by another path than the links of this node.
    /// All later events here are ordered after it.
    #[inline]
    pub fn observe(&mut self, clock: u64) {
        self.clock.observe(clock);
    }

    /// The caller executes something itself, for an application of this node. Returns its position
    /// in the execution order of this node.
    #[inline]
    pub const fn execute_here(&mut self) -> Moment {
        self.clock.execute()
    }

    /// Something else that is to have a place of its own happens at the caller: the clock then.
    #[inline]
    pub const fn tick_here(&mut self) -> u64 {
        self.clock.tick();
        self.clock.now()
    }

    /// Frames that [`Node::on_frame`] was given for ports without a link.
    #[must_use]
    pub const fn frames_without_link(&self) -> u64 {
        self.frames_without_link
    }

    /// Maximum length of a request to a peer and of its reply, in bytes: the smaller limit of both
    /// ends.
    #[inline]
    fn message_bytes_max(&self, peer: usize) -> usize {
        let max = self.config.message_bytes_max;
        usize::from(max.min(self.peers[peer].message_bytes_max))
    }

    /// Ends a transaction that is in no list and holds no slot.
    #[inline]
    fn finish(&mut self, transaction: Index, outcome: crate::Outcome<'_>, host: &mut impl Host) {
        let entry = &self.transactions[transaction];
        if entry.wanted {
            // Each end has a place of its own.
            self.clock.tick();
            host.on_clock(self.clock.now());
            host.complete(entry.token, outcome);
        }
        self.release(transaction, Answer::from(outcome), host);
    }

    /// Releases a transaction whose caller knows the outcome or does not need it. Others may still
    /// query it.
    #[inline]
    fn release(&mut self, transaction: Index, answer: Answer<'_>, host: &mut impl Host) {
        self.clear_doubt(transaction);
        let entry = &self.transactions[transaction];
        let name = entry.name;
        if entry.orphan {
            self.orphans -= 1;
            self.peers[entry.peer].orphans -= 1;
        }
        self.transactions.release(transaction);
        if let Some(name) = name {
            host.on_clock(self.clock.now());
            self.names.end(&name, answer, host);
        }
    }

    #[inline]
    fn clear_doubt(&mut self, transaction: Index) {
        let entry = &mut self.transactions[transaction];
        if entry.in_doubt {
            entry.in_doubt = false;
            self.in_doubt -= 1;
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("config", &self.config)
            .field("links", &self.links.len())
            .field("in_doubt", &self.in_doubt)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for AddLinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PortTaken => f.write_str("the port has a link already"),
            Self::PortOfPath => f.write_str("the number is reserved for paths"),
        }
    }
}

impl core::error::Error for AddLinkError {}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchPeer => {
                f.write_str("no link ever led to this node, and no path to it is known")
            }
            Self::Full => f.write_str("the maximum number of exchanges is in flight; try later"),
            Self::TooLong { len, max } => {
                write!(f, "the payload has {len} bytes; the most is {max}")
            }
            Self::Empty => f.write_str("the payload is empty"),
        }
    }
}

impl core::error::Error for SubmitError {}
