//! Events that concern all objects of a node: a link comes up or fails, a peer is met or forgotten.
//!
//! Each object changes its own state; the order of the steps is here. When an epoch begins, the
//! latches and the peer are those of its handshake. When it ends, nothing of it stays open: each
//! exchange that this node started is unresolved, and each that the peer started is executed or
//! reversed.

use core::ops::Range;

use super::{
    Node,
    exchanges::{Exchanges, PEERS_PER_LINK},
    fabric::Reach,
    links::Greeting,
    peer::Peer,
};
use crate::{
    Host, LinkRefusal, Name,
    channel::note::CloseReason,
    event::{DownReason, LinkEvent},
    link::{LinkState, handshake::Hello},
    wire::frame::BROADCAST,
};

/// An epoch begins.
impl Node {
    /// A handshake arrived on the link `at`, from the address `source`.
    #[cold]
    pub(super) fn on_hello(
        &mut self,
        at: usize,
        hello: &Hello,
        source: Option<[u8; 6]>,
        host: &mut impl Host,
    ) {
        if self.is_of_another_path(at, hello) {
            self.end_path(at, DownReason::Violation, CloseReason::Failed, host);
            return;
        }
        let Self {
            config,
            links,
            exchanges,
            ..
        } = self;
        match links.on_hello(at, hello, &exchanges.peers, config, host) {
            Greeting::Done => {}
            Greeting::Agree => self.agree(at, hello, source, host),
            Greeting::Leave(reason) => {
                self.fail(at, reason, host);
                // A path is over then.
                if self.links[at].state() == LinkState::Init {
                    self.agree(at, hello, source, host);
                }
            }
        }
    }

    /// Takes a step towards an epoch that both ends hold, and enters it if they do.
    fn agree(&mut self, at: usize, hello: &Hello, source: Option<[u8; 6]>, host: &mut impl Host) {
        self.reach.on_received(at);
        let Self {
            config,
            links,
            exchanges,
            ..
        } = self;
        if !links.agree(at, hello, &exchanges.peers, config, host) {
            return;
        }
        let known = exchanges.find(hello.guid);
        let Some(peer) =
            known.or_else(|| self.meet_peer(at, hello.guid, hello.incarnation, hello.name, host))
        else {
            self.links[at].counters.drops.no_room += 1;
            self.links.found(at, LinkRefusal::NoRoom, host);
            return;
        };
        let is_met = known.is_some() && self.exchanges.peers[peer].met;
        if !is_met || self.exchanges.peers[peer].incarnation != hello.incarnation {
            self.links.void_agreements(at, |received, _| {
                received.is_none_or(|(guid, _)| guid == hello.guid)
            });
        }
        if !is_met {
            self.exchanges.peers[peer].meet(hello.incarnation);
        }
        if self.exchanges.peers[peer].incarnation != hello.incarnation {
            self.on_peer_restarted(peer, hello.incarnation, host);
        }
        self.exchanges.peers[peer].name = hello.name;
        self.attach(at, peer, hello, source, host);
        let link = &mut self.links[at];
        link.enter_epoch(self.config.first_sequence);
        self.exchanges.initiator.withhold_unresolved(at, peer, link);
        self.exchanges.peers[peer].links_up += 1;
        self.rest_paths(peer);
        self.resolver.recall(peer, &mut self.exchanges);
        let refused = self.links[at].epochs.wiring.is_up();
        self.links.refusal_over(at, refused, host);
        host.link_event(LinkEvent::Up {
            port: self.links[at].port,
            peer: hello.guid,
            name: hello.name,
            peer_port: hello.port,
            epoch: hello.epoch,
        });
        self.report_paths(host);
        if !self.links.is_path(at)
            && let Some(fabric) = &mut self.fabric
        {
            fabric.attach_neighbor(at, &mut self.links, host);
        }
        // The new peer may have a path to nodes that are unreachable.
        self.forget_dead_ends(host);
        self.stir(host);
    }

