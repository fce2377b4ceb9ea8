//! Commands of the host thread, carried out at the loop boundary.

use covalent_api::{
    rule::{Action, Match, SPREAD_PIPES_MAX, Spread},
    tuning::PipeTuning,
};
use covalent_config::FaultRates;
use covalent_pipe::region::RegionMemory;

use super::{
    Lane,
    command::{Answer, Command, NewPipe, NewRegion, Order, Released, Report},
    pacer::Pacer,
    pipes::Pipes,
    port_slot::BindRefusal,
    table::LanePipe,
};
use crate::{
    flow::{ClaimRefusal, JoinRefusal, ShareTaken},
    port::PortError,
};

impl Lane {
    /// Executes one waiting command, if any. Returns how many. One per round: clients then delay
    /// packets, links and ticks for at most one command, or one bounded part of a command that
    /// removes bindings.
    pub(super) fn take_order(&mut self) -> usize {
        let copying = usize::from(self.go_on_copying());
        if self.go_on_releasing() || self.go_on_changing() {
            return 1;
        }
        // Cheaper than an attempt to pop, and executed in every round.
        if self.housekeeping.orders.is_empty() {
            return copying;
        }
        let Some(Order { ticket, command }) = self.housekeeping.orders.pop() else {
            return copying;
        };
        let result = self.obey(ticket, command);
        if let Some(result) = result.transpose() {
            self.housekeeping.reports.answer(ticket, result);
        }
        1
    }

    /// Returns `None` for a command in progress, which is answered when it ends.
    fn obey(&mut self, ticket: u64, command: Command) -> Result<Option<Answer>, String> {
        match command {
            Command::Attach(new) => self.pipes.attach(*new),
            Command::Detach { session } => {
                self.detach(ticket, session)?;
                return Ok(None);
            }
            Command::OpenPipe(new) => self.open_pipe(*new)?,
            Command::ClosePipe { session, pipe } => {
                self.close_pipe(ticket, session, pipe)?;
                return Ok(None);
            }
            Command::Bind {
                session,
                pipe,
                matches,
                spread,
            } => self.bind(session, pipe, matches, spread)?,
            Command::Unbind {
                session,
                pipe,
                matches,
            } => self.unbind(session, pipe, &matches)?,
            Command::TunePipe {
                session,
                pipe,
                tuning,
            } => self.tune(session, pipe, tuning)?,
            Command::Tap {
                session,
                pipe,
                frames,
                snap_bytes,
            } => self.tap(session, pipe, frames, snap_bytes)?,
            Command::Register(new) => return self.register(ticket, *new),
            Command::Withdraw { session, rkey } => return self.withdraw(session, rkey).map(Some),
            Command::DeleteRegion { name } => {
                self.delete_region(ticket, &name)?;
                return Ok(None);
            }
            Command::EndJournal { path, what } => {
                if let Some(durable) = &mut self.journal.durable {
                    durable.end_journal(path, what);
                }
            }
            Command::SetPort { port, enabled } => self.set_port(port, enabled)?,
            Command::SetFaults { port, rx, tx } => self.set_faults(port, rx, tx)?,
            Command::SetCarrier { port, up } => {
                if let Some(slot) = self.ports.slots.iter_mut().find(|slot| slot.index == port) {
                    slot.port.set_carrier(up);
                }
                self.watch_carriers();
            }
            Command::LosePort { port, reason } => self.take_port(port, reason),
            Command::Check(want) => {
                self.check(ticket, want);
                return Ok(None);
            }
            Command::DetachPorts { ports } => return Ok(Some(self.detach_ports(&ports))),
            Command::Prepare(want, ports) => {
                self.prepare(ticket, want, ports);
                return Ok(None);
            }
            Command::Commit => return Ok(Some(self.commit())),
            Command::RollBack => return Ok(self.roll_back(ticket)),
            Command::Snapshot => return Ok(Some(Answer::Snapshot(Box::new(self.snapshot())))),
            Command::SnapshotPipes { from } => return Ok(Some(self.snapshot_pipes(from))),
            Command::Leave => {
                self.leave(ticket);
                return Ok(None);
            }
            Command::Stop => self.housekeeping.stopping = true,
        }
        Ok(Some(Answer::Done))
    }

    fn open_pipe(&mut self, new: NewPipe) -> Result<(), String> {
        let session = match self.pipes.session_slot(new.session) {
            Ok(session) => session,
            Err(why) => {
                self.housekeeping.reports.push(Report::LetGo {
                    uid: 0,
                    bytes: new.capacity_bytes,
                    released: Box::new(Released {
                        pipes: vec![new.nic],
                        ..Released::default()
                    }),
                });
                return Err(why);
            }
        };
        let partner = new.partner;
        let mut pipe = LanePipe::new(new, session);
        // Losses before the pipe existed do not count for it. The driver of a DPDK device may take
        // long to count.
        for slot in &mut self.ports.slots {
            if pipe.receives_from(slot.index) && slot.port.info().kind != "dpdk" {
                slot.count();
            }
        }
        pipe.lost_before = self.lost_for(&pipe);
        self.pipes.open(pipe, session, partner);
        Ok(())
    }

