//! Verb pipes → the regions of this lane, or another node.
//!
//! Verbs leave their pipe in order. A verb that cannot be taken now waits there, and so do all
//! verbs behind it, even those for other nodes. Nothing is lost or refused. It delays only its own
//! queue. [`super::pending`] limits the verbs that wait for one node, and this module limits
//! the verbs in flight of one application. An application that must not wait for an unreachable
//! node uses another queue for its verbs to the others.

use std::time::{Duration, Instant};

use covalent_protocol::{
    LinkState, Refusal, Reply, SubmitError,
    verb::{
        doubt::{DoubtQuery, Submission},
        envelope::{COMPLETION_BYTES_MAX, CompletionOutcome, IN_DOUBT_BYTES, Submit},
    },
};

use covalent_pipe::nic;

use super::{Lane, TRANSACTIONS_MAX, durable::Local, pending::Pending, transmit::Served};

/// Most bytes that one verb puts into the completion pipe: the longest completion, and one in-doubt
/// message.
const COMPLETION_RESERVE_BYTES: u64 =
    nic::footprint_bytes(COMPLETION_BYTES_MAX) + nic::footprint_bytes(IN_DOUBT_BYTES);

/// How long a newly started lane waits for an unknown node while a link is not up. Longer than a
/// network card takes to regain its carrier after its queues were opened, so that verbs of the
/// previous incarnation are sent. The lane always waits `MEETING_TICKS` ticks: nodes beyond the
/// neighbors become known later.
const MEETING_MAX: Duration = Duration::from_secs(10);
const MEETING_TICKS: u32 = 4;

/// Verbs that one application may have in flight, so that no single one uses up the entries for a
/// node. If it has several queues, each may have as many in flight as are still free.
const OUTSTANDING_PER_SESSION: usize = TRANSACTIONS_MAX / 4;

impl Lane {
    /// Takes at most `quota` verbs out of the submit pipe in `slot`, as long as their completions
    /// are sure to fit. Does not look at the pipe if that is 0.
    pub(super) fn serve_verbs(&mut self, slot: usize, quota: usize) -> (usize, Served) {
        let mut taken = 0;
        loop {
            if taken == quota {
                return (taken, self.finish_submits(slot, taken, Served::More));
            }
            let served = match self.take_verb(slot) {
                Ok(true) => {
                    taken += 1;
                    continue;
                }
                Ok(false) => Served::Empty,
                Err(served) => served,
            };
            return (taken, self.finish_submits(slot, taken, served));
        }
    }

    fn finish_submits(&mut self, slot: usize, taken: usize, served: Served) -> Served {
        if taken > 0
            && let Some(tail) = self
                .core
                .pipes
                .get_mut(slot)
                .and_then(|pipe| pipe.nic.complete_tx())
        {
            self.core.notify(slot, tail);
            self.core.wake_owner(slot);
        }
        served
    }

    /// Takes one verb. Returns `Ok(false)` if there is none. An error is the reason why the next
    /// one must wait.
    fn take_verb(&mut self, slot: usize) -> Result<bool, Served> {
        let mut space = std::mem::take(&mut self.core.submission);
        let taken = self.take_verb_into(slot, &mut space);
        self.core.submission = space;
        taken
    }

    fn take_verb_into(&mut self, slot: usize, message: &mut [u8]) -> Result<bool, Served> {
        let core = &mut self.core;
        let Some((session, queue)) = core
            .pipes
            .get(slot)
            .map(|pipe| (pipe.session, pipe.completions))
        else {
            return Ok(false);
        };
        let Some(queue) = queue.filter(|&queue| core.has_room_for_verb(session, queue)) else {
            return Err(Served::Blocked);
        };
        let Some(pipe) = core.pipes.get_mut(slot) else {
            return Ok(false);
        };
        let (copied, is_whole) = match pipe.nic.peek_tx() {
            Ok(Some(shared)) => {
                // Copied before it is looked at: the application may go on writing.
                let len = shared.len();
                let length = len.min(message.len());
                if let Some(head) = shared.get(0..length) {
                    head.copy_to(&mut message[..length]);
                }
                (&message[..length], length == len)
            }
            Ok(None) => return Ok(false),
            Err(violation) => {
                core.violate_pipe(slot, violation);
                return Ok(false);
            }
        };
        // A verb that ends immediately has its own position in the order of completions.
        core.clock = self.node.tick_here();
        match Submission::decode(copied) {
            _ if !is_whole => core.end_malformed(queue, copied),
            Ok(Submission::Verb(submit))
                if submit.target == 0 || submit.target == self.settings.address.bits() =>
            {
                self.execute_here(queue, submit.user_data, submit.request)?;
            }
            Ok(Submission::Verb(submit)) => self.submit_to_peer(queue, &submit)?,
            Ok(Submission::DoubtQuery(query)) => self.query(session, queue, &query)?,
            Ok(Submission::Watch(watch)) => self.watch(session, queue, &watch),
            Err(_) => core.end_malformed(queue, copied),
        }
        if let Some(pipe) = self.core.pipes.get_mut(slot) {
            pipe.nic.advance_tx();
        }
        Ok(true)
    }

