//! The state of a lane apart from its ports and links: applications, pipes, regions, verbs in
//! flight.
//!
//! It is the [`Host`] of the lane's [`covalent_protocol::Node`].

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    hash::{BuildHasher, RandomState},
    time::Instant,
};

use covalent_api::{event::EventKind, guid::Guid, request::PipeKind};
use covalent_pipe::Violation;
use covalent_protocol::{
    Answer, ExchangeId, Execution, Host, LinkEvent, Mode, NodeEvent, Outcome, PATH_PORTS, Refusal,
    Reply,
    verb::{
        REPLY_BYTES_MAX,
        doubt::InDoubtId,
        envelope::{Completion, CompletionOutcome, ReportStamp},
    },
};

use super::{
    command::Report,
    durable::Durable,
    failover::Failovers,
    far_nodes::FarNodes,
    hot_set::HotSet,
    outbox::Outbox,
    paths::Watchers,
    pending::PendingTable,
    refusal,
    sources::Sources,
    stamp,
    table::{LanePipe, LaneSession},
};
use crate::{flow::payload::udp_payload, slots::Slots, verb::VerbEngine};

/// See the module.
#[derive(Debug)]
pub struct Core {
    /// Applications.
    pub sessions: Slots<LaneSession>,
    /// Pipes of all applications.
    pub pipes: Slots<LanePipe>,
    /// Slots of pipes with unpublished packets. The capacity grows when a pipe is opened, never
    /// with a packet.
    pub touched: Vec<usize>,
    /// Slots of sessions whose receive queues got messages since their last notification. The
    /// capacity grows when a session is opened, never with a message.
    pub receivers: Vec<usize>,
    /// An application was woken since the core was offered to it.
    pub woke: bool,
    /// The pipes to take packets and verbs from.
    pub sources: Sources,
    /// The hot set: pipes to check without a doorbell.
    pub hot_set: HotSet,
    /// The durable ones among the regions of this lane, if it keeps a journal.
    pub durable: Option<Durable>,
    /// The lane shuts down, and its neighbors know. It refuses new requests over a path as not
    /// executed.
    pub closed: bool,
    /// Executes verbs on the regions of this lane.
    pub engine: VerbEngine,
    /// Where a submission is copied to before it is looked at.
    pub submission: Box<[u8]>,
    /// Where a completion is encoded before it is copied into its pipe.
    pub completion: Box<[u8]>,
    /// The reply to a verb on a region of this node's own.
    pub reply: Reply,
    /// Verbs in flight at other nodes, and queries about earlier ones.
    pub pending: PendingTable,
    /// Applications that wait for a path to appear or disappear.
    pub watchers: Watchers,
    /// Key of the tokens in exchange names. Without it an application cannot query exchanges of
    /// another user, nor of an earlier incarnation.
    pub doubt_token_hasher: RandomState,
    /// The node's Lamport clock, for the next completion.
    pub clock: u64,
    /// Number of completions written.
    pub reported: u64,
    /// Counts of verbs that local applications submitted.
    pub submitted: u64,
    /// Number of verbs whose end was reported, or whose application is gone.
    pub completed: u64,
    /// Failures and recoveries of links, for the gap in the status.
    pub failovers: Failovers,
    /// Reports to the host thread.
    pub outbox: Outbox,
    /// Names of the lane's ports, by number.
    pub port_names: BTreeMap<u16, String>,
    /// Reported state of nodes beyond the neighbors.
    pub far_nodes: FarNodes,
    /// When this round of the loop began, or one shortly before it.
    pub now: Instant,
    /// Slots of rate-limited pipes that must wait, with the time when they may send again by
    /// [`stamp::now_ns`], the earliest first. They cost a round nothing until then. The capacity
    /// grows when a pipe is opened, never with a packet.
    pub paced: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Core {
    /// Copies `frame`, or its payload, to the pipe in `slot`. Returns whether it fitted. A full
    /// pipe drops the frame and counts it. A pipe of bytes also drops and counts a frame without
    /// payload.
    pub fn deliver_frame(&mut self, slot: usize, frame: &[u8]) -> bool {
        let Some(pipe) = self.pipes.get_mut(slot) else {
            return false;
        };
        if pipe.kind != PipeKind::RxBytes {
            return self.deliver(slot, frame);
        }
        match udp_payload(frame) {
            Some(payload) if !payload.is_empty() => self.deliver(slot, payload),
            _ => {
                pipe.nic.count_no_payload();
                true
            }
        }
    }

    /// Copies `packet` to the pipe in `slot` and returns whether it fitted. A full pipe drops it
    /// and counts it.
    pub fn deliver(&mut self, slot: usize, packet: &[u8]) -> bool {
        let Some(pipe) = self.pipes.get_mut(slot) else {
            return false;
        };
        let fitted = match pipe.stamp_at {
            None => pipe.nic.push(packet),
            Some(at) => {
                let mut stamped = true;
                let pushed = pipe.nic.push_with(packet.len(), |mut target| {
                    target.copy_from(packet);
                    stamped = target.write_at(at, &stamp::now_ns().to_be_bytes());
                });
                if !stamped {
                    pipe.nic.count_unstamped(1);
                }
                pushed
            }
        }
        .is_ok();
        self.pushed(slot, fitted);
        fitted
    }

    /// Something was put into the pipe in `slot`, or did not fit.
    fn pushed(&mut self, slot: usize, fitted: bool) {
        let Some(pipe) = self.pipes.get_mut(slot) else {
            return;
        };
        if fitted {
            if !std::mem::replace(&mut pipe.touched, true) {
                self.touched.push(slot);
            }
        } else if let Some(violation) = pipe.nic.violation() {
            self.violate_pipe(slot, violation);
        }
    }

    /// Makes delivered packets visible, notifies their applications if due, and wakes those that
    /// sleep.
    pub fn publish(&mut self) {
        self.notify_receivers();
        if self.touched.is_empty() {
            return;
        }
        let mut touched = std::mem::take(&mut self.touched);
        for &slot in &touched {
            let Some(pipe) = self.pipes.get_mut(slot) else {
                continue;
            };
            pipe.touched = false;
            if let Some(tail) = pipe.nic.publish() {
                self.notify(slot, tail);
            }
        }
        for slot in touched.drain(..) {
            self.wake_owner(slot);
        }
        self.touched = touched;
    }

    /// Call it after each executed verb. If the verb was a message for an application of this node,
    /// the next publish notifies that application.
    #[inline]
    pub fn queue_receiver(&mut self) {
        let Some(slot) = self.engine.take_receiver() else {
            return;
        };
        if let Some(session) = self.sessions.get_mut(slot)
            && !std::mem::replace(&mut session.has_message, true)
        {
            self.receivers.push(slot);
        }
    }

    /// Notifies the applications that have got messages, and wakes those that sleep.
    fn notify_receivers(&mut self) {
        while let Some(slot) = self.receivers.pop() {
            let Some(session) = self.sessions.get_mut(slot) else {
                continue;
            };
            session.has_message = false;
            match session.rings.notify_elsewhere() {
                Ok(()) => self.wake(slot),
                Err(violation) => self.violate(slot, violation),
            }
        }
    }

    /// Writes a notification for the pipe in `slot`. [`Core::wake_owner`] wakes the application.
    pub fn notify(&mut self, slot: usize, tail: u64) {
        let Some(pipe) = self.pipes.get(slot) else {
            return;
        };
        let Some(session) = self.sessions.get_mut(pipe.session) else {
            return;
        };
        if let Err(violation) = session.rings.notify(pipe.number, tail) {
            let owner = pipe.session;
            self.violate(owner, violation);
        }
    }

    /// Wakes the application that owns the pipe in `slot`, if it was notified and sleeps.
    pub fn wake_owner(&mut self, slot: usize) {
        if let Some(owner) = self.pipes.get(slot).map(|pipe| pipe.session) {
            self.wake(owner);
        }
    }

    /// Wakes the application of the session in slot `session`, if it was notified and sleeps.
    pub fn wake(&mut self, session: usize) {
        let Some(session) = self.sessions.get_mut(session) else {
            return;
        };
        if session.rings.app_sleeping() {
            // It fails only once the application is gone, which the host thread sees by itself.
            let _ = session.to_application.notify();
            self.woke = true;
        }
    }

    /// Puts the pipe in `slot` into the queue of pipes to take from.
    pub fn queue_source(&mut self, slot: usize) {
        if let Some(pipe) = self.pipes.get_mut(slot)
            && pipe.is_source()
            && !pipe.queued
        {
            pipe.queued = true;
            self.sources.push(pipe.session, slot);
        }
    }

    /// Stops serving the session in slot `session` because of a word in its session memory, and
    /// reports why. Other sessions are not affected.
    pub fn violate(&mut self, session: usize, violation: Violation) {
        self.expel(session, violation, || violation.to_string());
    }

    /// As [`Core::violate`], for a word in the memory of the pipe in `slot`.
    pub fn violate_pipe(&mut self, slot: usize, violation: Violation) {
        let Some(pipe) = self.pipes.get(slot) else {
            return;
        };
        let (session, number, kind) = (pipe.session, pipe.number, pipe.kind);
        self.expel(session, violation, || {
            format!("pipe {number} ({kind:?}): {violation}")
        });
    }

    fn expel(&mut self, session: usize, violation: Violation, reason: impl Fn() -> String) {
        let Some(session) = self.sessions.get_mut(session) else {
            return;
        };
        if !std::mem::replace(&mut session.ignored, true) {
            self.outbox.push(Report::Violation {
                session: session.session,
                cause: violation.cause(),
                reason: reason(),
            });
        }
    }

    /// Returns the token in the name of exchange `id` for the user `uid`.
    pub fn seal(&self, id: &ExchangeId, uid: u32) -> u32 {
        self.doubt_token_hasher.hash_one((id, uid)) as u32
    }

    /// Ends the verb in flight at another node under `token`.
    fn end_pending(&mut self, token: u64, outcome: CompletionOutcome<'_>) {
        let Some(pending) = self.pending.remove(token) else {
            return;
        };
        self.ended(pending.queue);
        self.completed += 1;
        self.failovers.completed(pending.peer, Instant::now);
        self.report(pending.queue, pending.user_data, pending.peer, outcome);
    }

    /// More records are on disk: completes the verbs of this node's applications that waited for
    /// them.
    pub fn complete_durable(&mut self, executor: u64) {
        while let Some(held) = self.durable.as_mut().and_then(Durable::next_completed) {
            self.ended(held.queue);
            self.completed += 1;
            let outcome = CompletionOutcome::Committed(held.reply());
            self.report(held.queue, held.user_data, executor, outcome);
        }
    }

    /// A verb whose completion goes to the pipe in slot `queue` is in flight from now on.
    pub fn began(&mut self, queue: usize) {
        let Some(pipe) = self.pipes.get_mut(queue) else {
            return;
        };
        pipe.outstanding += 1;
        if let Some(session) = self.sessions.get_mut(pipe.session) {
            session.outstanding += 1;
        }
    }

    /// It is not in flight any more.
    pub fn ended(&mut self, queue: usize) {
        let Some(pipe) = self.pipes.get_mut(queue) else {
            return;
        };
        pipe.outstanding -= 1;
        if let Some(session) = self.sessions.get_mut(pipe.session) {
            session.outstanding -= 1;
        }
    }

    /// Makes one verb queue of the pipe for verbs in slot `submit` and the one for completions.
    pub fn pair(&mut self, submit: usize, completions: Option<usize>) {
        if let Some(pipe) = self.pipes.get_mut(submit) {
            pipe.completions = completions;
        }
    }

    /// The pipe for completions in slot `queue` of the session in slot `session` is gone.
    pub fn unpair(&mut self, session: usize, queue: usize) {
        let Some(owner) = self.sessions.get_mut(session) else {
            return;
        };
        owner.queues -= 1;
        for &slot in owner.pipes.iter().flatten() {
            if let Some(pipe) = self.pipes.get_mut(slot) {
                pipe.completions
                    .take_if(|completions| *completions == queue);
            }
        }
    }

    /// Writes one message to the completion pipe in slot `queue`. Its space was reserved with the
    /// verb.
    pub fn report(
        &mut self,
        queue: usize,
        user_data: u64,
        executor: u64,
        outcome: CompletionOutcome<'_>,
    ) {
        let Some(pipe) = self.pipes.get_mut(queue) else {
            return;
        };
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
        let is_pushed = pipe.nic.push(&self.completion[..encoded]).is_ok();
        self.pushed(queue, is_pushed);
    }
}

impl Host for Core {
    fn admit(&mut self, id: &ExchangeId, mode: Mode, payload: &[u8]) -> Result<(), Refusal> {
        if self.closed {
            return Err(Refusal::NoResources);
        }
        let Some(durable) = &mut self.durable else {
            return self.engine.admit(id, mode, payload);
        };
        durable.admit(mode, payload)?;
        self.engine.admit(id, mode, payload)?;
        durable.admitted(id, mode, payload);
        Ok(())
    }

