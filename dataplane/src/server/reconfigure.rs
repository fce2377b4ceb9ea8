//! Puts another configuration in force on every lane, or on none. The opener's thread runs it from
//! top to bottom:
//!
//! 1. Prepare. The thread does what can fail: it checks the draft, and opens ports. Then the lanes
//!    prepare, each in its own rounds: rules on their ports.
//! 2. Barrier. The thread waits until every lane has answered.
//! 3. Commit on every lane, which cannot fail, or roll back on every lane.
//! 4. Release. The ports that are no longer needed are closed.
//!
//! A port that needs an object of another one (interface, cable, written file) can only be opened
//! when that one is closed. Lanes then detach ports while they prepare, and get them back if the
//! configuration is refused.

use std::{collections::BTreeMap, sync::Arc};

use covalent_api::agreement::{LaneHeld, Objection};
use covalent_config::Config;
use covalent_protocol::agreement::Refusal;

use super::{
    opener::{Answers, Opened, open_all, restore},
    port_table::PortTable,
    preparation::{Draft, Prepared, prepare},
};
use crate::{
    lane::{
        command::{Command, LaneObjection, Stepped},
        new_port::NewPort,
        policy::Policy,
        reconfigure::{LaneTuning, LaneWant},
    },
    port::{Port, absent::AbsentPort},
};

/// The lanes.
pub trait Lanes {
    /// Has lanes execute commands, before all other ones, and returns their answers when all have.
    /// `holds`: other commands to lanes wait, from these on until a call without it or the end.
    ///
    /// # Errors
    /// [`Stopped`].
    fn execute(&mut self, commands: Vec<(u32, Command)>, holds: bool) -> Result<Answers, Stopped>;
}

/// The daemon shuts down, and the lanes execute no further commands.
#[derive(Debug)]
pub struct Stopped;

/// How a change ended.
#[derive(Debug)]
pub struct Outcome {
    /// The configuration that every lane holds now, or why every lane holds the previous one.
    pub result: Result<Entered, Refusal>,
    /// Reasons for the refusal.
    pub objections: Vec<Objection>,
    /// What each lane holds, as of its last answer.
    pub lanes: BTreeMap<u32, LaneHeld>,
    /// The ports that the lanes have now.
    pub ports: PortTable,
    /// Numbers of the ports that were opened: those of the new configuration, or those that were
    /// detached for a refused one.
    pub opened: Vec<u16>,
    /// Names of detached ports that could not be opened as they were, with the reason.
    pub absent: Vec<(String, String)>,
    /// Ports that no lane needs any more, to be closed.
    pub unused: Vec<Box<dyn Port>>,
}

/// A configuration that every lane holds.
#[derive(Debug)]
pub struct Entered {
    /// The configuration.
    pub config: Arc<Config>,
    /// Its text.
    pub text: String,
    /// Its policy.
    pub policy: Arc<Policy>,
    /// Keys whose value changed.
    pub changed: Vec<String>,
    /// Numbers of the ports that were removed.
    pub removed: Vec<u16>,
}

/// Puts `draft` in force on every lane, or on none.
///
/// # Errors
/// [`Stopped`], at whatever point.
pub fn reconfigure(draft: &Draft, lanes: &mut impl Lanes) -> Result<Outcome, Stopped> {
    let prepared = prepare(draft).and_then(|prepared| Change::new(draft, prepared));
    let mut change = match prepared {
        Ok(change) => change,
        Err(objections) => return Ok(unready(draft, objections)),
    };
    let result = change.run(lanes)?;
    Ok(change.end(result))
}

/// The outcome of a draft that was refused before a lane had a part in it.
fn unready(draft: &Draft, objections: Vec<Objection>) -> Outcome {
    Outcome {
        result: Err(Refusal::Unready),
        objections,
        lanes: BTreeMap::new(),
        ports: draft.ports.clone(),
        opened: Vec::new(),
        absent: Vec::new(),
        unused: Vec::new(),
    }
}

/// A change of the configuration.
struct Change<'d> {
    draft: &'d Draft,
    prepared: Prepared,
    policy: Arc<Policy>,
    /// The ports under the wanted configuration.
    table: PortTable,
    /// Their numbers, by place in it.
    numbers: Vec<u16>,
    /// Numbers and lanes of those that go.
    removed: Vec<(u16, u32)>,
    /// Ports that are closed before others can be opened: their numbers, lanes and places in the
    /// configuration in force.
    to_detach: Vec<(u16, u32, usize)>,
    /// The configuration that each lane is to hold.
    wants: Vec<Arc<LaneWant>>,
    objections: Vec<Objection>,
    held: BTreeMap<u32, LaneHeld>,
    opened: Vec<u16>,
    absent: Vec<(String, String)>,
    unused: Vec<Box<dyn Port>>,
    /// The ports in force, as they are now.
    ports: PortTable,
}

