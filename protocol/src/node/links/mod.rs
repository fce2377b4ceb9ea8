//! The links of a node: epochs, keepalives and credit.
//!
//! Links of path ends come first, so a link's number is that of its end and never changes. A port
//! has one link. An agreement on an epoch is void as soon as a message in it could be taken for
//! another: see [`Links::void_agreements`]. Nothing here ends an epoch: the methods return the
//! evidence, and the node fails the link.

mod first_epoch;

use alloc::vec::Vec;
use core::{
    ops::{Index, IndexMut, Range},
    slice,
};

use super::{NodeConfig, Ping, peer::Peer};
use crate::{
    DownReason, Host, LinkRefusal, PATH_PORTS,
    clock::Clock,
    event::LinkEvent,
    latch::{Lost, is_later, later_of},
    link::{
        Link, LinkState, Part, feedback::WINDOW_RECORDS_MAX, handshake::Hello, keepalive::Keepalive,
    },
    wire::{frame::FrameWriter, slice::Kind},
};

/// Most records in flight on a path in each direction while no handshakes are in flight.
pub(super) const PATH_WINDOW_RECORDS: u16 = 32;

/// What a handshake calls for.
pub(super) enum Greeting {
    /// Nothing more.
    Done,
    /// The epoch in force ends for this reason. A link that is then in handshake takes a step.
    Leave(DownReason),
    /// A step towards an epoch.
    Agree,
}

/// See the module.
#[derive(Clone, Hash)]
pub(super) struct Links {
    list: Vec<Link>,
    /// Links that are ends of paths.
    path_ends: usize,
    /// A link made a round trip since the caller was last quiet.
    round_trips: bool,
}

impl Links {
    pub const fn new() -> Self {
        Self {
            list: Vec::new(),
            path_ends: 0,
            round_trips: false,
        }
    }

    /// Adds a link.
    pub fn push(&mut self, link: Link) {
        self.list.push(link);
    }

    /// The links so far are ends of paths.
    pub const fn set_path_ends(&mut self) {
        self.path_ends = self.list.len();
    }

    pub const fn len(&self) -> usize {
        self.list.len()
    }

    pub fn iter(&self) -> slice::Iter<'_, Link> {
        self.list.iter()
    }

    /// Number of links that are ends of paths.
    pub const fn path_ends(&self) -> usize {
        self.path_ends
    }

    /// The links of path ends.
    pub fn paths(&self) -> &[Link] {
        &self.list[..self.path_ends]
    }

    /// The numbers of the links of cables.
    pub const fn cables(&self) -> Range<usize> {
        self.path_ends..self.list.len()
    }

    /// The links of cables.
    #[inline]
    pub fn cabled(&self) -> &[Link] {
        &self.list[self.path_ends..]
    }

    /// Whether a link is the end of a path.
    #[inline]
    pub const fn is_path(&self, at: usize) -> bool {
        at < self.path_ends
    }

    /// The link of a port on a cable. A lane has few links, so they are searched.
    #[inline]
    pub fn of_port(&self, port: u16) -> Option<usize> {
        let at = self.cabled().iter().position(|link| link.port == port)?;
        Some(self.path_ends + at)
    }

    /// Whether a link to a peer is up.
    pub fn lead_to(&self, peer: usize) -> bool {
        self.list.iter().any(|link| link.leads_to(peer))
    }

    /// Whether a cable leads to a peer.
    pub fn has_cable_to(&self, peer: usize) -> bool {
        self.cabled().iter().any(|link| link.leads_to(peer))
    }

    /// The peer of a link that is up.
    pub fn peer_at(&self, at: usize) -> Option<usize> {
        let attachment = self.list[at].attachment();
        attachment.map(|attachment| attachment.peer)
    }
}

/// Credit: what this side grants, and what the peers do.
impl Links {
    /// Grants the peer at the other end of `at` so many slots from now on.
    pub fn set_grant(&mut self, at: usize, slots: u8) {
        let link = &mut self.list[at];
        if link.inbound.set_grant(slots) && link.state() == LinkState::Up {
            link.liveness.answer();
        }
    }