    fn execute(&mut self, id: &ExchangeId, payload: &[u8], reply: &mut Reply) -> Execution {
        self.engine.execute(id, payload, reply);
        self.queue_receiver();
        match &mut self.durable {
            None => Execution::Done,
            Some(durable) => durable.executed(id, payload, &self.engine),
        }
    }

    fn reverse(&mut self, id: &ExchangeId, payload: &[u8]) {
        self.engine.reverse(id, payload);
        if let Some(durable) = &mut self.durable {
            durable.let_go(payload);
        }
    }

    fn on_clock(&mut self, clock: u64) {
        self.clock = clock;
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
        let Some(pending) = self.pending.get_mut(token) else {
            return;
        };
        // Once per verb: the completion pipe has reserved space for one such message.
        if std::mem::replace(&mut pending.doubted, true) {
            return;
        }
        let (queue, user_data, peer) = (pending.queue, pending.user_data, pending.peer);
        let session = self.pipes.get(queue).map(|pipe| pipe.session);
        let session = session.and_then(|session| self.sessions.get(session));
        let Some(uid) = session.map(|session| session.uid) else {
            return;
        };
        let in_doubt = InDoubtId {
            id: *id,
            note: 0,
            seal: self.seal(id, uid),
        };
        let outcome = CompletionOutcome::InDoubt(in_doubt);
        self.report(queue, user_data, peer, outcome);
    }

