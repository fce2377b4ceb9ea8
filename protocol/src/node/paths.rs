//! Events that concern paths: a path is requested, comes, is idle, fails.
//!
//! The end of a path is a link, so the links, the exchanges on it and the channel change together.
//! An end that has no path any more is free for another one.

use super::{
    Node, SubmitError,
    exchanges::{question::ANSWER_BYTES, responder::SETS_PER_PATH},
    fabric::{FAILED_PATHS_MAX, Fabric, Onward, SHARED_RECORDS, pass_bytes},
    links::PATH_WINDOW_RECORDS,
};
use crate::{
    Host, Name, PATH_PORTS,
    channel::{
        Channels, Ends, Lie, Passed, Ready, Spot,
        note::{ChannelMessage, CloseReason, Open, PASS_HEAD_BYTES, PassHead},
    },
    event::DownReason,
    link::{Attachment, Blocked, Link, LinkState, Part, handshake::Hello},
    wire::{
        ETHERNET_HEADER_BYTES, FRAME_BYTES_MAX, FRAME_PAYLOAD_BYTES_MAX, FRAME_RECORDS_MAX,
        RECORD_BYTES,
        frame::{BROADCAST, FrameWriter},
        message::records_for,
        slice::Kind,
    },
};

/// Exchanges that each end may have open on a path.
const PATH_SLOTS: u8 = 8;
/// The address that both ends of a path give to it. No frame on a cable has it.
const PATH_MAC: [u8; 6] = [0x02, 0xc0, 0x7a, 0x1e, 0x00, 0x00];
/// Offset of a forwarded frame in a frame buffer: its header takes the end of the Ethernet header.
const START: usize = ETHERNET_HEADER_BYTES - PASS_HEAD_BYTES;

/// Requests of paths.
impl Node {
    /// Makes the links of the ends of paths.
    pub(super) fn add_paths(&mut self) {
        let ends = self.fabric.as_ref().map_or(0, |fabric| fabric.ends.len());
        let answer_bytes_max = usize::from(self.config.message_bytes_max) + ANSWER_BYTES;
        for end in 0..ends as u16 {
            let mut link = Link::new(
                PATH_PORTS + end,
                PATH_MAC,
                PATH_SLOTS.min(self.config.slots),
                answer_bytes_max,
                self.config.first_sequence,
            );
            link.inbound.set_window(PATH_WINDOW_RECORDS);
            self.make_link(link, 0, SETS_PER_PATH);
        }
        self.links.set_path_ends();
        self.exchanges.responder.set_path_ends(ends);
    }

