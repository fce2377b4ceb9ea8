//! The applications of a lane and their pipes: deliveries, notifications, doorbells.
//!
//! - A pipe is in `touched` exactly while it holds packets that are not published. Each publication
//!   is followed by a notification, unless one is outstanding, and that by a wake-up of an
//!   application that sleeps.
//! - A source (a pipe with something to take) is in `sources` or in `paced`, at most once, while it
//!   is marked as queued.
//! - A session that wrote what no correct application writes is ignored from then on, and reported
//!   once. Others are not affected.
//! - The lists grow when a session or a pipe is opened, never with a packet.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use covalent_api::{request::PipeKind, rule::Spread};
use covalent_pipe::Violation;

use super::{
    command::{NewSession, Report},
    hot_set::HotSet,
    serve::Served,
    sources::Sources,
    stamp,
    table::{LanePipe, LaneSession},
};
use crate::{
    flow::{Claim, payload::udp_payload},
    slots::Slots,
};

/// See the module.
#[derive(Debug)]
pub(super) struct Pipes {
    /// Applications.
    pub sessions: Slots<LaneSession>,
    /// Pipes of all applications.
    pub slots: Slots<LanePipe>,
    /// Slots of pipes with unpublished packets.
    touched: Vec<usize>,
    /// Slots of sessions whose receive queues got messages since their last notification.
    receivers: Vec<usize>,
    /// An application was woken since the core was offered to it.
    pub woke: bool,
    /// The pipes to take packets and verbs from.
    pub sources: Sources,
    /// The hot set: pipes to check without a doorbell.
    hot_set: HotSet,
    /// Slots of rate-limited pipes that must wait, with the time when they may send again by
    /// [`stamp::now_ns`], the earliest first. They cost a round nothing until then.
    paced: BinaryHeap<Reverse<(u64, usize)>>,
    /// Reports of violations that the host thread has not got.
    violations: Vec<Report>,
}

impl Pipes {
    /// No application yet.
    pub fn new() -> Self {
        Self {
            sessions: Slots::new(),
            slots: Slots::new(),
            touched: Vec::new(),
            receivers: Vec::new(),
            woke: false,
            sources: Sources::default(),
            hot_set: HotSet::new(),
            paced: BinaryHeap::new(),
            violations: Vec::new(),
        }
    }

    /// Takes in an application.
    pub fn attach(&mut self, new: NewSession) {
        self.sessions.insert(LaneSession::from(new));
        self.receivers.reserve(self.sessions.len());
        self.violations.reserve(self.sessions.len());
    }

    /// Takes in a pipe of the session in slot `session`, and returns its slot. `partner`: of a pipe
    /// for verbs, the pipe for their completions, or the reverse.
    pub fn open(&mut self, pipe: LanePipe, session: usize, partner: Option<u32>) -> usize {
        let (number, kind) = (pipe.number, pipe.kind);
        let slot = self.slots.insert(pipe);
        self.touched.reserve(self.slots.len());
        self.paced.reserve(self.slots.len());
        if let Some(owner) = self.sessions.get_mut(session) {
            owner.opened(number, slot, kind);
            self.sources.reserve(session, owner.pipes.len());
        }
        if let Some(partner) = partner {
            let partner = self.slot_of(session, partner);
            match kind {
                PipeKind::VerbSubmit => self.pair(slot, partner),
                _ => partner
                    .into_iter()
                    .for_each(|submit| self.pair(submit, Some(slot))),
            }
        }
        slot
    }

    /// Forgets the pipe in `slot`, which has no verb in flight, and returns it.
    pub fn close(&mut self, slot: usize) -> Option<LanePipe> {
        let pipe = self.slots.remove(slot)?;
        self.touched.retain(|&touched| touched != slot);
        self.sources.remove(pipe.session, slot);
        self.hot_set.remove(slot);
        self.end_pacing(slot, true);
        let Some(owner) = self.sessions.get_mut(pipe.session) else {
            return Some(pipe);
        };
        owner.closed(pipe.number, pipe.kind);
        if pipe.kind == PipeKind::VerbComplete {
            for &submit in owner.pipes.iter().flatten() {
                if let Some(submit) = self.slots.get_mut(submit) {
                    submit
                        .completions
                        .take_if(|completions| *completions == slot);
                }
            }
        }
        Some(pipe)
    }

    /// Makes one verb queue of the pipe for verbs in slot `submit` and the one for completions.
    fn pair(&mut self, submit: usize, completions: Option<usize>) {
        if let Some(pipe) = self.slots.get_mut(submit) {
            pipe.completions = completions;
        }
    }

