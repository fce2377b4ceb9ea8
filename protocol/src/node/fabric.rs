//! What a node knows beyond its neighbours, over its links: the trees, and the channels of paths.
//!
//! Trees know *berths*, and here each link that is up has one. Notes are messages of the link like all others: once and in order, or the link
//! fails, and then both ends forget what the other one said.

use alloc::{vec, vec::Vec};
use core::hash::{Hash, Hasher};

use super::{Node, far::End, transmit::Blocked};
use crate::{
    Host, NodeEvent,
    channel::{Channels, ENDS_MAX, note::ChannelNote},
    event::DownReason,
    link::{Attachment, Link, Part},
    tree::{
        BERTHS_MAX, Berths, TreeCounters, TreeEvent, TreeView, Trees, TreesConfig, Watch,
        note::{self, NOTE_BYTES_MAX},
    },
    wire::{
        CONTINUATION_PAYLOAD_BYTES, RECORD_PAYLOAD_BYTES, frame::FrameWriter, message::records_for,
        slice::Kind,
    },
};

/// Most records of notes, and of frames of paths, in a frame while exchanges wait, so that neither starves the other.
pub(super) const SHARED_RECORDS: usize = 12;

/// What a node is told about the fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FabricConfig {
    /// Whether the node roots a tree, so that all others know a way to it.
    pub roots: bool,
    /// Most roots that it knows, itself included; 0 is taken for 1. Twice as many as nodes leave room
    /// for all of them whatever one neighbour invents. Each takes about 200 bytes, and 32 for each link.
    pub roots_max: u16,
    /// Paths to nodes beyond its neighbours that it may have at once, opened by either side: [`ENDS_MAX`] at most, others are taken for that.
    /// Each takes some [`NodeConfig::message_bytes_max`](super::NodeConfig::message_bytes_max) × 40 bytes, which are touched when used.
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
pub struct WayView {
    /// The caller's index of the port.
    pub port: u16,
    /// Cables between this node and that one.
    pub hops: u16,
}

/// The trees of a node, and which link has which berth.
#[derive(Clone)]
pub(super) struct Fabric {
    pub trees: Trees,
    pub channels: Channels,
    /// The ends of paths, by their links.
    pub ends: Vec<End>,
    /// The way to somebody is another one now, or there is one, or none: what waits for that has not been looked at yet.
    pub turned: bool,
    /// An end has no path any more, likewise.
    pub freed: bool,
    /// Counts the paces.
    pub paces: u64,
    links: [Option<usize>; BERTHS_MAX],
    /// The record that carried the last advert to each berth, while it is not known to have been heard.
    unheard: [Option<u32>; BERTHS_MAX],
    /// The same of the last pace before which everything was heard.
    marked: [Option<u32>; BERTHS_MAX],
}

#[cfg(feature = "arbitrary-state")]
impl Fabric {
    pub(super) fn scramble_paths(
        &mut self,
        draw: &mut super::arbitrary::Draw,
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
                life: fold(config.incarnation),
                name: config.name,
                roots: fabric.roots,
                roots_max: fabric.roots_max,
            }),
            channels: Channels::new(fabric.transits, fabric.paths),
            ends: vec![End::default(); usize::from(fabric.paths.min(ENDS_MAX))],
            turned: false,
            freed: false,
            paces: 0,
            links: [None; BERTHS_MAX],
            unheard: [None; BERTHS_MAX],
            marked: [None; BERTHS_MAX],
        }
    }

    /// Makes room for one more link. Of more than [`BERTHS_MAX`] that are up at once some have no berth.
    pub fn add_link(&mut self) {
        self.trees.add_berth();
        self.channels.add_berth();
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
            paces: _,
            links,
            unheard,
            marked,
        } = self;
        (trees, channels, ends, turned, freed).hash(state);
        (links, unheard, marked).hash(state);
    }
}

/// An incarnation, short.
const fn fold(incarnation: u64) -> u16 {
    let half = incarnation ^ incarnation >> 32;
    (half ^ half >> 16) as u16
}

/// Tells the host what trees tell, with ports instead of berths.
struct Teller<'a, H> {
    turned: &'a mut bool,
    berths: &'a [Option<usize>; BERTHS_MAX],
    links: &'a [Link],
    host: &'a mut H,
}