    /// Binds the link to the peer's port that sent `hello`. A port has one cable: the one where it
    /// was before is gone.
    fn attach(
        &mut self,
        at: usize,
        peer: usize,
        hello: &Hello,
        source: Option<[u8; 6]>,
        host: &mut impl Host,
    ) {
        let responder = &self.exchanges.responder;
        let known = responder.set_of(peer, hello.port);
        if let Some(other) = known.and_then(|set| responder.sets[set].link) {
            self.fail(other, DownReason::PeerMoved, host);
        }
        let mac = source.unwrap_or(BROADCAST);
        self.exchanges.attach(at, peer, hello, mac, &mut self.links);
    }

    /// A peer has a new incarnation, as its handshake proved. It forgot the exchanges that it
    /// started and the outcomes of those that this side started.
    fn on_peer_restarted(&mut self, peer: usize, incarnation: u64, host: &mut impl Host) {
        for at in 0..self.links.len() {
            if self.links[at].leads_to(peer) {
                self.take_down(at, DownReason::PeerRestarted, host);
            }
        }
        let everything = self.links.everything_lost();
        self.exchanges.responder.clear_peer(peer);
        self.exchanges.peers[peer].reincarnate(incarnation, everything);
        self.resolver.recall(peer, &mut self.exchanges);
        self.forget_unresolved(peer, true, host);
    }

    /// The peer grants another number of slots.
    #[cold]
    pub(super) fn on_grant(&mut self, at: usize, peer: usize, granted: u8) {
        let link = &mut self.links[at];
        if let Some(attachment) = link.epochs.attachment_mut() {
            attachment.granted = granted;
        }
        link.outbound.set_grant(granted);
        self.exchanges.initiator.withhold_unresolved(at, peer, link);
        if self.links.is_path(at) {
            self.rest_paths(peer);
        }
    }
}

/// An epoch ends.
impl Node {
    /// Fails a link, if it is up, and notifies the callers of exchanges that cannot be resolved
    /// now.
    #[cold]
    pub(super) fn fail(&mut self, at: usize, reason: DownReason, host: &mut impl Host) {
        if self.links[at].attachment().is_none() {
            return;
        }
        self.take_down(at, reason, host);
        self.search_paths(host);
        self.stir(host);
    }

    /// Fails a link, if it is up: its epoch ends, and the exchanges open on it wait for a
    /// resolution query.
    pub(super) fn take_down(&mut self, at: usize, reason: DownReason, host: &mut impl Host) {
        let Self {
            links,
            exchanges,
            resolver,
            ..
        } = self;
        let link = &mut links[at];
        let Some(attachment) = link.epochs.detach() else {
            return;
        };
        exchanges.responder.detach(at, attachment, &link.feedback);
        resolver.break_relays(at, exchanges);
        let Exchanges {
            peers,
            initiator,
            responder,
            ..
        } = exchanges;
        let peer = &mut peers[attachment.peer];
        responder.reverse_tentative(attachment, peer.guid, host);
        let open = resolver.doubts.abandon(attachment.peer, initiator, link);
        self.reach.fail(at, link.liveness.keepalive_misses());
        link.fail();
        link.counters.failures.count(reason);
        peer.links_up -= 1;
        host.link_event(LinkEvent::Down {
            port: link.port,
            reason,
            open,
        });
        self.rest_paths(attachment.peer);
        self.detach_neighbor(at, host);
        let progressed = self.links[at].has_progressed();
        self.lay_path(at, CloseReason::Failed, progressed);
    }

    /// Queries the neighbors about unresolved exchanges with peers to which no link leads. Reports
    /// exchanges as in doubt if there is no neighbor to query.
    #[cold]
    pub(super) fn search_paths(&mut self, host: &mut impl Host) {
        for peer in 0..self.exchanges.peers.len() {
            self.want_path(peer);
            let Self {
                links,
                exchanges,
                resolver,
                ..
            } = self;
            if exchanges.peers[peer].links_up == 0
                && !resolver.query_neighbors(peer, exchanges, links)
                && !self.hopes_for_path(peer)
            {
                self.report_doubt(peer, host);
            }
        }
    }

