//! What is done with each pace, and when the way to somebody changed.

use super::{
    super::{LinkState, Node},
    want::{SPARE_PACES, VAIN_MAX},
};
use crate::{Host, channel::note::CloseReason, event::DownReason};

/// Paces without an exchange after which a path is given back: 1 s.
const IDLE_PACES: u32 = 50;

impl Node {
    /// A pace passed.
    pub(in crate::node) fn pace_paths(&mut self, host: &mut impl Host) {
        let silent_paces_max = self.config.silent_paces_max;
        let Some(fabric) = &mut self.fabric else {
            return;
        };
        fabric.paces += 1;
        // Both ends have given a path up by then.
        let unsound = fabric.channels.on_pace(silent_paces_max.saturating_mul(2));
        self.end_paths(unsound.ends, host);
        for berth in unsound.berths.iter() {
            if let Some(at) = self.link_at(berth) {
                self.fail(at, DownReason::Violation, host);
            }
        }
        for peer in &mut self.peers {
            peer.path_held = false;
        }
        for at in 0..self.path_links {
            self.mend_end(at, host);
            self.pace_path(at, host);
        }
        self.stir(host);
        self.decide_again(host);
        self.spare_peer(host);
        self.want_paths(host);
        for peer in 0..self.peers.len() {
            if self.lacks_path(peer) {
                // There is no end to spare, or no channel.
                let peer = &mut self.peers[peer];
                peer.paths_in_vain = peer.paths_in_vain.saturating_add(1);
            }
        }
    }

    /// An end has a channel while it has a path, and its link leads where the path does. Where registers hold anything else the path is over.
    fn mend_end(&mut self, at: usize, host: &mut impl Host) {
        let Some(fabric) = &self.fabric else {
            return;
        };
        let far = fabric.ends[at].far;
        let has_channel = fabric.channels.spot_of(at as u16).is_some();
        let link = &self.links[at];
        let peer = link
            .attachment
            .map(|attachment| self.peers[attachment.peer].guid);
        let is_down = link.state == LinkState::Down;
        if (far != 0) == has_channel && (far != 0 || is_down) && peer.is_none_or(|peer| peer == far)
        {
            return;
        }
        if let Some(fabric) = &mut self.fabric {
            // Laid down whether or not it knows of a path: an end that leads to nobody is laid down already.
            fabric.ends[at].far = peer.unwrap_or(u64::MAX);
        }
        self.end_path(at, DownReason::PathBroken, CloseReason::Broken, host);
    }

    fn pace_path(&mut self, at: usize, host: &mut impl Host) {
        let silent_paces_max = self.config.silent_paces_max;
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
        if link.state != LinkState::Up {
            end.paces += 1;
            if end.paces > silent_paces_max {
                let far = end.far;
                self.note_vain(far, VAIN_MAX);
                self.end_path(at, DownReason::PathBroken, CloseReason::Silent, host);
            }
            return;
        }
        let ended = link.counters.exchanges_ended();
        if idle && end.ended == ended {
            end.paces = end.paces.saturating_add(1);
        } else {
            end.paces = 0;
            end.wanted = false;
        }
        end.ended = ended;
        link.silent_paces += 1;
        link.ball_due |= !link.sent_since_tick;
        link.sent_since_tick = false;
        let Some(end) = self.fabric.as_ref().map(|fabric| fabric.ends[at]) else {
            return;
        };
        let idle_paces_max = if end.wanted || self.has_cable_to_far_end(at) {
            SPARE_PACES
        } else {
            IDLE_PACES
        };
        if self.links[at].silent_paces >= silent_paces_max {
            self.end_path(at, DownReason::PeerSilent, CloseReason::Failed, host);
        } else if end.paces >= idle_paces_max && self.opened(at) {
            self.end_path(at, DownReason::PathIdle, CloseReason::Idle, host);
        }
    }

    /// Whether nothing is under way on a path that is up, and nothing waits for it. What waits for a node to which a cable leads waits for the cable.
    fn is_path_idle(&self, at: usize) -> bool {
        let link = &self.links[at];
        let waits = |peer: usize| self.peers[peer].waits() && !self.has_cable_to_far_end(at);
        !link.is_open()
            && !link.owes()
            && !link
                .attachment
                .is_some_and(|attachment| waits(attachment.peer))
    }

    /// Whether a cable leads to the node at the other end of a path.
    fn has_cable_to_far_end(&self, at: usize) -> bool {
        let peer = |at: usize| self.links[at].attachment.map(|attachment| attachment.peer);
        let far = peer(at);
        far.is_some() && (self.path_links..self.links.len()).any(|cable| peer(cable) == far)
    }

    /// Looks at what waited for a way, or for an end of a path, if there may be one now.
    pub(in crate::node) fn stir(&mut self, host: &mut impl Host) {
        let Some(fabric) = &mut self.fabric else {
            return;
        };
        let turned = core::mem::take(&mut fabric.turned);
        let freed = core::mem::take(&mut fabric.freed);
        if turned {
            for peer in &mut self.peers {
                peer.path_held = false;
                peer.paths_in_vain = 0;
            }
        }
        if turned || freed {
            // Who waits for an end comes before what this node would ask for with it.
            self.decide_again(host);
            self.want_paths(host);
        }
        if turned {
            self.tell_paths(host);
            self.seek_paths(host);
        }
    }

    /// Looks again at the paths that were asked for while the way was not known, or while an end was being asked for with.
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
