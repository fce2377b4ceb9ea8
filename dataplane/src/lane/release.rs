//! Releases the resources of an application, a bounded part per round.
//!
//! A session may have thousands of bindings, and the removal of each is a system call for each of
//! its ports. So these commands take as many rounds as they need, and each round serves packets,
//! links and other applications. No other command begins meanwhile: a later request for the same
//! frames or names finds them free.

use covalent_api::request::PipeKind;

use super::{
    Lane,
    command::{Answer, Released, Report},
};

/// Steps of one round: a binding removed on one port, or a pipe released. A verb pipe takes the
/// whole round, because its verbs are searched in the table of all.
const STEPS_PER_ROUND: usize = 64;

/// A release command in progress.
#[derive(Debug)]
pub(super) struct Release {
    ticket: u64,
    /// Slots of the pipes that are still to go.
    pipes: Vec<usize>,
    /// Slot of the session, if that goes too.
    session: Option<usize>,
    released: Released,
}

impl Lane {
    /// Begins to take back a pipe.
    ///
    /// # Errors
    /// It is not there; nothing is changed.
    pub(super) fn close_pipe(
        &mut self,
        ticket: u64,
        session: u64,
        pipe: u32,
    ) -> Result<(), String> {
        let slot = self.pipes.pipe_slot(session, pipe)?;
        self.begin(ticket, vec![slot], None);
        Ok(())
    }

    /// Begins to take back a session with all that it holds.
    ///
    /// # Errors
    /// It is not there.
    pub(super) fn detach(&mut self, ticket: u64, session: u64) -> Result<(), String> {
        let slot = self.pipes.session_slot(session)?;
        let mut pipes = Vec::new();
        if let Some(leaving) = self.pipes.sessions.get_mut(slot) {
            leaving.ignored = true;
            pipes.extend(leaving.pipes.iter().flatten());
        }
        self.begin(ticket, pipes, Some(slot));
        Ok(())
    }

    fn begin(&mut self, ticket: u64, pipes: Vec<usize>, session: Option<usize>) {
        self.housekeeping.release = Some(Release {
            ticket,
            pipes,
            session,
            released: Released::default(),
        });
        self.go_on_releasing();
    }

    /// Does this round's part of the release in progress. Returns whether there was one.
    pub(super) fn go_on_releasing(&mut self) -> bool {
        let Some(mut release) = self.housekeeping.release.take() else {
            return false;
        };
        let mut steps = 0;
        while let Some(&pipe) = release.pipes.last() {
            if steps >= STEPS_PER_ROUND {
                self.housekeeping.release = Some(release);
                return true;
            }
            steps += 1;
            match self.unbind_last(pipe) {
                0 => {
                    if self.release_pipe(pipe, &mut release.released) {
                        steps = STEPS_PER_ROUND;
                    }
                    release.pipes.pop();
                }
                unbound => {
                    steps += unbound;
                    release.released.bindings += 1;
                }
            }
        }
        self.finish(release);
        true
    }

    /// Removes the last binding of the pipe in `slot` and returns on how many ports: 0 if none is
    /// left.
    fn unbind_last(&mut self, slot: usize) -> usize {
        let Some(pipe) = self.pipes.slots.get_mut(slot) else {
            return 0;
        };
        let Some((matches, _)) = pipe.bindings.pop() else {
            return 0;
        };
        let on = pipe.port;
        let mut unbound = 0;
        for port in &mut self.ports.slots {
            if on.is_none_or(|index| index == port.index) {
                port.unbind(&matches, slot, &self.settings.policy);
                unbound += 1;
            }
        }
        unbound
    }

    /// Returns whether it searched the verbs in flight, which is the work of a round.
    fn release_pipe(&mut self, slot: usize, released: &mut Released) -> bool {
        self.collect_refusals(slot);
        self.untap(slot);
        let Some(pipe) = self.pipes.slots.get(slot) else {
            return false;
        };
        let queue = match pipe.kind {
            PipeKind::VerbComplete => Some(slot),
            PipeKind::VerbSubmit => pipe.completions,
            _ => None,
        };
        let disowned = queue.map_or(0, |queue| self.disown_verbs(queue));
        released.verbs += disowned;
        let Some(pipe) = self.pipes.close(slot) else {
            return false;
        };
        released.pipes.push(pipe.nic);
        disowned > 0
    }

    /// Detaches the in-flight verbs from the queue with the completion pipe in slot `queue`, and
    /// returns their number. The exchanges complete, but no outcome is reported. So an application
    /// that opens the next completion pipe and reuses verb numbers gets no old outcome.
    fn disown_verbs(&mut self, queue: usize) -> u32 {
        if self
            .pipes
            .slots
            .get(queue)
            .is_none_or(|pipe| pipe.outstanding == 0)
        {
            return 0;
        }
        let pending = &mut self.verbs.pending;
        self.ports.node.cancel_interest(|token| {
            pending
                .get_mut(token)
                .is_some_and(|pending| pending.queue == queue)
        });
        let mut disowned = pending.remove_queue(queue);
        let waits = |peer| pending.waits_for(peer);
        self.housekeeping.reports.failovers.withdrawn(waits);
        if let Some(durable) = &mut self.journal.durable {
            disowned += durable.disown(queue);
        }
        disowned += self.verbs.watchers.remove_queue(queue);
        self.verbs.disowned(&mut self.pipes, queue, disowned);
        disowned as u32
    }

    fn finish(&mut self, release: Release) {
        let mut released = release.released;
        if let Some(session) = release.session.and_then(|slot| self.pipes.detach(slot)) {
            let number = session.session;
            self.stop_restoring(number, &mut released);
            released.session = Some(session.rings);
            released.wakes = Some([session.to_application, session.to_lane]);
            self.keep(release.ticket, number, released);
            return;
        }
        self.housekeeping.reports.push(Report::Answer {
            ticket: release.ticket,
            result: Ok(Answer::Released(Box::new(released))),
        });
    }
}