    /// Earlier "no path" replies of neighbors may be outdated: queries them again.
    pub(super) fn forget_dead_ends(&mut self, host: &mut impl Host) {
        self.resolver.relax();
        let waits = |(at, peer): (usize, &Peer)| {
            peer.links_up == 0 && self.resolver.doubts.has_unresolved(at)
        };
        if self.exchanges.peers.iter().enumerate().any(waits) {
            self.resolver.forget_dead_ends();
            self.search_paths(host);
        }
    }

    /// Notifies the callers of a peer's unresolved exchanges, if no link leads to it.
    fn report_doubt(&mut self, peer: usize, host: &mut impl Host) {
        self.drop_unwanted(peer);
        let Self {
            exchanges,
            resolver,
            clock,
            ..
        } = self;
        let Exchanges {
            peers, initiator, ..
        } = exchanges;
        resolver
            .doubts
            .report(peer, peers[peer].guid, initiator, clock, host);
    }

    /// Drops unresolved exchanges with a peer whose outcomes no caller needs, if no link leads to
    /// the peer.
    pub(super) fn drop_unwanted(&mut self, peer: usize) {
        let Self {
            links,
            exchanges,
            resolver,
            ..
        } = self;
        if exchanges.peers[peer].links_up == 0 {
            let initiator = &mut exchanges.initiator;
            resolver.doubts.drop_unwanted(peer, initiator, links);
        }
    }

    /// Gives up the unresolved exchanges with a peer.
    fn forget_unresolved(&mut self, peer: usize, counted: bool, host: &mut impl Host) {
        let Self {
            links,
            exchanges,
            resolver,
            clock,
            ..
        } = self;
        let initiator = &mut exchanges.initiator;
        resolver
            .doubts
            .forget(peer, counted, initiator, links, clock, host);
    }

    /// Reports every peer whose reached state changed.
    pub(super) fn report_paths(&mut self, host: &mut impl Host) {
        for peer in 0..self.exchanges.peers.len() {
            let entry = &self.exchanges.peers[peer];
            let guid = entry.guid;
            // A forgotten peer causes no report before a caller requests something of it.
            let is_up = entry.links_up > 0
                || ((entry.met || self.waits(peer)) && self.route(guid).is_some());
            let Self {
                config,
                links,
                fabric,
                reach,
                clock,
                ..
            } = self;
            let is_lost = |reach: &Reach| {
                let searching = fabric.as_ref().is_some_and(|it| it.is_searching(guid));
                !searching && reach.is_given_up(guid, links, config)
            };
            reach.report(peer, is_up, is_lost, guid, clock, host);
        }
    }

    /// Whether something waits for a link to a peer.
    pub(super) fn waits(&self, peer: usize) -> bool {
        !self.exchanges.initiator.queue(peer).is_empty() || self.resolver.doubts.waits(peer)
    }
}

/// Peers are met, and evicted for others.
impl Node {
    /// Adds the peer at the other end of `link` to the table. `None` when the table is full of
    /// peers that are attached or have exchanges waiting for their return.
    ///
    /// If necessary, evicts an idle peer whose exchanges are still remembered. A later query of
    /// that peer gets the reply that nothing is known. A peer met on this very link goes first, so
    /// unauthenticated neighbors on one cable take no memory from the peers of other cables. Of
    /// those, the peer that was unattached for longest goes.
    fn meet_peer(
        &mut self,
        link: usize,
        guid: u64,
        incarnation: u64,
        name: Name,
        host: &mut impl Host,
    ) -> Option<usize> {
        if self.has_room_for_peer() {
            let lost = self.exchanges.responder.peers_lost;
            let peer = Peer::new(guid, incarnation, name, lost);
            self.exchanges.peers.push(peer);
            return Some(self.exchanges.peers.len() - 1);
        }
        let at = self.longest_idle(&self.exchanges.responder.own_sets(link))?;
        self.evict_peer(at, link, host);
        let lost = self.exchanges.responder.peers_lost;
        self.exchanges.peers[at] = Peer::new(guid, incarnation, name, lost);
        Some(at)
    }