impl<'d> Change<'d> {
    /// # Errors
    /// A lane has had too many ports.
    fn new(draft: &'d Draft, prepared: Prepared) -> Result<Self, Vec<Objection>> {
        let mut table = draft.ports.clone();
        let wanted = &prepared.config.port;
        let to_detach = prepared.plan.to_detach.iter().filter_map(|&at| {
            let (number, port) = draft.ports.find(&draft.now.port[at].name).ok()?;
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
        if !objections.is_empty() {
            return Err(objections);
        }
        let mut change = Self {
            draft,
            policy: Arc::new(Policy::new(&prepared.config)),
            prepared,
            table,
            numbers,
            removed,
            to_detach,
            wants: Vec::new(),
            objections,
            held: BTreeMap::new(),
            opened: Vec::new(),
            absent: Vec::new(),
            unused: Vec::new(),
            ports: draft.ports.clone(),
        };
        change.wants = change.wants();
        Ok(change)
    }

    fn wants(&self) -> Vec<Arc<LaneWant>> {
        let config = &self.prepared.config;
        let changed = self.draft.policy.differing(&self.policy);
        let faults = |lane| {
            let ports = config.port.iter().zip(&self.numbers);
            ports
                .filter(|(port, _)| port.lane == lane)
                .filter_map(|(port, &number)| Some((number, port.faults?)))
                .collect()
        };
        let removed = |lane| {
            let removed = self.removed.iter().filter(|(_, of)| *of == lane);
            removed.map(|(number, _)| *number).collect()
        };
        (0..self.draft.lanes)
            .map(|lane| {
                Arc::new(LaneWant {
                    epoch: self.draft.epoch,
                    tuning: LaneTuning::new(config, lane),
                    policy: Arc::clone(&self.policy),
                    changed: changed.clone(),
                    faults: faults(lane),
                    removed: removed(lane),
                })
            })
            .collect()
    }

    /// Prepares, and then commits or rolls back.
    fn run(&mut self, lanes: &mut impl Lanes) -> Result<Result<(), Refusal>, Stopped> {
        // Before a port is closed for it, or a rule changes.
        let checks = self.for_each_lane(|_, want| Command::Check(want));
        if let Err(refusal) = self.execute(lanes, checks, false)? {
            return Ok(Err(refusal));
        }
        if let Err(refusal) = self.open_in_place(lanes)? {
            self.restore(lanes)?;
            return Ok(Err(refusal));
        }
        let mut ports = self.new_ports();
        let prepare = self.for_each_lane(|lane, want| {
            Command::Prepare(want, ports.remove(&lane).unwrap_or_default())
        });
        // The barrier: every lane has prepared, or one could not.
        let prepared = self.execute(lanes, prepare, true)?;
        if prepared.is_ok() {
            let commit = self.for_each_lane(|_, _| Command::Commit);
            // Cannot fail.
            let _ = self.execute(lanes, commit, true)?;
        } else {
            let roll_back = self.for_each_lane(|_, _| Command::RollBack);
            // Cannot fail either, and does nothing on a lane that could not prepare.
            let _ = self.execute(lanes, roll_back, false)?;
            self.restore(lanes)?;
        }
        Ok(prepared)
    }

    fn for_each_lane(
        &self,
        mut command: impl FnMut(u32, Arc<LaneWant>) -> Command,
    ) -> Vec<(u32, Command)> {
        let wants = (0..).zip(&self.wants);
        wants
            .map(|(lane, want)| (lane, command(lane, Arc::clone(want))))
            .collect()
    }

    /// Has lanes execute commands, and keeps the ports that they hand over. Returns the first lane
    /// that cannot as a refusal.
    fn execute(
        &mut self,
        lanes: &mut impl Lanes,
        commands: Vec<(u32, Command)>,
        holds: bool,
    ) -> Result<Result<(), Refusal>, Stopped> {
        let mut result = Ok(());
        for (lane, Stepped { went, ports }) in lanes.execute(commands, holds)? {
            let ports = ports.into_iter().map(|(_, port)| port);
            self.unused.extend(ports);
            match went {
                Ok(held) => drop(self.held.insert(lane, held)),
                Err(objection) => {
                    result = result.and(Err(Refusal::Lane(lane)));
                    let objection = self.objection(objection);
                    self.objections.push(objection);
                }
            }
        }
        Ok(result)
    }

    /// Has lanes detach ports, closes these, and opens the ones that need what they held.
    fn open_in_place(&mut self, lanes: &mut impl Lanes) -> Result<Result<(), Refusal>, Stopped> {
        if self.to_detach.is_empty() {
            return Ok(Ok(()));
        }
        let mut detach = BTreeMap::<u32, Vec<u16>>::new();
        for &(number, lane, _) in &self.to_detach {
            detach.entry(lane).or_default().push(number);
        }
        let detach = detach
            .into_iter()
            .map(|(lane, ports)| (lane, Command::DetachPorts { ports }));
        let detached = self.execute(lanes, detach.collect(), false)?;
        if detached.is_err() {
            return Ok(detached);
        }
        self.unused.clear();
        Ok(
            match open_all(&self.prepared.config, &self.prepared.plan.after) {
                Ok(opened) => {
                    self.prepared.opened.extend(opened);
                    Ok(())
                }
                Err(objections) => {
                    self.objections.extend(objections);
                    Err(Refusal::Unready)
                }
            },
        )
    }

    /// The ports that each lane gets.
    fn new_ports(&mut self) -> BTreeMap<u32, Vec<NewPort>> {
        let mut ports = BTreeMap::<u32, Vec<NewPort>>::new();
        for Opened { at, port } in std::mem::take(&mut self.prepared.opened) {
            let (config, number) = (&self.prepared.config.port[at], self.numbers[at]);
            self.table.opened(number, &*port);
            self.opened.push(number);
            let new = NewPort::new(number, config, port);
            ports.entry(config.lane).or_default().push(new);
        }
        ports
    }

    /// Gives the lanes their detached ports back, opened as they were, under the configuration in
    /// force. A placeholder port stands in for one that cannot be opened or has no place for its
    /// rules.
    fn restore(&mut self, lanes: &mut impl Lanes) -> Result<(), Stopped> {
        // These may hold what those need.
        self.prepared.opened.clear();
        self.unused.clear();
        self.opened.clear();
        if self.to_detach.is_empty() {
            return Ok(());
        }
        let mut waiting = BTreeMap::<u32, Vec<NewPort>>::new();
        for &(number, lane, at) in &self.to_detach {
            let port = restore(&self.draft.now, at);
            match port.absent() {
                Some(reason) => {
                    let absent = (port.info().name.clone(), reason.to_owned());
                    self.absent.push(absent);
                }
                None => self.ports.opened(number, &*port),
            }
            self.opened.push(number);
            let new = NewPort::new(number, &self.draft.now.port[at], port);
            waiting.entry(lane).or_default().push(new);
        }
        let restored: Vec<_> = waiting.keys().copied().collect();
        while !waiting.is_empty() {
            let prepare = std::mem::take(&mut waiting).into_iter();
            let prepare = prepare.map(|(lane, ports)| {
                let want = self.as_it_was(lane);
                (lane, Command::Prepare(want, ports))
            });
            for (lane, Stepped { went, ports }) in lanes.execute(prepare.collect(), true)? {
                if let Err(objection) = went {
                    let again = self.without_blocked(ports, &objection);
                    waiting.insert(lane, again);
                }
            }
        }
        let commit = restored.into_iter().map(|lane| (lane, Command::Commit));
        let _ = self.execute(lanes, commit.collect(), true)?;
        Ok(())
    }

    /// The configuration in force, for a lane that gets ports back.
    fn as_it_was(&self, lane: u32) -> Arc<LaneWant> {
        Arc::new(LaneWant {
            epoch: self.draft.epoch_now,
            tuning: LaneTuning::new(&self.draft.now, lane),
            policy: Arc::clone(&self.draft.policy),
            changed: Vec::new(),
            faults: Vec::new(),
            removed: Vec::new(),
        })
    }

    /// Returns the ports that a lane handed back, with a placeholder port for each one that the
    /// objection is about. A lane that objects to a placeholder port keeps the one that it has.
    fn without_blocked(
        &mut self,
        ports: Vec<(u16, Box<dyn Port>)>,
        objection: &LaneObjection,
    ) -> Vec<NewPort> {
        let mut again = Vec::new();
        for (number, mut port) in ports {
            let place = self.to_detach.iter().find(|(of, ..)| *of == number);
            let Some(&(_, _, at)) = place else { continue };
            if objection.port.is_none_or(|blocked| blocked == number) {
                if port.absent().is_some() {
                    continue;
                }
                let info = port.info().clone();
                let absent = (info.name.clone(), objection.reason.clone());
                self.absent.push(absent);
                port = Box::new(AbsentPort::in_place_of(info, &objection.reason));
            }
            again.push(NewPort::new(number, &self.draft.now.port[at], port));
        }
        again
    }

    /// A lane's objection, with the key in the offered text.
    fn objection(&self, objection: LaneObjection) -> Objection {
        let of_rule = objection.matches.as_ref().and_then(|matches| {
            let mut rules = self.prepared.config.steer.iter();
            rules.position(|rule| rule.matches == *matches)
        });
        let of_port = objection.port.and_then(|number| {
            let mut numbers = self.numbers.iter();
            numbers.position(|of| *of == number)
        });
        let key = match (of_rule, of_port) {
            (Some(at), _) => format!("steer[{at}]"),
            (None, Some(at)) => format!("port[{at}]"),
            (None, None) => String::new(),
        };
        Objection {
            key,
            message: objection.reason,
        }
    }

    fn end(self, result: Result<(), Refusal>) -> Outcome {
        let config = self.prepared.config;
        let entered = Entered {
            text: self.draft.text.clone(),
            config: Arc::new(config),
            policy: self.policy,
            changed: self.prepared.changed,
            removed: self.removed.into_iter().map(|(number, _)| number).collect(),
        };
        Outcome {
            ports: match result {
                Ok(()) => self.table,
                Err(_) => self.ports,
            },
            result: result.map(|()| entered),
            objections: self.objections,
            lanes: self.held,
            opened: self.opened,
            absent: self.absent,
            unused: self.unused,
        }
    }
}

#[cfg(test)]
mod tests;
