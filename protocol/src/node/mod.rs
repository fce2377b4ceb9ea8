//! A node: all links of one lane, the peers behind them, and the exchanges with those.
//!
//! The node owns four objects and dispatches between them. Each keeps its own invariant.
//!
//! | object | content |
//! |---|---|
//! | `links` | the links: epochs, keepalives, credit |
//! | `exchanges` | one table for each end: slot, sequence, latch |
//! | `resolver` | what became of the exchanges of failed links |
//! | `fabric` | trees, paths, and which nodes are reachable |
//!
//! This file has the events of the caller: a frame arrives or may leave, a tick, an exchange.
//!
//! | file | content |
//! |---|---|
//! | `cascade` | events that concern all objects: epochs begin and end, peers come and go |
//! | `paths` | the same for the ends of paths |
//! | `peer` | a node at the other end of a cable or path |
//! | `view` | read-only views |
//! | `config` | configuration, and why a request of the caller is refused |
//! | `arbitrary`, `lie` | any state, and false messages, for simulations |

#[cfg(feature = "arbitrary-state")]
mod arbitrary;
mod cascade;
mod config;
#[cfg(test)]
mod counting_host;
mod exchanges;
mod fabric;
#[cfg(feature = "arbitrary-state")]
mod lie;
mod links;
mod paths;
mod peer;
mod resolver;
mod view;

use alloc::boxed::Box;
use core::{
    fmt,
    hash::{Hash, Hasher},
};

pub use self::{
    config::{AddLinkError, FabricConfig, NodeConfig, QueryError, SubmitError},
    view::{LinkView, PathView, PeerView, Ping, RouteView},
};
use self::{
    exchanges::{
        Exchanges, PEERS_PER_LINK,
        initiator::{self, Initiator},
        question::{ANSWER_BYTES, QUESTION_BYTES, Question},
        responder::SETS_PER_LINK,
    },
    fabric::{Fabric, PASS_BYTES_MAX, Reach},
    links::Links,
    resolver::{Doubts, RELAY_BYTES, Resolver},
};
use crate::{
    ExchangeId, Host, LinkRefusal, Moment, Outcome, Refusal,
    clock::Clock,
    event::DownReason,
    exchange::Index,
    host::Answer,
    link::{
        Attachment, Blocked, Link, Received,
        arriving::{Arrived, Disorder},
        handshake::Hello,
        keepalive::Keepalive,
    },
    tree::note::CONTROL_MESSAGE_BYTES_MAX,
    wire::{
        FRAME_PAYLOAD_BYTES_MAX,
        frame::{self, BROADCAST, FrameError, FrameWriter},
        message::{Message, records_for},
        record::{Header, NO_PIGGYBACK, RecordError},
        slice::Kind,
    },
};
pub use crate::{exchange::PATH_PORTS, link::LinkState, mode::Mode};

/// A whole message of an epoch.
#[derive(Clone, Copy)]
struct Whole<'a> {
    header: &'a Header,
    payload: &'a [u8],
}

/// All links of one lane. The crate documentation has a picture.
///
/// One owner, one thread: it is `Send` and has no interior mutability. Plain data, which a model
/// checker clones and hashes.
#[derive(Clone)]
pub struct Node {
    config: NodeConfig,
    links: Links,
    exchanges: Exchanges,
    resolver: Resolver,
    /// The network beyond the neighbors.
    fabric: Option<Box<Fabric>>,
    /// Which peers are reached.
    reach: Reach,
    /// Counts sent and received messages of epochs and executions, and is never behind a received
    /// clock.
    clock: Clock,
    /// Frames of ports without a link.
    frames_without_link: u64,
    #[cfg(feature = "arbitrary-state")]
    lies: lie::Lies,
}