    /// Adds a node to which no link was ever up. `None` when the table is full of peers with known
    /// state. In that case [`Self::spare_peer`] frees an entry at the next tick, if any peer may
    /// go.
    pub(super) fn await_peer(&mut self, guid: u64, name: Name) -> Option<usize> {
        if self.has_room_for_peer() {
            let peer = Peer::unmet(guid, name, self.exchanges.responder.peers_lost);
            self.exchanges.peers.push(peer);
            return Some(self.exchanges.peers.len() - 1);
        }
        let at = self.forgettable_peer()?;
        self.forget_peer_at(at, self.links.len());
        let lost = self.exchanges.responder.peers_lost;
        self.exchanges.peers[at] = Peer::unmet(guid, name, lost);
        Some(at)
    }

    /// Ensures that one more peer can be added without a call to the host. If necessary, forgets
    /// the state of an idle peer.
    pub(super) fn spare_peer(&mut self, host: &mut impl Host) {
        if self.has_room_for_peer() || self.forgettable_peer().is_some() {
            return;
        }
        if let Some(at) = self.longest_idle(&(0..self.exchanges.responder.path_sets())) {
            self.evict_peer(at, self.links.len(), host);
            let lost = self.exchanges.responder.peers_lost;
            let peer = &mut self.exchanges.peers[at];
            *peer = Peer::unmet(peer.guid, peer.name, lost);
        }
    }

    /// Whether the table has space for one more peer.
    fn has_room_for_peer(&self) -> bool {
        self.exchanges.peers.len() < PEERS_PER_LINK * self.links.len()
    }

    /// The peer to evict, if any may go: one that is remembered at most in the sets `own`, and that
    /// was unattached for longest.
    fn longest_idle(&self, own: &Range<usize>) -> Option<usize> {
        (0..self.exchanges.peers.len())
            .filter(|&at| self.is_idle(at))
            .min_by_key(|&at| self.exchanges.responder.recency(at, own))
    }

    /// Whether the removal of a peer would lose nothing that a caller waits for.
    fn is_idle(&self, peer: usize) -> bool {
        self.exchanges.initiator.queue(peer).is_empty()
            && self.resolver.doubts.is_idle(peer)
            && !self.resolver.queries_neighbors(peer, &self.exchanges)
            && !self.links.lead_to(peer)
    }

    /// A peer without any state that is still needed.
    fn forgettable_peer(&self) -> Option<usize> {
        (0..self.exchanges.peers.len()).find(|&at| {
            self.is_idle(at)
                && !self.resolver.doubts.has_orphans(at)
                && !self.reach.is_reported(at)
                && !self.exchanges.responder.remembers(at)
        })
    }

    /// Evicts an idle peer, for the peer met on `link`.
    fn evict_peer(&mut self, at: usize, link: usize, host: &mut impl Host) {
        self.forget_unresolved(at, false, host);
        let guid = self.exchanges.peers[at].guid;
        self.reach.forget(at, guid, &self.clock, host);
        self.forget_peer_at(at, link);
    }

    /// Forgets a peer that leaves the table, for the peer met on `link`.
    fn forget_peer_at(&mut self, at: usize, link: usize) {
        let Exchanges {
            peers, responder, ..
        } = &mut self.exchanges;
        responder.forget_peer(at, &peers[at], link, &mut self.links);
        self.resolver.forget_peer(at);
    }
}
