//! Work at each tick, and when a route changes.

use super::{
    super::{LinkState, Node},
    want::{FAILED_PATHS_MAX, SPARE_TICKS},
};
use crate::{Host, channel::note::CloseReason, event::DownReason};

/// Ticks without an exchange after which a path is closed: 1 s.
const IDLE_TICKS: u32 = 50;

impl Node {
    /// Processes a tick.
    pub(in crate::node) fn tick_paths(&mut self, host: &mut impl Host) {
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
            if let Some(at) = self.link_at(neighbor) {
                self.fail(at, DownReason::Violation, host);
            }
        }
        for peer in &mut self.peers {
            peer.path_held = false;
        }
        for at in 0..self.path_links {
            self.mend_end(at, host);
            self.tick_path(at, host);
        }
        self.stir(host);
        self.decide_again(host);
        self.spare_peer(host);
        self.want_paths(host);
        for peer in 0..self.peers.len() {
            if self.lacks_path(peer) {
                // There is no end to spare, or no channel.
                let peer = &mut self.peers[peer];
                peer.failed_paths = peer.failed_paths.saturating_add(1);
            }
        }
    }

    /// An end has a channel while it has a path, and its link leads to the same node as the path.
    /// Closes the path if the registers hold anything else.
    fn mend_end(&mut self, at: usize, host: &mut impl Host) {
        let Some(fabric) = &self.fabric else {
            return;
        };
        let far = fabric.ends[at].far;
        let has_channel = fabric.channels.spot_of(at as u16).is_some();
        let link = &self.links[at];
        let peer = link
            .attachment()
            .map(|attachment| self.peers[attachment.peer].guid);
        let is_down = link.state() == LinkState::Down;
        if (far != 0) == has_channel && (far != 0 || is_down) && peer.is_none_or(|peer| peer == far)
        {
            return;
        }
        if let Some(fabric) = &mut self.fabric {
            // Close it even if it has no path: an end that leads to no node is taken for closed.
            fabric.ends[at].far = peer.unwrap_or(u64::MAX);
        }
        self.end_path(at, DownReason::PathBroken, CloseReason::Broken, host);
    }

    fn tick_path(&mut self, at: usize, host: &mut impl Host) {
        let keepalive_misses_max = self.config.keepalive_misses_max;
        let idle = self.is_path_idle(at);
        let Some(fabric) = &mut self.fabric else {
            return;
        };
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
        let ended = link.counters.exchanges_ended();
        if idle && end.ended == ended {
            end.ticks = end.ticks.saturating_add(1);
        } else {
            end.ticks = 0;
            end.wanted = false;
        }
        end.ended = ended;
        let misses = link.liveness.tick_up();
        let Some(end) = self.fabric.as_ref().map(|fabric| fabric.ends[at]) else {
            return;
        };
        let idle_ticks_max = if end.wanted || self.has_cable_to_far_end(at) {
            SPARE_TICKS
        } else {
            IDLE_TICKS
        };
        if misses >= keepalive_misses_max {
            self.end_path(at, DownReason::PeerSilent, CloseReason::Failed, host);
        } else if end.ticks >= idle_ticks_max && self.opened(at) {
            self.end_path(at, DownReason::PathIdle, CloseReason::Idle, host);
        }
    }

    /// Whether nothing is in flight on a path that is up, and nothing waits for it. Exchanges with
    /// a node to which a cable leads wait for the cable.
    fn is_path_idle(&self, at: usize) -> bool {
        let link = &self.links[at];
        let waits = |peer: usize| self.peers[peer].waits() && !self.has_cable_to_far_end(at);
        !link.is_open()
            && !link.owes()
            && !link
                .attachment()
                .is_some_and(|attachment| waits(attachment.peer))
    }

    /// Whether a cable leads to the node at the other end of a path.
    fn has_cable_to_far_end(&self, at: usize) -> bool {
        let peer = |at: usize| {
            self.links[at]
                .attachment()
                .map(|attachment| attachment.peer)
        };
        let far = peer(at);
        far.is_some() && (self.path_links..self.links.len()).any(|cable| peer(cable) == far)
    }

    /// Checks requests that wait for a route or for a path end, if there may be one now.
    pub(in crate::node) fn stir(&mut self, host: &mut impl Host) {
        let Some(fabric) = &mut self.fabric else {
            return;
        };
        let turned = core::mem::take(&mut fabric.turned);
        let freed = core::mem::take(&mut fabric.freed);
        if turned {
            for peer in &mut self.peers {
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
}
