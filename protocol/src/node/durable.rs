//! Outcomes that must not be reported before they are on disk.
//!
//! An exchange that the host executed with [`Execution::DurableAt`](crate::Execution::DurableAt) is
//! latched like any other, so it is never executed again. Every report to a peer waits: the reply
//! on its own link, the reply to a query over another link, and the reply that a neighbor forwards.
//! A link that fails meanwhile drops its withheld replies; its peer then queries, and waits again.

use super::Node;
use crate::latch::Verdict;

impl Node {
    /// The host's journal is on disk up to `lsn`: executions up to there may be reported. A number
    /// lower than an earlier one changes nothing. Call [`Node::has_work`] afterwards.
    pub fn on_durable(&mut self, lsn: u64) {
        if lsn <= self.durable {
            return;
        }
        self.durable = lsn;
        for at in 0..self.links.len() {
            self.release_answers(at);
            self.release_verdicts(at);
            self.release_relayed(at);
        }
    }

    fn release_answers(&mut self, at: usize) {
        let link = &mut self.links[at];
        let Some(attachment) = link.attachment() else {
            return;
        };
        let set = &self.latches[attachment.set];
        link.inbound.release_answers(set, self.durable);
    }

    fn release_verdicts(&mut self, at: usize) {
        let Some(attachment) = self.links[at].attachment() else {
            return;
        };
        for _ in 0..self.links[at].inbound.withheld_verdicts() {
            if let Some(verdict) = self.links[at].inbound.take_withheld_verdict() {
                let withheld = self.is_withheld(attachment.peer, verdict);
                self.links[at].inbound.report(verdict, withheld);
            }
        }
    }

    /// Whether the queried exchange of `peer` was executed and must not be reported yet.
    pub(super) fn is_withheld(&self, peer: usize, queried: Verdict) -> bool {
        self.set_of(peer, queried.port)
            .and_then(|set| self.latches[set].latches.get(usize::from(queried.slot)))
            .is_some_and(|latch| latch.is_of(&queried) && latch.is_withheld(self.durable))
    }
}
