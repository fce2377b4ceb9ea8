//! Handshakes: identify the other end, and agree on the epoch.

use super::{LinkState, Node, PATH_PORTS};
use crate::{
    Host, LinkRefusal, Outcome,
    channel::note::CloseReason,
    event::{DownReason, LinkEvent},
    latch::is_later,
    link::handshake::Hello,
};

impl Node {
    /// A handshake arrived on `link`, from the address `source`.
    #[cold]
    pub(super) fn on_hello(
        &mut self,
        link: usize,
        hello: &Hello,
        source: Option<[u8; 6]>,
        host: &mut impl Host,
    ) {
        if (hello.port >= PATH_PORTS) != self.is_path(link) {
            self.links[link].counters.drops.malformed += 1;
            return;
        }
        if self.is_path(link) && !self.leads_to(link, hello.guid) {
            self.end_path(link, DownReason::Violation, CloseReason::Failed, host);
            return;
        }
        let state = self.links[link].state();
        if state != LinkState::Down && !self.is_path(link) {
            self.check_cable(link, hello, host);
        }
        if hello.guid == self.config.guid {
            self.links[link].counters.drops.own_guid += 1;
            self.found_itself(link, hello, host);
            return;
        }
        if state != LinkState::Down
            && self.is_echoed_by(hello)
            && !self.links[link].epochs.handshake.may_come_from(hello.guid)
        {
            self.links[link].counters.drops.hasty_init += 1;
            return;
        }
        match state {
            LinkState::Down => self.links[link].counters.drops.not_up += 1,
            LinkState::Init => self.agree(link, hello, source, host),
            LinkState::Up => match self.why_leave(link, hello) {
                Some(reason) if !self.is_proven(link, reason, hello) => {
                    // A sender that is really there will echo this.
                    self.links[link].counters.drops.unproven_init += 1;
                    self.links[link].epochs.handshake.answer();
                }
                Some(reason) => {
                    self.fail(link, reason, host);
                    // A path is over then.
                    if self.links[link].state() == LinkState::Init {
                        self.agree(link, hello, source, host);
                    }
                }
                // The peer missed the last handshake of this epoch, unless it already sent in the
                // epoch.
                None if hello.expects_reply
                    && hello.epoch == self.links[link].epoch()
                    && !self.links[link].feedback.received_anything() =>
                {
                    self.links[link].epochs.handshake.answer();
                }
                None => self.links[link].counters.drops.stale_init += 1,
            },
        }
    }

    /// The reason to leave the epoch in force after a handshake on a link that is up; `None` to
    /// stay.
    fn why_leave(&self, link: usize, hello: &Hello) -> Option<DownReason> {
        let attachment = self.links[link].attachment()?;
        let peer = &self.peers[attachment.peer];
        if peer.guid != hello.guid || attachment.port != hello.port {
            Some(DownReason::PeerMoved)
        } else if peer.incarnation != hello.incarnation {
            Some(DownReason::PeerRestarted)
        } else if is_later(hello.epoch, self.links[link].epoch()) {
            Some(DownReason::PeerReinitialized)
        } else {
            None
        }
    }

    /// Whether the sender of this handshake received one of this incarnation of the node. The
    /// incarnation is a random number that only handshakes and keepalives carry. A sender that
    /// injects frames on a cable and receives nothing there cannot know it.
    pub(super) const fn is_echoed_by(&self, hello: &Hello) -> bool {
        matches!(hello.received, Some((incarnation, _)) if incarnation == self.config.incarnation)
    }

    /// Whether a handshake is enough evidence to leave a link that is up. A claim of another node,
    /// or of another incarnation, must echo this end's handshake of the epoch in force. The answer
    /// to other handshakes requests that echo, so the real peer needs one more round trip. A claim
    /// that the peer left the epoch requires only its incarnation. A path requires no echo, because
    /// no untrusted sender can inject frames.
    fn is_proven(&self, link: usize, reason: DownReason, hello: &Hello) -> bool {
        reason == DownReason::PeerReinitialized
            || self.is_path(link)
            || hello.received == Some((self.config.incarnation, self.links[link].epoch()))
    }