    /// Grants no slot to any peer from now on.
    pub fn leave(&mut self) {
        for link in &mut self.list {
            link.inbound.set_grant(0);
            if link.state() == LinkState::Up {
                link.liveness.answer();
            }
        }
    }

    /// The peer reports its number of receive buffers, which replaces earlier reports.
    pub fn on_window(&mut self, at: usize, window_records: u16) {
        let window_records = self.window_to(at, window_records);
        let link = &mut self.list[at];
        if let Some(attachment) = link.epochs.attachment_mut() {
            attachment.window_records = window_records;
        }
        link.feedback.set_window(window_records);
    }

    /// Number of the peer's receive buffers, in records, that may be in use on a link. The buffers
    /// of a path are the same along its whole route.
    pub fn window_to(&self, at: usize, window_records: u16) -> u16 {
        window_records.min(if self.is_path(at) {
            PATH_WINDOW_RECORDS
        } else {
            WINDOW_RECORDS_MAX
        })
    }
}

/// Keepalives: which links still answer, measured by the others.
impl Links {
    /// The ping of a link, while it is up.
    pub fn pending_ping(&self, at: usize) -> Option<Ping> {
        let link = &self.list[at];
        (link.state() == LinkState::Up).then(|| Ping {
            epoch: link.epoch(),
            record: link.liveness.ping_record(),
        })
    }

    /// Sends a ping on a link that is up, unless one is in flight.
    pub fn ping(&mut self, at: usize) {
        if self.list[at].state() == LinkState::Up {
            self.list[at].liveness.ping();
        }
    }

    /// The caller received nothing for a while. Links with open exchanges send a ping now. Another
    /// link sends one too, which provides round trips for comparison.
    pub fn on_quiet(&mut self, event_ratio: u32) {
        let mut waits = false;
        let mut waited = false;
        for link in &mut self.list[self.path_ends..] {
            if link.is_open() {
                waits |= event_ratio > 0 && link.liveness.is_measured;
                waited |= link.liveness.is_pinging();
                link.liveness.ping();
            }
            waits |= link.awaits_handshake();
        }
        let moved = core::mem::take(&mut self.round_trips);
        if waits && !(waited && moved) {
            self.bounce_another();
        }
    }

    /// Sends a ping on one more link that has none, if there is one.
    fn bounce_another(&mut self) {
        if let Some(link) = self.list[self.path_ends..].iter_mut().find(|link| {
            link.state() == LinkState::Up
                && link.liveness.is_measured
                && !link.liveness.is_pinging()
        }) {
            link.liveness.ping();
        }
    }

    /// A round trip of the link `at` ended. Returns whether the others are measured by it. Round
    /// trips over a path take longer. Paths neither measure nor are measured: they do not fail in
    /// silence.
    #[inline]
    pub fn begin_round_trip(&mut self, at: usize) -> bool {
        let measures = !self.is_path(at) && self.list[at].liveness.is_measured;
        self.round_trips |= measures;
        measures
    }

    /// A round trip of another link ended. Returns `None` if the ping of this one must have come
    /// back before: it fails. Otherwise, whether this one waits for more round trips.
    pub fn count_round_trip(&mut self, at: usize, event_ratio: u32) -> Option<bool> {
        let link = &mut self.list[at];
        if !link.is_open() || !link.liveness.is_measured {
            return Some(false);
        }
        if link.liveness.count_other_round_trip(event_ratio) {
            return None;
        }
        Some(event_ratio > 0 && link.liveness.is_pinging())
    }

    /// The same for the handshake of a link.
    pub fn count_handshake_round_trip(&mut self, at: usize) -> bool {
        let link = &mut self.list[at];
        let waits = link.awaits_handshake();
        if waits {
            link.epochs.handshake.count_other_round_trip();
        }
        waits
    }

