//! What the lane's node acts on: it has verbs executed and completed, and reports its changes.
//!
//! A borrowed view of the objects concerned. The node itself is in [`super::ports::Ports`].

use covalent_protocol::{
    Answer, ExchangeId, Execution, Host, LinkEvent, Mode, NodeEvent, Outcome, Refusal, Reply,
    verb::{doubt::InDoubtId, envelope::CompletionOutcome},
};
use std::time::Instant;

use super::{durable::Durable, journal::LaneJournal, pipes::Pipes, reports::Reports, verbs::Verbs};

/// See the module.
pub(super) struct LaneHost<'a> {
    pub pipes: &'a mut Pipes,
    pub verbs: &'a mut Verbs,
    pub journal: &'a mut LaneJournal,
    pub reports: &'a mut Reports,
}

impl LaneHost<'_> {
    /// Ends the verb in flight at another node under `token`.
    fn end_pending(&mut self, token: u64, outcome: CompletionOutcome<'_>) {
        let Some(pending) = self.verbs.pending.remove(token) else {
            return;
        };
        self.reports.failovers.completed(pending.peer, Instant::now);
        let (queue, user_data) = (pending.queue, pending.user_data);
        self.verbs
            .complete(self.pipes, queue, user_data, pending.peer, outcome);
    }

    /// More records are on disk: completes the verbs of this node's applications that waited for
    /// them.
    pub fn complete_durable(&mut self, executor: u64) {
        while let Some(held) = self
            .journal
            .durable
            .as_mut()
            .and_then(Durable::next_completed)
        {
            let outcome = CompletionOutcome::Committed(held.reply());
            self.verbs
                .complete(self.pipes, held.queue, held.user_data, executor, outcome);
        }
    }

    /// Call it after each executed verb. If the verb was a message for an application of this node,
    /// the next publish notifies that application.
    #[inline]
    pub fn queue_receiver(&mut self) {
        if let Some(slot) = self.verbs.engine.take_receiver() {
            self.pipes.queue_receiver(slot);
        }
    }
}

impl Host for LaneHost<'_> {
    fn admit(&mut self, id: &ExchangeId, mode: Mode, payload: &[u8]) -> Result<(), Refusal> {
        if self.verbs.closed {
            return Err(Refusal::NoResources);
        }
        let engine = &mut self.verbs.engine;
        let Some(durable) = &mut self.journal.durable else {
            return engine.admit(id, mode, payload);
        };
        durable.admit(mode, payload)?;
        engine.admit(id, mode, payload)?;
        durable.admitted(id, mode, payload);
        Ok(())
    }

    fn execute(&mut self, id: &ExchangeId, payload: &[u8], reply: &mut Reply) -> Execution {
        self.verbs.engine.execute(id, payload, reply);
        self.queue_receiver();
        match &mut self.journal.durable {
            None => Execution::Done,
            Some(durable) => durable.executed(id, payload, &self.verbs.engine),
        }
    }

    fn reverse(&mut self, id: &ExchangeId, payload: &[u8]) {
        self.verbs.engine.reverse(id, payload);
        if let Some(durable) = &mut self.journal.durable {
            durable.let_go(payload);
        }
    }

    fn on_clock(&mut self, clock: u64) {
        self.verbs.clock = clock;
    }

    fn complete(&mut self, token: u64, outcome: Outcome<'_>) {
        let outcome = match outcome {
            Outcome::Committed(reply) => CompletionOutcome::Committed(reply),
            Outcome::Refused(refusal) => CompletionOutcome::Refused(refusal),
            Outcome::PeerRestarted => CompletionOutcome::PeerRestarted,
        };
        self.end_pending(token, outcome);
    }

    fn answered(&mut self, token: u64, answer: Answer<'_>) {
        let outcome = match answer {
            Answer::Committed(reply) => CompletionOutcome::Committed(reply),
            Answer::Refused(refusal) => CompletionOutcome::Refused(refusal),
            Answer::Undone => CompletionOutcome::Undone,
            Answer::NeverSeen => CompletionOutcome::NeverSeen,
            Answer::Forgotten => CompletionOutcome::Forgotten,
        };
        self.end_pending(token, outcome);
    }

    fn in_doubt(&mut self, token: u64, id: &ExchangeId) {
        let Some(pending) = self.verbs.pending.get_mut(token) else {
            return;
        };
        // Once per verb: the completion pipe has reserved space for one such message.
        if std::mem::replace(&mut pending.doubted, true) {
            return;
        }
        let (queue, user_data, peer) = (pending.queue, pending.user_data, pending.peer);
        let Some(uid) = self.pipes.user_of(queue) else {
            return;
        };
        let in_doubt = InDoubtId {
            id: *id,
            note: 0,
            seal: self.verbs.seal(id, uid),
        };
        let outcome = CompletionOutcome::InDoubt(in_doubt);
        self.verbs
            .report(self.pipes, queue, user_data, peer, outcome);
    }

    fn path(&mut self, guid: u64, up: bool) {
        self.verbs.complete_watches(self.pipes, guid, up);
    }

    fn tree_event(&mut self, event: NodeEvent) {
        self.reports.tree_event(event);
    }

    fn link_event(&mut self, event: LinkEvent) {
        self.reports.link_event(event, &self.verbs.pending);
    }
}
