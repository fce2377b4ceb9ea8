//! The ports of an exchange: those that have arrived, those that were given back, and the affected
//! applications.

use covalent_api::{agreement::Objection, event::EventKind};
use covalent_protocol::agreement::{Phase, joint::Input};
use tracing::warn;

use super::{
    PortTable, Server,
    opener::{Done, Job, Opened, Openings},
    preparation::Prepared,
};
use crate::{
    carrier::CarrierWatch,
    lane::{command::Stepped, new_port::NewPort},
    port::Port,
};

/// See the module.
#[derive(Debug, Default)]
pub struct PortExchange {
    /// The ports under the wanted configuration.
    table: PortTable,
    /// Their numbers, by place in it.
    numbers: Vec<u16>,
    /// Numbers and lanes of those that go.
    removed: Vec<(u16, u32)>,
    /// Ports that are given back before others can be opened: their numbers, lanes and indexes in
    /// the configuration in force.
    to_detach: Vec<(u16, u32, usize)>,
    /// Ports that are open and in no lane yet.
    opened: Vec<Opened>,
    /// Ports that lanes gave back and that are not closed yet.
    given_back: Vec<(u16, Box<dyn Port>)>,
    /// The ports that lanes gave back were closed.
    was_closed: bool,
    /// Ports that are put back, with their lanes.
    returning: Vec<(u32, NewPort)>,
    /// Ports that come, return or were opened again.
    come: Vec<u16>,
}

impl PortExchange {
    /// Creates the exchange for the prepared configuration. `now` holds the current ports.
    ///
    /// # Errors
    /// A lane has had too many ports. The returned exchange then also holds the opened ports.
    pub fn new(
        now: &PortTable,
        names: impl Fn(usize) -> String,
        prepared: &mut Prepared,
    ) -> (Self, Vec<Objection>) {
        let mut table = now.clone();
        let wanted = &prepared.config.port;
        let to_detach = prepared.plan.to_detach.iter().filter_map(|&at| {
            let (number, port) = now.find(&names(at)).ok()?;
            Some((number, port.lane, at))
        });
        let to_detach = to_detach.collect();
        let removed = table.keep(wanted);
        let (mut numbers, mut objections) = (Vec::with_capacity(wanted.len()), Vec::new());
        for (at, port) in wanted.iter().enumerate() {
            match table.add(port) {
                Ok(number) => numbers.push(number),
                Err(error) => objections.push(Objection {
                    key: format!("port[{at}]"),
                    message: error.to_string(),
                }),
            }
        }
        let exchange = Self {
            table,
            numbers,
            removed,
            to_detach,
            opened: std::mem::take(&mut prepared.opened),
            ..Self::default()
        };
        (exchange, objections)
    }

    /// Whether lanes are to give ports back.
    pub const fn detaches_ports(&self) -> bool {
        !self.to_detach.is_empty()
    }

    /// Numbers of the ports of a lane that go.
    pub fn removed_from(&self, lane: u32) -> Vec<u16> {
        let removed = self.removed.iter();
        removed
            .filter(|(_, of)| *of == lane)
            .map(|(number, _)| *number)
            .collect()
    }

    /// Numbers of the ports that a lane is to give back.
    pub fn to_detach_from(&self, lane: u32) -> Vec<u16> {
        let to_detach = self.to_detach.iter();
        to_detach
            .filter(|(_, of, _)| *of == lane)
            .map(|(number, ..)| *number)
            .collect()
    }

    /// Returns the number of the port at that index of the wanted configuration.
    pub fn number(&self, at: usize) -> Option<u16> {
        self.numbers.get(at).copied()
    }

    /// Returns the index in the wanted configuration of the port with this number.
    pub fn place(&self, number: u16) -> Option<usize> {
        self.numbers.iter().position(|of| *of == number)
    }

    /// Returns the ports that a lane receives.
    pub fn come_to(&mut self, lane: u32, prepared: &Prepared) -> Vec<NewPort> {
        let mut ports = Vec::new();
        for opened in std::mem::take(&mut self.opened) {
            let config = &prepared.config.port[opened.at];
            match self.number(opened.at).filter(|_| config.lane == lane) {
                Some(number) => {
                    self.table.opened(number, &*opened.port);
                    self.come.push(number);
                    ports.push(NewPort::new(number, config, opened.port));
                }
                None => self.opened.push(opened),
            }
        }
        ports
    }

    /// Returns the ports that are put back into a lane.
    pub fn return_to(&mut self, lane: u32) -> Vec<NewPort> {
        let (to_lane, others) = std::mem::take(&mut self.returning)
            .into_iter()
            .partition(|(of, _)| *of == lane);
        self.returning = others;
        let to_lane: Vec<_> = to_lane;
        to_lane.into_iter().map(|(_, port)| port).collect()
    }

    /// Takes the ports that are no longer needed.
    fn take_unused(&mut self) -> Vec<Box<dyn Port>> {
        let opened = self.opened.drain(..).map(|opened| opened.port);
        let given_back = self.given_back.drain(..).map(|(_, port)| port);
        let returning = self.returning.drain(..).map(|(_, new)| new.port);
        opened.chain(given_back).chain(returning).collect()
    }
}

impl Server {
    /// A lane released ports in a step.
    pub(super) fn take_ports_of(&mut self, stepped: &mut Stepped) {
        let ports = std::mem::take(&mut stepped.ports);
        if self.agreements.phase() == Some(Phase::DetachingPorts) {
            self.agreements.exchange.ports.given_back.extend(ports);
        } else {
            let ports = ports.into_iter().map(|(_, port)| port);
            self.close(ports.collect());
        }
    }

