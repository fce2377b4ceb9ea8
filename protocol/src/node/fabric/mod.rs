//! The network beyond the neighbors: trees, and channels of paths.
//!
//! Trees use *neighbor indexes*; each cable that is up has one, up to a bound, and the index and
//! the link name each other. Control messages are ordinary messages of the link: they arrive
//! exactly once and in order, or the link fails. Then both ends discard the state that they
//! received from each other.
//!
//! A path is used like a cable. At each of its ends there is a link of this node on a *virtual
//! port*, with a number from [`PATH_PORTS`](crate::PATH_PORTS) on. It has the same handshake,
//! reflection, slots, latches and resolution as any other link. Its frames pass over the
//! [channels](crate::channel) that the path reserved; the nodes between keep no state of an
//! exchange. A committed exchange was thus committed by the far end itself. When a hop fails, the
//! link fails, as on a cable: open exchanges are queried over another path, or the caller receives
//! that they are in doubt.
//!
//! An end has a channel exactly while it leads to a node. Its link is down while it has none.

mod end;
mod reach;

use alloc::{boxed::Box, vec, vec::Vec};
use core::hash::{Hash, Hasher};

pub(super) use self::{
    end::{End, FAILED_PATHS_MAX, SPARE_TICKS},
    reach::Reach,
};
use super::{NodeConfig, config::FabricConfig, links::Links, peer::Peer};
use crate::{
    Host, NodeEvent,
    channel::{
        Channels, ENDS_MAX, Ends, Ready, Spot,
        note::{CHANNEL_MESSAGE_BYTES_MAX, PASS_HEAD_BYTES},
    },
    clock::Clock,
    counters::DropCounters,
    event::DownReason,
    link::{Blocked, Link, LinkState, Part},
    tree::{
        NEIGHBORS_MAX, NeighborSet, Standing, TreeEvent, Trees, TreesConfig, Watch,
        note::{self, CONTROL_MESSAGE_BYTES_MAX},
    },
    wire::{
        CONTINUATION_PAYLOAD_BYTES, FRAME_RECORDS_MAX, RECORD_BYTES, RECORD_PAYLOAD_BYTES,
        frame::FrameWriter, message::records_for, record::NO_PIGGYBACK, slice::Kind,
    },
};

/// Most records of control messages, and of path frames, in a frame while exchanges wait, so that
/// neither starves the other.
pub(super) const SHARED_RECORDS: usize = 12;
/// Most cables of a path.
const HOPS_MAX: u8 = 64;
/// Longest payload that a message has for the sake of a path, in bytes.
pub(super) const PASS_BYTES_MAX: usize = PASS_HEAD_BYTES + FRAME_RECORDS_MAX * RECORD_BYTES;

/// The next hop of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Onward {
    /// Over the neighbor with this index.
    Neighbor(u8),
    /// That is being found out.
    Unsure,
    /// Nowhere.
    Nowhere,
}

/// See the module.
#[derive(Clone)]
pub(super) struct Fabric {
    pub trees: Trees,
    pub channels: Channels,
    /// The ends of paths, by their links.
    pub ends: Vec<End>,
    /// The route to a node changed, appeared or vanished, and waiting requests have not been
    /// checked since.
    pub turned: bool,
    /// An end has no path any more, likewise.
    pub freed: bool,
    /// Number of ticks.
    pub ticks: u64,
    links: [Option<usize>; NEIGHBORS_MAX],
    /// By neighbor index: the record that carried the last advert, until it is known to be
    /// received.
    unconfirmed: [Option<u32>; NEIGHBORS_MAX],
    /// The same for the last tick before which everything was received.
    marked: [Option<u32>; NEIGHBORS_MAX],
}

#[cfg(feature = "arbitrary-state")]
impl Fabric {
    pub(super) fn scramble_paths(&mut self, draw: &mut crate::draw::Draw, peers: &[Peer]) {
        self.channels.scramble(draw.long());
        for end in &mut self.ends {
            end.scramble(draw, peers);
        }
    }

