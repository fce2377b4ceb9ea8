//! Links that do not come up although somebody answers: what is found, told once when it begins and once when it is over.

use super::{LinkState, Node};
use crate::{
    Host, LinkRefusal,
    event::LinkEvent,
    link::{Link, handshake::Hello},
};

impl Node {
    /// This keeps the link from coming up. Tells the host, if it was found often enough and was not told.
    #[cold]
    pub(super) fn found(&mut self, at: usize, why: LinkRefusal, host: &mut impl Host) {
        // A path has no cable to be laid wrong.
        if self.is_path(at) {
            return;
        }
        let link = &mut self.links[at];
        if link.state == LinkState::Init && link.wiring.find(why) {
            host.link_event(LinkEvent::Refused {
                port: link.port,
                why,
            });
        }
    }

    /// Tells the host that a refusal is over, if `ended`.
    #[inline]
    pub(super) fn refusal_over(&self, at: usize, ended: bool, host: &mut impl Host) {
        if ended {
            host.link_event(LinkEvent::RefusalOver {
                port: self.links[at].port,
            });
        }
    }

    /// A handshake of this node's own GUID came back. Of another life of it, it was said by somebody else, unless it was under way when
    /// this life began; then it does not come again.
    pub(super) fn found_itself(&mut self, at: usize, hello: &Hello, host: &mut impl Host) {
        let why = if hello.incarnation == self.config.incarnation {
            LinkRefusal::OwnPort(hello.port)
        } else {
            LinkRefusal::OwnGuid
        };
        self.found(at, why, host);
    }

    /// What a handshake shows of the cable on which it came, whoever said it.
    pub(super) fn look_at_cable(&mut self, at: usize, hello: &Hello, host: &mut impl Host) {
        let hears_this = self.is_heard_by(hello);
        let link = &mut self.links[at];
        if link.wiring.hear((hello.guid, hello.port), hears_this) {
            self.found(at, LinkRefusal::Shared, host);
        }
        let Some((heard, _)) = hello.heard.filter(|_| hello.guid != self.config.guid) else {
            return;
        };
        if heard == self.config.incarnation {
            let ended = self.links[at].wiring.is_not_crossed();
            self.refusal_over(at, ended, host);
        } else if !hello.echo_is_old {
            self.found(at, LinkRefusal::Crossed(hello.guid), host);
        }
    }

    /// Whether the handshake of a peer is not to be believed, though it may be sound: it is of a node that was displaced by another one
    /// with its GUID, to which a link leads. It is not echoed, so that the link does not come up at the other end either.
    pub(super) fn is_refused(&mut self, at: usize, hello: &Hello, host: &mut impl Host) -> bool {
        let Some(peer) = self.peer_of(hello.guid) else {
            return false;
        };
        let known = &self.peers[peer];
        // A link that was silent for long may be up with nobody any more.
        let lively = self.config.silent_paces_max / 2;
        let leads_there = |link: &Link| {
            let attachment = link.attachment;
            attachment.is_some_and(|attachment| attachment.peer == peer)
                && link.silent_paces <= lively
        };
        if known.incarnation == hello.incarnation
            || !known.lived_before(hello.incarnation)
            || !self.links.iter().any(leads_there)
        {
            return false;
        }
        let link = &mut self.links[at];
        let echoed = hello.heard == Some((self.config.incarnation, link.epoch));
        if echoed && link.handshake.proposed(link.epoch) {
            // It lives, and no node returns to an earlier life.
            self.found(at, LinkRefusal::TwinGuid(hello.guid), host);
        } else {
            // Said before that life ended, or by a twin: the echo tells.
            link.handshake.answer();
        }
        true
    }
}