    /// Closes the ports that were given back and opens their replacements.
    pub(super) fn open_detached(&mut self) {
        let exchange = &mut self.agreements.exchange;
        let Some(prepared) = &exchange.prepared else {
            return;
        };
        exchange.ports.was_closed = true;
        let given_back = exchange.ports.given_back.drain(..);
        let job = Job::Open(Openings {
            close: given_back.map(|(_, port)| port).collect(),
            open: prepared.plan.after.clone(),
            config: prepared.config.clone(),
        });
        self.agreements.opener().give(job);
    }

    /// Puts back the ports that were given back: unchanged, or opened as before if they were
    /// closed.
    pub(super) fn restore_detached(&mut self) -> Option<Input> {
        let ports = &mut self.agreements.exchange.ports;
        if ports.was_closed {
            let job = Job::Restore(Openings {
                close: ports.take_unused(),
                open: ports.to_detach.iter().map(|&(_, _, at)| at).collect(),
                config: self.config.clone(),
            });
            self.agreements.opener().give(job);
            return None;
        }
        for (number, port) in std::mem::take(&mut ports.given_back) {
            let to_detach = ports.to_detach.iter().find(|(of, ..)| *of == number);
            if let Some(&(_, lane, at)) = to_detach {
                let new = NewPort::new(number, &self.config.port[at], port);
                ports.returning.push((lane, new));
            }
        }
        // Carrier reports in the meantime went to the ports in their places.
        self.recheck_carriers();
        Some(Input::Restored)
    }

    /// The opener has opened the wanted ports, or the former ones.
    pub(super) fn ports_opened(&mut self, done: Done) -> Option<Input> {
        let exchange = &mut self.agreements.exchange;
        match done {
            Done::Prepared(_) => None,
            Done::Opened(Ok(opened)) => {
                exchange.ports.opened.extend(opened);
                Some(Input::Opened)
            }
            Done::Opened(Err(objections)) => {
                exchange.objections.extend(objections);
                Some(Input::Unopened)
            }
            Done::Restored(opened) => {
                let mut absent = Vec::new();
                for Opened { at, port } in opened {
                    let to_detach = exchange.ports.to_detach.iter().find(|(_, _, of)| *of == at);
                    let Some(&(number, lane, _)) = to_detach else {
                        continue;
                    };
                    match port.absent() {
                        Some(reason) => absent.push((port.info().name.clone(), reason.to_owned())),
                        None => self.ports.opened(number, &*port),
                    }
                    let new = NewPort::new(number, &self.config.port[at], port);
                    exchange.ports.returning.push((lane, new));
                }
                for (port, reason) in absent {
                    self.raise(EventKind::PortAbsent { port, reason });
                }
                self.recheck_carriers();
                Some(Input::Restored)
            }
        }
    }

    /// The ports of the exchange become those of the node. Returns the affected parties that may
    /// not know.
    pub(super) fn enter_ports(&mut self) -> Vec<String> {
        let exchange = &mut self.agreements.exchange.ports;
        let table = std::mem::take(&mut exchange.table);
        let (come, removed) = (std::mem::take(&mut exchange.come), exchange.removed.clone());
        if come.is_empty() && removed.is_empty() {
            return Vec::new();
        }
        let before = std::mem::replace(&mut self.ports, table);
        let mut beware = Vec::new();
        for (number, _) in removed {
            let name = before.get(number).map(|port| port.name.clone());
            beware.extend(self.pipes_on(number).map(|affected| {
                format!(
                    "{affected} on `{}`, which was removed, and wait until it returns",
                    name.clone().unwrap_or_default()
                )
            }));
        }
        for number in come {
            let Some(port) = self.ports.get(number).map(|port| port.name.clone()) else {
                continue;
            };
            beware.extend(self.pipes_on(number).map(|affected| {
                format!(
                    "{affected} on `{port}`, which was reopened: data in flight there may be lost"
                )
            }));
            self.raise(EventKind::PortOpened { port });
        }
        self.recheck_carriers();
        beware
    }

    /// Returns the sessions whose pipes name this port.
    fn pipes_on(&self, number: u16) -> impl Iterator<Item = String> {
        let mut affected = Vec::new();
        for (session, record) in &self.sessions {
            let pipes = record.pipes.values();
            let (count, verb) = match pipes.filter(|pipe| pipe.port == Some(number)).count() {
                0 => continue,
                1 => ("1 pipe".to_owned(), "is"),
                many => (format!("{many} pipes"), "are"),
            };
            let client = self.clients.get(&record.client);
            let process = client.map_or_else(String::new, |client| {
                format!(" (pid {}, {})", client.credentials.pid, client.program)
            });
            affected.push(format!("{count} of session {session}{process} {verb}"));
        }
        affected.into_iter()
    }

    /// Queries the carrier of each interface, so that ports opened in the meantime receive it.
    fn recheck_carriers(&mut self) {
        let mut ports = self.config.port.iter();
        if !ports.any(|port| port.kind.kernel_interface().is_some()) {
            return;
        }
        let rechecked = match &mut self.carriers {
            Some(carriers) => carriers.recheck(),
            none => CarrierWatch::open().map(|carriers| *none = Some(carriers)),
        };
        if let Err(error) = rechecked {
            warn!(%error, "the interfaces' carriers cannot be watched; links rely on their own \
                evidence");
        }
    }

    /// Closes the ports that no lane has.
    pub(super) fn close_unused(&mut self) {
        let unused = self.agreements.exchange.ports.take_unused();
        self.close(unused);
    }

    pub(super) fn close(&self, ports: Vec<Box<dyn Port>>) {
        if !ports.is_empty() {
            self.agreements.opener().give(Job::Close(ports));
        }
    }
}