    /// Draws the state of trees and paths; see [`Trees::scramble`].
    pub(super) fn scramble(&mut self, draw: &mut crate::draw::Draw, peers: &[Peer]) {
        self.trees.scramble(draw.long());
        self.scramble_paths(draw, peers);
        for unconfirmed in self.unconfirmed.iter_mut().chain(&mut self.marked) {
            *unconfirmed = draw.flag().then(|| draw.sequence());
        }
    }
}

impl Fabric {
    /// The fabric of a node, if it takes part in one.
    pub fn of(config: &NodeConfig) -> Option<Box<Self>> {
        config
            .fabric
            .map(|fabric| Box::new(Self::new(config, &fabric)))
    }

    fn new(config: &NodeConfig, fabric: &FabricConfig) -> Self {
        Self {
            trees: Trees::new(&TreesConfig {
                guid: config.guid,
                incarnation: fold(config.incarnation),
                name: config.name,
                roots: fabric.roots,
                roots_max: fabric.roots_max,
            }),
            channels: Channels::new(fabric.transits, fabric.paths),
            ends: vec![End::default(); usize::from(fabric.paths.min(ENDS_MAX))],
            turned: false,
            freed: false,
            ticks: 0,
            links: [None; NEIGHBORS_MAX],
            unconfirmed: [None; NEIGHBORS_MAX],
            marked: [None; NEIGHBORS_MAX],
        }
    }

    /// Allocates for one more link. If more than [`NEIGHBORS_MAX`] links are up at once, some have
    /// no neighbor index.
    pub fn add_link(&mut self) {
        self.trees.add_neighbor();
        self.channels.add_neighbor();
    }
}

impl Hash for Fabric {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            trees,
            channels,
            ends,
            turned,
            freed,
            ticks: _,
            links,
            unconfirmed,
            marked,
        } = self;
        (trees, channels, ends, turned, freed).hash(state);
        (links, unconfirmed, marked).hash(state);
    }
}

/// An incarnation, short.
const fn fold(incarnation: u64) -> u16 {
    let half = incarnation ^ incarnation >> 32;
    (half ^ half >> 16) as u16
}

/// Forwards events of trees to the host, with ports instead of neighbor indexes.
struct Reporter<'a, H> {
    turned: &'a mut bool,
    neighbors: &'a [Option<usize>; NEIGHBORS_MAX],
    links: &'a Links,
    host: &'a mut H,
}

impl<H: Host> Watch for Reporter<'_, H> {
    fn on_tree(&mut self, event: TreeEvent) {
        *self.turned |= matches!(event, TreeEvent::Attached { .. } | TreeEvent::Lost { .. });
        let event = match event {
            TreeEvent::Attached {
                root,
                neighbor,
                hops,
            } => match self.neighbors[usize::from(neighbor)] {
                Some(link) => NodeEvent::Attached {
                    root,
                    port: self.links[link].port,
                    hops,
                },
                None => return,
            },
            TreeEvent::Lost { root } => NodeEvent::Lost { root },
            TreeEvent::Called { root, name } => NodeEvent::Called { root, name },
            TreeEvent::Twin => NodeEvent::Twin,
            TreeEvent::Full { root } => NodeEvent::Full { root },
        };
        self.host.tree_event(event);
    }
}

/// Trees, and the neighbor index of each link.
impl Fabric {
    /// The link that has a neighbor index.
    pub fn link_at(&self, neighbor: u8) -> Option<usize> {
        *self.links.get(usize::from(neighbor))?
    }