    fn bind(
        &mut self,
        session: u64,
        pipe: u32,
        matches: Match,
        spread: Option<Spread>,
    ) -> Result<(), String> {
        let slot = self.pipes.pipe_slot(session, pipe)?;
        let Some(port) = self.pipes.slots.get(slot).map(|pipe| pipe.port) else {
            return Ok(());
        };
        let Some(claim) = self.pipes.claim(slot, spread) else {
            return Ok(());
        };
        // All ports or none. Ports that need the kernel go first, because it may refuse. Removing a
        // pipe from a set would not return every flow to its previous pipe.
        let (mut first, mut others) = (Vec::new(), Vec::new());
        for (at, candidate) in self.ports.slots.iter().enumerate() {
            if port.is_some_and(|index| index != candidate.index) {
                continue;
            }
            match candidate.flow.admits(&matches, claim) {
                Ok(true) => first.push(at),
                Ok(false) => others.push(at),
                Err(why) => return Err(self.refusal(&matches, at, slot, BindRefusal::Claim(why))),
            }
        }
        let policy = &self.settings.policy;
        for (done, &at) in first.iter().enumerate() {
            if let Err(why) = self.ports.slots[at].bind(&matches, claim, policy) {
                for &at in &first[..done] {
                    self.ports.slots[at].unbind(&matches, slot, policy);
                }
                return Err(self.refusal(&matches, at, slot, why));
            }
        }
        for at in others {
            // It was admitted above.
            let _ = self.ports.slots[at].bind(&matches, claim, policy);
        }
        if let Some(pipe) = self.pipes.slots.get_mut(slot) {
            pipe.bindings.push((matches, spread));
        }
        Ok(())
    }

    fn refusal(&self, matches: &Match, at: usize, pipe_asking: usize, why: BindRefusal) -> String {
        explain(
            &self.pipes,
            matches,
            &self.ports.slots[at].port.info().name,
            pipe_asking,
            why,
        )
    }

    fn unbind(&mut self, session: u64, pipe: u32, matches: &Match) -> Result<(), String> {
        let slot = self.pipes.pipe_slot(session, pipe)?;
        let Some(pipe) = self.pipes.slots.get_mut(slot) else {
            return Ok(());
        };
        let Some(at) = pipe.bindings.iter().position(|(bound, _)| bound == matches) else {
            return Err(format!("pipe {} is not bound to `{matches}`", pipe.number));
        };
        pipe.bindings.swap_remove(at);
        for port in &mut self.ports.slots {
            if pipe.port.is_none_or(|index| index == port.index) {
                port.unbind(matches, slot, &self.settings.policy);
            }
        }
        Ok(())
    }

    fn tune(&mut self, session: u64, pipe: u32, tuning: PipeTuning) -> Result<(), String> {
        let slot = self.pipes.pipe_slot(session, pipe)?;
        if let Some(pipe) = self.pipes.slots.get_mut(slot) {
            pipe.pacer = tuning.rate_limit.map(Pacer::new);
            pipe.stamp_at = tuning.stamp_at_bytes.map(|at| at as usize);
        }
        self.pipes.end_pacing(slot, false);
        Ok(())
    }

    /// Returns `None` for a durable region: its kept content is copied to its memory first, and the
    /// answer follows.
    fn register(&mut self, ticket: u64, new: NewRegion) -> Result<Option<Answer>, String> {
        if !new.durable {
            let session = new.session;
            let inserted = match self.pipes.session_slot(session) {
                Ok(slot) => self.verbs.engine.insert(new, slot),
                Err(why) => Err((why, new.memory)),
            };
            return inserted
                .map(|()| Some(Answer::Done))
                .map_err(|(why, memory)| {
                    self.let_go(session, memory);
                    why
                });
        }
        if self.journal.durable.is_none() {
            let why = format!(
                "region `{}` cannot be durable: this node keeps no journal; set `directory` in \
                 `[journal]` of its configuration",
                new.name
            );
            self.let_go(new.session, new.memory);
            return Err(why);
        }
        self.restore(ticket, new);
        Ok(None)
    }

    /// Registers a durable region whose memory holds the kept content.
    ///
    /// # Errors
    /// The reason why nothing changed.
    pub(super) fn serve_durable(&mut self, new: NewRegion) -> Result<(), String> {
        let (name, size_bytes) = (new.name.clone(), new.memory.size_bytes());
        let (session, rkey) = (new.session, new.rkey);
        let inserted = match self.pipes.session_slot(session) {
            Ok(slot) => self.verbs.engine.insert(new, slot).map(|()| slot),
            Err(why) => Err((why, new.memory)),
        };
        let slot = inserted.map_err(|(why, memory)| {
            self.let_go(session, memory);
            why
        })?;
        let owner = self.pipes.sessions.get(slot);
        let uid = owner.map_or(0, |owner| owner.uid);
        let is_bounded = owner.is_none_or(|owner| !owner.commands);
        let Some(durable) = &mut self.journal.durable else {
            return Ok(());
        };
        let served = durable.serve(&name, uid, is_bounded, size_bytes, session, rkey);
        if served.is_err()
            && let Some(memory) = self.verbs.engine.withdraw(rkey)
        {
            self.let_go(session, memory);
        }
        served
    }

