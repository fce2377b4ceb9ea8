//! State of a node about the network beyond its neighbors: trees, and channels of paths.
//!
//! Trees use *neighbor indexes*; each link that is up has one. Control messages are ordinary
//! messages of the link: they arrive exactly once and in order, or the link fails. Then both ends
//! discard the state that they received from each other.

use alloc::{vec, vec::Vec};
use core::hash::{Hash, Hasher};

use super::{Node, far::End, transmit::Blocked};
use crate::{
    Host, NodeEvent,
    channel::{Channels, ENDS_MAX, note::ChannelMessage},
    event::DownReason,
    link::{Attachment, Link, Part},
    tree::{
        NEIGHBORS_MAX, NeighborSet, TreeCounters, TreeEvent, TreeView, Trees, TreesConfig, Watch,
        note::{self, CONTROL_MESSAGE_BYTES_MAX},
    },
    wire::{
        CONTINUATION_PAYLOAD_BYTES, RECORD_PAYLOAD_BYTES, frame::FrameWriter, message::records_for,
        slice::Kind,
    },
};

/// Most records of control messages, and of path frames, in a frame while exchanges wait, so that
/// neither starves the other.
pub(super) const SHARED_RECORDS: usize = 12;

/// Configuration of a node's role in the fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FabricConfig {
    /// Whether the node roots a tree, so that all others know a route to it.
    pub roots: bool,
    /// Most roots that it stores, itself included; 0 means 1. Twice the number of nodes leaves
    /// entries for all of them, whatever roots one neighbor invents. Each takes about 200 bytes,
    /// and 32 for each link.
    pub roots_max: u16,
    /// Most simultaneous paths to nodes beyond its neighbors, opened by either side; clamped to
    /// [`ENDS_MAX`]. Each takes about
    /// [`NodeConfig::message_bytes_max`](super::NodeConfig::message_bytes_max) × 40 bytes, which
    /// are touched when used.
    pub paths: u16,
    /// Paths of others that may lead through it at once. Each takes 6 KiB.
    pub transits: u16,
}

/// 1,024 roots, and it is one of them; 16 paths, and 64 of others.
impl Default for FabricConfig {
    fn default() -> Self {
        Self {
            roots: true,
            roots_max: 1024,
            paths: 16,
            transits: 64,
        }
    }
}

/// Where the way to a node leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteView {
    /// The caller's index of the port.
    pub port: u16,
    /// Cables between this node and that one.
    pub hops: u16,
}

/// The trees of a node, and the neighbor index of each link.
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
    pub(super) fn scramble_paths(
        &mut self,
        draw: &mut crate::draw::Draw,
        peers: &[crate::peer::Peer],
    ) {
        self.channels.scramble(draw.long());
        for end in &mut self.ends {
            end.scramble(draw, peers);
        }
    }
}