    /// Passes an event to the trees.
    fn update_trees<H: Host>(
        &mut self,
        links: &Links,
        host: &mut H,
        update: impl FnOnce(&mut Trees, &mut Reporter<'_, H>),
    ) {
        update(
            &mut self.trees,
            &mut Reporter {
                turned: &mut self.turned,
                neighbors: &self.links,
                links,
                host,
            },
        );
    }

    /// The link of a cable came up: its neighbor gets an index.
    pub fn attach_neighbor(&mut self, at: usize, links: &mut Links, host: &mut impl Host) {
        let Some(neighbor) = self.trees.free_neighbor_index() else {
            host.tree_event(NodeEvent::NoNeighborIndex {
                port: links[at].port,
            });
            return;
        };
        self.links[usize::from(neighbor)] = Some(at);
        self.unconfirmed[usize::from(neighbor)] = None;
        self.marked[usize::from(neighbor)] = None;
        links[at].neighbor = Some(neighbor);
        self.update_trees(links, host, |trees, reporter| {
            trees.on_up(neighbor, reporter);
        });
        self.update_bundle(at, links);
    }

    /// Makes all cables of one neighbor share one quota. The identity that the neighbor reports is
    /// taken as it is.
    fn update_bundle(&mut self, at: usize, links: &Links) {
        let its_peer = links.peer_at(at);
        let is_its =
            |link: &Option<usize>| link.is_some_and(|link| links.peer_at(link) == its_peer);
        let neighbors = (0..).zip(&self.links).filter(|(_, link)| is_its(link));
        let neighbors: NeighborSet = neighbors.map(|(neighbor, _)| neighbor).collect();
        self.trees.set_bundle(neighbors);
        self.channels.set_bundle(neighbors);
    }

    /// The link of a neighbor failed: state received from it is no longer valid. Returns the ends
    /// of the paths that led over it.
    pub fn detach_neighbor(&mut self, neighbor: u8, links: &Links, host: &mut impl Host) -> Ends {
        self.update_trees(links, host, |trees, reporter| {
            trees.on_down(neighbor, reporter);
        });
        self.links[usize::from(neighbor)] = None;
        self.channels.on_down(neighbor)
    }

    /// Processes a control message about trees from a neighbor.
    ///
    /// # Errors
    /// No node sends it.
    pub fn on_control_message(
        &mut self,
        neighbor: u8,
        payload: &[u8],
        links: &mut Links,
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let mut result = Ok(());
        self.update_trees(links, host, |trees, reporter| {
            result = trees.on_control_message(neighbor, payload, reporter);
        });
        self.count_refused_roots(neighbor, links);
        result.map_err(|_| DownReason::Violation)
    }

    /// Processes a tick of the trees.
    pub fn tick_trees(&mut self, links: &mut Links, host: &mut impl Host) {
        let mut confirmed = NeighborSet::NONE;
        for neighbor in 0..NEIGHBORS_MAX {
            let Some(link) = self.links[neighbor].map(|link| &links[link]) else {
                continue;
            };
            let unconfirmed = |record: &u32| !link.feedback.is_reflected(*record);
            self.unconfirmed[neighbor] = self.unconfirmed[neighbor].filter(unconfirmed);
            self.marked[neighbor] = self.marked[neighbor].filter(unconfirmed);
            if self.marked[neighbor].is_none() {
                confirmed.insert(neighbor as u8);
                self.marked[neighbor] = self.unconfirmed[neighbor];
            }
        }
        self.update_trees(links, host, |trees, reporter| {
            trees.on_tick(confirmed, reporter);
        });
        for neighbor in 0..NEIGHBORS_MAX as u8 {
            self.count_refused_roots(neighbor, links);
        }
    }

    /// Adds the announced roots of a neighbor that trees refused to the counters of its link.
    fn count_refused_roots(&mut self, neighbor: u8, links: &mut Links) {
        if let Some(at) = self.link_at(neighbor) {
            links[at].counters.drops.quota_roots += self.trees.take_refused(neighbor);
        }
    }

    /// Counts a request of a neighbor beyond its share.
    pub fn count_refused(
        &self,
        neighbor: u8,
        links: &mut Links,
        cause: impl FnOnce(&mut DropCounters) -> &mut u64,
    ) {
        if let Some(at) = self.link_at(neighbor) {
            *cause(&mut links[at].counters.drops) += 1;
        }
    }

    /// Bytes of the first control message or path frame that waits on the link of a neighbor. For a
    /// path that ends here, of which `speaks` decides, the minimum.
    pub fn waiting_bytes(&self, neighbor: u8, speaks: impl Fn(u16) -> bool) -> Option<usize> {
        match self.channels.note(neighbor) {
            Some(note) => Some(note.bytes()),
            None => self
                .trees
                .next_message_bytes(neighbor)
                .or_else(|| self.channels.ready(neighbor, speaks).map(pass_bytes)),
        }
    }

    /// Writes the control messages about channels that wait on the link of a neighbor.
    pub fn write_channel_messages(
        &mut self,
        neighbor: u8,
        link: &mut Link,
        clock: &mut Clock,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        while let Some(note) = self.channels.note(neighbor) {
            if !link.may_send(writer, note.bytes()) {
                return Err(Blocked);
            }
            let mut space = [0; CHANNEL_MESSAGE_BYTES_MAX];
            let len = note.write(&mut space);
            let part = Part::whole(Kind::ControlMessage, 0, 0, &space[..len]);
            link.write(writer, clock, &part);
            self.channels.message_sent(neighbor);
        }
        Ok(())
    }

    /// Writes those about trees, as many as may go into this frame while exchanges wait or do not.
    pub fn write_control_messages(
        &mut self,
        neighbor: u8,
        link: &mut Link,
        exchanges_wait: bool,
        clock: &mut Clock,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        let mut shared = if exchanges_wait {
            SHARED_RECORDS
        } else {
            usize::MAX
        };
        let mut note = [0; CONTROL_MESSAGE_BYTES_MAX];
        while let Some(bytes) = self.trees.next_message_bytes(neighbor) {
            if !link.may_send(writer, bytes) {
                return Err(Blocked);
            }
            let records = writer.room().min(link.feedback.room()).min(shared);
            if records < records_for(bytes) {
                return Ok(());
            }
            let space = RECORD_PAYLOAD_BYTES + (records - 1) * CONTINUATION_PAYLOAD_BYTES;
            let Some(len) = self
                .trees
                .take_control_message(neighbor, &mut note[..space.min(CONTROL_MESSAGE_BYTES_MAX)])
            else {
                continue;
            };
            shared -= records_for(len);
            let part = Part::whole(Kind::ControlMessage, 0, 0, &note[..len]);
            let record = link.write(writer, clock, &part);
            if note::is_advert(&note[..len]) {
                self.unconfirmed[usize::from(neighbor)] = Some(record);
            }
        }
        Ok(())
    }
}

/// Path frames.
impl Fabric {
    /// Writes the rest of one that has several fragments.
    pub fn write_departing(
        link: &mut Link,
        clock: &mut Clock,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        link.write_departing(writer, clock, |_| NO_PIGGYBACK)?;
        Ok(())
    }
}

/// Paths that end here: which are requested, and over which neighbor.
impl Fabric {
    /// The end that has a path to a node, or requests one.
    pub fn path_to(&self, guid: u64) -> Option<usize> {
        self.ends.iter().position(|end| end.far == guid)
    }

