//! The verbs of a lane: submitted by its applications, or executed for other nodes.
//!
//! - A verb that was taken ends with one completion (and at most one in-doubt message before it),
//!   whose space in its completion pipe was reserved. Until then it is in flight: in `pending`, in
//!   `watchers`, or held by the journal. `submitted - completed` counts those.
//! - Verbs leave their pipe in order. A verb that cannot be taken now waits there, and so do all
//!   verbs behind it, even those for other nodes. Nothing is lost or refused. It delays only its
//!   own queue. [`super::pending`] limits the verbs that wait for one node, and this module limits
//!   the verbs in flight of one application. An application that must not wait for an unreachable
//!   node uses another queue for its verbs to the others.

use std::{
    hash::{BuildHasher, RandomState},
    time::{Duration, Instant},
};

use covalent_pipe::nic;
use covalent_protocol::{
    ExchangeId, LinkState, Node, Refusal, Reply, SubmitError,
    verb::{
        REPLY_BYTES_MAX, VERB_BYTES_MAX,
        doubt::{DoubtQuery, Submission},
        envelope::{
            COMPLETION_BYTES_MAX, Completion, CompletionOutcome, IN_DOUBT_BYTES, ReportStamp,
            SUBMIT_BYTES_MAX, Submit,
        },
        watch::Watch,
    },
};

use super::{
    LaneSettings, TRANSACTIONS_MAX,
    durable::Local,
    engine::VerbEngine,
    host::LaneHost,
    paths::{Watcher, Watchers},
    pending::{Pending, PendingTable},
    pipes::Pipes,
    serve::Served,
};

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

/// See the module.
#[derive(Debug)]
pub(super) struct Verbs {
    /// Executes verbs on the regions of this lane.
    pub engine: VerbEngine,
    /// Verbs in flight at other nodes, and queries about earlier ones.
    pub pending: PendingTable,
    /// Applications that wait for a path to appear or disappear.
    pub watchers: Watchers,
    /// The lane shuts down, and its neighbors know. It refuses new requests over a path as not
    /// executed.
    pub closed: bool,
    /// The node's Lamport clock, for the next completion.
    pub clock: u64,
    /// Where a submission is copied to before it is looked at.
    submission: Box<[u8]>,
    /// Where a completion is encoded before it is copied into its pipe.
    completion: Box<[u8]>,
    /// The reply to a verb on a region of this node's own.
    reply: Reply,
    /// Key of the tokens in exchange names. Without it an application cannot query exchanges of
    /// another user, nor of an earlier incarnation.
    doubt_token_hasher: RandomState,
    /// Number of completions written.
    reported: u64,
    /// Counts of verbs that local applications submitted.
    submitted: u64,
    /// Number of verbs whose end was reported, or whose application is gone.
    completed: u64,
}

impl Verbs {
    /// Those of a lane whose node has room for `queries_max` queries.
    pub fn new(queries_max: usize) -> Self {
        Self {
            engine: VerbEngine::new(),
            pending: PendingTable::new(TRANSACTIONS_MAX, queries_max),
            watchers: Watchers::new(),
            closed: false,
            clock: 0,
            submission: Box::new([0; SUBMIT_BYTES_MAX]),
            completion: Box::new([0; COMPLETION_BYTES_MAX]),
            reply: Reply::with_room(VERB_BYTES_MAX),
            doubt_token_hasher: RandomState::new(),
            reported: 0,
            submitted: 0,
            completed: 0,
        }
    }

    /// Verbs that local applications submitted, and those of them that have ended.
    pub const fn counts(&self) -> (u64, u64) {
        (self.submitted, self.completed)
    }

    /// Returns the token in the name of exchange `id` for the user `uid`.
    pub fn seal(&self, id: &ExchangeId, uid: u32) -> u32 {
        self.doubt_token_hasher.hash_one((id, uid)) as u32
    }

    /// A verb whose completion goes to the pipe in slot `queue` is in flight from now on.
    fn began(&mut self, pipes: &mut Pipes, queue: usize) {
        self.submitted += 1;
        pipes.began(queue);
    }