    /// Writes a keepalive, if there is space and credit for it. `owes`: a query of the neighbor
    /// waits for this side.
    pub fn write_keepalive(
        &mut self,
        at: usize,
        owes: bool,
        config: &NodeConfig,
        clock: &mut Clock,
        writer: &mut FrameWriter<'_>,
    ) {
        let link = &mut self.list[at];
        if writer.room() == 0 || !link.feedback.may_send_keepalive() {
            return;
        }
        let era = clock.era();
        let keepalive = Keepalive {
            owes: link.owes() || owes,
            expects_reply: link.liveness.ping_due(),
            grant: link.inbound.grant(),
            port: link.port,
            guid: config.guid,
            incarnation: config.incarnation,
            era,
            window_records: link.inbound.window_records() as u8,
            slots: link.slots(),
            name: config.name.mark(),
        };
        let payload = keepalive.to_bytes();
        let part = Part::whole(Kind::Keepalive, 0, 0, &payload);
        let sequence = link.write(writer, clock, &part);
        link.epochs.sent_era = era;
        link.liveness.keepalive_sent(sequence);
    }

    /// Compares the sender of a keepalive with the one of the handshake.
    ///
    /// # Errors
    /// The link leads to another node, or to another incarnation of it.
    pub fn check_sender(
        &self,
        at: usize,
        keepalive: &Keepalive,
        peers: &[Peer],
    ) -> Result<(), DownReason> {
        let attachment = self.list[at].attachment().ok_or(DownReason::Violation)?;
        let peer = &peers[attachment.peer];
        // Must match the handshake, if that was its own.
        if (
            keepalive.guid,
            keepalive.port,
            keepalive.slots,
            keepalive.name,
        ) != (
            peer.guid,
            attachment.port,
            attachment.slots,
            attachment.name,
        ) {
            return Err(DownReason::PeerMoved);
        }
        if keepalive.incarnation != peer.incarnation {
            return Err(DownReason::PeerRestarted);
        }
        Ok(())
    }

    /// Takes over the clock of a keepalive and answers a ping. `reflects`: it reflects something
    /// new.
    ///
    /// # Errors
    /// Too many in a row reflect nothing.
    pub fn on_keepalive(
        &mut self,
        at: usize,
        keepalive: &Keepalive,
        reflects: bool,
    ) -> Result<(), DownReason> {
        let link = &mut self.list[at];
        link.epochs.received_era = keepalive.era;
        if keepalive.expects_reply {
            link.liveness.answer();
        }
        if !reflects
            && link.feedback.awaits_reflection()
            && link.liveness.count_unreflected_keepalive()
        {
            return Err(DownReason::Unreflected);
        }
        Ok(())
    }
}

/// Epochs: the handshakes that begin them.
impl Links {
    /// Moves the first epoch of the cable at `at` to one that is drawn from a secret.
    pub fn draw_epoch(&mut self, at: usize, seed: u64) {
        let link = &mut self.list[at];
        link.epochs.skip(first_epoch::drawn_epoch(seed, link.port));
    }

    /// The latest epoch of any end of a path: none was ever in a later one.
    pub fn latest_path_epoch(&self) -> u32 {
        let epochs = self.paths().iter().map(Link::epoch);
        epochs.reduce(later_of).unwrap_or_default()
    }

    /// The loss if nothing is known of a peer's earlier exchanges.
    pub fn everything_lost(&self) -> Lost {
        Lost {
            cables: true,
            paths: Some(self.latest_path_epoch()),
        }
    }

    /// Restarts the handshakes in progress on links other than `except`, if `concerns` accepts the
    /// GUID and the port last received there, and the proposed epoch. Messages in an epoch agreed
    /// on before must not find the link up after the peer restarted, continued elsewhere, or lost
    /// its latches here.
    pub fn void_agreements(
        &mut self,
        except: usize,
        concerns: impl Fn(Option<(u64, u16)>, u32) -> bool,
    ) {
        for (at, link) in self.list.iter_mut().enumerate() {
            let received = link.epochs.handshake.received_from();
            if at != except && link.state() == LinkState::Init && concerns(received, link.epoch()) {
                link.epochs.renew();
            }
        }
    }