    /// Whether this node requested the path of an end.
    pub fn opened(&self, at: usize) -> bool {
        self.channels.spot_of(at as u16).is_some_and(Spot::is_own)
    }

    /// Whether the path of a link leads to this node, according to its request.
    pub fn leads_to(&self, at: usize, guid: u64) -> bool {
        self.ends[at].far == guid
    }

    /// Whether the way to a node is being looked for.
    pub fn is_searching(&self, guid: u64) -> bool {
        self.trees.standing(guid) == Some(Standing::Searches)
    }

    /// The next hop of a path to an address: a direct neighbor, which need not root a tree, or the
    /// next hop of the tree.
    pub fn onward(&self, target: u64, links: &Links, peers: &[Peer]) -> Onward {
        let direct = links.cabled().iter().find_map(|link| {
            link.attachment()
                .filter(|attachment| peers[attachment.peer].guid == target)
                .and(link.neighbor)
        });
        match direct.or_else(|| self.trees.route(target).map(|route| route.neighbor)) {
            Some(neighbor) => Onward::Neighbor(neighbor),
            None if self.is_searching(target) => Onward::Unsure,
            None => Onward::Nowhere,
        }
    }

    /// Whether a path to a peer may still come up from what is already in progress.
    pub fn hopes_for_path(&self, peer: &Peer, links: &Links, peers: &[Peer]) -> bool {
        if self.ends.is_empty() {
            return false;
        }
        self.path_to(peer.guid).is_some()
            || (peer.failed_paths < FAILED_PATHS_MAX
                && self.onward(peer.guid, links, peers) != Onward::Nowhere)
    }