    /// Ends a verb in flight.
    pub fn complete(
        &mut self,
        pipes: &mut Pipes,
        queue: usize,
        user_data: u64,
        executor: u64,
        outcome: CompletionOutcome<'_>,
    ) {
        pipes.ended(queue);
        self.completed += 1;
        self.report(pipes, queue, user_data, executor, outcome);
    }

    /// Ends a verb that was never in flight.
    fn end(
        &mut self,
        pipes: &mut Pipes,
        queue: usize,
        user_data: u64,
        executor: u64,
        outcome: CompletionOutcome<'_>,
    ) {
        self.submitted += 1;
        self.completed += 1;
        self.report(pipes, queue, user_data, executor, outcome);
    }

    /// Completes all watches for a node that has become reachable or unreachable.
    pub fn complete_watches(&mut self, pipes: &mut Pipes, guid: u64, up: bool) {
        while let Some(watcher) = self.watchers.take(guid, up) {
            let outcome = CompletionOutcome::Path { up };
            self.complete(pipes, watcher.queue, watcher.user_data, guid, outcome);
        }
    }

    /// The application of these verbs is gone: they end without a report. All complete in the pipe
    /// in slot `queue`.
    pub fn disowned(&mut self, pipes: &mut Pipes, queue: usize, verbs: usize) {
        self.completed += verbs as u64;
        for _ in 0..verbs {
            pipes.ended(queue);
        }
    }

    /// Writes one message to the completion pipe in slot `queue`. Its space was reserved with the
    /// verb.
    pub fn report(
        &mut self,
        pipes: &mut Pipes,
        queue: usize,
        user_data: u64,
        executor: u64,
        outcome: CompletionOutcome<'_>,
    ) {
        if pipes.slots.get(queue).is_none() {
            return;
        }
        self.reported += 1;
        let outcome = match outcome {
            // No verb returns more than fits. A longer reply of a peer is truncated.
            CompletionOutcome::Committed(reply) => {
                CompletionOutcome::Committed(&reply[..reply.len().min(REPLY_BYTES_MAX)])
            }
            other => other,
        };
        let completion = Completion {
            user_data,
            reported: ReportStamp {
                executor,
                count: self.reported,
                clock: self.clock,
            },
            outcome,
        };
        // It fits: the space was reserved. It is encoded in private memory, because the application
        // may write to the pipe's memory.
        let Ok(encoded) = completion.encode(&mut self.completion) else {
            debug_assert!(false, "the longest completion is longer than allowed");
            return;
        };
        pipes.complete(queue, &self.completion[..encoded]);
    }
}

/// Takes verbs from applications, and what they may act on.
pub(super) struct Submitter<'a> {
    pub settings: &'a LaneSettings,
    /// How long the lane runs.
    pub age: Duration,
    pub node: &'a mut Node,
    pub host: LaneHost<'a>,
}

