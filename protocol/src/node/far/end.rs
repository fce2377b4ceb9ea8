//! The end of a path, as a link.

use super::{
    super::{LinkState, Node},
    End,
    want::FAILED_PATHS_MAX,
};
use crate::{
    Host,
    channel::{Ends, Spot, note::CloseReason},
    event::DownReason,
};

impl Node {
    /// The end that has a path to a node, or requests one.
    pub(super) fn path_to(&self, guid: u64) -> Option<usize> {
        let fabric = self.fabric.as_ref()?;
        fabric.ends.iter().position(|end| end.far == guid)
    }

    /// Whether this node requested the path of a link.
    pub(super) fn opened(&self, at: usize) -> bool {
        let fabric = self.fabric.as_ref();
        let spot = fabric.and_then(|fabric| fabric.channels.spot_of(at as u16));
        spot.is_some_and(Spot::is_own)
    }

    /// Whether the path of a link leads to this node, according to its request.
    pub(in crate::node) fn leads_to(&self, at: usize, guid: u64) -> bool {
        self.fabric
            .as_ref()
            .is_some_and(|fabric| fabric.ends[at].far == guid)
    }

    /// A path is there: its link has a carrier.
    pub(super) fn raise_path(&mut self, at: usize) {
        self.paths.on_received(at);
        // Later than every epoch of any path end here, so earlier lost latches cannot concern this
        // path.
        let epoch = self.latest_path_epoch().wrapping_add(1);
        // A path loses nothing, so a handshake sent once is received. A path buffers the handshakes
        // of one tick.
        self.links[at].epochs.raise_at(epoch);
    }

    /// The channel of a path ended for an external reason.
    pub(super) fn lose_path(&mut self, at: usize, why: CloseReason, host: &mut impl Host) {
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
    pub(in crate::node) fn rest_paths(&mut self, peer: usize) {
        let mut cables = self.links[self.path_links..].iter();
        let has_cable = cables.any(|link| link.leads_to(peer));
        for at in 0..self.path_links {
            let link = &mut self.links[at];
            if let Some(attachment) = link.attachment().filter(|at| at.peer == peer) {
                let granted = if has_cable { 0 } else { attachment.granted };
                link.outbound.set_grant(granted);
                self.withhold_unresolved(at, peer);
            }
        }
    }

    /// The link failed over which these paths led.
    pub(in crate::node) fn end_paths(&mut self, ends: Ends, host: &mut impl Host) {
        for at in (0..self.path_links).filter(|at| ends & 1 << at != 0) {
            self.end_path(at, DownReason::PathBroken, CloseReason::Broken, host);
        }
    }

    /// Closes a path, if there is one, at any stage.
    pub(in crate::node) fn end_path(
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
    pub(in crate::node) fn lay_path(&mut self, at: usize, why: CloseReason, progressed: bool) {
        if !self.is_path(at) {
            return;
        }
        let Some(fabric) = &mut self.fabric else {
            return;
        };
        let end = &mut fabric.ends[at];
        if end.far == 0 {
            return;
        }
        let far = end.far;
        *end = End {
            freed: fabric.ticks,
            ..End::default()
        };
        fabric.channels.close_end(at as u16, why);
        fabric.freed = true;
        if !progressed && why != CloseReason::Idle {
            self.record_failed_path(far, 1);
        } else if progressed && let Some(peer) = self.peer_of(far) {
            self.peers[peer].failed_paths = 0;
        }
        let epochs = &mut self.links[at].epochs;
        if epochs.state() == LinkState::Init {
            epochs.abandon();
        }
    }
}