    /// Restarts the pending agreements of a node, of which latches are forgotten, on other links.
    pub fn void_agreements_with(&mut self, guid: u64, except: usize) {
        self.void_agreements(except, |received, _| {
            received.is_some_and(|(other, _)| other == guid)
        });
    }

    /// Writes a handshake.
    #[cold]
    pub fn write_handshake(
        &mut self,
        at: usize,
        config: &NodeConfig,
        writer: &mut FrameWriter<'_>,
    ) {
        let link = &mut self.list[at];
        Hello {
            epoch: link.epoch(),
            guid: config.guid,
            incarnation: config.incarnation,
            received: link.epochs.handshake.received,
            echo_is_old: link.epochs.wiring.is_echo_old(),
            port: link.port,
            slots: link.slots(),
            grant: link.inbound.grant(),
            window_records: link.inbound.window_records(),
            expects_reply: link.state() != LinkState::Up,
            name: config.name,
        }
        .write(writer);
        link.epochs.handshake_sent();
    }

    /// A handshake arrived, on a cable or from the node that the path leads to.
    #[cold]
    pub fn on_hello(
        &mut self,
        at: usize,
        hello: &Hello,
        peers: &[Peer],
        config: &NodeConfig,
        host: &mut impl Host,
    ) -> Greeting {
        if (hello.port >= PATH_PORTS) != self.is_path(at) {
            self.list[at].counters.drops.malformed += 1;
            return Greeting::Done;
        }
        let state = self.list[at].state();
        if state != LinkState::Down && !self.is_path(at) {
            self.check_cable(at, hello, config, host);
        }
        if hello.guid == config.guid {
            self.list[at].counters.drops.own_guid += 1;
            // If its incarnation differs, another node sent it, unless it was in flight when this
            // incarnation began. In that case it does not repeat.
            let why = if hello.incarnation == config.incarnation {
                LinkRefusal::OwnPort(hello.port)
            } else {
                LinkRefusal::OwnGuid
            };
            self.found(at, why, host);
            return Greeting::Done;
        }
        let link = &mut self.list[at];
        if state != LinkState::Down
            && is_echoed_by(hello, config)
            && !link.epochs.handshake.may_come_from(hello.guid)
        {
            link.counters.drops.hasty_init += 1;
            return Greeting::Done;
        }
        match state {
            LinkState::Down => link.counters.drops.not_up += 1,
            LinkState::Init => return Greeting::Agree,
            LinkState::Up => match self.why_leave(at, hello, peers) {
                Some(reason) if !self.is_proven(at, reason, hello, config) => {
                    // A sender that is really there will echo this.
                    let link = &mut self.list[at];
                    link.counters.drops.unproven_init += 1;
                    link.epochs.handshake.answer();
                }
                Some(reason) => return Greeting::Leave(reason),
                None => self.list[at].on_repeated_hello(hello),
            },
        }
        Greeting::Done
    }

    /// The reason to leave the epoch in force after a handshake on a link that is up; `None` to
    /// stay.
    fn why_leave(&self, at: usize, hello: &Hello, peers: &[Peer]) -> Option<DownReason> {
        let attachment = self.list[at].attachment()?;
        let peer = &peers[attachment.peer];
        if peer.guid != hello.guid || attachment.port != hello.port {
            Some(DownReason::PeerMoved)
        } else if peer.incarnation != hello.incarnation {
            Some(DownReason::PeerRestarted)
        } else if is_later(hello.epoch, self.list[at].epoch()) {
            Some(DownReason::PeerReinitialized)
        } else {
            None
        }
    }

