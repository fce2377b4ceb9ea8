//! Lookup of links and peers, and eviction that frees table entries for new ones.

use core::ops::Range;

use super::{Node, PATH_PORTS, PEERS_PER_LINK};
use crate::{
    Host, Name,
    event::DownReason,
    latch::{LatchSet, is_later},
    link::{Attachment, handshake::Hello},
    peer::Peer,
    wire::frame::BROADCAST,
};

impl Node {
    /// The link of a port on a cable. A lane has few links, so they are searched.
    #[inline]
    pub(super) fn link_of(&self, port: u16) -> Option<usize> {
        let cables = &self.links[self.path_links..];
        let at = cables.iter().position(|link| link.port == port)?;
        Some(self.path_links + at)
    }

    /// The link of a port that may be one of a path.
    pub(super) fn any_link_of(&self, port: u16) -> Option<usize> {
        let path = usize::from(port).wrapping_sub(usize::from(PATH_PORTS));
        (path < self.path_links)
            .then_some(path)
            .or_else(|| self.link_of(port))
    }

    /// The peer with this GUID.
    #[inline]
    pub(super) fn peer_of(&self, guid: u64) -> Option<usize> {
        self.peers.iter().position(|peer| peer.guid == guid)
    }

    /// Adds the peer at the other end of `link` to the table. `None` when the table is full of
    /// peers that are attached or have exchanges waiting for their return.
    ///
    /// If necessary, evicts an idle peer whose exchanges are still remembered. A later query of
    /// that peer gets the reply that nothing is known. A peer met on this very link goes first, so
    /// unauthenticated neighbors on one cable take no memory from the peers of other cables. Of
    /// those, the peer that was unattached for longest goes.
    pub(super) fn meet_peer(
        &mut self,
        link: usize,
        guid: u64,
        incarnation: u64,
        name: Name,
        host: &mut impl Host,
    ) -> Option<usize> {
        if self.has_room_for_peer() {
            self.peers
                .push(Peer::new(guid, incarnation, name, self.peers_lost));
            return Some(self.peers.len() - 1);
        }
        let at = self.longest_idle(self.own_sets(link))?;
        self.forget_orphans(at, host);
        self.forget_path(at, host);
        self.forget_peer_at(at, link);
        self.peers[at] = Peer::new(guid, incarnation, name, self.peers_lost);
        Some(at)
    }

    /// The peer to evict, if any may go: one that is remembered at most in the sets `own`, and that
    /// was unattached for longest.
    fn longest_idle(&self, own: Range<usize>) -> Option<usize> {
        let order = |&at: &usize| {
            let mut of_others = false;
            let mut taken_at = 0;
            for (number, set) in self.latches.iter().enumerate() {
                if set.owner.is_some_and(|(owner, _)| owner == at) {
                    of_others |= !own.contains(&number);
                    taken_at = taken_at.max(set.taken_at);
                }
            }
            // Peers of which nothing is remembered come first.
            (of_others, taken_at)
        };
        (0..self.peers.len())
            .filter(|&at| {
                self.peers[at].is_idle() && !self.is_queried_at_neighbors(at) && !self.is_cabled(at)
            })
            .min_by_key(order)
    }

    /// Adds a node to which no link was ever up. `None` when the table is full of peers with known
    /// state. In that case [`Self::spare_peer`] frees an entry at the next tick, if any peer may
    /// go.
    pub(super) fn await_peer(&mut self, guid: u64, name: Name) -> Option<usize> {
        if self.has_room_for_peer() {
            self.peers.push(Peer::unmet(guid, name, self.peers_lost));
            return Some(self.peers.len() - 1);
        }
        let at = self.forgettable_peer()?;
        self.forget_peer_at(at, self.links.len());
        self.peers[at] = Peer::unmet(guid, name, self.peers_lost);
        Some(at)
    }

    /// A peer without any state that is still needed.
    fn forgettable_peer(&self) -> Option<usize> {
        (0..self.peers.len()).find(|&at| {
            let peer = &self.peers[at];
            let remembered = |set: &LatchSet| set.owner.is_some_and(|(owner, _)| owner == at);
            peer.is_idle()
                && peer.orphans == 0
                && !self.is_reported_reached(at)
                && !self.is_queried_at_neighbors(at)
                && !self.is_cabled(at)
                && !self.latches.iter().any(remembered)
        })
    }

    /// Ensures that one more peer can be added without a call to the host. If necessary, forgets
    /// the state of an idle peer.
    pub(super) fn spare_peer(&mut self, host: &mut impl Host) {
        if self.has_room_for_peer() || self.forgettable_peer().is_some() {
            return;
        }
        if let Some(at) = self.longest_idle(0..self.path_sets()) {
            self.forget_orphans(at, host);
            self.forget_path(at, host);
            self.forget_peer_at(at, self.links.len());
            let (guid, name) = (self.peers[at].guid, self.peers[at].name);
            self.peers[at] = Peer::unmet(guid, name, self.peers_lost);
        }
    }

    /// Whether the table has space for one more peer.
    fn has_room_for_peer(&self) -> bool {
        self.peers.len() < PEERS_PER_LINK * self.links.len()
    }

    /// Whether a link to a peer is up.
    fn is_cabled(&self, peer: usize) -> bool {
        self.links.iter().any(|link| link.leads_to(peer))
    }

    /// Binds the link to the peer's port that sent `hello`, together with the latches of that port.
    ///
    /// The port has left any other link on which it was about to come up in an earlier epoch. From
    /// now on it may receive the report that its messages there never arrived. Such a message must
    /// therefore not find a link up: it could be a request that was reported as never seen, whose
    /// latch was reused since.
    pub(super) fn attach(
        &mut self,
        link: usize,
        peer: usize,
        hello: &Hello,
        source: Option<[u8; 6]>,
        host: &mut impl Host,
    ) {
        let known = self.set_of(peer, hello.port);
        if let Some(other) = known.and_then(|set| self.latches[set].link) {
            // A port has one cable: the one where it was before is gone.
            self.fail(other, DownReason::PeerMoved, host);
        }
        self.void_agreements(link, |received, epoch| {
            received == Some((hello.guid, hello.port)) && !is_later(epoch, hello.epoch)
        });
        let set = known.unwrap_or_else(|| self.make_room(link, peer, hello.port));
        self.bind_set(set, link);
        let mac = source.unwrap_or(BROADCAST);
        let window_records = self.window_to(link, hello.window_records);
        self.links[link].epochs.attach(Attachment {
            peer,
            set,
            port: hello.port,
            mac,
            name: hello.name.mark(),
            slots: hello.slots,
            granted: hello.grant,
            window_records,
        });
    }
}
