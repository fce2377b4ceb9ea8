//! Which paths are asked for, and over which neighbour.

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
/// Paths to a node that may come to nothing, one after the other, before those who wait for it are told that they are in doubt.
pub(super) const VAIN_MAX: u8 = 3;
/// Paces without an exchange after which an end that somebody else wants is given up.
pub(super) const SPARE_PACES: u32 = 2;

/// Where a path goes on.
enum Onward {
    /// Over the neighbour at this berth.
    Berth(u8),
    /// That is being found out.
    Unsure,
    /// Nowhere.
    Nowhere,
}

impl Node {
    /// A peer that was never met, to be reached over a path: a node that trees know.
    ///
    /// # Errors
    /// [`SubmitError`]: no tree knows it, or there is no room for more peers.
    #[cold]
    pub(in crate::node) fn look_afar(&mut self, guid: u64) -> Result<usize, SubmitError> {
        let fabric = self.fabric.as_ref().ok_or(SubmitError::NoSuchPeer)?;
        if guid == self.config.guid || fabric.trees.standing(guid).is_none() {
            return Err(SubmitError::NoSuchPeer);
        }
        let named = fabric.trees.tree(guid).and_then(|tree| tree.name);
        let name = named.or_else(|| Name::new("unknown").ok());
        let name = name.ok_or(SubmitError::NoSuchPeer)?;
        self.await_peer(guid, name).ok_or(SubmitError::Full)
    }

    /// Asks for a path to a peer to whom no link leads, if something waits for one, no path to it is under way, and there is an end to spare.
    #[cold]
    pub(in crate::node) fn want_path(&mut self, peer: usize) {
        if self.lacks_path(peer)
            && let Some(end) = self.spare_end(self.peers[peer].guid)
        {
            self.ask_for_path(peer, end);
        }
    }

    /// Asks for paths for all who wait for one.
    pub(super) fn want_paths(&mut self, host: &mut impl Host) {
        for peer in 0..self.peers.len() {
            if self.lacks_path(peer)
                && let Some(end) = self.free_end(self.peers[peer].guid, host)
            {
                self.ask_for_path(peer, end);
            }
        }
    }

    /// Whether a path to a peer should be asked for now.
    pub(super) fn lacks_path(&self, peer: usize) -> bool {
        let entry = &self.peers[peer];
        entry.links_up == 0
            && entry.waits()
            && !entry.path_held
            && self.path_to(entry.guid).is_none()
    }

    fn ask_for_path(&mut self, peer: usize, end: u16) {
        let target = self.peers[peer].guid;
        let Onward::Berth(berth) = self.onward(target) else {
            return;
        };
        let Some(fabric) = &mut self.fabric else {
            return;
        };
        let origin = self.config.guid;
        if fabric.channels.open(end, berth, target, origin, HOPS_MAX) {
            fabric.ends[usize::from(end)] = End {
                far: target,
                ..End::default()
            };
        }
    }

    /// Whether a path to a peer may come about without anything else happening than what is under way.
    pub(in crate::node) fn hopes_for_path(&self, peer: usize) -> bool {
        let peer = &self.peers[peer];
        if self.path_links == 0 {
            return false;
        }
        self.path_to(peer.guid).is_some()
            || (peer.paths_in_vain < VAIN_MAX && !matches!(self.onward(peer.guid), Onward::Nowhere))
    }

    /// A path to a node came to nothing, or to no more than a link that was good for nothing.
    pub(super) fn note_vain(&mut self, guid: u64, times: u8) {
        if let Some(peer) = self.peer_of(guid) {
            let peer = &mut self.peers[peer];
            peer.path_held = true;
            peer.paths_in_vain = peer.paths_in_vain.saturating_add(times);
        }
    }

    /// Whether the way to a node is being looked for.
    pub(in crate::node) fn seeks(&self, guid: u64) -> bool {
        let fabric = self.fabric.as_ref();
        fabric.and_then(|fabric| fabric.trees.standing(guid)) == Some(Standing::Seeks)
    }

    /// Where a path to an address goes on: to a direct neighbour, which need not root a tree, or where the tree leads.
    fn onward(&self, target: u64) -> Onward {
        let Some(fabric) = &self.fabric else {
            return Onward::Nowhere;
        };
        let direct = self.links[self.path_links..].iter().find_map(|link| {
            let is_target = |peer: usize| self.peers[peer].guid == target;
            link.attachment
                .filter(|attachment| is_target(attachment.peer))
                .and(link.berth)
        });
        match direct.or_else(|| fabric.trees.way(target).map(|way| way.berth)) {
            Some(berth) => Onward::Berth(berth),
            None if self.seeks(target) => Onward::Unsure,
            None => Onward::Nowhere,
        }
    }

