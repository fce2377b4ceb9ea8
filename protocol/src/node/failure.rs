//! A link fails: the exchanges open on it become unresolved.

use super::Node;
use crate::{
    ExchangeId, Host,
    channel::note::CloseReason,
    event::{DownReason, LinkEvent},
    host::Answer,
    latch::Standing,
    link::{Attachment, outbound::Progress},
    peer::Peer,
    transaction::{Index, Unresolved},
};

impl Node {
    /// Fails a link, if it is up, and notifies the callers of exchanges that cannot be resolved
    /// now.
    #[cold]
    pub(super) fn fail(&mut self, link: usize, reason: DownReason, host: &mut impl Host) {
        if self.links[link].attachment().is_none() {
            return;
        }
        self.take_down(link, reason, host);
        self.search_paths(host);
        self.stir(host);
    }

    /// Fails a link, if it is up: its epoch ends, and the exchanges open on it wait for a
    /// resolution query.
    pub(super) fn take_down(&mut self, at: usize, reason: DownReason, host: &mut impl Host) {
        let Some(attachment) = self.links[at].attachment() else {
            return;
        };
        self.detach(at);
        self.break_relays(at);
        self.reverse_tentative(attachment, host);
        let Self {
            links,
            peers,
            transactions,
            ..
        } = self;
        let link = &mut links[at];
        let peer = &mut peers[attachment.peer];
        let epoch = link.epoch();
        let mut open = 0;
        for slot in link.outbound.iter_mut() {
            let commit = match slot.progress {
                Progress::Free => continue,
                Progress::Executing | Progress::Tentative => false,
                Progress::CommitDue | Progress::Committing => true,
            };
            slot.progress = Progress::Free;
            transactions[slot.transaction].unresolved = Some(Unresolved {
                sequence: slot.sequence,
                epoch,
                commit,
            });
            peer.unresolved.push_back(transactions, slot.transaction);
            open += 1;
        }
        for transaction in link.outbound.queried.drain(..) {
            transactions[transaction].queried = None;
            peer.unresolved.push_back(transactions, transaction);
        }
        self.paths.fail(at, link.liveness.keepalive_misses());
        link.fail();
        link.counters.failures.count(reason);
        peer.links_up -= 1;
        host.link_event(LinkEvent::Down {
            port: link.port,
            reason,
            open,
        });
        self.rest_paths(attachment.peer);
        self.detach_neighbor(at, host);
        let progressed = self.links[at].has_progressed();
        self.lay_path(at, CloseReason::Failed, progressed);
    }

    /// Reverses the exchanges that the peer of a failed link started and did not commit. No
    /// reservation of an incomplete exchange remains, whether or not the peer returns. A peer that
    /// received message 2 learns from the resolution that it must apply the exchange again.
    fn reverse_tentative(&mut self, attachment: Attachment, host: &mut impl Host) {
        let peer = self.peers[attachment.peer].guid;
        let set = &mut self.latches[attachment.set];
        for slot in 0..set.latches.len() as u8 {
            let latch = &mut set.latches[usize::from(slot)];
            if latch.standing == Standing::Tentative {
                latch.standing = Standing::Undone;
                let id = latch.id(peer, attachment.port, slot);
                host.reverse(&id, set.bytes(slot));
            }
        }
    }

    /// Notifies the callers of a peer's unresolved exchanges, if no link leads to it.
    pub(super) fn report_doubt(&mut self, peer: usize, host: &mut impl Host) {
        if self.peers[peer].links_up > 0 {
            return;
        }
        self.drop_unwanted(peer);
        host.on_clock(self.clock.now());
        let Self {
            links,
            peers,
            transactions,
            in_doubt,
            ..
        } = self;
        let guid = peers[peer].guid;
        peers[peer]
            .unresolved
            .for_each(transactions, |transaction| {
                if transaction.in_doubt || transaction.orphan {
                    return;
                }
                transaction.in_doubt = true;
                *in_doubt += 1;
                if transaction.wanted
                    && let Some(unresolved) = transaction.unresolved
                {
                    let id = ExchangeId {
                        peer: guid,
                        port: links[transaction.link].port,
                        epoch: unresolved.epoch,
                        slot: transaction.slot,
                        sequence: unresolved.sequence,
                    };
                    // It may have been applied again since its caller got an identifier.
                    let name = *transaction.name.get_or_insert(id);
                    host.in_doubt(transaction.token, &name);
                }
            });
    }

    /// Drops unresolved exchanges with a peer whose outcomes no caller needs, if no link leads to
    /// the peer: it may never return. Their slots need not be withheld from the peer, because the
    /// next request in a slot shows that the previous exchange has ended. Up to
    /// [`Self::orphans_max`] exchanges with an identifier are kept for later queries.
    pub(super) fn drop_unwanted(&mut self, peer: usize) {
        let orphans_max = self.orphans_max();
        let Self {
            links,
            peers,
            transactions,
            in_doubt,
            orphans,
            names,
            ..
        } = self;
        let peer = &mut peers[peer];
        if peer.links_up > 0 {
            return;
        }
        let Peer {
            unresolved,
            orphans: of_peer,
            ..
        } = peer;
        unresolved.retain(transactions, |transaction| {
            if transaction.wanted || transaction.orphan {
                return true;
            }
            *in_doubt -= u64::from(transaction.in_doubt);
            transaction.in_doubt = false;
            if transaction.name.is_some() && *orphans < orphans_max {
                transaction.orphan = true;
                *orphans += 1;
                *of_peer += 1;
                return true;
            }
            if let Some(name) = &transaction.name {
                names.note(name, Answer::Forgotten);
            }
            links[transaction.link]
                .outbound
                .settle(transaction.slot, false);
            false
        });
        peer.undone.retain(transactions, |transaction| {
            if !transaction.wanted {
                if let Some(name) = &transaction.name {
                    names.note(name, Answer::Undone);
                }
                links[transaction.link]
                    .outbound
                    .settle(transaction.slot, false);
            }
            transaction.wanted
        });
    }

    /// Frees the slot of an exchange that ended on the link that it was open on.
    #[inline]
    pub(super) fn release_slot(&mut self, transaction: Index) {
        let entry = &self.transactions[transaction];
        self.links[entry.link].outbound.release(entry.slot);
    }

    /// Ends the claim of an unresolved exchange on its slot and returns the link that it was open
    /// on. The slot was withheld only from the exchange's own peer, so it is already free where
    /// another peer is cabled.
    pub(super) fn settle_slot(&mut self, transaction: Index) -> usize {
        let entry = &mut self.transactions[transaction];
        entry.unresolved = None;
        let (at, slot, peer) = (entry.link, entry.slot, entry.peer);
        let link = &mut self.links[at];
        let withheld = link.leads_to(peer);
        link.outbound.settle(slot, withheld);
        at
    }
}
