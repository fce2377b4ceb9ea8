//! A port on its way into its place: before it stands there it is told every rule, some in each round, so that no frame is steered by half of them.
//!
//! A place that the lane has had before keeps what is bound there, and only its port is told. A new place gets what every pipe has bound that sees all ports of
//! the lane.

use covalent_api::rule::{Action, Match};

use super::{
    Lane,
    command::LaneObjection,
    core::Core,
    new_port::NewPort,
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
    /// What is bound in a new place; `None`: the place is there, with what is bound in it.
    flow: Option<Bindings>,
    next: Next,
}

/// What the port is told next.
#[derive(Debug, Clone, Copy)]
enum Next {
    /// What happens to misses.
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

    /// The port, which was told some of it.
    pub(super) fn into_port(self) -> (u16, Box<dyn Port>) {
        (self.new.number, self.new.port)
    }

    /// Tells the port one thing more. Returns whether it has been told everything.
    ///
    /// # Errors
    /// What is in the way.
    pub(super) fn step(&mut self, policy: &Policy, core: &Core) -> Result<bool, LaneObjection> {
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
            Next::Binding { slot, .. } if slot >= core.pipes.len() => Next::Nothing,
            Next::Binding { slot, at } => match self.binding(core, slot, at) {
                Some((matches, spread)) => {
                    self.bind(core, slot, &matches, spread)?;
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

    /// What the pipe in `slot` has bound in place `at` of its bindings, if it sees this port.
    fn binding(
        &self,
        core: &Core,
        slot: usize,
        at: usize,
    ) -> Option<(Match, Option<covalent_api::rule::Spread>)> {
        let pipe = core.pipes.get(slot)?;
        let sees = pipe.port.is_none_or(|port| port == self.new.number);
        pipe.bindings.get(at).filter(|_| sees).cloned()
    }

    fn bind(
        &mut self,
        core: &Core,
        slot: usize,
        matches: &Match,
        spread: Option<covalent_api::rule::Spread>,
    ) -> Result<(), LaneObjection> {
        let is_first = match (&mut self.flow, core.claim(slot, spread)) {
            (Some(flow), Some(claim)) => {
                flow.bind(matches, claim).map_err(|why| LaneObjection {
                    matches: None,
                    port: Some(self.new.number),
                    reason: core.explain(matches, &self.new.name, slot, BindRefusal::Claim(why)),
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
        self.ports.iter().any(|slot| slot.index == number)
    }

    /// Puts a port into its place, once it was told everything under the policy in force, and returns what stood there. The link of the port hears of a
    /// pulled cable; what the new port's carrier is shows at the next look.
    pub(super) fn place(&mut self, fill: Fill) -> Option<(u16, Box<dyn Port>)> {
        let NewPort {
            number,
            name,
            link,
            window_records,
            port,
            joins_lanes: _,
        } = fill.new;
        self.unplug(number);
        let mac = port.info().mac;
        let stood = match (
            self.ports.iter_mut().find(|slot| slot.index == number),
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
                self.ports.push(slot);
                None
            }
        };
        self.core.port_names.insert(number, name);
        self.core.failovers.add(number);
        if link {
            // One that is there already goes on, under a later epoch.
            let _ = self.node.add_link(number, mac);
            self.node.set_address(number, mac);
            if let Some(records) = window_records {
                self.node.set_window(number, records);
            }
        }
        stood
    }

    /// Tells whoever must know that there is no carrier at this port, whatever it says itself.
    pub(super) fn unplug(&mut self, number: u16) {
        let Some(slot) = self.ports.iter_mut().find(|slot| slot.index == number) else {
            return;
        };
        if std::mem::replace(&mut slot.carrier, false) {
            if slot.link {
                self.node.on_carrier(number, false, &mut self.core);
            }
            super::receive::report_carrier(&mut self.core, number, false);
        }
    }
}