    /// Requests a path from a free end over a neighbor.
    pub fn request(&mut self, end: u16, neighbor: u8, target: u64, origin: u64) {
        if self.channels.open(end, neighbor, target, origin, HOPS_MAX) {
            self.ends[usize::from(end)] = End::to(target);
        }
    }

    /// Accepts a path that a neighbor requests.
    pub fn accept(&mut self, spot: Spot, end: u16, origin: u64) {
        self.channels.accept(spot, end);
        self.ends[usize::from(end)] = End::to(origin);
    }

    /// A free end for a path to `guid`. Prefers the end that last led there, so the other side
    /// remembers few ends of this node. Otherwise returns the end that had its last path longest
    /// ago, so that memory of an end lasts long.
    pub fn spare_end(&self, guid: u64, links: &Links) -> Option<u16> {
        (0..self.ends.len() as u16)
            .filter(|&end| self.ends[usize::from(end)].far == 0)
            .min_by_key(|&end| {
                let end = usize::from(end);
                let led_there = links[end].epochs.handshake.guid == guid;
                (!led_there, self.ends[end].freed)
            })
    }

    /// The end, among some ends, whose path is idle for longest.
    pub fn idle_end(
        &self,
        links: &Links,
        is_one: impl Fn(&Channels, u16) -> bool,
    ) -> Option<usize> {
        let is_idle = |&at: &usize| {
            links[at].state() == LinkState::Up
                && self.ends[at].ticks >= SPARE_TICKS
                && is_one(&self.channels, at as u16)
        };
        (0..links.path_ends())
            .filter(is_idle)
            .max_by_key(|&at| self.ends[at].ticks)
    }

    /// This node's own request for a path that `is_one` accepts, by the node it leads to, if it is
    /// not up.
    pub fn own_request(&self, links: &Links, is_one: impl Fn(u64) -> bool) -> Option<usize> {
        let mut ends = self.ends.iter().zip(links.iter()).enumerate();
        ends.find(|(at, (end, link))| {
            is_one(end.far) && link.state() != LinkState::Up && self.opened(*at)
        })
        .map(|(at, _)| at)
    }

    /// A path ended, or was not reserved. Returns the node that it led to, if there was one.
    pub fn free_end(&mut self, at: usize) -> Option<u64> {
        let far = self.ends[at].far;
        if far == 0 {
            return None;
        }
        self.ends[at] = End::free_since(self.ticks);
        self.freed = true;
        Some(far)
    }
}

/// Bytes of the message that carries a path frame; for one of an end here, the minimum.
pub(super) const fn pass_bytes((_, ready): (Spot, Ready)) -> usize {
    let records = match ready {
        Ready::Frame(records) => records,
        Ready::End(_) => 1,
    };
    PASS_HEAD_BYTES + records * RECORD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Name, node::counting_host::CountingHost};

    #[test]
    fn the_neighbor_index_and_the_link_name_each_other() {
        let mut config = NodeConfig::new(1, 1, Name::new("node").expect("it is a name"));
        config.fabric = Some(FabricConfig::default());
        let mut fabric = Fabric::of(&config).expect("it has one");
        let mut links = Links::new();
        let host = &mut CountingHost::default();
        for port in 0..3 {
            links.push(Link::new(port, [0; 6], 1, 64, 0));
            fabric.add_link();
        }
        for at in [2, 0, 1] {
            fabric.attach_neighbor(at, &mut links, host);
        }
        for at in 0..3 {
            let neighbor = links[at].neighbor.take().expect("it takes part");
            assert_eq!(fabric.link_at(neighbor), Some(at));
            assert_eq!(fabric.detach_neighbor(neighbor, &links, host), 0);
            assert_eq!(fabric.link_at(neighbor), None);
        }
    }
}
