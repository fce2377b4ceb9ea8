//! A node that is about to end leaves nothing half done with those that it can reach.
//!
//! Its neighbours start nothing new with it, for it grants them no slots any more; what they want of it waits with them, for its next life. What is open goes
//! on to its end. A caller who gives a bounded time to that ends the rest as a crash would.

use super::{LinkState, Node};
use crate::{Host, Outcome, Refusal, latch::Standing, link::Link};

impl Node {
    /// From now on no neighbour is granted a slot, nor is the far end of a path: what is open, or was under way before they heard of it, is served.
    pub fn leave(&mut self) {
        for link in &mut self.links {
            link.grant = 0;
            if link.state == LinkState::Up {
                link.liveness.answer();
            }
        }
    }

    /// Whether nothing is open with those that a link leads to, and nothing of this side's waits that could be sent to them now. What is in doubt
    /// with the others does not count.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        !self.withholds_answers() && self.is_settled_but_for_withheld()
    }

    /// Whether something that was executed waits for the host's journal before those that a link leads to are told.
    #[must_use]
    pub fn withholds_answers(&self) -> bool {
        self.links.iter().any(|link| {
            link.attachment.is_some()
                && !(link.withheld_answers.is_empty() && link.withheld_verdicts.is_empty())
        })
    }

    /// As [`Node::is_settled`], for a host whose journal says no more: what waits for that does not count.
    #[must_use]
    pub fn is_settled_but_for_withheld(&self) -> bool {
        self.links.iter().all(|link| self.is_link_settled(link))
            && self.peers.iter().all(|peer| {
                peer.links_up == 0 || (peer.unresolved.is_empty() && peer.undone.is_empty())
            })
    }

    fn is_link_settled(&self, link: &Link) -> bool {
        let Some(attachment) = link.attachment else {
            return true;
        };
        let latches = &self.latches[attachment.set].latches;
        let is_said = link.commits.is_empty()
            && link.reflections.is_empty()
            && link.answers.is_empty()
            && link.verdicts.is_empty()
            && link.asked.is_empty()
            && !link.departing.is_under_way();
        let may_start = attachment.granted > 0 && !self.peers[attachment.peer].queue.is_empty();
        link.outbound.busy() == 0
            && is_said
            && !may_start
            && !latches
                .iter()
                .any(|latch| latch.standing == Standing::Tentative)
    }

    /// Ends what this side wanted and never sent, or had reversed: it was not executed and will not be, and its caller is told
    /// [`Refusal::NoResources`].
    pub fn give_back(&mut self, host: &mut impl Host) {
        for peer in 0..self.peers.len() {
            while let Some(transaction) = self.peers[peer].queue.pop_front(&self.transactions) {
                self.finish(transaction, Outcome::Refused(Refusal::NoResources), host);
            }
        }
    }
}
