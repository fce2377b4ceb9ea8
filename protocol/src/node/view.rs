//! Read-only views of a node.

use super::{LinkState, Node};
use crate::{LinkCounters, LinkRefusal, Name, link::Link};

/// One link, as it stands.
#[derive(Debug, Clone, Copy)]
pub struct LinkView<'a> {
    /// The caller's index of the port.
    pub port: u16,
    /// Where it stands.
    pub state: LinkState,
    /// The peer's GUID while the link is up.
    pub peer: Option<u64>,
    /// The peer's name while the link is up.
    pub peer_name: Option<&'a Name>,
    /// The peer's index of its port while the link is up.
    pub peer_port: Option<u16>,
    /// Why the link does not come up although a peer answers.
    pub refusal: Option<LinkRefusal>,
    /// The epoch in force, or the proposed one while the link is not up.
    pub epoch: u32,
    /// Slots with an exchange that this side started, unresolved ones among them.
    pub open_transactions: u32,
    /// Records that may be in flight and unreflected, as granted by the peer.
    pub credit_records: u32,
    /// Of those, how many are.
    pub unreflected_records: u32,
    /// Ticks since the last frame was received, while the link is up.
    pub keepalive_misses: u32,
    /// Its counters.
    pub counters: &'a LinkCounters,
}

/// One peer, as this node knows it.
#[derive(Debug, Clone, Copy)]
pub struct PeerView<'a> {
    /// Its GUID.
    pub guid: u64,
    /// The random number of its current incarnation.
    pub incarnation: u64,
    /// Its name.
    pub name: &'a Name,
    /// Links to it that are up.
    pub links_up: u32,
    /// Exchanges that wait for a link or a slot.
    pub queued: u32,
    /// Exchanges of failed links that wait for their query, or for a second one.
    pub unresolved: u32,
}

impl Node {
    /// The links, in the order in which they were added.
    pub fn links(&self) -> impl Iterator<Item = LinkView<'_>> {
        self.links[self.path_links..]
            .iter()
            .map(|link| self.view(link))
    }

    /// One link.
    pub(super) fn view<'a>(&'a self, link: &'a Link) -> LinkView<'a> {
        let peer = link
            .attachment()
            .map(|attachment| &self.peers[attachment.peer]);
        LinkView {
            port: link.port,
            state: link.state(),
            peer: peer.map(|peer| peer.guid),
            peer_name: peer.map(|peer| &peer.name),
            peer_port: link.attachment().map(|attachment| attachment.port),
            refusal: link.epochs.wiring.refusal(),
            epoch: link.epoch(),
            open_transactions: link.outbound.open(),
            credit_records: link.feedback.credit(),
            unreflected_records: link.feedback.outstanding(),
            keepalive_misses: link.liveness.keepalive_misses(),
            counters: &link.counters,
        }
    }

    /// The known peers, in no particular order.
    pub fn peers(&self) -> impl Iterator<Item = PeerView<'_>> {
        self.peers.iter().map(|peer| PeerView {
            guid: peer.guid,
            incarnation: peer.incarnation,
            name: &peer.name,
            links_up: peer.links_up,
            queued: peer.queue.len(),
            unresolved: peer.unresolved.len() + peer.undone.len(),
        })
    }
}