    fn path(&mut self, guid: u64, up: bool) {
        self.complete_watches(guid, up);
    }

    fn tree_event(&mut self, event: NodeEvent) {
        if let Some(problem) = self.far_nodes.on_tree_event(event, &self.port_names) {
            self.outbox.push(Report::Event(problem));
        }
    }

    fn link_event(&mut self, event: LinkEvent) {
        // A path is not a port of the node: the status reports it.
        if event.port() >= PATH_PORTS {
            return;
        }
        let name = |port: u16| self.port_names.get(&port).cloned().unwrap_or_default();
        let kind = match event {
            LinkEvent::Up {
                port,
                peer,
                name: peer_name,
                peer_port,
                epoch,
            } => {
                self.failovers.up(port, peer);
                // Zero is no GUID, and the protocol brings up no link to it.
                let Some(peer) = Guid::new(peer) else { return };
                EventKind::LinkUp {
                    port: name(port),
                    peer,
                    peer_name: peer_name.to_string(),
                    peer_port,
                    epoch,
                }
            }
            LinkEvent::Down { port, reason, open } => {
                let pending = &self.pending;
                let waits = |peer| pending.waits_for(peer);
                self.failovers.down(port, waits, Instant::now());
                EventKind::LinkDown {
                    port: name(port),
                    reason: reason.to_string(),
                    open_transactions: open,
                }
            }
            LinkEvent::Refused { port, why } => EventKind::LinkRefused {
                port: name(port),
                refusal: refusal::report(why, port, &self.port_names),
            },
            LinkEvent::RefusalOver { port } => EventKind::LinkRefusalOver { port: name(port) },
        };
        self.outbox.push(Report::Event(kind));
    }
}
