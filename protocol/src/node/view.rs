//! Read-only views of a node.

use super::Node;
use crate::{
    LinkCounters, LinkRefusal, LinkState, Name,
    channel::ChannelCounters,
    link::Link,
    tree::{TreeCounters, TreeView},
};

/// One link, as it stands.
#[derive(Debug, Clone, Copy)]
pub struct LinkView<'a> {
    /// The caller's index of the port.
    pub port: u16,
    /// Where it stands.
    pub state: LinkState,
    /// The peer's GUID. While the link is not up: that of its last peer, if the node remembers it.
    pub peer: Option<u64>,
    /// The name of this peer.
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

/// A path to a node beyond the neighbors, as its end here sees it.
#[derive(Debug, Clone, Copy)]
pub struct PathView<'a> {
    /// The GUID of the node at the other end.
    pub far: u64,
    /// Whether this node requested it.
    pub opener: bool,
    /// The path as a link, on a port from [`PATH_PORTS`](crate::PATH_PORTS) on. Down until the path
    /// is reserved.
    pub link: LinkView<'a>,
}

/// Where the way to a node leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteView {
    /// The caller's index of the port.
    pub port: u16,
    /// Cables between this node and that one.
    pub hops: u16,
}

/// The ping of a link, for a caller that measures its round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ping {
    /// The epoch in force. A ping of an earlier epoch never returns.
    pub epoch: u32,
    /// The record that carried the ping; `None` when it has returned or none is in flight.
    pub record: Option<u32>,
}

