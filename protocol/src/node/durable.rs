//! What may not be told before it is on disk.
//!
//! An exchange that the host executed with [`Execution::DurableAt`](crate::Execution::DurableAt) is latched as any other, so what was
//! executed is never executed again. But every way by which a peer could learn of it waits: the answer on its own
//! link, the answer to a question over another one, the answer that a neighbour is to pass on. A link that fails meanwhile forgets what it
//! withheld; its peer asks, and waits again.

use super::Node;
use crate::link::Verdict;

impl Node {
    /// The host's journal is on disk up to `lsn`: what was executed up to there may be told. Numbers lower than one before
    /// change nothing. Ask [`Node::has_work`] afterwards.
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
        let Some(attachment) = link.attachment else {
            return;
        };
        let latches = &self.latches[attachment.set].latches;
        // In the order of execution, so what stands behind one that waits does too.
        while let Some(&number) = link.withheld_answers.front()
            && !latches[usize::from(number)].is_withheld(self.durable)
        {
            link.withheld_answers.pop_front();
            link.answers.push_back(number);
        }
    }

    fn release_verdicts(&mut self, at: usize) {
        let Some(attachment) = self.links[at].attachment else {
            return;
        };
        for _ in 0..self.links[at].withheld_verdicts.len() {
            let Some(verdict) = self.links[at].withheld_verdicts.pop_front() else {
                return;
            };
            let waits = self.is_withheld(attachment.peer, verdict);
            let link = &mut self.links[at];
            if waits {
                link.withheld_verdicts.push_back(verdict);
            } else {
                link.verdicts.push_back(verdict);
            }
        }
    }

    /// Whether the exchange of `peer` that is asked about was executed and may not be told of yet.
    pub(super) fn is_withheld(&self, peer: usize, asked: Verdict) -> bool {
        self.set_of(peer, asked.port)
            .and_then(|set| self.latches[set].latches.get(usize::from(asked.slot)))
            .is_some_and(|latch| latch.is_of(&asked) && latch.is_withheld(self.durable))
    }
}
