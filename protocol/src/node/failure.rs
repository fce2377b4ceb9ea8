//! A link fails: what was open on it becomes unresolved.

use super::{LinkState, Node};
use crate::{
    Host,
    event::{DownReason, LinkEvent},
    link::outbound::Progress,
    transaction::Index,
};

impl Node {
    /// Declares a link failed, if it is up, and tells the callers of the exchanges that cannot be resolved now.
    #[cold]
    pub(super) fn fail(&mut self, link: usize, reason: DownReason, host: &mut impl Host) {
        let Some(attachment) = self.links[link].attachment else {
            return;
        };
        self.take_down(link, reason, host);
        self.tell_doubt(attachment.peer, host);
    }

    /// Declares a link failed, if it is up: its epoch is over, and what was open on it waits to be asked about.
    pub(super) fn take_down(&mut self, at: usize, reason: DownReason, host: &mut impl Host) {
        let Some(attachment) = self.links[at].attachment else {
            return;
        };
        self.detach(at);
        let Self {
            links,
            peers,
            transactions,
            ..
        } = self;
        let link = &mut links[at];
        let peer = &mut peers[attachment.peer];
        let mut open = 0;
        for slot in link.outbound.iter_mut() {
            let commit = match slot.progress {
                Progress::Free | Progress::Unresolved { .. } => continue,
                Progress::Executing | Progress::Tentative => false,
                Progress::CommitDue | Progress::Committing => true,
            };
            slot.progress = Progress::Unresolved { commit };
            peer.unresolved.push_back(transactions, slot.transaction);
            open += 1;
        }
        for transaction in link.asked.drain(..) {
            transactions[transaction].asked = None;
            peer.unresolved.push_back(transactions, transaction);
        }
        link.due.clear();
        link.verdicts.clear();
        link.ball_due = false;
        link.state = LinkState::Init;
        link.epoch = link.epoch.wrapping_add(1);
        link.handshake.restart();
        link.handshake.failed_since_tick = true;
        link.counters.failures.count(reason);
        peer.links_up -= 1;
        host.link_event(LinkEvent::Down {
            port: link.port,
            reason,
            open,
        });
    }

    /// Tells the callers of a peer's unresolved exchanges, if there is no path to ask.
    fn tell_doubt(&mut self, peer: usize, host: &mut impl Host) {
        let Self {
            peers,
            transactions,
            in_doubt,
            ..
        } = self;
        if peers[peer].links_up > 0 {
            return;
        }
        peers[peer]
            .unresolved
            .for_each(transactions, |transaction| {
                if transaction.in_doubt {
                    return;
                }
                transaction.in_doubt = true;
                *in_doubt += 1;
                if transaction.wanted {
                    host.in_doubt(transaction.token);
                }
            });
    }

    /// Frees the slot of a transaction and returns the link that it was on.
    #[inline]
    pub(super) fn release_slot(&mut self, transaction: Index) -> usize {
        let entry = &self.transactions[transaction];
        let (link, slot) = (entry.link, entry.slot);
        let usable = self.links[link].state == LinkState::Up;
        self.links[link].outbound.release(slot, usable);
        link
    }
}