impl Node {
    /// The links, in the order in which they were added.
    pub fn links(&self) -> impl Iterator<Item = LinkView<'_>> {
        self.links.cabled().iter().map(|link| self.view(link))
    }

    fn view<'a>(&'a self, link: &'a Link) -> LinkView<'a> {
        let attachment = link.attachment();
        let peer = attachment.map_or_else(
            || {
                let last = link.epochs.handshake.echoer()?;
                let peer = &self.exchanges.peers[self.exchanges.find(last)?];
                peer.met.then_some(peer)
            },
            |attachment| Some(&self.exchanges.peers[attachment.peer]),
        );
        LinkView {
            port: link.port,
            state: link.state(),
            peer: peer.map(|peer| peer.guid),
            peer_name: peer.map(|peer| &peer.name),
            peer_port: attachment.map(|attachment| attachment.port),
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
        let peers = self.exchanges.peers.iter().enumerate();
        peers.map(|(at, peer)| PeerView {
            guid: peer.guid,
            incarnation: peer.incarnation,
            name: &peer.name,
            links_up: peer.links_up,
            queued: self.exchanges.initiator.queue(at).len(),
            unresolved: self.resolver.doubts.len(at),
        })
    }

    /// The ping of the link on `port`; `None` while the link is not up.
    #[must_use]
    pub fn pending_ping(&self, port: u16) -> Option<Ping> {
        self.links.pending_ping(self.links.of_port(port)?)
    }

    /// Frames that [`Node::on_frame`] was given for ports without a link.
    #[must_use]
    pub const fn frames_without_link(&self) -> u64 {
        self.frames_without_link
    }

    /// Exchanges whose caller received [`Host::in_doubt`](crate::Host::in_doubt) and no outcome
    /// yet.
    #[must_use]
    pub const fn in_doubt(&self) -> u64 {
        self.resolver.doubts.in_doubt()
    }

    /// Exchanges that [`Node::submit`] would still take.
    #[must_use]
    pub const fn room(&self) -> u32 {
        // The rest is for those that are kept for their names.
        let free = self.exchanges.initiator.pool.free();
        free.saturating_sub(self.resolver.doubts.reserved())
    }

    /// Most queries that may wait for the end of an exchange. As many outcomes are kept.
    #[must_use]
    pub const fn queries_max(&self) -> usize {
        self.resolver.doubts.names_max() as usize
    }

    /// Whether no exchange with a linked peer is open, and no request of this side could be sent to
    /// one now. Exchanges in doubt with other peers do not count.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        !self.withholds_answers() && self.is_settled_but_for_withheld()
    }

    /// Whether an outcome for a linked peer waits for the host's journal.
    #[must_use]
    pub fn withholds_answers(&self) -> bool {
        self.links
            .iter()
            .any(|link| link.attachment().is_some() && link.inbound.withholds())
    }

    /// Like [`Node::is_settled`], for a host whose journal makes no more progress: outcomes that
    /// wait for it do not count.
    #[must_use]
    pub fn is_settled_but_for_withheld(&self) -> bool {
        let mut peers = self.exchanges.peers.iter().enumerate();
        self.links.iter().all(|link| self.is_link_settled(link))
            && peers.all(|(at, peer)| peer.links_up == 0 || !self.resolver.doubts.waits(at))
    }

    fn is_link_settled(&self, link: &Link) -> bool {
        let Some(attachment) = link.attachment() else {
            return true;
        };
        let queue = self.exchanges.initiator.queue(attachment.peer);
        !link.outbound.is_open()
            && !link.outbound.has_commits()
            && !link.inbound.is_due()
            && !link.departing.is_in_flight()
            && (attachment.granted == 0 || queue.is_empty())
            && !self.exchanges.responder.has_tentative(attachment)
    }

    /// Whether a path leads to the node `guid`, as [`Host::path`](crate::Host::path) last reported.
    /// `false` for a node that was never met, `true` for this node.
    #[must_use]
    pub fn has_path(&self, guid: u64) -> bool {
        let peer = self.exchanges.find(guid);
        guid == self.config.guid || peer.is_some_and(|peer| self.reach.is_reported(peer))
    }

    /// The route to a node, by its address: its GUID, or up to 255 more, which are its lanes.
    /// Returns `None` if there is none now, and for this node itself.
    #[must_use]
    pub fn route(&self, address: u64) -> Option<RouteView> {
        let route = self.fabric.as_ref()?.trees.route(address)?;
        Some(RouteView {
            port: self.port_at(route.neighbor)?,
            hops: route.hops,
        })
    }

    /// The trees that this node knows, its own included, in the order of their roots' GUIDs. Empty
    /// without [`fabric`](crate::NodeConfig::fabric).
    pub fn trees(&self) -> impl Iterator<Item = TreeView> {
        self.fabric.iter().flat_map(|fabric| fabric.trees.trees())
    }

    /// How many trees this node knows, its own included.
    #[must_use]
    pub fn tree_count(&self) -> usize {
        let fabric = self.fabric.as_ref();
        fabric.map_or(0, |fabric| fabric.trees.count())
    }

    /// Bytes of its state of trees ([`Trees::state_bytes`](crate::tree::Trees::state_bytes)).
    #[must_use]
    pub fn tree_state_bytes(&self) -> usize {
        let fabric = self.fabric.as_ref();
        fabric.map_or(0, |fabric| fabric.trees.state_bytes())
    }

    /// The tree of this root, if it is known.
    #[must_use]
    pub fn tree(&self, root: u64) -> Option<TreeView> {
        self.fabric.as_ref()?.trees.tree(root)
    }

    /// Roots of which something waits to be sent to a neighbor
    /// ([`Trees::waiting_roots`](crate::tree::Trees::waiting_roots)).
    pub fn waiting_roots(&self) -> impl Iterator<Item = u64> {
        let fabrics = self.fabric.iter();
        fabrics.flat_map(|fabric| fabric.trees.waiting_roots())
    }

    /// Counters of all trees.
    #[must_use]
    pub fn tree_counters(&self) -> TreeCounters {
        self.fabric
            .as_ref()
            .map_or_else(TreeCounters::default, |fabric| fabric.trees.counters())
    }

    /// The port whose link has a neighbor index of [`TreeView`]. Returns `None` if no link has it.
    #[must_use]
    pub fn port_at(&self, neighbor: u8) -> Option<u16> {
        let link = self.fabric.as_ref()?.link_at(neighbor)?;
        Some(self.links[link].port)
    }

    /// The paths that end here, or were requested and are not answered. Empty without
    /// [`fabric`](crate::NodeConfig::fabric).
    pub fn paths(&self) -> impl Iterator<Item = PathView<'_>> {
        self.fabric.iter().flat_map(move |fabric| {
            let ends = fabric.ends.iter().zip(self.links.iter()).enumerate();
            ends.filter(|(_, (end, _))| end.far != 0)
                .map(move |(at, (end, link))| PathView {
                    far: end.far,
                    opener: fabric.opened(at),
                    link: self.view(link),
                })
        })
    }

    /// The links of all virtual ports, with or without a path. Their counters continue from path to
    /// path.
    pub fn path_links(&self) -> impl Iterator<Item = LinkView<'_>> {
        self.links.paths().iter().map(|link| self.view(link))
    }

    /// Paths of others that lead through this node, or are to.
    #[must_use]
    pub fn transits(&self) -> usize {
        self.fabric
            .as_ref()
            .map_or(0, |fabric| fabric.channels.transits())
    }

    /// Channels of all links that are not closed at both ends: two for each transit, and one for
    /// each path that ends here.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.fabric
            .as_ref()
            .map_or(0, |fabric| fabric.channels.taken())
    }

    /// Records of paths of others that wait to be passed on.
    #[must_use]
    pub fn waiting_records(&self) -> usize {
        self.fabric
            .as_ref()
            .map_or(0, |fabric| fabric.channels.waiting_records())
    }

    /// Counters of paths.
    #[must_use]
    pub fn channel_counters(&self) -> ChannelCounters {
        self.fabric
            .as_ref()
            .map_or_else(ChannelCounters::default, |fabric| {
                fabric.channels.counters()
            })
    }
}
