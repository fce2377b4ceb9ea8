//! Handshakes: who is at the other end, and which epoch both ends hold.

use super::{LinkState, Node, far::PATH_PORTS};
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
        let state = self.links[link].state;
        if state != LinkState::Down && !self.is_path(link) {
            self.look_at_cable(link, hello, host);
        }
        if hello.guid == self.config.guid {
            self.links[link].counters.drops.own_guid += 1;
            self.found_itself(link, hello, host);
            return;
        }
        if state != LinkState::Down
            && self.is_heard_by(hello)
            && !self.links[link].handshake.may_come_from(hello.guid)
        {
            self.links[link].counters.drops.hasty_init += 1;
            return;
        }
        match state {
            LinkState::Down => self.links[link].counters.drops.not_up += 1,
            LinkState::Init => self.agree(link, hello, source, host),
            LinkState::Up => match self.why_leave(link, hello) {
                Some(reason) if !self.is_proven(link, reason, hello) => {
                    // Whoever said it and is there will echo this.
                    self.links[link].counters.drops.unproven_init += 1;
                    self.links[link].handshake.answer();
                }
                Some(reason) => {
                    self.fail(link, reason, host);
                    // A path is over then.
                    if self.links[link].state == LinkState::Init {
                        self.agree(link, hello, source, host);
                    }
                }
                // The peer missed the last handshake of this epoch, unless it spoke in the epoch already.
                None if hello.asks
                    && hello.epoch == self.links[link].epoch
                    && !self.links[link].feedback.heard_anything() =>
                {
                    self.links[link].handshake.answer();
                }
                None => self.links[link].counters.drops.stale_init += 1,
            },
        }
    }

    /// What a handshake on a link that is up says about the epoch in force; `None` if it may stay.
    fn why_leave(&self, link: usize, hello: &Hello) -> Option<DownReason> {
        let attachment = self.links[link].attachment?;
        let peer = &self.peers[attachment.peer];
        if peer.guid != hello.guid || attachment.port != hello.port {
            Some(DownReason::PeerMoved)
        } else if peer.incarnation != hello.incarnation {
            Some(DownReason::PeerRestarted)
        } else if is_later(hello.epoch, self.links[link].epoch) {
            Some(DownReason::PeerReinitialised)
        } else {
            None
        }
    }

    /// Whether whoever said this handshake heard one of this life of the node. Its incarnation is a
    /// random number that only handshakes and balls say, so somebody who puts frames on a cable and
    /// hears nothing there cannot say it.
    pub(super) const fn is_heard_by(&self, hello: &Hello) -> bool {
        matches!(hello.heard, Some((incarnation, _)) if incarnation == self.config.incarnation)
    }

    /// Whether a link that is up is to be left for what a handshake says. That somebody else is
    /// there, or another life of the peer, is believed only of who echoes what this end says in the
    /// epoch in force: the answer to any other handshake asks for that, and who is really there is
    /// one round trip later. That the peer left the epoch says who knows its incarnation. Where no
    /// stranger puts frames, over a path, nothing is asked.
    fn is_proven(&self, link: usize, reason: DownReason, hello: &Hello) -> bool {
        reason == DownReason::PeerReinitialised
            || self.is_path(link)
            || hello.heard == Some((self.config.incarnation, self.links[link].epoch))
    }

    /// Takes a step towards an epoch that both ends hold.
    ///
    /// Nothing is believed before the peer echoes a proposal of *this* link: that proves that it lived when the proposal
    /// was made. What is still under way from an earlier life of it cannot do that, because [`Self::void_agreements`]
    /// makes new proposals on its other links whenever a new life is met.
    fn agree(&mut self, at: usize, hello: &Hello, source: Option<[u8; 6]>, host: &mut impl Host) {
        self.paths.hear(at);
        let is_heard = self.is_heard_by(hello);
        let link = &mut self.links[at];
        if link.wiring.is_shared() {
            return;
        }
        if link.handshake.is_with_another(hello.guid) {
            // Whoever it was may hold the epoch that was being agreed on.
            link.epoch = link.epoch.wrapping_add(1);
            link.handshake.restart();
        }
        link.handshake.identify(hello.guid, is_heard);
        if is_later(link.epoch, hello.epoch) {
            // The peer is behind: tell it, and that it is heard, for one that is up with another
            // life of this node must know.
            link.handshake.note(hello);
            link.handshake.answer();
            return;
        }
        // Whoever hears nothing here cannot have this end count on: epochs that are pushed far enough
        // come round to where old ones look new. Who is there will hear this one and say it again.
        if is_heard {
            link.epoch = hello.epoch;
        }
        if self.is_refused(at, hello, host) {
            return;
        }
        let link = &mut self.links[at];
        link.handshake.hear(hello, link.epoch);
        link.wiring.heed();
        let echoed = hello.heard == Some((self.config.incarnation, link.epoch));
        if !echoed || !link.handshake.proposed(link.epoch) {
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
            self.void_agreements(at, |heard, _| {
                heard.is_none_or(|(guid, _)| guid == hello.guid)
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
        let refused = self.links[at].wiring.is_up();
        self.refusal_over(at, refused, host);
        host.link_event(LinkEvent::Up {
            port: self.links[at].port,
            peer: hello.guid,
            name: hello.name,
            peer_port: hello.port,
            epoch: hello.epoch,
        });
        self.tell_paths(host);
        self.moor(at, host);
        // Whoever is there now may have a path to those who are not.
        self.forget_dead_ends(host);
        self.stir(host);
    }

    /// The two ends of a link hold the same epoch.
    fn enter_epoch(&mut self, at: usize, peer: usize) {
        let link = &mut self.links[at];
        link.enter_epoch(self.config.first_sequence);
        link.handshake.enter_epoch(link.epoch);
        self.withhold_unresolved(at, peer);
    }

    /// A peer lives anew, as its handshake proved: it forgot the exchanges that it started and the
    /// outcomes of those that this side started.
    fn on_peer_restarted(&mut self, peer: usize, incarnation: u64, host: &mut impl Host) {
        for link in 0..self.links.len() {
            if self.links[link]
                .attachment
                .is_some_and(|attachment| attachment.peer == peer)
            {
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

    /// Starts the handshakes under way on the links other than `except` anew, if `concerns` accepts the GUID and the port last heard
    /// there, and the epoch proposed. What a peer of another life, or one whose latches are about to go, or that went on elsewhere, says in an
    /// epoch that was agreed on before must not find the link up afterwards.
    pub(super) fn void_agreements(
        &mut self,
        except: usize,
        concerns: impl Fn(Option<(u64, u16)>, u32) -> bool,
    ) {
        for (at, link) in self.links.iter_mut().enumerate() {
            let heard = link.handshake.heard_from();
            if at != except && link.state == LinkState::Init && concerns(heard, link.epoch) {
                link.epoch = link.epoch.wrapping_add(1);
                link.handshake.restart();
            }
        }
    }
}