impl Fabric {
    pub fn new(config: &super::NodeConfig, fabric: &FabricConfig) -> Self {
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
    links: &'a [Link],
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

impl Node {
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
    /// without [`super::NodeConfig::fabric`].
    pub fn trees(&self) -> impl Iterator<Item = TreeView> {
        self.fabric.iter().flat_map(|fabric| fabric.trees.trees())
    }

    /// How many trees this node knows, its own included.
    #[must_use]
    pub fn tree_count(&self) -> usize {
        let fabric = self.fabric.as_ref();
        fabric.map_or(0, |fabric| fabric.trees.count())
    }

    /// Bytes of its state of trees ([`Trees::state_bytes`]).
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

    /// Roots of which something waits to be sent to a neighbor ([`Trees::waiting_roots`]).
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
        self.link_at(neighbor).map(|link| self.links[link].port)
    }

    /// The link that has a neighbor index.
    pub(super) fn link_at(&self, neighbor: u8) -> Option<usize> {
        let links = &self.fabric.as_ref()?.links;
        *links.get(usize::from(neighbor))?
    }

    /// Draws the state of trees and paths; see [`Trees::scramble`].
    #[cfg(feature = "arbitrary-state")]
    pub(super) fn scramble_fabric(&mut self, draw: &mut crate::draw::Draw) {
        if let Some(fabric) = &mut self.fabric {
            fabric.trees.scramble(draw.long());
            fabric.scramble_paths(draw, &self.peers);
            for unconfirmed in fabric.unconfirmed.iter_mut().chain(&mut fabric.marked) {
                *unconfirmed = draw.flag().then(|| draw.sequence());
            }
        }
    }

    /// Passes an event to the trees.
    fn update_trees<H: Host>(
        &mut self,
        host: &mut H,
        update: impl FnOnce(&mut Trees, &mut Reporter<'_, H>),
    ) {
        let Self { fabric, links, .. } = self;
        if let Some(Fabric {
            trees,
            turned,
            links: neighbors,
            ..
        }) = fabric.as_deref_mut()
        {
            update(
                trees,
                &mut Reporter {
                    turned,
                    neighbors,
                    links,
                    host,
                },
            );
        }
    }

    /// A link came up: its neighbor gets an index.
    pub(super) fn attach_neighbor(&mut self, at: usize, host: &mut impl Host) {
        if self.is_path(at) {
            return;
        }
        let Some(fabric) = &mut self.fabric else {
            return;
        };
        let Some(neighbor) = fabric.trees.free_neighbor_index() else {
            host.tree_event(NodeEvent::NoNeighborIndex {
                port: self.links[at].port,
            });
            return;
        };
        fabric.links[usize::from(neighbor)] = Some(at);
        fabric.unconfirmed[usize::from(neighbor)] = None;
        fabric.marked[usize::from(neighbor)] = None;
        self.links[at].neighbor = Some(neighbor);
        self.update_trees(host, |trees, reporter| trees.on_up(neighbor, reporter));
        self.update_bundle(at);
    }

    /// Makes all cables of one neighbor share one quota. The identity that the neighbor reports is
    /// taken as it is.
    fn update_bundle(&mut self, at: usize) {
        let Self { fabric, links, .. } = self;
        let Some(fabric) = fabric.as_deref_mut() else {
            return;
        };
        let peer_at = |link: usize| links[link].attachment().map(|attachment| attachment.peer);
        let its_peer = peer_at(at);
        let is_its = |link: &Option<usize>| link.is_some_and(|link| peer_at(link) == its_peer);
        let neighbors = (0..).zip(&fabric.links).filter(|(_, link)| is_its(link));
        let neighbors: NeighborSet = neighbors.map(|(neighbor, _)| neighbor).collect();
        fabric.trees.set_bundle(neighbors);
        fabric.channels.set_bundle(neighbors);
    }

    /// A link failed: state received from its neighbor is no longer valid.
    pub(super) fn detach_neighbor(&mut self, at: usize, host: &mut impl Host) {
        let Some(neighbor) = self.links[at].neighbor.take() else {
            return;
        };
        self.update_trees(host, |trees, reporter| trees.on_down(neighbor, reporter));
        if let Some(fabric) = &mut self.fabric {
            fabric.links[usize::from(neighbor)] = None;
            let ends = fabric.channels.on_down(neighbor);
            self.end_paths(ends, host);
        }
    }

    /// The neighbor index of a link on which a message about trees or paths arrived; `None` for a
    /// link that takes no part in them.
    ///
    /// # Errors
    /// The link is a path, over which no node sends such a message.
    pub(super) fn neighbor_of(&self, at: usize) -> Result<Option<u8>, DownReason> {
        let neighbor = self.links[at].neighbor;
        if neighbor.is_none() && self.is_path(at) {
            return Err(DownReason::Violation);
        }
        Ok(neighbor)
    }

    /// Processes a control message from a neighbor. A link that takes no part in trees ignores it.
    ///
    /// # Errors
    /// No node sends it.
    #[cold]
    pub(super) fn on_control_message(
        &mut self,
        at: usize,
        payload: &[u8],
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let Some(neighbor) = self.neighbor_of(at)? else {
            return Ok(());
        };
        if ChannelMessage::is_one(payload) {
            return self.on_channel_message(neighbor, payload, host);
        }
        let mut result = Ok(());
        self.update_trees(host, |trees, reporter| {
            result = trees.on_control_message(neighbor, payload, reporter);
        });
        self.count_refused_roots(neighbor);
        self.stir(host);
        result.map_err(|_| DownReason::Violation)
    }

    /// Processes a tick.
    pub(super) fn tick_trees(&mut self, host: &mut impl Host) {
        let Some(fabric) = &mut self.fabric else {
            return;
        };
        let mut confirmed = NeighborSet::NONE;
        for neighbor in 0..NEIGHBORS_MAX {
            let Some(link) = fabric.links[neighbor].map(|link| &self.links[link]) else {
                continue;
            };
            let unconfirmed = |record: &u32| !link.feedback.is_reflected(*record);
            fabric.unconfirmed[neighbor] = fabric.unconfirmed[neighbor].filter(unconfirmed);
            fabric.marked[neighbor] = fabric.marked[neighbor].filter(unconfirmed);
            if fabric.marked[neighbor].is_none() {
                confirmed.insert(neighbor as u8);
                fabric.marked[neighbor] = fabric.unconfirmed[neighbor];
            }
        }
        self.update_trees(host, |trees, reporter| trees.on_tick(confirmed, reporter));
        for neighbor in 0..NEIGHBORS_MAX as u8 {
            self.count_refused_roots(neighbor);
        }
    }

    /// Adds the announced roots of a neighbor that trees refused to the counters of its link.
    fn count_refused_roots(&mut self, neighbor: u8) {
        if let Some(fabric) = &mut self.fabric
            && let Some(at) = fabric.links[usize::from(neighbor)]
        {
            self.links[at].counters.drops.quota_roots += fabric.trees.take_refused(neighbor);
        }
    }

    /// Bytes of the first note or frame of a path that waits on a link, if one does.
    #[inline]
    pub(super) fn fabric_bytes(&self, link: &Link) -> Option<usize> {
        // A link without a neighbor index costs one check.
        self.fabric_bytes_at(link.neighbor?)
    }

    #[cold]
    fn fabric_bytes_at(&self, neighbor: u8) -> Option<usize> {
        let fabric = self.fabric.as_ref()?;
        #[cfg(feature = "arbitrary-state")]
        if self.lies.is_some() {
            return None;
        }
        match fabric.channels.note(neighbor) {
            Some(note) => Some(note.bytes()),
            None => fabric
                .trees
                .next_message_bytes(neighbor)
                .or_else(|| self.pass_bytes(neighbor)),
        }
    }

    /// Writes the control messages and path frames that wait on a link, as many as may go into this
    /// frame.
    #[inline]
    pub(super) fn write_fabric(
        &mut self,
        at: usize,
        attachment: Attachment,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        match self.links[at].neighbor {
            Some(neighbor) => self.write_fabric_at(at, neighbor, attachment, writer),
            None => Ok(()),
        }
    }

    #[cold]
    fn write_fabric_at(
        &mut self,
        at: usize,
        neighbor: u8,
        attachment: Attachment,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        #[cfg(feature = "arbitrary-state")]
        if self.lies.is_some() {
            return Ok(());
        }
        let queue = &self.peers[attachment.peer].queue;
        let exchanges_wait = self.next_request(&self.links[at], queue).is_some();
        self.write_channel_messages(at, neighbor, writer)?;
        self.write_control_messages(at, neighbor, exchanges_wait, writer)?;
        self.write_passes(at, neighbor, attachment, exchanges_wait, writer)
    }

    fn write_control_messages(
        &mut self,
        at: usize,
        neighbor: u8,
        exchanges_wait: bool,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        let Self {
            fabric,
            links,
            clock,
            ..
        } = self;
        let (Some(fabric), link) = (fabric.as_deref_mut(), &mut links[at]) else {
            return Ok(());
        };
        let mut shared = if exchanges_wait {
            SHARED_RECORDS
        } else {
            usize::MAX
        };
        let mut note = [0; CONTROL_MESSAGE_BYTES_MAX];
        while let Some(bytes) = fabric.trees.next_message_bytes(neighbor) {
            if !link.may_send(writer, bytes) {
                return Err(Blocked);
            }
            let records = writer.room().min(link.feedback.room()).min(shared);
            if records < records_for(bytes) {
                return Ok(());
            }
            let space = RECORD_PAYLOAD_BYTES + (records - 1) * CONTINUATION_PAYLOAD_BYTES;
            let Some(len) = fabric
                .trees
                .take_control_message(neighbor, &mut note[..space.min(CONTROL_MESSAGE_BYTES_MAX)])
            else {
                continue;
            };
            shared -= records_for(len);
            let part = Part::whole(Kind::ControlMessage, 0, 0, &note[..len]);
            let record = link.write(writer, clock, &part);
            if note::is_advert(&note[..len]) {
                fabric.unconfirmed[usize::from(neighbor)] = Some(record);
            }
        }
        Ok(())
    }
}
