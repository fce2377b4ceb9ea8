//! Graceful shutdown: a node leaves no exchange half done with reachable peers.
//!
//! It grants its neighbors no more slots, so they start nothing new with it. Their requests wait at
//! their side for its next incarnation. Open exchanges run to their end. A caller that limits the
//! time for this ends the rest like a crash.

use super::{LinkState, Node};
use crate::{Host, Outcome, Refusal, latch::Standing, link::Link};

impl Node {
    /// From now on grants no slot to any neighbor or far end of a path. Exchanges that are open, or
    /// were sent before the peers received that, are served.
    pub fn leave(&mut self) {
        for link in &mut self.links {
            link.inbound.set_grant(0);
            if link.state() == LinkState::Up {
                link.liveness.answer();
            }
        }
    }

    /// Whether no exchange with a linked peer is open, and no request of this side could be sent to
    /// one now. Exchanges in doubt with other peers do not count.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        !self.withholds_answers() && self.is_settled_but_for_withheld()
    }

    /// Whether an outcome for a linked peer waits for the host's journal.
    #[must_use]
    pub fn withholds_answers(&self) -> bool {
        self.links
            .iter()
            .any(|link| link.attachment().is_some() && link.inbound.withholds())
    }

    /// Like [`Node::is_settled`], for a host whose journal makes no more progress: outcomes that
    /// wait for it do not count.
    #[must_use]
    pub fn is_settled_but_for_withheld(&self) -> bool {
        self.links.iter().all(|link| self.is_link_settled(link))
            && self.peers.iter().all(|peer| {
                peer.links_up == 0 || (peer.unresolved.is_empty() && peer.undone.is_empty())
            })
    }

    fn is_link_settled(&self, link: &Link) -> bool {
        let Some(attachment) = link.attachment() else {
            return true;
        };
        let latches = &self.latches[attachment.set].latches;
        let is_all_sent = !link.outbound.has_commits()
            && !link.inbound.is_due()
            && !link.departing.is_in_flight();
        let may_start = attachment.granted > 0 && !self.peers[attachment.peer].queue.is_empty();
        !link.outbound.is_open()
            && is_all_sent
            && !may_start
            && !latches
                .iter()
                .any(|latch| latch.standing == Standing::Tentative)
    }

    /// Ends the exchanges of this side that were never sent, or were reversed. They were not
    /// executed and will not be, and their callers receive [`Refusal::NoResources`].
    pub fn give_back(&mut self, host: &mut impl Host) {
        for peer in 0..self.peers.len() {
            while let Some(transaction) = self.peers[peer].queue.pop_front(&self.transactions) {
                self.finish(transaction, Outcome::Refused(Refusal::NoResources), host);
            }
        }
    }
}