    /// Takes a step towards an epoch that both ends hold.
    ///
    /// Nothing is accepted before the peer echoes a proposal of *this* link, which proves that it
    /// was running when the proposal was made. Frames in flight from an earlier incarnation cannot
    /// do that, because [`Self::void_agreements`] makes new proposals on its other links whenever a
    /// new incarnation is met.
    fn agree(&mut self, at: usize, hello: &Hello, source: Option<[u8; 6]>, host: &mut impl Host) {
        self.paths.on_received(at);
        let is_echoed = self.is_echoed_by(hello);
        let epochs = &mut self.links[at].epochs;
        if epochs.wiring.is_shared() {
            return;
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
            return;
        }
        // A sender that receives nothing must not advance epochs: pushed far enough, they wrap and
        // old ones look new. The real peer will receive this and send again.
        if is_echoed {
            epochs.adopt(hello.epoch);
        }
        if self.is_refused(at, hello, host) {
            return;
        }
        let epochs = &mut self.links[at].epochs;
        let epoch = epochs.number();
        epochs.handshake.on_received(hello, epoch);
        epochs.wiring.heed();
        let echoed = hello.received == Some((self.config.incarnation, epoch));
        if !echoed || !epochs.handshake.proposed(epoch) {
            return;
        }
        let known = self.peer_of(hello.guid);
        let Some(peer) =
            known.or_else(|| self.meet_peer(at, hello.guid, hello.incarnation, hello.name, host))
        else {
            self.links[at].counters.drops.no_room += 1;
            self.found(at, LinkRefusal::NoRoom, host);
            return;
        };
        let is_met = known.is_some() && self.peers[peer].met;
        if !is_met || self.peers[peer].incarnation != hello.incarnation {
            self.void_agreements(at, |received, _| {
                received.is_none_or(|(guid, _)| guid == hello.guid)
            });
        }
        if !is_met {
            self.peers[peer].meet(hello.incarnation);
        }
        if self.peers[peer].incarnation != hello.incarnation {
            self.on_peer_restarted(peer, hello.incarnation, host);
        }
        self.peers[peer].name = hello.name;
        self.attach(at, peer, hello, source, host);
        self.enter_epoch(at, peer);
        self.peers[peer].links_up += 1;
        self.rest_paths(peer);
        self.recall(peer);
        let refused = self.links[at].epochs.wiring.is_up();
        self.refusal_over(at, refused, host);
        host.link_event(LinkEvent::Up {
            port: self.links[at].port,
            peer: hello.guid,
            name: hello.name,
            peer_port: hello.port,
            epoch: hello.epoch,
        });
        self.report_paths(host);
        self.attach_neighbor(at, host);
        // The new peer may have a path to nodes that are unreachable.
        self.forget_dead_ends(host);
        self.stir(host);
    }

    /// The two ends of a link hold the same epoch.
    fn enter_epoch(&mut self, at: usize, peer: usize) {
        self.links[at].enter_epoch(self.config.first_sequence);
        self.withhold_unresolved(at, peer);
    }

    /// A peer has a new incarnation, as its handshake proved. It forgot the exchanges that it
    /// started and the outcomes of those that this side started.
    fn on_peer_restarted(&mut self, peer: usize, incarnation: u64, host: &mut impl Host) {
        for link in 0..self.links.len() {
            if self.links[link].leads_to(peer) {
                self.take_down(link, DownReason::PeerRestarted, host);
            }
        }
        self.latches
            .iter_mut()
            .filter(|set| set.owner.is_some_and(|(owner, _)| owner == peer))
            .for_each(|set| set.clear());
        let everything = self.everything();
        self.peers[peer].reincarnate(incarnation, everything);
        self.recall(peer);
        while let Some(transaction) = self.peers[peer].unresolved.pop_front(&self.transactions) {
            let link = self.settle_slot(transaction);
            self.links[link].counters.forgotten += 1;
            self.finish(transaction, Outcome::PeerRestarted, host);
        }
    }

    /// Restarts the handshakes in progress on links other than `except`, if `concerns` accepts the
    /// GUID and the port last received there, and the proposed epoch. Messages in an epoch agreed
    /// on before must not find the link up after the peer restarted, continued elsewhere, or lost
    /// its latches here.
    pub(super) fn void_agreements(
        &mut self,
        except: usize,
        concerns: impl Fn(Option<(u64, u16)>, u32) -> bool,
    ) {
        for (at, link) in self.links.iter_mut().enumerate() {
            let received = link.epochs.handshake.received_from();
            if at != except && link.state() == LinkState::Init && concerns(received, link.epoch()) {
                link.epochs.renew();
            }
        }
    }
}