    /// Whether a handshake is enough evidence to leave a link that is up. A claim of another node,
    /// or of another incarnation, must echo this end's handshake of the epoch in force. The answer
    /// to other handshakes requests that echo, so the real peer needs one more round trip. A claim
    /// that the peer left the epoch requires only its incarnation. A path requires no echo, because
    /// no untrusted sender can inject frames.
    fn is_proven(&self, at: usize, reason: DownReason, hello: &Hello, config: &NodeConfig) -> bool {
        reason == DownReason::PeerReinitialized
            || self.is_path(at)
            || hello.received == Some((config.incarnation, self.list[at].epoch()))
    }

    /// Takes a step towards an epoch that both ends hold. Returns whether they do.
    ///
    /// Nothing is accepted before the peer echoes a proposal of *this* link, which proves that it
    /// was running when the proposal was made. Frames in flight from an earlier incarnation cannot
    /// do that, because [`Self::void_agreements`] makes new proposals on its other links whenever a
    /// new incarnation is met.
    pub fn agree(
        &mut self,
        at: usize,
        hello: &Hello,
        peers: &[Peer],
        config: &NodeConfig,
        host: &mut impl Host,
    ) -> bool {
        let is_echoed = is_echoed_by(hello, config);
        let epochs = &mut self.list[at].epochs;
        if epochs.wiring.is_shared() {
            return false;
        }
        if epochs.handshake.is_with_another(hello.guid) {
            // The previous node may hold the epoch under negotiation.
            epochs.renew();
        }
        epochs.handshake.identify(hello.guid, is_echoed);
        if is_later(epochs.number(), hello.epoch) {
            // The peer is behind: send it the epoch and an echo, for a peer that is up with another
            // incarnation of this node.
            epochs.handshake.remember(hello);
            epochs.handshake.answer();
            return false;
        }
        // A sender that receives nothing must not advance epochs: pushed far enough, they wrap and
        // old ones look new. The real peer will receive this and send again.
        if is_echoed {
            epochs.adopt(hello.epoch);
        }
        if self.is_refused(at, hello, peers, config, host) {
            return false;
        }
        let epochs = &mut self.list[at].epochs;
        let epoch = epochs.number();
        epochs.handshake.on_received(hello, epoch);
        epochs.wiring.heed();
        let echoed = hello.received == Some((config.incarnation, epoch));
        echoed && epochs.handshake.proposed(epoch)
    }
}

/// Links that do not come up although a peer answers. A finding is reported once when it begins and
/// once when it is over.
impl Links {
    /// Records a reason that keeps the link from coming up. Reports it to the host if it was found
    /// often enough and is not reported yet.
    #[cold]
    pub fn found(&mut self, at: usize, why: LinkRefusal, host: &mut impl Host) {
        // A path has no cable to be laid wrong.
        if self.is_path(at) {
            return;
        }
        let link = &mut self.list[at];
        if link.state() == LinkState::Init && link.epochs.wiring.find(why) {
            host.link_event(LinkEvent::Refused {
                port: link.port,
                why,
            });
        }
    }

    /// Notifies the host that a refusal is over, if `ended`.
    #[inline]
    pub fn refusal_over(&self, at: usize, ended: bool, host: &mut impl Host) {
        if ended {
            host.link_event(LinkEvent::RefusalOver {
                port: self.list[at].port,
            });
        }
    }

    /// Checks what a handshake of any sender shows about the cable on which it arrived.
    fn check_cable(&mut self, at: usize, hello: &Hello, config: &NodeConfig, host: &mut impl Host) {
        let echoes_this = is_echoed_by(hello, config);
        let wiring = &mut self.list[at].epochs.wiring;
        if wiring.receive((hello.guid, hello.port), echoes_this) {
            self.found(at, LinkRefusal::Shared, host);
        }
        let Some((received, _)) = hello.received.filter(|_| hello.guid != config.guid) else {
            return;
        };
        if received == config.incarnation {
            let ended = self.list[at].epochs.wiring.is_not_crossed();
            self.refusal_over(at, ended, host);
        } else if !hello.echo_is_old {
            self.found(at, LinkRefusal::Crossed(hello.guid), host);
        }
    }