    /// Adds a peer that was never met, to be reached over a path: a node that trees know.
    ///
    /// # Errors
    /// [`SubmitError`]: no tree knows it, or the peer table is full.
    #[cold]
    pub(super) fn find_far_peer(&mut self, guid: u64) -> Result<usize, SubmitError> {
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
    pub(super) fn want_path(&mut self, peer: usize) {
        if self.lacks_path(peer)
            && let Some(end) = self.spare_end(self.exchanges.peers[peer].guid)
        {
            self.request_path(peer, end);
        }
    }

    /// Requests paths for all peers that need one.
    fn want_paths(&mut self, host: &mut impl Host) {
        for peer in 0..self.exchanges.peers.len() {
            if self.lacks_path(peer)
                && let Some(end) = self.free_end(self.exchanges.peers[peer].guid, host)
            {
                self.request_path(peer, end);
            }
        }
    }

    /// Whether a path to a peer should be requested now.
    fn lacks_path(&self, peer: usize) -> bool {
        let entry = &self.exchanges.peers[peer];
        let path = |fabric: &Fabric| fabric.path_to(entry.guid);
        entry.links_up == 0
            && self.waits(peer)
            && !entry.path_held
            && self.fabric.as_deref().and_then(path).is_none()
    }

    fn request_path(&mut self, peer: usize, end: u16) {
        let target = self.exchanges.peers[peer].guid;
        if let Onward::Neighbor(neighbor) = self.onward(target)
            && let Some(fabric) = &mut self.fabric
        {
            fabric.request(end, neighbor, target, self.config.guid);
        }
    }

    fn onward(&self, target: u64) -> Onward {
        let peers = &self.exchanges.peers;
        let fabric = self.fabric.as_ref();
        fabric.map_or(Onward::Nowhere, |fabric| {
            fabric.onward(target, &self.links, peers)
        })
    }

    /// Whether a path to a peer may still come up from what is already in progress.
    pub(super) fn hopes_for_path(&self, peer: usize) -> bool {
        let peers = &self.exchanges.peers;
        self.fabric
            .as_ref()
            .is_some_and(|fabric| fabric.hopes_for_path(&peers[peer], &self.links, peers))
    }

    /// A path to a node failed, or its link made no progress.
    fn record_failed_path(&mut self, guid: u64, times: u8) {
        if let Some(peer) = self.exchanges.find(guid) {
            let peer = &mut self.exchanges.peers[peer];
            peer.path_held = true;
            peer.failed_paths = peer.failed_paths.saturating_add(times);
        }
    }

    fn spare_end(&self, guid: u64) -> Option<u16> {
        self.fabric.as_ref()?.spare_end(guid, &self.links)
    }

    /// A spare end; if there is none, frees an end whose path is idle.
    fn free_end(&mut self, guid: u64, host: &mut impl Host) -> Option<u16> {
        self.spare_end(guid)
            .or_else(|| self.take_idle_end(host, |_, _| true))
    }

    /// The same, for a path that a neighbor requests. If the neighbor uses its full share, frees
    /// one of the ends that it requested before.
    fn free_end_for(&mut self, neighbor: u8, guid: u64, host: &mut impl Host) -> Option<u16> {
        let fabric = self.fabric.as_ref()?;
        if fabric.channels.has_used_end_quota(neighbor) {
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
        let at = self.fabric.as_ref()?.idle_end(&self.links, is_one)?;
        self.end_path(at, DownReason::PathIdle, CloseReason::Idle, host);
        Some(at as u16)
    }

    /// The end at which this node requests a path that is not up, to a node that `is_one` accepts.
    fn own_request(&self, is_one: impl Fn(u64) -> bool) -> Option<usize> {
        self.fabric.as_ref()?.own_request(&self.links, is_one)
    }

    /// Decides on a requested path that ends here, continues from here, or neither.
    fn decide(&mut self, spot: Spot, open: Open, host: &mut impl Host) {
        if open.target == self.config.guid {
            self.decide_here(spot, open.origin, host);
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
                fabric.count_refused(spot.neighbor, &mut self.links, |drops| {
                    &mut drops.quota_transits
                });
            }
        }
    }

    /// Decides on a requested path that ends here.
    ///
    /// If this node also requests one to its origin, one is enough: that of the lower GUID, because
    /// it is reserved along its whole route. Without a free end, a request waits for the outcome of
    /// this node's own request. Otherwise nodes that request paths of each other, in a cycle or
    /// over a node with resources for one, could refuse each other at every tick. Only a node with
    /// the higher GUID waits: one on each cycle does, and none waits for itself.
    fn decide_here(&mut self, spot: Spot, origin: u64, host: &mut impl Host) {
        if origin <= self.config.guid
            && let Some(own) = self.own_request(|far| far == origin)
        {
            self.end_path(own, DownReason::PathIdle, CloseReason::Idle, host);
        }
        let end = self.free_end_for(spot.neighbor, origin, host);
        if end.is_none() && origin > self.config.guid && self.own_request(|far| far != 0).is_some()
        {
            return;
        }
        let Some(fabric) = &mut self.fabric else {
            return;
        };
        match end {
            Some(end) => {
                fabric.accept(spot, end, origin);
                self.raise_path(usize::from(end));
            }
            None => {
                let is_over = fabric.channels.has_used_end_quota(spot.neighbor);
                fabric.channels.refuse(spot, CloseReason::NoRoom);
                if is_over {
                    fabric.count_refused(spot.neighbor, &mut self.links, |drops| {
                        &mut drops.quota_ends
                    });
                }
            }
        }
    }

    /// Decides again on paths that were requested while the route was unknown, or while an own
    /// request used the end.
    fn decide_again(&mut self, host: &mut impl Host) {
        let mut last = None;
        while let Some((spot, open)) = self
            .fabric
            .as_ref()
            .and_then(|fabric| fabric.channels.undecided_behind(last))
        {
            last = Some(spot);
            self.decide(spot, open, host);
        }
    }

    /// Checks requests that wait for a route or for a path end, if there may be one now.
    pub(super) fn stir(&mut self, host: &mut impl Host) {
        let Some(fabric) = &mut self.fabric else {
            return;
        };
        let turned = core::mem::take(&mut fabric.turned);
        let freed = core::mem::take(&mut fabric.freed);
        if turned {
            for peer in &mut self.exchanges.peers {
                peer.path_held = false;
                peer.failed_paths = 0;
            }
        }
        if turned || freed {
            // Requests that wait for an end come before this node's own.
            self.decide_again(host);
            self.want_paths(host);
        }
        if turned {
            self.report_paths(host);
            self.search_paths(host);
        }
    }
}

/// The end of a path, as a link.
impl Node {
    /// Whether a handshake on a path comes from another node than its request was about.
    pub(super) fn is_of_another_path(&self, at: usize, hello: &Hello) -> bool {
        let leads = |fabric: &Fabric| fabric.leads_to(at, hello.guid);
        self.links.is_path(at)
            && hello.port >= PATH_PORTS
            && !self.fabric.as_deref().is_some_and(leads)
    }