    /// An end without a path, for one to `guid`: that which led there last, so that the other end remembers few of this node's; else the one that
    /// had its last path longest ago, so that what is remembered of it stays for long.
    fn spare_end(&self, guid: u64) -> Option<u16> {
        let fabric = self.fabric.as_ref()?;
        (0..fabric.ends.len() as u16)
            .filter(|&end| fabric.ends[usize::from(end)].far == 0)
            .min_by_key(|&end| {
                let end = usize::from(end);
                let led_there = self.links[end].handshake.guid == guid;
                (!led_there, fabric.ends[end].freed)
            })
    }

    /// Likewise; if there is none, one whose path nobody uses gives it up.
    fn free_end(&mut self, guid: u64, host: &mut impl Host) -> Option<u16> {
        self.spare_end(guid)
            .or_else(|| self.take_idle_end(host, |_, _| true))
    }

    /// Likewise, for a path that the neighbour at a berth asks for: if it has its share, one of those
    /// that it asked for before.
    fn free_end_for(&mut self, berth: u8, guid: u64, host: &mut impl Host) -> Option<u16> {
        let has_all = |node: &Self| {
            (node.fabric.as_ref()).is_some_and(|it| it.channels.has_all_its_ends(berth))
        };
        if has_all(self) {
            self.take_idle_end(host, |channels, end| channels.was_asked_for_by(end, berth))
        } else {
            self.free_end(guid, host)
        }
    }

    /// Of some ends the one whose path nobody uses for longest gives it up.
    fn take_idle_end(
        &mut self,
        host: &mut impl Host,
        is_one: impl Fn(&Channels, u16) -> bool,
    ) -> Option<u16> {
        let fabric = self.fabric.as_ref()?;
        let is_idle = |&at: &usize| {
            self.links[at].state == LinkState::Up
                && fabric.ends[at].paces >= SPARE_PACES
                && is_one(&fabric.channels, at as u16)
        };
        let at = (0..self.path_links)
            .filter(is_idle)
            .max_by_key(|&at| fabric.ends[at].paces)?;
        self.end_path(at, DownReason::PathIdle, CloseReason::Idle, host);
        Some(at as u16)
    }

    /// A node asks for a path that ends here. If this node asks for one to it too, one of them is enough: that of the lower GUID, for it is
    /// reserved all along.
    fn yield_to(&mut self, origin: u64, host: &mut impl Host) {
        if origin > self.config.guid {
            return;
        }
        let asked = self.fabric.iter().flat_map(|fabric| &fabric.ends);
        let own = asked
            .zip(&self.links)
            .enumerate()
            .find(|(at, (end, link))| {
                end.far == origin && link.state != LinkState::Up && self.opened(*at)
            })
            .map(|(at, _)| at);
        if let Some(at) = own {
            self.end_path(at, DownReason::PathIdle, CloseReason::Idle, host);
        }
    }

    /// A node asks for a path that ends here, and there is no end for it: whether that waits until it is known what becomes of a path that this node asked
    /// for. Those who ask each other at the same time, around a circle or over a node that has room for one of them, would otherwise refuse
    /// each other with every pace. Only who has a higher GUID waits, so somebody on each circle does, and nobody for himself.
    fn is_worth_waiting(&self, origin: u64) -> bool {
        let ends = self.fabric.iter().flat_map(|fabric| &fabric.ends);
        origin > self.config.guid
            && ends.zip(&self.links).enumerate().any(|(at, (end, link))| {
                end.far != 0 && link.state != LinkState::Up && self.opened(at)
            })
    }

    /// A path is asked for that ends here, or leads on from here, or does not.
    pub(super) fn decide(&mut self, spot: Spot, open: Open, host: &mut impl Host) {
        if open.target == self.config.guid {
            self.yield_to(open.origin, host);
            let end = self.free_end_for(spot.berth, open.origin, host);
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
                    let is_over = fabric.channels.has_all_its_ends(spot.berth);
                    fabric.channels.refuse(spot, CloseReason::NoRoom);
                    if is_over {
                        self.count_refused(spot.berth, |drops| &mut drops.quota_ends);
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
            Onward::Berth(berth) => fabric.channels.pass_on(spot, berth).err(),
            Onward::Nowhere => Some(CloseReason::NoWay),
            Onward::Unsure => None,
        };
        if let Some(why) = refusal {
            let is_over = fabric.channels.has_all_its_transits(spot.berth);
            fabric.channels.refuse(spot, why);
            if is_over && why == CloseReason::NoRoom {
                self.count_refused(spot.berth, |drops| &mut drops.quota_transits);
            }
        }
    }

    /// The neighbour at a berth asks for more than its share.
    fn count_refused(&mut self, berth: u8, cause: impl FnOnce(&mut DropCounters) -> &mut u64) {
        if let Some(at) = self.link_at(berth) {
            *cause(&mut self.links[at].counters.drops) += 1;
        }
    }
}