    /// The session in slot `slot` is gone.
    pub fn detach(&mut self, slot: usize) -> Option<LaneSession> {
        self.sessions.remove(slot)
    }

    /// Copies `frame`, or its payload, to the pipe in `slot`. Returns whether it fitted. A full
    /// pipe drops the frame and counts it. A pipe of bytes also drops and counts a frame without
    /// payload.
    pub fn deliver_frame(&mut self, slot: usize, frame: &[u8]) -> bool {
        let Some(pipe) = self.slots.get_mut(slot) else {
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
        let Some(pipe) = self.slots.get_mut(slot) else {
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
        let Some(pipe) = self.slots.get_mut(slot) else {
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
            let Some(pipe) = self.slots.get_mut(slot) else {
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

    /// The session in `slot` got a message in a receive queue. The next publish notifies its
    /// application.
    #[inline]
    pub fn queue_receiver(&mut self, slot: usize) {
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

    /// Writes a notification for the pipe in `slot`. [`Pipes::wake_owner`] wakes the application.
    pub fn notify(&mut self, slot: usize, tail: u64) {
        let Some(pipe) = self.slots.get(slot) else {
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
        if let Some(owner) = self.slots.get(slot).map(|pipe| pipe.session) {
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
        if let Some(pipe) = self.slots.get_mut(slot)
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

    /// As [`Pipes::violate`], for a word in the memory of the pipe in `slot`.
    pub fn violate_pipe(&mut self, slot: usize, violation: Violation) {
        let Some(pipe) = self.slots.get(slot) else {
            return;
        };
        let (session, number, kind) = (pipe.session, pipe.number, pipe.kind);
        self.expel(session, violation, || {
            format!("pipe {number} ({kind}): {violation}")
        });
    }

    fn expel(&mut self, session: usize, violation: Violation, reason: impl Fn() -> String) {
        let Some(session) = self.sessions.get_mut(session) else {
            return;
        };
        if !std::mem::replace(&mut session.ignored, true) {
            self.violations.push(Report::Violation {
                session: session.session,
                cause: violation.cause(),
                reason: reason(),
            });
        }
    }

    /// Takes the reports of violations since the last call.
    pub fn next_violation(&mut self) -> Option<Report> {
        // One at most for each session, so their order does not matter.
        self.violations.pop()
    }

    /// A verb whose completion goes to the pipe in slot `queue` is in flight from now on.
    pub fn began(&mut self, queue: usize) {
        let Some(pipe) = self.slots.get_mut(queue) else {
            return;
        };
        pipe.outstanding += 1;
        if let Some(session) = self.sessions.get_mut(pipe.session) {
            session.outstanding += 1;
        }
    }

    /// It is not in flight any more.
    pub fn ended(&mut self, queue: usize) {
        let Some(pipe) = self.slots.get_mut(queue) else {
            return;
        };
        pipe.outstanding -= 1;
        if let Some(session) = self.sessions.get_mut(pipe.session) {
            session.outstanding -= 1;
        }
    }

    /// Writes a completion to the pipe in slot `queue`. Its space was reserved with the verb.
    pub fn complete(&mut self, queue: usize, completion: &[u8]) {
        if let Some(pipe) = self.slots.get_mut(queue) {
            let is_pushed = pipe.nic.push(completion).is_ok();
            self.pushed(queue, is_pushed);
        }
    }

    /// Takes the doorbells that applications rang. Returns how many.
    pub fn take_doorbells(&mut self, burst: usize) -> usize {
        let mut taken = 0;
        for session in 0..self.sessions.len() {
            // A quota per session, so that the doorbells of one application do not delay the
            // others.
            for _ in 0..burst {
                let Some(owner) = self
                    .sessions
                    .get_mut(session)
                    .filter(|owner| !owner.ignored)
                else {
                    break;
                };
                match owner.rings.next_doorbell() {
                    Ok(Some(number)) => {
                        taken += 1;
                        // A bell of a pipe that was closed meanwhile is late, not wrong.
                        let pipe = owner.pipes.get(number as usize).copied().flatten();
                        if let Some(slot) = pipe {
                            self.answer_doorbell(slot);
                        }
                    }
                    Ok(None) => break,
                    Err(violation) => self.violate(session, violation),
                }
            }
            // Once for all of them: each check whether an application sleeps waits for all earlier
            // writes.
            self.wake(session);
        }
        taken
    }

    fn answer_doorbell(&mut self, slot: usize) {
        let Some(pipe) = self.slots.get_mut(slot) else {
            return;
        };
        match pipe.nic.on_doorbell() {
            Ok(Some(tail)) => self.notify(slot, tail),
            Ok(None) => {}
            Err(violation) => return self.violate_pipe(slot, violation),
        }
        self.queue_source(slot);
    }

    /// Whether an application has rung a doorbell that was not taken.
    pub fn has_doorbell(&self) -> bool {
        let mut sessions = self.sessions.iter();
        sessions.any(|(_, session)| !session.ignored && session.rings.doorbell_waits())
    }

    /// Queues those pipes of the hot set that have something to take.
    pub fn poll_hot_set(&mut self) {
        for place in (0..self.hot_set.len()).rev() {
            let slot = self.hot_set.slot(place);
            let pipe = self.slots.get(slot);
            if pipe.is_some_and(|pipe| pipe.nic.has_new_tx()) {
                self.hot_set.remove(slot);
                self.queue_source(slot);
            }
        }
    }

    /// The kind of the source in `slot`. `None` if it is served no more: it is gone, or its session
    /// is ignored.
    pub fn source_kind(&mut self, slot: usize) -> Option<PipeKind> {
        let pipe = self.slots.get_mut(slot)?;
        let owner = self.sessions.get(pipe.session);
        if owner.is_none_or(|session| session.ignored) {
            pipe.queued = false;
            return None;
        }
        Some(pipe.kind)
    }

    /// Gives the application the memory of the packets that were taken from the pipe in `slot`.
    pub fn complete_tx(&mut self, slot: usize) {
        let pipe = self.slots.get_mut(slot);
        if let Some(tail) = pipe.and_then(|pipe| pipe.nic.complete_tx()) {
            self.notify(slot, tail);
            self.wake_owner(slot);
        }
    }

    /// The source in `slot`, of the session in slot `session`, was served.
    pub fn served(&mut self, session: usize, slot: usize, served: Served) {
        match served {
            Served::Empty => {
                if let Some(pipe) = self.slots.get_mut(slot) {
                    pipe.queued = false;
                    self.hot_set.add(slot);
                }
            }
            // It stays marked as queued, so that no doorbell queues it before its time.
            Served::Paced(until_ns) => self.paced.push(Reverse((until_ns, slot))),
            Served::More | Served::Full | Served::Blocked => self.sources.push(session, slot),
        }
    }

    /// Queues the rate-limited pipes whose time has come.
    pub fn resume_paced(&mut self) {
        if self.paced.is_empty() {
            return;
        }
        let now_ns = stamp::now_ns();
        while let Some(&Reverse((until_ns, slot))) = self.paced.peek()
            && until_ns <= now_ns
        {
            self.paced.pop();
            self.resume(slot);
        }
    }

    /// Ends the wait of the pipe in `slot`. A waiting pipe is queued again, because its rate may
    /// have changed, unless it is removed (`goes`).
    pub fn end_pacing(&mut self, slot: usize, goes: bool) {
        let waiting = self.paced.len();
        self.paced.retain(|&Reverse((_, paced))| paced != slot);
        if self.paced.len() < waiting && !goes {
            self.resume(slot);
        }
    }

    fn resume(&mut self, slot: usize) {
        if let Some(pipe) = self.slots.get(slot) {
            self.sources.push(pipe.session, slot);
        }
    }

    /// Pipes that are kept to a rate and wait for their time.
    pub fn paced(&self) -> usize {
        self.paced.len()
    }

    /// How long it is until the first pipe that is kept to a rate may send again.
    pub fn paced_for(&self) -> Option<Duration> {
        let &Reverse((until_ns, _)) = self.paced.peek()?;
        Some(Duration::from_nanos(
            until_ns.saturating_sub(stamp::now_ns()),
        ))
    }

    pub fn session_slot(&self, session: u64) -> Result<usize, String> {
        self.sessions
            .iter()
            .find(|(_, candidate)| candidate.session == session)
            .map(|(slot, _)| slot)
            .ok_or_else(|| format!("session {session} has ended"))
    }

    pub fn pipe_slot(&self, session: u64, pipe: u32) -> Result<usize, String> {
        let slot = self.session_slot(session)?;
        self.slot_of(slot, pipe)
            .ok_or_else(|| format!("there is no pipe {pipe} in this session"))
    }

    /// The slot of the pipe with this number of the session in slot `session`.
    fn slot_of(&self, session: usize, pipe: u32) -> Option<usize> {
        let pipes = &self.sessions.get(session)?.pipes;
        pipes.get(pipe as usize).copied().flatten()
    }

    /// Returns the claim of the pipe in `slot`; `None` if the pipe is gone.
    pub fn claim(&self, slot: usize, spread: Option<Spread>) -> Option<Claim> {
        let owner = self.sessions.get(self.slots.get(slot)?.session)?;
        Some(Claim {
            pipe: slot,
            uid: owner.uid,
            bounded: !owner.commands,
            spread,
        })
    }

    /// The user of the pipe in `slot`.
    pub fn user_of(&self, slot: usize) -> Option<u32> {
        let session = self.slots.get(slot)?.session;
        self.sessions.get(session).map(|session| session.uid)
    }

    /// The pipe in `slot`, for people: `pipe 0 of session 10 (`echo`)`.
    pub fn describe(&self, slot: usize) -> String {
        let pipe = self.slots.get(slot);
        let session = pipe.and_then(|pipe| self.sessions.get(pipe.session));
        let number = pipe.map_or(0, |pipe| pipe.number);
        match session {
            Some(session) => format!(
                "pipe {number} of session {} (`{}`)",
                session.session, session.program
            ),
            None => format!("pipe {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use covalent_ipc::event::EventFd;
    use covalent_pipe::{
        Direction, PagePolicy, PipeMemory, PipeSpec,
        nic::NicPipe,
        session::{NicSession, SessionMemory},
    };

    use super::*;
    use crate::lane::command::NewPipe;

    const CAPACITY_BYTES: u64 = 1 << 16;

    fn attached() -> Pipes {
        let mut pipes = Pipes::new();
        pipes.attach(NewSession {
            program: "".into(),
            session: 7,
            uid: 1000,
            commands: false,
            rings: NicSession::new(SessionMemory::create(8).unwrap()),
            to_application: EventFd::new().unwrap(),
            to_lane: EventFd::new().unwrap(),
        });
        pipes
    }

    fn open(pipes: &mut Pipes, number: u32, kind: PipeKind, partner: Option<u32>) -> usize {
        let memory = PipeMemory::create(&PipeSpec {
            direction: match kind {
                PipeKind::VerbSubmit => Direction::Tx,
                _ => Direction::Rx,
            },
            capacity_bytes: CAPACITY_BYTES,
            pages: PagePolicy::Never,
        });
        let new = NewPipe {
            session: 7,
            pipe: number,
            kind,
            port: None,
            partner,
            capacity_bytes: CAPACITY_BYTES,
            page_bytes: 4096,
            nic: NicPipe::new(memory.unwrap()),
        };
        pipes.open(LanePipe::new(new, 0), 0, partner)
    }

    fn queues(pipes: &Pipes) -> usize {
        pipes.sessions.get(0).unwrap().queues()
    }

    #[test]
    fn a_session_has_as_many_verb_queues_as_pipes_for_completions() {
        let mut pipes = attached();
        let completions = open(&mut pipes, 0, PipeKind::VerbComplete, None);
        let submit = open(&mut pipes, 1, PipeKind::VerbSubmit, Some(0));
        let other = open(&mut pipes, 2, PipeKind::VerbComplete, None);
        let partner = |pipes: &Pipes| pipes.slots.get(submit).unwrap().completions;
        assert_eq!((queues(&pipes), partner(&pipes)), (2, Some(completions)));
        pipes.close(other).unwrap();
        assert_eq!((queues(&pipes), partner(&pipes)), (1, Some(completions)));
        pipes.close(completions).unwrap();
        assert_eq!((queues(&pipes), partner(&pipes)), (0, None));
        pipes.close(submit).unwrap();
        assert_eq!(queues(&pipes), 0);
    }

    #[test]
    fn a_violation_is_reported_once_and_its_session_is_served_no_more() {
        let mut pipes = attached();
        let submit = open(&mut pipes, 0, PipeKind::VerbSubmit, None);
        pipes.queue_source(submit);
        assert_eq!(pipes.source_kind(submit), Some(PipeKind::VerbSubmit));
        for _ in 0..2 {
            pipes.violate_pipe(submit, Violation::Mark { found: 1 });
        }
        let report = pipes.next_violation();
        assert!(matches!(report, Some(Report::Violation { session: 7, .. })));
        assert!(pipes.next_violation().is_none());
        assert_eq!(pipes.source_kind(submit), None);
    }
}