impl Node {
    /// Creates a node without links.
    ///
    /// Allocates [`NodeConfig::transactions_max`] × ([`NodeConfig::message_bytes_max`] + about 200)
    /// bytes.
    #[must_use]
    pub fn new(config: NodeConfig) -> Self {
        let config = config.clamped();
        let mut node = Self {
            config,
            links: Links::new(),
            exchanges: Exchanges::new(&config, config.names_max()),
            resolver: Resolver::new(&config, config.names_max()),
            fabric: Fabric::of(&config),
            reach: Reach::default(),
            clock: Clock::default(),
            frames_without_link: 0,
            #[cfg(feature = "arbitrary-state")]
            lies: lie::Lies::default(),
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
        if self.links.of_port(port).is_some() {
            return Err(AddLinkError::PortTaken);
        }
        let answer_bytes_max = usize::from(self.config.message_bytes_max) + ANSWER_BYTES;
        let pass_bytes_max = self.fabric.as_ref().map_or(0, |_| PASS_BYTES_MAX);
        let link = Link::new(
            port,
            mac,
            self.config.slots,
            answer_bytes_max
                .max(RELAY_BYTES)
                .max(CONTROL_MESSAGE_BYTES_MAX)
                .max(pass_bytes_max),
            self.config.first_sequence,
        );
        self.make_link(link, answer_bytes_max, SETS_PER_LINK);
        if self.config.epoch_seed != 0 {
            let at = self.links.len() - 1;
            self.links.draw_epoch(at, self.config.epoch_seed);
        }
        if let Some(fabric) = &mut self.fabric {
            fabric.add_link();
        }
        Ok(())
    }

    /// Adds a link and its resources. Relayed answers on it have up to `relayed_bytes_max` bytes.
    fn make_link(&mut self, link: Link, relayed_bytes_max: usize, sets: usize) {
        let slots = link.slots();
        self.links.push(link);
        let peers = PEERS_PER_LINK * self.links.len();
        self.resolver.grow(peers, relayed_bytes_max);
        self.exchanges.grow(peers, sets, slots);
        self.reach.grow(peers);
    }

    /// The port was opened again and has another address from now on. Handshakes report it to the
    /// neighbor.
    pub fn set_address(&mut self, port: u16, mac: [u8; 6]) {
        if let Some(at) = self.links.of_port(port) {
            self.links[at].mac = mac;
        }
    }

    /// Grants the peer on `port` `slots` slots from now on, at most [`NodeConfig::slots`], the
    /// initial grant. With fewer slots the peer starts fewer exchanges; with none it starts none.
    /// Exchanges that are open, or were sent before the peer received the grant, are served. The
    /// grant holds until it is set again, for any peer at the other end.
    pub fn set_grant(&mut self, port: u16, slots: u8) {
        if let Some(at) = self.links.of_port(port) {
            self.links.set_grant(at, slots.min(self.config.slots));
        }
    }

    /// Sets the number of receive buffers: the receive ring of `port` holds `records` frames of its
    /// link, and each frame has at least one record. The next handshake or keepalive reports it to
    /// the peer, which keeps no more in flight from then on. Clamped to 32 to 250; initially 250.
    pub fn set_window(&mut self, port: u16, records: u16) {
        if let Some(at) = self.links.of_port(port) {
            self.links[at].inbound.set_window(records);
        }
    }

    /// Sets [`NodeConfig::keepalive_misses_max`] and [`NodeConfig::event_ratio`] for all links from
    /// now on.
    pub fn set_patience(&mut self, keepalive_misses_max: u32, event_ratio: u32) {
        self.config.keepalive_misses_max = keepalive_misses_max.max(1);
        self.config.event_ratio = event_ratio;
    }

    /// Sets whether round trips of the link on `port` count against the other links, and theirs
    /// against it. They do by default. A link in memory makes a hundred round trips while a cable
    /// makes one, which would cause the cable to be declared dead.
    pub fn set_measured(&mut self, port: u16, is_measured: bool) {
        if let Some(at) = self.links.of_port(port) {
            self.links[at].liveness.is_measured = is_measured;
        }
    }

    /// Sends a ping on the link on `port` if the link is up and no ping is in flight. The protocol
    /// does not depend on it: it allows a caller to measure the round trip of an idle link.
    pub fn ping(&mut self, port: u16) {
        if let Some(at) = self.links.of_port(port) {
            self.links.ping(at);
        }
    }

    /// The caller has polled every port for a while and received nothing. Links with open exchanges
    /// send a ping now. Another link sends one too, which provides round trips for comparison.
    ///
    /// This is a hint and no clock: it causes no retransmission and declares no link dead. Ticks do
    /// the same at their own rate.
    pub fn on_quiet(&mut self) {
        self.links.on_quiet(self.config.event_ratio);
    }

    /// From now on grants no slot to any neighbor or far end of a path. Exchanges that are open, or
    /// were sent before the peers received that, are served. The requests of peers wait at their
    /// side for the next incarnation of this node. A caller that limits the time until
    /// [`Node::is_settled`] ends the rest like a crash.
    pub fn leave(&mut self) {
        self.links.leave();
    }

    /// The port's carrier came or went. Repeating the current state has no effect.
    pub fn on_carrier(&mut self, port: u16, up: bool, host: &mut impl Host) {
        let Some(at) = self.links.of_port(port) else {
            return;
        };
        match (self.links[at].state(), up) {
            (LinkState::Down, true) => {
                self.reach.on_received(at);
                self.links[at].epochs.raise();
            }
            (LinkState::Init, false) => {
                let ended = self.links[at].epochs.wiring.clear();
                self.links.refusal_over(at, ended, host);
                self.links[at].epochs.abandon();
            }
            (LinkState::Up, false) => {
                self.fail(at, DownReason::CarrierLost, host);
                self.links[at].epochs.wiring.clear();
                self.links[at].epochs.lower();
            }
            (LinkState::Down, false) | (LinkState::Init | LinkState::Up, true) => {}
        }
        self.report_paths(host);
    }

    /// The port could not transmit a frame that [`Node::poll_transmit`] returned: on this cable
    /// that is a loss.
    pub fn on_transmit_failed(&mut self, port: u16, host: &mut impl Host) {
        if let Some(at) = self.links.of_port(port) {
            self.fail(at, DownReason::TransmitFailed, host);
        }
    }

    /// Processes a tick. Resends handshakes, sends keepalives on links that are idle or have open
    /// exchanges, and fails links that were silent for too long. Nothing else depends on it: no
    /// exchange is ever resent.
    pub fn on_tick(&mut self, host: &mut impl Host) {
        self.clock.refill_allowance();
        self.reach.count_silence(&self.links);
        for at in self.links.cables() {
            let epochs = &mut self.links[at].epochs;
            let ended = epochs.wiring.tick(self.config.keepalive_misses_max / 2);
            self.links.refusal_over(at, ended, host);
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
        if let Some(fabric) = &mut self.fabric {
            fabric.tick_trees(&mut self.links, host);
        }
        self.tick_paths(host);
        self.forget_dead_ends(host);
        host.on_clock(self.clock.now());
        self.resolver
            .doubts
            .report_names(&self.exchanges.initiator, host);
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
        let peer = match self.exchanges.find(peer) {
            Some(peer) => peer,
            None => self.find_far_peer(peer)?,
        };
        if self.room() == 0 {
            return Err(SubmitError::Full);
        }
        let max = self.exchanges.message_bytes_max(peer);
        if payload.len() > max {
            return Err(SubmitError::TooLong {
                len: payload.len(),
                max,
            });
        }
        let initiator = &mut self.exchanges.initiator;
        initiator.submit(peer, mode, payload, token)?;
        if self.exchanges.peers[peer].links_up == 0 {
            self.want_path(peer);
        }
        Ok(())
    }

    /// Cancels the reports for exchanges and queries whose token `filter` accepts. Exchanges that
    /// are not in flight are dropped; the others complete without a report. Those in doubt may
    /// still be queried with [`Node::query`].
    pub fn cancel_interest(&mut self, mut filter: impl FnMut(u64) -> bool) {
        let Self {
            exchanges,
            resolver,
            ..
        } = self;
        resolver.doubts.cancel(&mut filter);
        exchanges.initiator.cancel(filter);
        for peer in 0..self.exchanges.peers.len() {
            let doubts = &mut self.resolver.doubts;
            let initiator = &mut self.exchanges.initiator;
            // It waited to be applied again.
            initiator.drop_unwanted(peer, |name| doubts.note_undone(name));
            self.drop_unwanted(peer);
        }
    }

    /// Queries the outcome of the exchange `name`, an identifier from [`Host::in_doubt`].
    /// [`Host::answered`] returns it for `token`: from inside this call if the outcome is known or
    /// forgotten, else as soon as a path to the peer returns. The original caller still receives
    /// its own completion. The identifier is valid for this incarnation of the node, for any
    /// caller.
    ///
    /// # Errors
    /// [`QueryError`]; no reply follows then.
    pub fn query(
        &mut self,
        name: &ExchangeId,
        token: u64,
        host: &mut impl Host,
    ) -> Result<(), QueryError> {
        host.on_clock(self.clock.now());
        let Exchanges {
            peers, initiator, ..
        } = &self.exchanges;
        let has_link = |peer: usize| peers[peer].links_up > 0;
        self.resolver
            .doubts
            .query(name, token, has_link, initiator, host)
    }

    /// Ends the exchanges of this side that were never sent, or were reversed. They were not
    /// executed and will not be, and their callers receive [`Refusal::NoResources`].
    pub fn give_back(&mut self, host: &mut impl Host) {
        for peer in 0..self.exchanges.peers.len() {
            while let Some(transaction) = self.exchanges.initiator.unqueue(peer) {
                self.finish(transaction, Outcome::Refused(Refusal::NoResources), host);
            }
        }
    }

    /// The host's journal is on disk up to `lsn`: executions up to there may be reported. A number
    /// lower than an earlier one changes nothing. Call [`Node::has_work`] afterwards.
    pub fn on_durable(&mut self, lsn: u64) {
        if !self.exchanges.responder.on_durable(lsn) {
            return;
        }
        for at in 0..self.links.len() {
            self.exchanges.responder.release(&mut self.links[at]);
            self.resolver.release_relayed(at, &self.exchanges);
        }
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

    /// Ends a transaction that is in no list and holds no slot.
    #[inline]
    fn finish(&mut self, transaction: Index, outcome: Outcome<'_>, host: &mut impl Host) {
        let Self {
            exchanges,
            resolver,
            clock,
            ..
        } = self;
        let initiator = &mut exchanges.initiator;
        if !initiator.finish(transaction, outcome, clock, host) {
            let answer = Answer::from(outcome);
            resolver
                .doubts
                .release(initiator, transaction, answer, clock, host);
        }
    }
}

/// A frame's way in: validation, order, dispatch.
impl Node {
    /// Handles a whole Ethernet frame that arrived on `port`. Any bytes are allowed: the link
    /// counts and drops bytes that are not a frame of the peer.
    #[inline]
    pub fn on_frame(&mut self, port: u16, frame: &[u8], host: &mut impl Host) {
        let Some(link) = self.links.of_port(port) else {
            self.frames_without_link += 1;
            return;
        };
        self.on_frame_at(link, frame, host);
    }

    /// Likewise on a link.
    #[inline]
    fn on_frame_at(&mut self, link: usize, frame: &[u8], host: &mut impl Host) {
        let counters = &mut self.links[link].counters;
        let mut records = match frame::parse(frame, self.config.ethertype) {
            Ok(records) => records,
            Err(error) => {
                let drops = &mut counters.drops;
                *match error {
                    FrameError::Short => &mut drops.short,
                    FrameError::EtherType => &mut drops.ethertype,
                    FrameError::Length => &mut drops.length,
                    FrameError::Crc => &mut drops.crc,
                } += 1;
                return;
            }
        };
        counters.rx_frames += 1;
        while !records.is_empty() {
            let (message, rest) = match Message::split(records) {
                Ok(split) => split,
                Err(error) => {
                    let drops = &mut self.links[link].counters.drops;
                    match error {
                        RecordError::Version(version) => {
                            drops.version += 1;
                            self.links.found(link, LinkRefusal::Version(version), host);
                        }
                        RecordError::Malformed => drops.malformed += 1,
                    }
                    return;
                }
            };
            records = rest;
            if message.header.kind == Kind::Init {
                match Hello::read(&message) {
                    Some(hello) => self.on_hello(link, &hello, frame::source(frame), host),
                    None => self.links[link].counters.drops.malformed += 1,
                }
            } else if let Err(reason) = self.on_message(link, &message, host) {
                self.fail(link, reason, host);
                return;
            }
        }
    }

    /// A message of an epoch arrived.
    ///
    /// # Errors
    /// The evidence by which the link must be declared failed.
    #[inline]
    fn on_message(
        &mut self,
        at: usize,
        message: &Message<'_>,
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let header = &message.header;
        let Some(Received {
            reflects,
            ends_round_trip,
        }) = self.links[at].receive(message, &mut self.clock)?
        else {
            return Ok(());
        };
        if ends_round_trip {
            self.on_round_trip(at, host);
        }
        if header.piggyback != NO_PIGGYBACK {
            self.on_piggyback(at, header, host)?;
        }
        let link = &mut self.links[at];
        if (!link.arriving.is_in_flight() || header.kind == Kind::Keepalive)
            && header.shape.is_whole()
            && let Some(payload) = message.payload_in_place()
        {
            return self.dispatch(at, Whole { header, payload }, reflects, host);
        }
        match link.arriving.take(message) {
            Err(Disorder) => Err(DownReason::Violation),
            Ok(Arrived::Part) => Ok(()),
            Ok(Arrived::Whole(bytes)) => {
                let buffer = link.arriving.lend();
                let payload = &buffer[..bytes];
                let result = self.dispatch(at, Whole { header, payload }, reflects, host);
                self.links[at].arriving.give_back(buffer);
                result
            }
        }
    }

    /// Handles the commit or acknowledgment that a record piggybacks for another slot.
    #[inline]
    fn on_piggyback(
        &mut self,
        at: usize,
        header: &Header,
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        match header.kind {
            Kind::Request | Kind::Tentative | Kind::Commit | Kind::Resolve => {
                self.commit_slot(at, header.piggyback, None, host)
            }
            Kind::Reflecting | Kind::Committed | Kind::Refused | Kind::Resolved | Kind::Relayed => {
                initiator::kept(&mut self.links[at], header.piggyback)
            }
            Kind::Keepalive | Kind::Init | Kind::Relay | Kind::ControlMessage | Kind::Pass => {
                Err(DownReason::Violation)
            }
        }
    }

    /// Message 3 for a slot of the peer.
    #[inline]
    fn commit_slot(
        &mut self,
        at: usize,
        number: u8,
        sequence: Option<u32>,
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let Exchanges {
            peers, responder, ..
        } = &mut self.exchanges;
        let link = &mut self.links[at];
        responder.commit_slot(link, peers, &mut self.clock, number, sequence, host)
    }

    /// A message of an epoch is whole.
    #[inline]
    fn dispatch(
        &mut self,
        at: usize,
        message: Whole<'_>,
        reflects: bool,
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let Self {
            links,
            exchanges,
            resolver,
            clock,
            ..
        } = self;
        let Whole { header, payload } = message;
        match header.kind {
            Kind::Request | Kind::Tentative => {
                let Exchanges {
                    peers, responder, ..
                } = exchanges;
                responder.on_request(&mut links[at], peers, clock, header, payload, host)
            }
            Kind::Commit if !payload.is_empty() => Err(DownReason::Violation),
            Kind::Commit => self.commit_slot(at, header.slot, Some(header.slot_sequence), host),
            Kind::Reflecting => {
                let link = &mut links[at];
                if let Some(ended) = exchanges.initiator.on_reflecting(link, header, payload)? {
                    self.finish(ended, Outcome::Committed(payload), host);
                }
                Ok(())
            }
            Kind::Committed => {
                let link = &mut links[at];
                let ended = exchanges.initiator.on_committed(link, header, payload)?;
                self.finish(ended, Outcome::Committed(payload), host);
                Ok(())
            }
            Kind::Refused => {
                let (ended, why) = Initiator::on_refused(&mut links[at], header, payload)?;
                self.finish(ended, Outcome::Refused(why), host);
                Ok(())
            }
            Kind::Resolve => self.on_resolve(at, message, host),
            Kind::Resolved => {
                let initiator = &mut exchanges.initiator;
                let doubts = &mut resolver.doubts;
                doubts.on_resolved(at, message, initiator, links, clock, host)
            }
            Kind::Relay => resolver.on_relay(at, message, exchanges, links, clock, host),
            Kind::Relayed => {
                resolver.on_relayed(at, message, exchanges, links, clock, host)?;
                self.search_paths(host);
                Ok(())
            }
            Kind::ControlMessage => self.on_control_message(at, payload, host),
            Kind::Pass => self.on_pass(at, payload, host),
            Kind::Keepalive => self.on_keepalive(at, payload, reflects),
            Kind::Init => Ok(()),
        }
    }

    /// A round trip of the link `at` ended: an event by which the others are measured.
    fn on_round_trip(&mut self, at: usize, host: &mut impl Host) {
        if !self.links.begin_round_trip(at) {
            return;
        }
        let mut waits = false;
        for other in self.links.cables().filter(|&other| other != at) {
            match self.links.count_round_trip(other, self.config.event_ratio) {
                Some(is_waiting) => waits |= is_waiting,
                None => self.fail(other, DownReason::PeerRttExceeded, host),
            }
            waits |= self.links.count_handshake_round_trip(other);
        }
        if waits {
            self.links.ping(at);
        }
    }

    /// A question arrived: settles the exchange that it names, for good, and has the answer sent.
    #[cold]
    fn on_resolve(
        &mut self,
        at: usize,
        message: Whole<'_>,
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let Self {
            links,
            exchanges,
            clock,
            ..
        } = self;
        let peer = links.peer_at(at).ok_or(DownReason::Violation)?;
        let question =
            Question::read(message.header, message.payload).ok_or(DownReason::Violation)?;
        let verdict = question.verdict;
        // A peer may have as many queries in flight as it has slots here. The exchange may have
        // been on a link of more slots than this one.
        let slots = usize::from(links[at].slots());
        if verdict.slot >= self.config.slots || links[at].inbound.questions() >= slots {
            return Err(DownReason::Violation);
        }
        exchanges.settle(at, peer, question, links, clock, host);
        let withheld = exchanges.responder.is_withheld(peer, verdict);
        links[at].inbound.report(verdict, withheld);
        Ok(())
    }

    /// A keepalive. Its sender must be the one of the handshake. If it owes nothing, it must have
    /// answered everything that it received. `reflects`: it reflects something new.
    ///
    /// This recovers a link from *any* state of its two ends: otherwise an exchange that is open at
    /// one end and unknown at the other would wait forever, or keep its reservations.
    fn on_keepalive(
        &mut self,
        at: usize,
        payload: &[u8],
        reflects: bool,
    ) -> Result<(), DownReason> {
        let keepalive = Keepalive::read(payload).ok_or(DownReason::Violation)?;
        let attachment = self.links[at].attachment().ok_or(DownReason::Violation)?;
        self.links
            .check_sender(at, &keepalive, &self.exchanges.peers)?;
        if keepalive.grant != attachment.granted {
            self.on_grant(at, attachment.peer, keepalive.grant);
        }
        self.links.on_window(at, keepalive.window_records.into());
        self.links.on_keepalive(at, &keepalive, reflects)?;
        let link = &self.links[at];
        // The peer has received at most a part of a message that is still departing.
        if keepalive.owes || link.departing.is_in_flight() {
            return Ok(());
        }
        let Exchanges {
            initiator,
            responder,
            ..
        } = &self.exchanges;
        if !link.feedback.awaits_reflection() && responder.is_owed(attachment, link)
            || initiator.is_owed(link)
            || self.resolver.is_owed(at, link)
        {
            return Err(DownReason::Unanswered);
        }
        Ok(())
    }
}

/// A frame's way out: selection of its messages.
///
/// The order is: a handshake, alone; the rest of a long message; replies of exchanges; replies to
/// queries; queries; relayed messages; control messages of trees and channels; frames of paths; new
/// exchanges; commits and reflections that were not piggybacked on any of these; and otherwise the
/// keepalive when it is due. Everything waits in a queue, so an idle link costs a few comparisons.
impl Node {
    /// Whether [`Node::poll_transmit`] would give a frame for `port`.
    #[inline]
    #[must_use]
    pub fn has_work(&self, port: u16) -> bool {
        self.links
            .of_port(port)
            .is_some_and(|at| self.has_work_at(at))
    }

    /// Likewise for a link.
    #[inline]
    fn has_work_at(&self, at: usize) -> bool {
        let link = &self.links[at];
        if link.state() != LinkState::Down && link.epochs.handshake.due {
            return true;
        }
        if link.epochs.handshake.is_owed() {
            return false;
        }
        let Some(attachment) = link.attachment() else {
            return false;
        };
        #[cfg(feature = "arbitrary-state")]
        if self.lies.may_go_on(link) {
            return true;
        }
        let Self {
            exchanges,
            resolver,
            ..
        } = self;
        let Exchanges {
            initiator,
            responder,
            ..
        } = exchanges;
        let peer = attachment.peer;
        // The first message in the order of `write_messages`: nothing overtakes it. A longer
        // message counts as one frame.
        let first = if link.departing.is_in_flight() {
            Some(link.departing.next_bytes())
        } else if let Some(number) = link.inbound.next_answer() {
            Some(responder.answer_bytes(attachment, number))
        } else if let Some(verdict) = link.inbound.next_verdict() {
            Some(responder.verdict_bytes(peer, verdict))
        } else if resolver.doubts.has_unresolved(peer) && Doubts::may_query(link, attachment) {
            Some(QUESTION_BYTES)
        } else if let Some(bytes) = resolver.relay_bytes(at, attachment, exchanges) {
            Some(bytes)
        } else if let Some(bytes) = self.fabric_bytes(link) {
            Some(bytes)
        } else if let Some(transaction) = initiator.next_request(peer, link) {
            Some(initiator.pool.payload_bytes(transaction))
        } else if link.outbound.has_commits() || link.inbound.has_reflections() {
            Some(0)
        } else {
            None
        };
        first.is_some_and(|bytes| {
            let records = records_for(bytes.min(FRAME_PAYLOAD_BYTES_MAX));
            link.feedback.may_send(records) || link.must_ping()
        }) || (link.liveness.keepalive_due() && link.feedback.may_send_keepalive())
    }

    /// Writes one whole Ethernet frame for `port` into `frame` and returns its length. `frame` must
    /// have at least [`FRAME_BYTES_MAX`](crate::FRAME_BYTES_MAX) bytes. Call it until it returns
    /// `None`. The caller must send each frame once and in order, or report it with
    /// [`Node::on_transmit_failed`].
    #[inline]
    pub fn poll_transmit(&mut self, port: u16, frame: &mut [u8]) -> Option<usize> {
        let at = self.links.of_port(port)?;
        self.clock.begin_frame();
        self.poll_transmit_at(at, frame)
    }

    /// Likewise for a link, in a frame that has begun.
    #[inline]
    fn poll_transmit_at(&mut self, at: usize, frame: &mut [u8]) -> Option<usize> {
        let link = &self.links[at];
        if link.state() == LinkState::Down {
            return None;
        }
        let mut writer = FrameWriter::new(frame)?;
        let destination = if link.epochs.handshake.due {
            self.links.write_handshake(at, &self.config, &mut writer);
            BROADCAST
        } else if link.epochs.handshake.is_owed() {
            return None;
        } else {
            let attachment = link.attachment()?;
            if link.epochs.sent_era == self.clock.era() || self.write_era(at, &mut writer) {
                // A blocked message stays in its queue, and nothing overtakes it.
                let blocked = self.write_messages(at, attachment, &mut writer).is_err();
                let link = &mut self.links[at];
                if blocked && writer.records() == 0 && link.must_ping() {
                    link.liveness.ping();
                }
                // Any other message reflects as well as a keepalive, unless it is a ping or a
                // reply to one.
                if link.liveness.keepalive_due() {
                    self.write_keepalive(at, &mut writer);
                }
            }
            attachment.mac
        };
        if writer.records() == 0 {
            return None;
        }
        let link = &mut self.links[at];
        link.counters.tx_frames += 1;
        Some(writer.finish(destination, link.mac, self.config.ethertype))
    }

    fn write_messages(
        &mut self,
        at: usize,
        attachment: Attachment,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        let Self {
            links,
            exchanges,
            resolver,
            clock,
            #[cfg(feature = "arbitrary-state")]
            lies,
            ..
        } = self;
        let link = &mut links[at];
        if let Some(kind) = link.departing.kind() {
            let responder = &mut exchanges.responder;
            match kind {
                Kind::Request | Kind::Tentative => Initiator::write_departing(link, clock, writer),
                Kind::Pass => Fabric::write_departing(link, clock, writer),
                _ => responder.write_departing(at, attachment, link, clock, writer),
            }?;
        }
        let Exchanges {
            initiator,
            responder,
            ..
        } = exchanges;
        responder.write_answers(at, attachment, link, clock, writer)?;
        responder.write_verdicts(at, attachment, link, clock, writer)?;
        let doubts = &mut resolver.doubts;
        doubts.write_questions(at, attachment, link, initiator, clock, writer)?;
        resolver.write_relays(at, attachment, link, exchanges, clock, writer)?;
        #[cfg(feature = "arbitrary-state")]
        lies.write(link, clock, writer)?;
        self.write_fabric(at, attachment, writer)?;
        let Exchanges {
            initiator,
            responder,
            ..
        } = &mut self.exchanges;
        let (link, clock) = (&mut self.links[at], &mut self.clock);
        initiator.write_requests(attachment.peer, at, link, clock, writer)?;
        Initiator::write_commits(link, clock, writer)?;
        responder.write_reflections(attachment, link, clock, writer)
    }

    /// Sends the era of the clock before any message that counts in it. Returns whether it was
    /// sent. Without a message to send, the era waits for the next one.
    #[cold]
    fn write_era(&mut self, at: usize, writer: &mut FrameWriter<'_>) -> bool {
        if !self.has_work_at(at) {
            return false;
        }
        self.write_keepalive(at, writer);
        self.links[at].epochs.sent_era == self.clock.era()
    }

    fn write_keepalive(&mut self, at: usize, writer: &mut FrameWriter<'_>) {
        let Self {
            config,
            links,
            resolver,
            clock,
            ..
        } = self;
        links.write_keepalive(at, resolver.owes(at), config, clock, writer);
    }
}

/// Everything that decides the node's future. A model checker takes two nodes with the same hash
/// for the same.
impl Hash for Node {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // No `..`: a new field must be included or excluded here explicitly.
        let Self {
            config,
            links,
            exchanges,
            resolver,
            fabric,
            reach: _,
            clock: _,
            frames_without_link: _,
            #[cfg(feature = "arbitrary-state")]
                lies: _,
        } = self;
        (config.guid, config.incarnation).hash(state);
        (links, exchanges, resolver, fabric).hash(state);
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("config", &self.config)
            .field("links", &self.links.len())
            .field("in_doubt", &self.in_doubt())
            .finish_non_exhaustive()
    }
}
