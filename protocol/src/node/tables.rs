//! Finding links, peers and latches, and making room for new ones.

use super::{Node, PEERS_PER_LINK, SETS_PER_LINK};
use crate::{
    Host, Name,
    event::DownReason,
    latch::LatchSet,
    link::{Attachment, feedback::WINDOW_RECORDS_MAX, handshake::Hello},
    peer::Peer,
    wire::frame::BROADCAST,
};

impl Node {
    /// The link of a port. A lane has few links, so they are searched.
    #[inline]
    pub(super) fn link_of(&self, port: u16) -> Option<usize> {
        self.links.iter().position(|link| link.port == port)
    }

    /// The peer with this GUID.
    #[inline]
    pub(super) fn peer_of(&self, guid: u64) -> Option<usize> {
        self.peers.iter().position(|peer| peer.guid == guid)
    }

    /// The latches of a port of a peer.
    #[inline]
    pub(super) fn set_of(&self, peer: usize, port: u16) -> Option<usize> {
        self.latches
            .iter()
            .position(|set| set.owner == Some((peer, port)))
    }

    /// Takes the peer at the other end of `link` into the table. `None` when the table is full of peers that are cabled or
    /// have exchanges waiting for their return.
    ///
    /// If need be, an idle peer whose exchanges are still remembered makes room; a question of it about one of them will
    /// be answered that nothing is known. Of those it is one that was met on this very link, if there is one, so that
    /// strangers on one cable take no memory from the peers of the others, and the one not cabled for longest.
    pub(super) fn meet_peer(
        &mut self,
        link: usize,
        guid: u64,
        incarnation: u64,
        name: Name,
        host: &mut impl Host,
    ) -> Option<usize> {
        if self.peers.len() < PEERS_PER_LINK * self.links.len() {
            self.peers
                .push(Peer::new(guid, incarnation, name, self.peers_lost));
            return Some(self.peers.len() - 1);
        }
        let cabled = |at| {
            self.links.iter().any(|link| {
                link.attachment
                    .is_some_and(|attachment| attachment.peer == at)
            })
        };
        let own = link * SETS_PER_LINK..(link + 1) * SETS_PER_LINK;
        let order = |&at: &usize| {
            let mut of_others = false;
            let mut taken_at = 0;
            for (number, set) in self.latches.iter().enumerate() {
                if set.owner.is_some_and(|(owner, _)| owner == at) {
                    of_others |= !own.contains(&number);
                    taken_at = taken_at.max(set.taken_at);
                }
            }
            // Those of whom nothing is remembered come first.
            (of_others, taken_at)
        };
        let at = (0..self.peers.len())
            .filter(|&at| {
                self.peers[at].is_idle() && !self.is_asked_of_neighbours(at) && !cabled(at)
            })
            .min_by_key(order)?;
        self.forget_orphans(at, host);
        self.forget_path(at, host);
        // Whoever is met from now on may have been known before.
        self.peers_lost = true;
        let loser = self.peers[at].guid;
        for set in &mut self.latches {
            if set.owner.is_some_and(|(owner, _)| owner == at) {
                set.clear();
            }
        }
        self.void_agreements(link, |guid| guid == Some(loser));
        for relays in &mut self.relays {
            relays.forget_peer(at);
        }
        self.peers[at] = Peer::new(guid, incarnation, name, self.peers_lost);
        Some(at)
    }

    /// Binds the link to the peer's port that said `hello`, together with the latches of that port.
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
        let set = known.unwrap_or_else(|| {
            let set = self.make_room(link);
            self.take_set(set, peer, hello.port);
            set
        });
        self.takes += 1;
        self.latches[set].taken_at = self.takes;
        self.latches[set].link = Some(link);
        self.latches[set].distrust(self.links[link].epoch);
        let mac = source.unwrap_or(BROADCAST);
        self.links[link].attachment = Some(Attachment {
            peer,
            set,
            port: hello.port,
            mac,
            slots: hello.slots,
            granted: hello.grant,
            window_records: hello.window_records.min(WINDOW_RECORDS_MAX),
        });
    }

    /// Undoes [`Self::attach`]. The latches stay.
    pub(super) fn detach(&mut self, link: usize) {
        let Some(attachment) = self.links[link].attachment.take() else {
            return;
        };
        let set = &mut self.latches[attachment.set];
        set.link = None;
        for latch in &mut set.latches {
            latch.used_in_epoch = false;
            latch.answer_due = false;
        }
    }

    /// The latches of a port of a peer, which need not be cabled. `None` when they had to make room for others, or
    /// there is no room for them now: then nothing is known of the port.
    pub(super) fn remembered_set(&mut self, peer: usize, port: u16) -> Option<usize> {
        if let Some(set) = self.set_of(peer, port) {
            return Some(set);
        }
        if self.peers[peer].latches_lost {
            return None;
        }
        let set = self.latches.iter().position(|set| set.owner.is_none())?;
        self.take_set(set, peer, port);
        Some(set)
    }

    /// Gives a free set of latches to a port of a peer.
    fn take_set(&mut self, set: usize, peer: usize, port: u16) {
        self.takes += 1;
        let latches = &mut self.latches[set];
        latches.clear();
        latches.owner = Some((peer, port));
        latches.taken_at = self.takes;
        if self.peers[peer].latches_lost {
            latches.lose_memory();
        }
    }

    /// A set of latches for whoever is cabled to `link` now: a free one, or else the one that was not used for longest.
    /// That one is taken from the link's own, so that a stranger who shows up on one cable under many names takes no
    /// memory from the peers of the others; only when those were carried to other cables it is any.
    fn make_room(&mut self, link: usize) -> usize {
        let own = link * SETS_PER_LINK..(link + 1) * SETS_PER_LINK;
        let unused = self
            .latches
            .iter()
            .enumerate()
            .filter(|(_, set)| set.link.is_none());
        let order =
            |(at, set): &(usize, &LatchSet)| (set.owner.is_some(), !own.contains(at), set.taken_at);
        // There are more sets than links, so one is unused.
        let at = unused.min_by_key(order).map_or(0, |(at, _)| at);
        if let Some((loser, _)) = self.latches[at].owner {
            self.peers[loser].latches_lost = true;
            let loser = self.peers[loser].guid;
            self.void_agreements(link, |guid| guid == Some(loser));
        }
        at
    }
}