    /// Hands memory whose registration failed to the host thread, which frees it.
    pub(super) fn let_go(&mut self, session: u64, memory: RegionMemory) {
        let owner = self.pipes.session_slot(session).ok();
        let owner = owner.and_then(|slot| self.pipes.sessions.get(slot));
        self.housekeeping.reports.push(Report::LetGo {
            uid: owner.map_or(0, |owner| owner.uid),
            bytes: memory.size_bytes(),
            released: Box::new(Released {
                regions: vec![memory],
                ..Released::default()
            }),
        });
    }

    /// Withdraws a region. Verbs with its key are refused from now on. Admitted two-phase verbs
    /// find the region gone.
    ///
    /// # Errors
    /// It does not exist, or is durable. Nothing changed.
    fn withdraw(&mut self, session: u64, rkey: u32) -> Result<Answer, String> {
        self.pipes.session_slot(session)?;
        let durable = &self.journal.durable;
        if durable.as_ref().is_some_and(|durable| durable.serves(rkey)) {
            return Err(
                "the region is durable, and lasts until it is deleted: delete it, or end the \
                 session"
                    .to_owned(),
            );
        }
        let engine = &mut self.verbs.engine;
        let memory = engine.withdraw(rkey).ok_or("the region no longer exists")?;
        Ok(Answer::Released(Box::new(Released {
            regions: vec![memory],
            ..Released::default()
        })))
    }

    /// Begins to delete a durable region.
    ///
    /// # Errors
    /// The reason why it remains.
    fn delete_region(&mut self, ticket: u64, name: &str) -> Result<(), String> {
        match &mut self.journal.durable {
            Some(durable) => durable.delete(name, ticket),
            None => Err(format!("region `{name}`: this lane keeps no journal")),
        }
    }

    fn set_port(&mut self, port: u16, enabled: bool) -> Result<(), String> {
        let Some(slot) = self.ports.slots.iter_mut().find(|slot| slot.index == port) else {
            return Ok(());
        };
        slot.port
            .set_enabled(enabled)
            .map_err(|error| error.to_string())?;
        // Immediately: the next command may revert the change in this round, and the link must see
        // both.
        self.watch_carriers();
        Ok(())
    }

    fn take_port(&mut self, port: u16, reason: String) {
        let Some(at) = self.ports.slots.iter().position(|slot| slot.index == port) else {
            return;
        };
        let port = &self.ports.slots[at].port;
        // It may have noticed before.
        if port.absent().is_none() {
            let port = port.info().name.clone();
            let gone = PortError::Gone { port, reason };
            self.ports.lose(at, &gone, &mut self.housekeeping.reports);
        }
        self.watch_carriers();
    }

    fn set_faults(&mut self, port: u16, rx: FaultRates, tx: FaultRates) -> Result<(), String> {
        match self.ports.slots.iter_mut().find(|slot| slot.index == port) {
            Some(slot) => slot
                .port
                .set_faults(rx, tx)
                .map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }
}

/// Why a match cannot be bound, for people.
pub(super) fn explain(
    pipes: &Pipes,
    matches: &Match,
    port: &str,
    pipe_asking: usize,
    refusal: BindRefusal,
) -> String {
    let refusal = match refusal {
        BindRefusal::Claim(refusal) => refusal,
        BindRefusal::Port(reason) => return format!("`{matches}` cannot be steered: {reason}"),
    };
    let what = match refusal {
        ClaimRefusal::Configured(action) => {
            let does = match action {
                Action::Drop => "is dropped",
                Action::Kernel | Action::Dataplane => "is left to the kernel",
            };
            format!(
                "{does} by a configured [[steer]] rule: remove that rule or bind something else"
            )
        }
        ClaimRefusal::Alone(slot) => {
            format!(
                "is bound already, to {}, which does not share it: end that binding, or bind \
                 something else",
                pipes.describe(slot)
            )
        }
        ClaimRefusal::Shared(spread) => {
            format!(
                "is bound already, by pipes that share it by `{spread}`: bind with that spread \
                 to join them"
            )
        }
        ClaimRefusal::Set(JoinRefusal::Policy(spread)) => {
            format!("is shared by `{spread}`: all pipes of a set name the same spread")
        }
        ClaimRefusal::Set(JoinRefusal::User(uid)) => {
            format!("is shared by pipes of user {uid}: only that user's pipes may join them")
        }
        ClaimRefusal::Share(ShareTaken { uid, kind, most }) => {
            format!(
                "is refused: user {uid} has {most} {kind} rules there, the maximum for one \
                 user; remove some of them, or bind a wider match"
            )
        }
        ClaimRefusal::Set(JoinRefusal::Full) => {
            format!("is shared by {SPREAD_PIPES_MAX} pipes, the maximum")
        }
        ClaimRefusal::Set(JoinRefusal::Member) => {
            format!(
                "is bound already, to this same pipe, {}, among others",
                pipes.describe(pipe_asking)
            )
        }
    };
    format!("`{matches}` on port `{port}` {what}")
}
