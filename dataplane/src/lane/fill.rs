//! A new port before its insertion. The lane first installs every rule on it, a bounded part per
//! round, so that a partial set of rules steers no frame.
//!
//! A slot that the lane already has keeps its bindings, and only the port gets them. A new slot
//! gets the bindings of every pipe that sees all ports of the lane.

use covalent_api::rule::{Action, Match};

use super::{
    Lane,
    command::LaneObjection,
    commands::explain,
    new_port::NewPort,
    pipes::Pipes,
    policy::Policy,
    port_slot::{BindRefusal, PortSlot},
};
use crate::{
    flow::Bindings,
    port::{Port, SteerChange},
};

/// See the module.
#[derive(Debug)]
pub(super) struct Fill {
    new: NewPort,
    /// The bindings of a new slot; `None` if the slot exists and has its bindings.
    flow: Option<Bindings>,
    next: Next,
}

/// The next item to install on the port.
#[derive(Debug, Clone, Copy)]
enum Next {
    /// The action for misses.
    Miss,
    /// The configured rule in this place of the policy.
    Rule(usize),
    /// A binding of the pipe in this slot.
    Binding {
        slot: usize,
        at: usize,
    },
    Nothing,
}

impl Fill {
    /// `has_place`: the lane has a place for a port of this number.
    pub(super) fn new(new: NewPort, has_place: bool) -> Self {
        Self {
            new,
            flow: (!has_place).then(Bindings::default),
            next: Next::Miss,
        }
    }

    /// Returns the port, which has a part of its rules.
    pub(super) fn into_port(self) -> (u16, Box<dyn Port>) {
        (self.new.number, self.new.port)
    }

    /// Installs one more item on the port. Returns whether all are installed.
    ///
    /// # Errors
    /// The obstacle.
    pub(super) fn step(&mut self, policy: &Policy, pipes: &Pipes) -> Result<bool, LaneObjection> {
        self.next = match self.next {
            Next::Miss => {
                self.steer(&SteerChange::Default(policy.miss))?;
                Next::Rule(0)
            }
            Next::Rule(at) => match policy.rule(at) {
                Some((matches, action)) => {
                    self.steer(&SteerChange::Insert(matches.clone(), action))?;
                    if let Some(flow) = &mut self.flow {
                        flow.set_rule(matches, Some(action));
                    }
                    Next::Rule(at + 1)
                }
                None => Next::Binding { slot: 0, at: 0 },
            },
            Next::Binding { slot, .. } if slot >= pipes.slots.len() => Next::Nothing,
            Next::Binding { slot, at } => match self.binding(pipes, slot, at) {
                Some((matches, spread)) => {
                    self.bind(pipes, slot, &matches, spread)?;
                    Next::Binding { slot, at: at + 1 }
                }
                None => Next::Binding {
                    slot: slot + 1,
                    at: 0,
                },
            },
            Next::Nothing => Next::Nothing,
        };
        Ok(matches!(self.next, Next::Nothing))
    }

    /// Returns the binding of the pipe in `slot` at index `at`, if the pipe sees this port.
    fn binding(
        &self,
        pipes: &Pipes,
        slot: usize,
        at: usize,
    ) -> Option<(Match, Option<covalent_api::rule::Spread>)> {
        let pipe = pipes.slots.get(slot)?;
        let sees = pipe.port.is_none_or(|port| port == self.new.number);
        pipe.bindings.get(at).filter(|_| sees).cloned()
    }

    fn bind(
        &mut self,
        pipes: &Pipes,
        slot: usize,
        matches: &Match,
        spread: Option<covalent_api::rule::Spread>,
    ) -> Result<(), LaneObjection> {
        let is_first = match (&mut self.flow, pipes.claim(slot, spread)) {
            (Some(flow), Some(claim)) => {
                flow.bind(matches, claim).map_err(|why| LaneObjection {
                    matches: None,
                    port: Some(self.new.number),
                    reason: explain(
                        pipes,
                        matches,
                        &self.new.name,
                        slot,
                        BindRefusal::Claim(why),
                    ),
                })?
            }
            _ => true,
        };
        if is_first {
            self.steer(&SteerChange::Insert(matches.clone(), Action::Dataplane))?;
        }
        Ok(())
    }

    fn steer(&mut self, change: &SteerChange) -> Result<(), LaneObjection> {
        self.new.port.steer(change).map_err(|error| LaneObjection {
            matches: None,
            port: Some(self.new.number),
            reason: error.to_string(),
        })
    }
}

impl Lane {
    pub(super) fn has_place(&self, number: u16) -> bool {
        self.ports.slots.iter().any(|slot| slot.index == number)
    }

    /// Inserts a port that has all rules of the policy in force. Returns the port that it replaces.
    /// The port's link sees a loss of carrier; the next check reads the carrier of the new port.
    pub(super) fn place(&mut self, fill: Fill) -> Option<(u16, Box<dyn Port>)> {
        let NewPort {
            number,
            name,
            link,
            window_records,
            port,
            joins_lanes: _,
        } = fill.new;
        let (_, ports, mut host) = self.parts();
        ports.unplug(number, &mut host);
        let mac = port.info().mac;
        let stood = match (
            self.ports
                .slots
                .iter_mut()
                .find(|slot| slot.index == number),
            fill.flow,
        ) {
            (Some(slot), _) => {
                slot.link = link;
                slot.is_configured = true;
                Some((number, slot.exchange(port)))
            }
            (None, flow) => {
                let flow = flow.unwrap_or_default();
                let slot = PortSlot::with(number, port, link, flow, &self.settings.policy);
                self.ports.slots.push(slot);
                None
            }
        };
        self.housekeeping.reports.port_names.insert(number, name);
        self.housekeeping.reports.failovers.add(number);
        if link {
            // An existing link continues under a later epoch.
            let _ = self.ports.node.add_link(number, mac);
            self.ports.node.set_address(number, mac);
            if let Some(records) = window_records {
                self.ports.node.set_window(number, records);
            }
        }
        stood
    }
}
