//! Which paths are requested, and over which neighbor.

use super::{super::LinkState, End, Node};
use crate::{
    Host, Name, SubmitError,
    channel::{
        Channels, Spot,
        note::{CloseReason, Open},
    },
    counters::DropCounters,
    event::DownReason,
    tree::Standing,
};

/// Most cables of a path.
const HOPS_MAX: u8 = 64;
/// Consecutive failed paths to a node after which waiting exchanges are reported as in doubt.
pub(super) const FAILED_PATHS_MAX: u8 = 3;
/// Ticks without an exchange after which an end that another path needs is freed.
pub(super) const SPARE_TICKS: u32 = 2;

/// The next hop of a path.
enum Onward {
    /// Over the neighbor with this index.
    Neighbor(u8),
    /// That is being found out.
    Unsure,
    /// Nowhere.
    Nowhere,
}

impl Node {
    /// Adds a peer that was never met, to be reached over a path: a node that trees know.
    ///
    /// # Errors
    /// [`SubmitError`]: no tree knows it, or the peer table is full.
    #[cold]
    pub(in crate::node) fn find_far_peer(&mut self, guid: u64) -> Result<usize, SubmitError> {
        let fabric = self.fabric.as_ref().ok_or(SubmitError::NoSuchPeer)?;
        if guid == self.config.guid || fabric.trees.standing(guid).is_none() {
            return Err(SubmitError::NoSuchPeer);
        }
        let named = fabric.trees.tree(guid).and_then(|tree| tree.name);
        let name = named.or_else(|| Name::new("unknown").ok());
        let name = name.ok_or(SubmitError::NoSuchPeer)?;
        self.await_peer(guid, name).ok_or(SubmitError::Full)
    }

    /// Requests a path to a peer without a link, if an exchange waits for one, no path to it is in
    /// progress, and an end is free.
    #[cold]
    pub(in crate::node) fn want_path(&mut self, peer: usize) {
        if self.lacks_path(peer)
            && let Some(end) = self.spare_end(self.peers[peer].guid)
        {
            self.request_path(peer, end);
        }
    }

    /// Requests paths for all peers that need one.
    pub(super) fn want_paths(&mut self, host: &mut impl Host) {
        for peer in 0..self.peers.len() {
            if self.lacks_path(peer)
                && let Some(end) = self.free_end(self.peers[peer].guid, host)
            {
                self.request_path(peer, end);
            }
        }
    }

    /// Whether a path to a peer should be requested now.
    pub(super) fn lacks_path(&self, peer: usize) -> bool {
        let entry = &self.peers[peer];
        entry.links_up == 0
            && entry.waits()
            && !entry.path_held
            && self.path_to(entry.guid).is_none()
    }

    fn request_path(&mut self, peer: usize, end: u16) {
        let target = self.peers[peer].guid;
        let Onward::Neighbor(neighbor) = self.onward(target) else {
            return;
        };
        let Some(fabric) = &mut self.fabric else {
            return;
        };
        let origin = self.config.guid;
        if fabric
            .channels
            .open(end, neighbor, target, origin, HOPS_MAX)
        {
            fabric.ends[usize::from(end)] = End {
                far: target,
                ..End::default()
            };
        }
    }

    /// Whether a path to a peer may still come up from what is already in progress.
    pub(in crate::node) fn hopes_for_path(&self, peer: usize) -> bool {
        let peer = &self.peers[peer];
        if self.path_links == 0 {
            return false;
        }
        self.path_to(peer.guid).is_some()
            || (peer.failed_paths < FAILED_PATHS_MAX
                && !matches!(self.onward(peer.guid), Onward::Nowhere))
    }

    /// A path to a node failed, or its link made no progress.
    pub(super) fn record_failed_path(&mut self, guid: u64, times: u8) {
        if let Some(peer) = self.peer_of(guid) {
            let peer = &mut self.peers[peer];
            peer.path_held = true;
            peer.failed_paths = peer.failed_paths.saturating_add(times);
        }
    }

    /// Whether the way to a node is being looked for.
    pub(in crate::node) fn is_searching(&self, guid: u64) -> bool {
        let fabric = self.fabric.as_ref();
        fabric.and_then(|fabric| fabric.trees.standing(guid)) == Some(Standing::Searches)
    }

    /// The next hop of a path to an address: a direct neighbor, which need not root a tree, or the
    /// next hop of the tree.
    fn onward(&self, target: u64) -> Onward {
        let Some(fabric) = &self.fabric else {
            return Onward::Nowhere;
        };
        let direct = self.links[self.path_links..].iter().find_map(|link| {
            let is_target = |peer: usize| self.peers[peer].guid == target;
            link.attachment()
                .filter(|attachment| is_target(attachment.peer))
                .and(link.neighbor)
        });
        match direct.or_else(|| fabric.trees.route(target).map(|route| route.neighbor)) {
            Some(neighbor) => Onward::Neighbor(neighbor),
            None if self.is_searching(target) => Onward::Unsure,
            None => Onward::Nowhere,
        }
    }