impl Submitter<'_> {
    /// Takes at most `quota` verbs out of the submit pipe in `slot`, as long as their completions
    /// are sure to fit. Does not look at the pipe if that is 0.
    pub fn serve_verbs(&mut self, slot: usize, quota: usize) -> (usize, Served) {
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
        if taken > 0 {
            self.host.pipes.complete_tx(slot);
        }
        served
    }

    /// Takes one verb. Returns `Ok(false)` if there is none. An error is the reason why the next
    /// one must wait.
    fn take_verb(&mut self, slot: usize) -> Result<bool, Served> {
        let mut space = std::mem::take(&mut self.host.verbs.submission);
        let taken = self.take_verb_into(slot, &mut space);
        self.host.verbs.submission = space;
        taken
    }

    fn take_verb_into(&mut self, slot: usize, message: &mut [u8]) -> Result<bool, Served> {
        let pipes = &mut *self.host.pipes;
        let Some((session, queue)) = pipes
            .slots
            .get(slot)
            .map(|pipe| (pipe.session, pipe.completions))
        else {
            return Ok(false);
        };
        let Some(queue) = queue.filter(|&queue| has_room(pipes, session, queue)) else {
            return Err(Served::Blocked);
        };
        let Some(pipe) = pipes.slots.get_mut(slot) else {
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
                pipes.violate_pipe(slot, violation);
                return Ok(false);
            }
        };
        // A verb that ends immediately has its own position in the order of completions.
        self.host.verbs.clock = self.node.tick_here();
        match Submission::decode(copied) {
            _ if !is_whole => self.end_malformed(queue, copied),
            Ok(Submission::Verb(submit))
                if submit.target == 0 || submit.target == self.settings.address.bits() =>
            {
                self.execute_here(queue, submit.user_data, submit.request)?;
            }
            Ok(Submission::Verb(submit)) => self.submit_to_peer(queue, &submit)?,
            Ok(Submission::DoubtQuery(query)) => self.query(session, queue, &query)?,
            Ok(Submission::Watch(watch)) => self.watch(session, queue, &watch),
            Err(_) => self.end_malformed(queue, copied),
        }
        if let Some(pipe) = self.host.pipes.slots.get_mut(slot) {
            pipe.nic.advance_tx();
        }
        Ok(true)
    }

    /// Ends a verb that was never in flight.
    fn end(&mut self, queue: usize, user_data: u64, peer: u64, outcome: CompletionOutcome<'_>) {
        let LaneHost { pipes, verbs, .. } = &mut self.host;
        verbs.end(pipes, queue, user_data, peer, outcome);
    }

    /// Completes a malformed submission under its user data, if it is long enough to contain any.
    fn end_malformed(&mut self, queue: usize, message: &[u8]) {
        let user_data = message
            .first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes));
        self.end(queue, user_data, 0, CompletionOutcome::Malformed);
    }

    fn execute_here(&mut self, queue: usize, user_data: u64, request: &[u8]) -> Result<(), Served> {
        let address = self.settings.address.bits();
        if let Some(durable) = &self.host.journal.durable {
            match durable.may_execute_here(request) {
                Local::Go => {}
                Local::Later => return Err(Served::Blocked),
                Local::Refused => {
                    let outcome = CompletionOutcome::Refused(Refusal::JournalFailed);
                    self.end(queue, user_data, address, outcome);
                    return Ok(());
                }
            }
        }
        let mut reply = std::mem::replace(&mut self.host.verbs.reply, Reply::with_room(0));
        reply.clear_at(self.node.execute_here());
        match self.host.verbs.engine.run(request, &mut reply) {
            Ok(()) => {
                self.host.queue_receiver();
                self.executed(queue, user_data, address, request, reply.as_bytes());
            }
            Err(refusal) => {
                let outcome = CompletionOutcome::Refused(refusal);
                self.end(queue, user_data, address, outcome);
            }
        }
        self.host.verbs.reply = reply;
        Ok(())
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
        let LaneHost {
            pipes,
            verbs,
            journal,
            ..
        } = &mut self.host;
        let is_held = journal.durable.as_mut().is_some_and(|durable| {
            durable.executed_here(queue, user_data, request, reply, &verbs.engine)
        });
        if is_held {
            verbs.began(pipes, queue);
        } else {
            let outcome = CompletionOutcome::Committed(reply);
            verbs.end(pipes, queue, user_data, executor, outcome);
        }
    }

    fn submit_to_peer(&mut self, queue: usize, submit: &Submit<'_>) -> Result<(), Served> {
        let (user_data, peer) = (submit.user_data, submit.target);
        let pending = Pending {
            queue,
            user_data,
            peer,
            doubted: false,
            requester: None,
        };
        let Some(token) = self.host.verbs.pending.insert(pending) else {
            return Err(Served::Blocked);
        };
        let outcome = match self.node.submit(peer, submit.mode, submit.request, token) {
            Ok(()) => {
                let LaneHost {
                    pipes,
                    verbs,
                    reports,
                    ..
                } = &mut self.host;
                verbs.began(pipes, queue);
                reports.failovers.submitted(peer, Instant::now);
                return Ok(());
            }
            Err(SubmitError::Full) => None,
            Err(SubmitError::NoSuchPeer) if self.has_just_started() => None,
            Err(SubmitError::NoSuchPeer) => Some(CompletionOutcome::NoSuchPeer),
            Err(_) => Some(CompletionOutcome::Malformed),
        };
        self.host.verbs.pending.remove(token);
        let Some(outcome) = outcome else {
            return Err(Served::Blocked);
        };
        self.end(queue, user_data, peer, outcome);
        Ok(())
    }

    /// Whether the lane may not have met all neighbors, or the nodes behind them, since its start.
    /// It does not report a missing node yet.
    fn has_just_started(&self) -> bool {
        self.age < MEETING_MAX
            && (self.age < self.settings.tick_period * MEETING_TICKS
                || self.node.links().any(|link| link.state != LinkState::Up))
    }

    /// Queries the outcome of a verb that was in doubt, if the querying user was given its
    /// in-doubt id.
    fn query(&mut self, session: usize, queue: usize, query: &DoubtQuery) -> Result<(), Served> {
        let id = query.in_doubt.id;
        let uid = self.host.pipes.sessions.get(session).map(|it| it.uid);
        if uid.is_none_or(|uid| self.host.verbs.seal(&id, uid) != query.in_doubt.seal) {
            let outcome = CompletionOutcome::Forgotten;
            self.end(queue, query.user_data, id.peer, outcome);
            return Ok(());
        }
        let pending = Pending {
            queue,
            user_data: query.user_data,
            peer: id.peer,
            doubted: false,
            requester: uid,
        };
        let Some(token) = self.host.verbs.pending.insert(pending) else {
            return Err(Served::Blocked);
        };
        // Counted first: the answer may come from inside the call.
        self.host.verbs.began(self.host.pipes, queue);
        let failovers = &mut self.host.reports.failovers;
        failovers.submitted(id.peer, Instant::now);
        if self.node.query(&id, token, &mut self.host).is_err() {
            let LaneHost {
                pipes,
                verbs,
                reports,
                ..
            } = &mut self.host;
            verbs.submitted -= 1;
            verbs.pending.remove(token);
            let pending = &verbs.pending;
            reports.failovers.withdrawn(|peer| pending.waits_for(peer));
            pipes.ended(queue);
            return Err(Served::Blocked);
        }
        Ok(())
    }

    /// Accepts a watch. Completes it at once if the application's state is outdated, else at the
    /// next change.
    fn watch(&mut self, session: usize, queue: usize, watch: &Watch) {
        let guid = match watch.target {
            0 => self.settings.address.bits(),
            guid => guid,
        };
        let up = self.node.has_path(guid);
        if up != watch.known_up {
            let outcome = CompletionOutcome::Path { up };
            self.end(queue, watch.user_data, guid, outcome);
            return;
        }
        let watcher = Watcher {
            session,
            queue,
            user_data: watch.user_data,
            guid,
            known_up: watch.known_up,
        };
        if !self.host.verbs.watchers.insert(watcher) {
            let outcome = CompletionOutcome::Refused(Refusal::NoResources);
            self.end(queue, watch.user_data, guid, outcome);
            return;
        }
        self.host.verbs.began(self.host.pipes, queue);
    }
}

/// Whether the session in slot `session` may have one more verb in flight that completes in the
/// pipe in slot `queue`.
fn has_room(pipes: &mut Pipes, session: usize, queue: usize) -> bool {
    let (Some(session), Some(completions)) =
        (pipes.sessions.get(session), pipes.slots.get_mut(queue))
    else {
        return false;
    };
    let free = OUTSTANDING_PER_SESSION.saturating_sub(session.outstanding);
    // Else a queue whose node is unreachable would hold up the others of its application.
    let is_fair = session.queues() <= 1 || completions.outstanding < free;
    free > 0
        && is_fair
        && completions.nic.free_bytes()
            >= (completions.outstanding as u64 + 1) * COMPLETION_RESERVE_BYTES
}