    /// A path is there: its link has a carrier.
    fn raise_path(&mut self, at: usize) {
        self.reach.on_received(at);
        // Later than every epoch of any path end here, so earlier lost latches cannot concern this
        // path.
        let epoch = self.links.latest_path_epoch().wrapping_add(1);
        // A path loses nothing, so a handshake sent once is received. A path buffers the handshakes
        // of one tick.
        self.links[at].epochs.raise_at(epoch);
    }

    /// The channel of a path ended for an external reason.
    fn lose_path(&mut self, at: usize, why: CloseReason, host: &mut impl Host) {
        let is_refusal = matches!(
            why,
            CloseReason::NoRoute
                | CloseReason::NoRoom
                | CloseReason::TooFar
                | CloseReason::Silent
                | CloseReason::Overrun
        );
        if is_refusal && let Some(fabric) = &self.fabric {
            // The refusing node knows no other route now. Where a link failed there may be one.
            let far = fabric.ends[at].far;
            self.record_failed_path(far, FAILED_PATHS_MAX);
        }
        let reason = if why == CloseReason::Idle {
            DownReason::PathIdle
        } else {
            DownReason::PathBroken
        };
        self.end_path(at, reason, why, host);
        self.search_paths(host);
    }

    /// A cable to a peer, or a path, came up or failed. While a cable leads to the peer, no
    /// exchange begins on a path: one route is enough, and the path's resources on its route serve
    /// others. Open exchanges on the path continue.
    pub(super) fn rest_paths(&mut self, peer: usize) {
        let has_cable = self.links.has_cable_to(peer);
        for at in 0..self.links.path_ends() {
            let link = &mut self.links[at];
            if let Some(attachment) = link.attachment().filter(|at| at.peer == peer) {
                let granted = if has_cable { 0 } else { attachment.granted };
                link.outbound.set_grant(granted);
                self.exchanges.initiator.withhold_unresolved(at, peer, link);
            }
        }
    }

    /// A link failed: state received from its neighbor is no longer valid, and the paths over it
    /// end.
    pub(super) fn detach_neighbor(&mut self, at: usize, host: &mut impl Host) {
        if let Some(neighbor) = self.links[at].neighbor.take()
            && let Some(fabric) = &mut self.fabric
        {
            let ends = fabric.detach_neighbor(neighbor, &self.links, host);
            self.end_paths(ends, host);
        }
    }

    /// The link failed over which these paths led.
    fn end_paths(&mut self, ends: Ends, host: &mut impl Host) {
        for at in (0..self.links.path_ends()).filter(|at| ends & 1 << at != 0) {
            self.end_path(at, DownReason::PathBroken, CloseReason::Broken, host);
        }
    }

    /// Closes a path, if there is one, at any stage.
    pub(super) fn end_path(
        &mut self,
        at: usize,
        reason: DownReason,
        why: CloseReason,
        host: &mut impl Host,
    ) {
        if let Some(fabric) = &mut self.fabric {
            fabric.channels.close_end(at as u16, why);
        }
        self.take_down(at, reason, host);
        self.lay_path(at, why, false);
    }