    /// A free end for a path to `guid`. Prefers the end that last led there, so the other side
    /// remembers few ends of this node. Otherwise returns the end that had its last path longest
    /// ago, so that memory of an end lasts long.
    fn spare_end(&self, guid: u64) -> Option<u16> {
        let fabric = self.fabric.as_ref()?;
        (0..fabric.ends.len() as u16)
            .filter(|&end| fabric.ends[usize::from(end)].far == 0)
            .min_by_key(|&end| {
                let end = usize::from(end);
                let led_there = self.links[end].epochs.handshake.guid == guid;
                (!led_there, fabric.ends[end].freed)
            })
    }

    /// The same; if there is none, frees an end whose path is idle.
    fn free_end(&mut self, guid: u64, host: &mut impl Host) -> Option<u16> {
        self.spare_end(guid)
            .or_else(|| self.take_idle_end(host, |_, _| true))
    }

    /// The same, for a path that a neighbor requests. If the neighbor uses its full share, frees
    /// one of the ends that it requested before.
    fn free_end_for(&mut self, neighbor: u8, guid: u64, host: &mut impl Host) -> Option<u16> {
        let has_all = |node: &Self| {
            (node.fabric.as_ref()).is_some_and(|it| it.channels.has_used_end_quota(neighbor))
        };
        if has_all(self) {
            self.take_idle_end(host, |channels, end| {
                channels.was_requested_by(end, neighbor)
            })
        } else {
            self.free_end(guid, host)
        }
    }

    /// Frees the end, among some ends, whose path is idle for longest.
    fn take_idle_end(
        &mut self,
        host: &mut impl Host,
        is_one: impl Fn(&Channels, u16) -> bool,
    ) -> Option<u16> {
        let fabric = self.fabric.as_ref()?;
        let is_idle = |&at: &usize| {
            self.links[at].state() == LinkState::Up
                && fabric.ends[at].ticks >= SPARE_TICKS
                && is_one(&fabric.channels, at as u16)
        };
        let at = (0..self.path_links)
            .filter(is_idle)
            .max_by_key(|&at| fabric.ends[at].ticks)?;
        self.end_path(at, DownReason::PathIdle, CloseReason::Idle, host);
        Some(at as u16)
    }

    /// A node requests a path that ends here. If this node also requests one to it, one is enough:
    /// that of the lower GUID, because it is reserved along its whole route.
    fn yield_to(&mut self, origin: u64, host: &mut impl Host) {
        if origin > self.config.guid {
            return;
        }
        let requested = self.fabric.iter().flat_map(|fabric| &fabric.ends);
        let own = requested
            .zip(&self.links)
            .enumerate()
            .find(|(at, (end, link))| {
                end.far == origin && link.state() != LinkState::Up && self.opened(*at)
            })
            .map(|(at, _)| at);
        if let Some(at) = own {
            self.end_path(at, DownReason::PathIdle, CloseReason::Idle, host);
        }
    }

    /// Whether a request for a path that ends here, without a free end, waits for the outcome of
    /// this node's own request. Otherwise nodes that request paths of each other, in a cycle or
    /// over a node with resources for one, could refuse each other at every tick. Only a node with
    /// the higher GUID waits: one on each cycle does, and none waits for itself.
    fn is_worth_waiting(&self, origin: u64) -> bool {
        let ends = self.fabric.iter().flat_map(|fabric| &fabric.ends);
        origin > self.config.guid
            && ends.zip(&self.links).enumerate().any(|(at, (end, link))| {
                end.far != 0 && link.state() != LinkState::Up && self.opened(at)
            })
    }

    /// Decides on a requested path that ends here, continues from here, or neither.
    pub(super) fn decide(&mut self, spot: Spot, open: Open, host: &mut impl Host) {
        if open.target == self.config.guid {
            self.yield_to(open.origin, host);
            let end = self.free_end_for(spot.neighbor, open.origin, host);
            if end.is_none() && self.is_worth_waiting(open.origin) {
                return;
            }
            let Some(fabric) = &mut self.fabric else {
                return;
            };
            match end {
                Some(end) => {
                    fabric.channels.accept(spot, end);
                    fabric.ends[usize::from(end)] = End {
                        far: open.origin,
                        ..End::default()
                    };
                    self.raise_path(usize::from(end));
                }
                None => {
                    let is_over = fabric.channels.has_used_end_quota(spot.neighbor);
                    fabric.channels.refuse(spot, CloseReason::NoRoom);
                    if is_over {
                        self.count_refused(spot.neighbor, |drops| &mut drops.quota_ends);
                    }
                }
            }
            return;
        }
        let onward = self.onward(open.target);
        let Some(fabric) = &mut self.fabric else {
            return;
        };
        let refusal = match onward {
            Onward::Neighbor(neighbor) => fabric.channels.pass_on(spot, neighbor).err(),
            Onward::Nowhere => Some(CloseReason::NoRoute),
            Onward::Unsure => None,
        };
        if let Some(why) = refusal {
            let is_over = fabric.channels.has_used_transit_quota(spot.neighbor);
            fabric.channels.refuse(spot, why);
            if is_over && why == CloseReason::NoRoom {
                self.count_refused(spot.neighbor, |drops| &mut drops.quota_transits);
            }
        }
    }

    /// Counts a request of a neighbor beyond its share.
    fn count_refused(&mut self, neighbor: u8, cause: impl FnOnce(&mut DropCounters) -> &mut u64) {
        if let Some(at) = self.link_at(neighbor) {
            *cause(&mut self.links[at].counters.drops) += 1;
        }
    }
}
