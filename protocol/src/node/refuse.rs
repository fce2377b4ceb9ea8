//! Links that do not come up although a peer answers. A finding is reported once when it begins and
//! once when it is over.

use super::{LinkState, Node};
use crate::{
    Host, LinkRefusal,
    event::LinkEvent,
    link::{Link, handshake::Hello},
};

impl Node {
    /// Records a reason that keeps the link from coming up. Reports it to the host if it was found
    /// often enough and is not reported yet.
    #[cold]
    pub(super) fn found(&mut self, at: usize, why: LinkRefusal, host: &mut impl Host) {
        // A path has no cable to be laid wrong.
        if self.is_path(at) {
            return;
        }
        let link = &mut self.links[at];
        if link.state() == LinkState::Init && link.epochs.wiring.find(why) {
            host.link_event(LinkEvent::Refused {
                port: link.port,
                why,
            });
        }
    }

    /// Notifies the host that a refusal is over, if `ended`.
    #[inline]
    pub(super) fn refusal_over(&self, at: usize, ended: bool, host: &mut impl Host) {
        if ended {
            host.link_event(LinkEvent::RefusalOver {
                port: self.links[at].port,
            });
        }
    }

    /// A handshake with this node's own GUID came back. If its incarnation differs, another node
    /// sent it, unless it was in flight when this incarnation began. In that case it does not
    /// repeat.
    pub(super) fn found_itself(&mut self, at: usize, hello: &Hello, host: &mut impl Host) {
        let why = if hello.incarnation == self.config.incarnation {
            LinkRefusal::OwnPort(hello.port)
        } else {
            LinkRefusal::OwnGuid
        };
        self.found(at, why, host);
    }

    /// Checks what a handshake of any sender shows about the cable on which it arrived.
    pub(super) fn check_cable(&mut self, at: usize, hello: &Hello, host: &mut impl Host) {
        let echoes_this = self.is_echoed_by(hello);
        let link = &mut self.links[at];
        if link
            .epochs
            .wiring
            .receive((hello.guid, hello.port), echoes_this)
        {
            self.found(at, LinkRefusal::Shared, host);
        }
        let Some((received, _)) = hello.received.filter(|_| hello.guid != self.config.guid) else {
            return;
        };
        if received == self.config.incarnation {
            let ended = self.links[at].epochs.wiring.is_not_crossed();
            self.refusal_over(at, ended, host);
        } else if !hello.echo_is_old {
            self.found(at, LinkRefusal::Crossed(hello.guid), host);
        }
    }

    /// Whether to refuse a handshake although it may be sound: another node with the same GUID
    /// displaced its sender, and a link leads to that node. The handshake is not echoed, so the
    /// link does not come up at the other end either.
    pub(super) fn is_refused(&mut self, at: usize, hello: &Hello, host: &mut impl Host) -> bool {
        let Some(peer) = self.peer_of(hello.guid) else {
            return false;
        };
        let known = &self.peers[peer];
        // A link that was silent for long may be up without a peer.
        let lively = self.config.keepalive_misses_max / 2;
        let leads_there =
            |link: &Link| link.leads_to(peer) && link.liveness.keepalive_misses() <= lively;
        if known.incarnation == hello.incarnation
            || !known.lived_before(hello.incarnation)
            || !self.links.iter().any(leads_there)
        {
            return false;
        }
        let epochs = &mut self.links[at].epochs;
        let echoed = hello.received == Some((self.config.incarnation, epochs.number()));
        if echoed && epochs.handshake.proposed(epochs.number()) {
            // The sender is alive, and no node returns to an earlier incarnation.
            self.found(at, LinkRefusal::TwinGuid(hello.guid), host);
        } else {
            // Sent before that incarnation ended, or by a twin: the echo decides which.
            epochs.handshake.answer();
        }
        true
    }
}