    /// A link failed or did not come up. If it is a path end, the path is closed and the end is
    /// free for another one. `progressed`: the link made progress.
    pub(super) fn lay_path(&mut self, at: usize, why: CloseReason, progressed: bool) {
        if !self.links.is_path(at) {
            return;
        }
        let Some(fabric) = &mut self.fabric else {
            return;
        };
        let Some(far) = fabric.free_end(at) else {
            return;
        };
        fabric.channels.close_end(at as u16, why);
        if !progressed && why != CloseReason::Idle {
            self.record_failed_path(far, 1);
        } else if progressed && let Some(peer) = self.exchanges.find(far) {
            self.exchanges.peers[peer].failed_paths = 0;
        }
        let epochs = &mut self.links[at].epochs;
        if epochs.state() == LinkState::Init {
            epochs.abandon();
        }
    }
}

/// Ticks.
impl Node {
    /// Processes a tick.
    pub(super) fn tick_paths(&mut self, host: &mut impl Host) {
        let keepalive_misses_max = self.config.keepalive_misses_max;
        let Some(fabric) = &mut self.fabric else {
            return;
        };
        fabric.ticks += 1;
        // Both ends have given a path up by then.
        let unsound = fabric
            .channels
            .on_tick(keepalive_misses_max.saturating_mul(2));
        self.end_paths(unsound.ends, host);
        for neighbor in unsound.neighbors.iter() {
            let link_at = |fabric: &Fabric| fabric.link_at(neighbor);
            if let Some(at) = self.fabric.as_deref().and_then(link_at) {
                self.fail(at, DownReason::Violation, host);
            }
        }
        for peer in &mut self.exchanges.peers {
            peer.path_held = false;
        }
        for at in 0..self.links.path_ends() {
            self.mend_end(at, host);
            self.tick_path(at, host);
        }
        self.stir(host);
        self.decide_again(host);
        self.spare_peer(host);
        self.want_paths(host);
        for peer in 0..self.exchanges.peers.len() {
            if self.lacks_path(peer) {
                // There is no end to spare, or no channel.
                let peer = &mut self.exchanges.peers[peer];
                peer.failed_paths = peer.failed_paths.saturating_add(1);
            }
        }
    }

    /// An end has a channel while it has a path, and its link leads to the same node as the path.
    /// Closes the path if the registers hold anything else.
    fn mend_end(&mut self, at: usize, host: &mut impl Host) {
        let Some(fabric) = &mut self.fabric else {
            return;
        };
        let far = fabric.ends[at].far;
        let has_channel = fabric.channels.spot_of(at as u16).is_some();
        let peer = self.links.peer_at(at);
        let peer = peer.map(|peer| self.exchanges.peers[peer].guid);
        let is_down = self.links[at].state() == LinkState::Down;
        if (far != 0) == has_channel && (far != 0 || is_down) && peer.is_none_or(|peer| peer == far)
        {
            return;
        }
        // Close it even if it has no path: an end that leads to no node is taken for closed.
        fabric.ends[at].far = peer.unwrap_or(u64::MAX);
        self.end_path(at, DownReason::PathBroken, CloseReason::Broken, host);
    }

    fn tick_path(&mut self, at: usize, host: &mut impl Host) {
        let keepalive_misses_max = self.config.keepalive_misses_max;
        let has_cable = self.has_cable_to_far_end(at);
        let is_idle = self.is_path_idle(at, has_cable);
        let Some(fabric) = &mut self.fabric else {
            return;
        };
        let is_own = fabric.opened(at);
        let end = &mut fabric.ends[at];
        if end.far == 0 {
            return;
        }
        let link = &mut self.links[at];
        link.liveness.tick();
        if link.state() != LinkState::Up {
            end.ticks += 1;
            if end.ticks > keepalive_misses_max {
                let far = end.far;
                self.record_failed_path(far, FAILED_PATHS_MAX);
                self.end_path(at, DownReason::PathBroken, CloseReason::Silent, host);
            }
            return;
        }
        end.tick_up(is_idle, link.counters.exchanges_ended());
        let is_over = end.is_idle(has_cable) && is_own;
        if link.liveness.tick_up() >= keepalive_misses_max {
            self.end_path(at, DownReason::PeerSilent, CloseReason::Failed, host);
        } else if is_over {
            self.end_path(at, DownReason::PathIdle, CloseReason::Idle, host);
        }
    }