    fn execute_here(&mut self, queue: usize, user_data: u64, request: &[u8]) -> Result<(), Served> {
        let address = self.settings.address.bits();
        let core = &mut self.core;
        if let Some(durable) = &core.durable {
            match durable.may_execute_here(request) {
                Local::Go => {}
                Local::Later => return Err(Served::Blocked),
                Local::Refused => {
                    let outcome = CompletionOutcome::Refused(Refusal::JournalFailed);
                    core.end(queue, user_data, address, outcome);
                    return Ok(());
                }
            }
        }
        let mut reply = std::mem::replace(&mut core.reply, Reply::with_room(0));
        reply.clear_at(self.node.execute_here());
        match core.engine.run(request, &mut reply) {
            Ok(()) => {
                core.queue_receiver();
                core.executed(queue, user_data, address, request, reply.as_bytes());
            }
            Err(refusal) => {
                core.end(
                    queue,
                    user_data,
                    address,
                    CompletionOutcome::Refused(refusal),
                );
            }
        }
        core.reply = reply;
        Ok(())
    }

    fn submit_to_peer(&mut self, queue: usize, submit: &Submit<'_>) -> Result<(), Served> {
        let core = &mut self.core;
        let (user_data, peer) = (submit.user_data, submit.target);
        let pending = Pending {
            queue,
            user_data,
            peer,
            doubted: false,
            requester: None,
        };
        let Some(token) = core.pending.insert(pending) else {
            return Err(Served::Blocked);
        };
        match self.node.submit(peer, submit.mode, submit.request, token) {
            Ok(()) => {
                core.submitted += 1;
                core.failovers.submitted(peer, Instant::now);
                core.began(queue);
                return Ok(());
            }
            Err(SubmitError::Full) => {
                core.pending.remove(token);
                return Err(Served::Blocked);
            }
            Err(error) => {
                core.pending.remove(token);
                if error == SubmitError::NoSuchPeer && self.has_just_started() {
                    return Err(Served::Blocked);
                }
                let core = &mut self.core;
                let outcome = match error {
                    SubmitError::NoSuchPeer => CompletionOutcome::NoSuchPeer,
                    _ => CompletionOutcome::Malformed,
                };
                core.end(queue, user_data, peer, outcome);
            }
        }
        Ok(())
    }
}

impl Lane {
    /// Whether the lane may not have met all neighbors, or the nodes behind them, since its start.
    /// It does not report a missing node yet.
    fn has_just_started(&self) -> bool {
        let age = self.core.now.saturating_duration_since(self.started);
        age < MEETING_MAX
            && (age < self.settings.tick_period * MEETING_TICKS
                || self.node.links().any(|link| link.state != LinkState::Up))
    }

    /// Queries the outcome of a verb that was in doubt, if the querying user was given its
    /// in-doubt id.
    fn query(&mut self, session: usize, queue: usize, query: &DoubtQuery) -> Result<(), Served> {
        let core = &mut self.core;
        let id = query.in_doubt.id;
        let uid = core.sessions.get(session).map(|session| session.uid);
        if uid.is_none_or(|uid| core.seal(&id, uid) != query.in_doubt.seal) {
            core.end(
                queue,
                query.user_data,
                id.peer,
                CompletionOutcome::Forgotten,
            );
            return Ok(());
        }
        let pending = Pending {
            queue,
            user_data: query.user_data,
            peer: id.peer,
            doubted: false,
            requester: uid,
        };
        let Some(token) = core.pending.insert(pending) else {
            return Err(Served::Blocked);
        };
        // Counted first: the answer may come from inside the call.
        core.began(queue);
        core.submitted += 1;
        core.failovers.submitted(id.peer, Instant::now);
        if self.node.query(&id, token, core).is_err() {
            core.submitted -= 1;
            core.pending.remove(token);
            let pending = &core.pending;
            core.failovers.withdrawn(|peer| pending.waits_for(peer));
            core.ended(queue);
            return Err(Served::Blocked);
        }
        Ok(())
    }
}

impl super::core::Core {
    fn has_room_for_verb(&mut self, session: usize, queue: usize) -> bool {
        let (Some(session), Some(completions)) =
            (self.sessions.get(session), self.pipes.get_mut(queue))
        else {
            return false;
        };
        let free = OUTSTANDING_PER_SESSION.saturating_sub(session.outstanding);
        // Else a queue whose node is unreachable would hold up the others of its application.
        let is_fair = session.queues <= 1 || completions.outstanding < free;
        free > 0
            && is_fair
            && completions.nic.free_bytes()
                >= (completions.outstanding as u64 + 1) * COMPLETION_RESERVE_BYTES
    }

    /// A verb of this node was executed here: ends it, now or when it is durable.
    fn executed(
        &mut self,
        queue: usize,
        user_data: u64,
        executor: u64,
        request: &[u8],
        reply: &[u8],
    ) {
        let is_held = self.durable.as_mut().is_some_and(|durable| {
            durable.executed_here(queue, user_data, request, reply, &self.engine)
        });
        if !is_held {
            self.end(
                queue,
                user_data,
                executor,
                CompletionOutcome::Committed(reply),
            );
            return;
        }
        self.submitted += 1;
        self.began(queue);
    }

    /// Ends a verb that was never in flight at another node.
    pub(super) fn end(
        &mut self,
        queue: usize,
        user_data: u64,
        executor: u64,
        outcome: CompletionOutcome<'_>,
    ) {
        self.submitted += 1;
        self.completed += 1;
        self.report(queue, user_data, executor, outcome);
    }

    /// Completes a malformed submission under its user data, if it is long enough to contain any.
    fn end_malformed(&mut self, queue: usize, message: &[u8]) {
        let user_data = message
            .first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes));
        self.end(queue, user_data, 0, CompletionOutcome::Malformed);
    }
}
