//! Commands of the host thread, carried out at the loop boundary.

use covalent_api::{request::PipeKind, rule::Match};

use super::{
    Lane,
    command::{Answer, Command, NewPipe, NewRegion, NewSession, Order, Report},
    core::Core,
    port_slot::BindRefusal,
    table::{LanePipe, LaneSession},
};

impl Lane {
    /// Carries out one command, if one waits. Returns how many. One in each round, so that no number of clients keeps packets, links
    /// and ticks waiting for longer than one command takes, or a bounded part of one that takes bindings back.
    pub(super) fn take_order(&mut self) -> usize {
        if self.go_on_releasing() {
            return 1;
        }
        // Cheaper than an attempt to take one, and this is asked in every round.
        if self.orders.is_empty() {
            return 0;
        }
        let Some(Order { ticket, command }) = self.orders.pop() else {
            return 0;
        };
        let result = self.obey(ticket, command);
        if let Some(result) = result.transpose() {
            self.core.outbox.push(Report::Answer { ticket, result });
        }
        1
    }

    /// `None`: it is under way, and is answered when it has ended.
    fn obey(&mut self, ticket: u64, command: Command) -> Result<Option<Answer>, String> {
        match command {
            Command::Attach(new) => self.attach(*new),
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
            } => self.bind(session, pipe, matches)?,
            Command::Unbind {
                session,
                pipe,
                matches,
            } => self.unbind(session, pipe, &matches)?,
            Command::Register(new) => self.register(*new)?,
            Command::SetPort { port, enabled } => self.set_port(port, enabled)?,
            Command::SetCarrier { port, up } => {
                if let Some(slot) = self.ports.iter_mut().find(|slot| slot.index == port) {
                    slot.port.set_carrier(up);
                }
                self.watch_carriers();
            }
            Command::Snapshot => return Ok(Some(Answer::Snapshot(Box::new(self.snapshot())))),
            Command::Stop => self.stopping = true,
        }
        Ok(Some(Answer::Done))
    }

    fn attach(&mut self, new: NewSession) {
        self.core.sessions.insert(LaneSession::from(new));
    }

    fn open_pipe(&mut self, new: NewPipe) -> Result<(), String> {
        let core = &mut self.core;
        let session = core.session_slot(new.session)?;
        let (number, kind) = (new.pipe, new.kind);
        let slot = core.pipes.insert(LanePipe::new(new, session));
        // Room for every pipe at once, so that the packet path never allocates.
        core.touched.reserve(core.pipes.len());
        core.sources.reserve(core.pipes.len());
        if let Some(owner) = core.sessions.get_mut(session) {
            let number = number as usize;
            if owner.pipes.len() <= number {
                owner.pipes.resize(number + 1, None);
            }
            owner.pipes[number] = Some(slot);
            if kind == PipeKind::VerbComplete {
                owner.completions = Some(slot);
            }
        }
        Ok(())
    }

    fn bind(&mut self, session: u64, pipe: u32, matches: Match) -> Result<(), String> {
        let slot = self.core.pipe_slot(session, pipe)?;
        let Some(port) = self.core.pipes.get(slot).map(|pipe| pipe.port) else {
            return Ok(());
        };
        let mut bound = Vec::new();
        let mut refusal = None;
        for (at, candidate) in self.ports.iter_mut().enumerate() {
            if port.is_some_and(|index| index != candidate.index) || candidate.gone.is_some() {
                continue;
            }
            match candidate.bind(&matches, slot) {
                Ok(()) => bound.push(at),
                Err(why) => {
                    refusal = Some((candidate.port.info().name.clone(), why));
                    break;
                }
            }
        }
        if let Some((port, why)) = refusal {
            // All ports or none.
            for at in bound {
                self.ports[at].unbind(&matches, &self.settings.rules);
            }
            return Err(self.core.explain(&matches, &port, why));
        }
        if let Some(pipe) = self.core.pipes.get_mut(slot) {
            pipe.bindings.push(matches);
        }
        Ok(())
    }

    fn unbind(&mut self, session: u64, pipe: u32, matches: &Match) -> Result<(), String> {
        let slot = self.core.pipe_slot(session, pipe)?;
        let Some(pipe) = self.core.pipes.get_mut(slot) else {
            return Ok(());
        };
        let Some(at) = pipe.bindings.iter().position(|bound| bound == matches) else {
            return Err(format!("pipe {} is not bound to `{matches}`", pipe.number));
        };
        pipe.bindings.swap_remove(at);
        for port in &mut self.ports {
            if pipe.port.is_none_or(|index| index == port.index) {
                port.unbind(matches, &self.settings.rules);
            }
        }
        Ok(())
    }

    fn register(&mut self, new: NewRegion) -> Result<(), String> {
        self.core.session_slot(new.session)?;
        self.core.engine.insert(new)
    }

    fn set_port(&mut self, port: u16, enabled: bool) -> Result<(), String> {
        let Some(slot) = self.ports.iter_mut().find(|slot| slot.index == port) else {
            return Ok(());
        };
        if let Some(reason) = &slot.gone {
            return Err(reason.clone());
        }
        slot.port
            .set_enabled(enabled)
            .map_err(|error| error.to_string())?;
        // At once: the next command may undo it in this very round, and the link must have seen both.
        self.watch_carriers();
        Ok(())
    }
}

impl Core {
    pub(super) fn session_slot(&self, session: u64) -> Result<usize, String> {
        self.sessions
            .iter()
            .find(|(_, candidate)| candidate.session == session)
            .map(|(slot, _)| slot)
            .ok_or_else(|| format!("session {session} is gone"))
    }

    pub(super) fn pipe_slot(&self, session: u64, pipe: u32) -> Result<usize, String> {
        let slot = self.session_slot(session)?;
        self.sessions
            .get(slot)
            .and_then(|session| session.pipes.get(pipe as usize).copied().flatten())
            .ok_or_else(|| format!("there is no pipe {pipe} in this session"))
    }

    fn explain(&self, matches: &Match, port: &str, refusal: BindRefusal) -> String {
        match refusal {
            BindRefusal::Kernel => format!(
                "`{matches}` on port `{port}` stays with the kernel by a configured [[steer]] rule: remove that rule or bind \
                 something else"
            ),
            BindRefusal::Occupied(slot) => {
                let holder = self.pipes.get(slot);
                let session = holder
                    .and_then(|pipe| self.sessions.get(pipe.session))
                    .map_or(0, |session| session.session);
                let pipe = holder.map_or(0, |pipe| pipe.number);
                format!(
                    "`{matches}` on port `{port}` is bound already, to pipe {pipe} of session {session}"
                )
            }
            BindRefusal::Port(reason) => format!("`{matches}` cannot be steered: {reason}"),
        }
    }
}