impl<H: Host> Watch for Teller<'_, H> {
    fn on_tree(&mut self, event: TreeEvent) {
        *self.turned |= matches!(event, TreeEvent::Hangs { .. } | TreeEvent::Lost { .. });
        let event = match event {
            TreeEvent::Hangs { root, berth, hops } => match self.berths[usize::from(berth)] {
                Some(link) => NodeEvent::Hangs {
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
    /// Where the way to a node leads, by its address: its GUID, or up to 255 more, which are its lanes. `None` where there is none now, and to this
    /// node itself.
    #[must_use]
    pub fn way(&self, address: u64) -> Option<WayView> {
        let way = self.fabric.as_ref()?.trees.way(address)?;
        Some(WayView {
            port: self.port_at(way.berth)?,
            hops: way.hops,
        })
    }

    /// The trees that this node knows, its own included, by the GUIDs of their roots. None without [`super::NodeConfig::fabric`].
    pub fn trees(&self) -> impl Iterator<Item = TreeView> {
        self.fabric.iter().flat_map(|fabric| fabric.trees.trees())
    }

    /// How many trees this node knows, its own included.
    #[must_use]
    pub fn tree_count(&self) -> usize {
        let fabric = self.fabric.as_ref();
        fabric.map_or(0, |fabric| fabric.trees.count())
    }

    /// Bytes of what it knows of trees ([`Trees::state_bytes`]).
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

    /// What happened in all trees.
    #[must_use]
    pub fn tree_counters(&self) -> TreeCounters {
        self.fabric
            .as_ref()
            .map_or_else(TreeCounters::default, |fabric| fabric.trees.counters())
    }

    /// The port whose link has a berth of [`TreeView`]. `None` where no link has it.
    #[must_use]
    pub fn port_at(&self, berth: u8) -> Option<u16> {
        self.link_at(berth).map(|link| self.links[link].port)
    }

    /// The link that has a berth.
    pub(super) fn link_at(&self, berth: u8) -> Option<usize> {
        let links = &self.fabric.as_ref()?.links;
        *links.get(usize::from(berth))?
    }

    /// Draws what is known of trees and of paths; see [`Trees::scramble`].
    #[cfg(feature = "arbitrary-state")]
    pub(super) fn scramble_fabric(&mut self, draw: &mut super::arbitrary::Draw) {
        if let Some(fabric) = &mut self.fabric {
            fabric.trees.scramble(draw.long());
            fabric.scramble_paths(draw, &self.peers);
            for unheard in fabric.unheard.iter_mut().chain(&mut fabric.marked) {
                *unheard = draw.flag().then(|| draw.sequence());
            }
        }
    }

    /// Lets trees hear of something.
    fn tell_trees<H: Host>(
        &mut self,
        host: &mut H,
        tell: impl FnOnce(&mut Trees, &mut Teller<'_, H>),
    ) {
        let Self { fabric, links, .. } = self;
        if let Some(Fabric {
            trees,
            turned,
            links: berths,
            ..
        }) = fabric.as_deref_mut()
        {
            tell(
                trees,
                &mut Teller {
                    turned,
                    berths,
                    links,
                    host,
                },
            );
        }
    }

    /// A link came up: its neighbour gets a berth.
    pub(super) fn moor(&mut self, at: usize, host: &mut impl Host) {
        if self.is_path(at) {
            return;
        }
        let Some(fabric) = &mut self.fabric else {
            return;
        };
        let Some(berth) = fabric.trees.free_berth() else {
            host.tree_event(NodeEvent::NoBerth {
                port: self.links[at].port,
            });
            return;
        };
        fabric.links[usize::from(berth)] = Some(at);
        fabric.unheard[usize::from(berth)] = None;
        fabric.marked[usize::from(berth)] = None;
        self.links[at].berth = Some(berth);
        self.tell_trees(host, |trees, teller| trees.on_up(berth, teller));
        self.join_berths(at);
    }

    /// Has the cables of one neighbor share what one may take. It is who it says it is.
    fn join_berths(&mut self, at: usize) {
        let Self { fabric, links, .. } = self;
        let Some(fabric) = fabric.as_deref_mut() else {
            return;
        };
        let peer_at = |link: usize| links[link].attachment.map(|attachment| attachment.peer);
        let neighbor = peer_at(at);
        let is_its = |link: &Option<usize>| link.is_some_and(|link| peer_at(link) == neighbor);
        let berths = (0..).zip(&fabric.links).filter(|(_, link)| is_its(link));
        let berths: Berths = berths.map(|(berth, _)| berth).collect();
        fabric.trees.are_of_one(berths);
        fabric.channels.are_of_one(berths);
    }

    /// A link failed: what its neighbour said is so no longer.
    pub(super) fn unmoor(&mut self, at: usize, host: &mut impl Host) {
        let Some(berth) = self.links[at].berth.take() else {
            return;
        };
        self.tell_trees(host, |trees, teller| trees.on_down(berth, teller));
        if let Some(fabric) = &mut self.fabric {
            fabric.links[usize::from(berth)] = None;
            let ends = fabric.channels.on_down(berth);
            self.end_paths(ends, host);
        }
    }

    /// The berth of a link on which something of trees or paths was said; `None` for one that has no part in them.
    ///
    /// # Errors
    /// The link is a path, over which no node says such a thing.
    pub(super) fn berth_of(&self, at: usize) -> Result<Option<u8>, DownReason> {
        let berth = self.links[at].berth;
        if berth.is_none() && self.is_path(at) {
            return Err(DownReason::Violation);
        }
        Ok(berth)
    }

    /// A neighbour says something of trees. Who has no part in them does not listen.
    ///
    /// # Errors
    /// No node says it.
    #[cold]
    pub(super) fn on_note(
        &mut self,
        at: usize,
        payload: &[u8],
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let Some(berth) = self.berth_of(at)? else {
            return Ok(());
        };
        if ChannelNote::is_one(payload) {
            return self.on_channel_note(berth, payload, host);
        }
        let mut result = Ok(());
        self.tell_trees(host, |trees, teller| {
            result = trees.on_note(berth, payload, teller);
        });
        self.count_refused_roots(berth);
        self.stir(host);
        result.map_err(|_| DownReason::Violation)
    }

    /// A pace passed.
    pub(super) fn pace_trees(&mut self, host: &mut impl Host) {
        let Some(fabric) = &mut self.fabric else {
            return;
        };
        let mut heard = Berths::NONE;
        for berth in 0..BERTHS_MAX {
            let Some(link) = fabric.links[berth].map(|link| &self.links[link]) else {
                continue;
            };
            let unheard = |record: &u32| !link.feedback.is_reflected(*record);
            fabric.unheard[berth] = fabric.unheard[berth].filter(unheard);
            fabric.marked[berth] = fabric.marked[berth].filter(unheard);
            if fabric.marked[berth].is_none() {
                heard.insert(berth as u8);
                fabric.marked[berth] = fabric.unheard[berth];
            }
        }
        self.tell_trees(host, |trees, teller| trees.on_tick(heard, teller));
        for berth in 0..BERTHS_MAX as u8 {
            self.count_refused_roots(berth);
        }
    }

    /// What trees refused of what a neighbour announced is counted at its link.
    fn count_refused_roots(&mut self, berth: u8) {
        if let Some(fabric) = &mut self.fabric
            && let Some(at) = fabric.links[usize::from(berth)]
        {
            self.links[at].counters.drops.quota_roots += fabric.trees.take_refused(berth);
        }
    }

    /// Bytes of the first note or frame of a path that waits on a link, if one does.
    #[inline]
    pub(super) fn fabric_bytes(&self, link: &Link) -> Option<usize> {
        // A link without a berth costs one look.
        self.fabric_bytes_at(link.berth?)
    }

    #[cold]
    fn fabric_bytes_at(&self, berth: u8) -> Option<usize> {
        let fabric = self.fabric.as_ref()?;
        #[cfg(feature = "arbitrary-state")]
        if self.lies.is_some() {
            return None;
        }
        match fabric.channels.note(berth) {
            Some(note) => Some(note.bytes()),
            None => fabric
                .trees
                .note_bytes(berth)
                .or_else(|| self.pass_bytes(berth)),
        }
    }

    /// Writes the notes and the frames of paths that wait on a link, as many as may go into this frame.
    #[inline]
    pub(super) fn write_fabric(
        &mut self,
        at: usize,
        attachment: Attachment,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        match self.links[at].berth {
            Some(berth) => self.write_fabric_at(at, berth, attachment, writer),
            None => Ok(()),
        }
    }

    #[cold]
    fn write_fabric_at(
        &mut self,
        at: usize,
        berth: u8,
        attachment: Attachment,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        #[cfg(feature = "arbitrary-state")]
        if self.lies.is_some() {
            return Ok(());
        }
        let queue = &self.peers[attachment.peer].queue;
        let exchanges_wait = self.next_request(&self.links[at], queue).is_some();
        self.write_channel_notes(at, berth, writer)?;
        self.write_notes(at, berth, exchanges_wait, writer)?;
        self.write_passes(at, berth, attachment, exchanges_wait, writer)
    }

    fn write_notes(
        &mut self,
        at: usize,
        berth: u8,
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
        let mut note = [0; NOTE_BYTES_MAX];
        while let Some(bytes) = fabric.trees.note_bytes(berth) {
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
                .take_note(berth, &mut note[..space.min(NOTE_BYTES_MAX)])
            else {
                continue;
            };
            shared -= records_for(len);
            let part = Part::whole(Kind::Note, 0, 0, &note[..len]);
            let record = link.write(writer, clock, &part);
            if note::is_advert(&note[..len]) {
                fabric.unheard[usize::from(berth)] = Some(record);
            }
        }
        Ok(())
    }
}