    /// Whether to refuse a handshake although it may be sound: another node with the same GUID
    /// displaced its sender, and a link leads to that node. The handshake is not echoed, so the
    /// link does not come up at the other end either.
    fn is_refused(
        &mut self,
        at: usize,
        hello: &Hello,
        peers: &[Peer],
        config: &NodeConfig,
        host: &mut impl Host,
    ) -> bool {
        let Some(peer) = peers.iter().position(|peer| peer.guid == hello.guid) else {
            return false;
        };
        let known = &peers[peer];
        // A link that was silent for long may be up without a peer.
        let lively = config.keepalive_misses_max / 2;
        let leads_there =
            |link: &Link| link.leads_to(peer) && link.liveness.keepalive_misses() <= lively;
        if known.incarnation == hello.incarnation
            || !known.lived_before(hello.incarnation)
            || !self.list.iter().any(leads_there)
        {
            return false;
        }
        let epochs = &mut self.list[at].epochs;
        let echoed = hello.received == Some((config.incarnation, epochs.number()));
        if echoed && epochs.handshake.proposed(epochs.number()) {
            // The sender is alive, and no node returns to an earlier incarnation.
            self.found(at, LinkRefusal::TwinGuid(hello.guid), host);
        } else {
            // Sent before that incarnation ended, or by a twin: the echo decides which.
            epochs.handshake.answer();
        }
        true
    }
}

/// Whether the sender of this handshake received one of this incarnation of the node. The
/// incarnation is a random number that only handshakes and keepalives carry. A sender that injects
/// frames on a cable and receives nothing there cannot know it.
const fn is_echoed_by(hello: &Hello, config: &NodeConfig) -> bool {
    matches!(hello.received, Some((incarnation, _)) if incarnation == config.incarnation)
}

impl Index<usize> for Links {
    type Output = Link;

    #[inline]
    fn index(&self, at: usize) -> &Link {
        &self.list[at]
    }
}

impl IndexMut<usize> for Links {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut Link {
        &mut self.list[at]
    }
}

#[cfg(feature = "arbitrary-state")]
impl Links {
    pub const fn scramble(&mut self, round_trips: bool) {
        self.round_trips = round_trips;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ends of `paths` paths, and as many cables.
    fn links(paths: u16) -> Links {
        let mut links = Links::new();
        for end in 0..paths {
            links.push(Link::new(PATH_PORTS + end, [0; 6], 1, 64, 0));
        }
        links.set_path_ends();
        for port in 0..paths {
            links.push(Link::new(port, [0; 6], 1, 64, 0));
        }
        links
    }

    #[test]
    fn the_number_of_a_path_end_is_that_of_its_link() {
        let links = links(3);
        assert_eq!((links.path_ends(), links.cables()), (3, 3..6));
        for at in 0..3 {
            assert!(links.is_path(at));
            assert_eq!(links[at].port, PATH_PORTS + at as u16);
            assert_eq!(links.of_port(at as u16), Some(3 + at));
            assert_eq!(links.of_port(PATH_PORTS + at as u16), None);
        }
    }

    #[test]
    fn an_agreement_of_a_forgotten_peer_is_void_on_every_other_link() {
        let mut links = links(2);
        for at in 0..links.len() {
            links[at].epochs.raise();
            links[at].epochs.handshake.pretend_received(7);
        }
        let before: Vec<_> = links.iter().map(Link::epoch).collect();
        links.void_agreements_with(8, 1);
        assert!(links.iter().map(Link::epoch).eq(before.iter().copied()));
        links.void_agreements_with(7, 1);
        for (at, epoch) in before.into_iter().enumerate() {
            let renewed = u32::from(at != 1);
            assert_eq!(links[at].epoch(), epoch + renewed, "{at}");
        }
    }
}