    /// Whether nothing is in flight on a path that is up, and nothing waits for it. Exchanges with
    /// a node to which a cable leads wait for the cable.
    fn is_path_idle(&self, at: usize, has_cable: bool) -> bool {
        let link = &self.links[at];
        let waits = |peer: usize| self.waits(peer) && !has_cable;
        !link.is_open() && !link.owes() && !self.links.peer_at(at).is_some_and(waits)
    }

    /// Whether a cable leads to the node at the other end of a path.
    fn has_cable_to_far_end(&self, at: usize) -> bool {
        let far = self.links.peer_at(at);
        far.is_some_and(|far| self.links.has_cable_to(far))
    }
}

/// Messages about trees and paths.
impl Node {
    /// The neighbor index of a link on which a message about trees or paths arrived; `None` for a
    /// link that takes no part in them.
    ///
    /// # Errors
    /// The link is a path, over which no node sends such a message.
    fn neighbor_of(&self, at: usize) -> Result<Option<u8>, DownReason> {
        let neighbor = self.links[at].neighbor;
        if neighbor.is_none() && self.links.is_path(at) {
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
        let Some(fabric) = &mut self.fabric else {
            return Ok(());
        };
        let result = fabric.on_control_message(neighbor, payload, &mut self.links, host);
        self.stir(host);
        result
    }

    /// Processes a control message about a channel from a neighbor.
    ///
    /// # Errors
    /// No node sends it, or no neighbor in the same state as this side.
    fn on_channel_message(
        &mut self,
        neighbor: u8,
        payload: &[u8],
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let note = ChannelMessage::read(payload).map_err(|_| DownReason::Violation)?;
        let Some(fabric) = &mut self.fabric else {
            return Ok(());
        };
        let channels = &mut fabric.channels;
        let lies = |Lie| DownReason::Violation;
        match note {
            ChannelMessage::Open(open) => {
                let spot = channels.on_open(neighbor, open).map_err(lies)?;
                self.decide(spot, open, host);
            }
            ChannelMessage::Opened(number) => {
                if let Some(end) = channels.on_opened(neighbor, number).map_err(lies)? {
                    self.raise_path(usize::from(end));
                }
            }
            ChannelMessage::Wanted(number) => {
                if let Some(end) = channels.on_wanted(neighbor, number).map_err(lies)? {
                    fabric.ends[usize::from(end)].wanted = true;
                }
            }
            ChannelMessage::Close {
                channel,
                why,
                opener,
            } => {
                let end = channels
                    .on_close(neighbor, channel, !opener, why)
                    .map_err(lies)?;
                if let Some(end) = end {
                    self.lose_path(usize::from(end), why, host);
                }
            }
        }
        self.stir(host);
        Ok(())
    }

    /// Passes a frame of a path to its end here, or forwards it.
    ///
    /// # Errors
    /// No node sends it, or no neighbor in the same state as this side.
    #[cold]
    #[inline(never)]
    pub(super) fn on_pass(
        &mut self,
        at: usize,
        payload: &[u8],
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let Some(neighbor) = self.neighbor_of(at)? else {
            return Ok(());
        };
        let (head, rest) = PassHead::split(payload).ok_or(DownReason::Violation)?;
        let (records, odd) = rest.as_chunks::<RECORD_BYTES>();
        if !odd.is_empty() || !(1..=FRAME_RECORDS_MAX).contains(&records.len()) {
            return Err(DownReason::Violation);
        }
        let Some(fabric) = &mut self.fabric else {
            return Ok(());
        };
        let passed = fabric.channels.on_pass(neighbor, head, records);
        if let Passed::Here(end) = passed.map_err(|Lie| DownReason::Violation)? {
            let mut frame = [0; FRAME_BYTES_MAX];
            let destination = if head.to_all { BROADCAST } else { PATH_MAC };
            frame[..6].copy_from_slice(&destination);
            frame[6..12].copy_from_slice(&PATH_MAC);
            frame[12..14].copy_from_slice(&self.config.ethertype.to_be_bytes());
            let len = ETHERNET_HEADER_BYTES + rest.len();
            frame[ETHERNET_HEADER_BYTES..len].copy_from_slice(rest);
            self.on_frame_at(usize::from(end), &frame[..len], host);
        }
        Ok(())
    }

    /// Bytes of the first control message or path frame that waits on a link, if one does.
    #[inline]
    pub(super) fn fabric_bytes(&self, link: &Link) -> Option<usize> {
        // A link without a neighbor index costs one check.
        self.fabric_bytes_at(link.neighbor?)
    }

    #[cold]
    fn fabric_bytes_at(&self, neighbor: u8) -> Option<usize> {
        #[cfg(feature = "arbitrary-state")]
        if self.lies.replace_messages() {
            return None;
        }
        let speaks = |end| self.has_work_at(usize::from(end));
        self.fabric.as_ref()?.waiting_bytes(neighbor, speaks)
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
        if self.lies.replace_messages() {
            return Ok(());
        }
        let Self {
            links,
            exchanges,
            fabric,
            clock,
            ..
        } = self;
        let Some(fabric) = fabric else {
            return Ok(());
        };
        let link = &mut links[at];
        let request = exchanges.initiator.next_request(attachment.peer, link);
        let exchanges_wait = request.is_some();
        fabric.write_channel_messages(neighbor, link, clock, writer)?;
        fabric.write_control_messages(neighbor, link, exchanges_wait, clock, writer)?;
        self.write_passes(at, neighbor, exchanges_wait, writer)
    }

    /// Writes path frames on a link, as many as may go into this frame.
    fn write_passes(
        &mut self,
        at: usize,
        neighbor: u8,
        exchanges_wait: bool,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        let mut shared = if exchanges_wait {
            SHARED_RECORDS
        } else {
            usize::MAX
        };
        while shared > 0
            && let Some((spot, ready)) = self.ready(neighbor)
        {
            let bytes = pass_bytes((spot, ready));
            if bytes <= FRAME_PAYLOAD_BYTES_MAX && !self.links[at].may_send(writer, bytes) {
                return Err(Blocked);
            }
            let mut buffer = [0; FRAME_BYTES_MAX];
            let Some(len) = self.take_pass(spot, ready, &mut buffer) else {
                return Ok(());
            };
            let payload = &buffer[START..len];
            let link = &mut self.links[at];
            if payload.len() <= FRAME_PAYLOAD_BYTES_MAX && link.may_send(writer, payload.len()) {
                let part = Part::whole(Kind::Pass, 0, 0, payload);
                link.write(writer, &mut self.clock, &part);
            } else {
                link.departing.load(Kind::Pass, 0, 0, &[], payload);
                Fabric::write_departing(link, &mut self.clock, writer)?;
            }
            shared = shared.saturating_sub(records_for(payload.len().min(FRAME_PAYLOAD_BYTES_MAX)));
        }
        Ok(())
    }

    /// The item that may be sent next on the link of a neighbor index.
    fn ready(&self, neighbor: u8) -> Option<(Spot, Ready)> {
        let speaks = |end| self.has_work_at(usize::from(end));
        self.fabric.as_ref()?.channels.ready(neighbor, speaks)
    }

    /// Moves the next path frame into `buffer` from [`START`] on, and returns the offset of its
    /// end.
    fn take_pass(
        &mut self,
        spot: Spot,
        ready: Ready,
        buffer: &mut [u8; FRAME_BYTES_MAX],
    ) -> Option<usize> {
        let (head, len) = match ready {
            Ready::Frame(_) => {
                let (space, _) = buffer[ETHERNET_HEADER_BYTES..].as_chunks_mut::<RECORD_BYTES>();
                let channels = &mut self.fabric.as_mut()?.channels;
                let (head, records) = channels.take_frame(spot, space)?;
                (head, ETHERNET_HEADER_BYTES + records * RECORD_BYTES)
            }
            Ready::End(end) => {
                let len = self.poll_transmit_at(usize::from(end), buffer)?;
                self.fabric.as_mut()?.channels.end_sent(spot);
                (Channels::head(spot, buffer[..6] == BROADCAST), len)
            }
        };
        buffer[START..ETHERNET_HEADER_BYTES].copy_from_slice(&head.to_bytes());
        Some(len)
    }
}
