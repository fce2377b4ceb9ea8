//! The possible next steps, and their effects.

use covalent_protocol::agreement::proposer::Input;

use super::{
    control::{Control, Down},
    invariant,
    scenario::Scenario,
    sight,
    world::{EDITED, World},
};
use crate::check::{Invariant, Sight, Space};

/// One thing that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Control starts.
    StartControl,
    /// It is killed.
    KillControl,
    /// The dataplane starts.
    StartDataplane,
    /// It is killed.
    KillDataplane,
    /// It shuts down gracefully.
    StopDataplane,
    /// Control connects.
    Connect,
    /// Its connection breaks.
    Break,
    /// A second client connects and sends a query.
    Intrude,
    /// The file is edited, and control is to have it in force.
    Wish(u64),
    /// Control is to have ports opened again.
    Reopen,
    /// Something appears.
    Appear,
    /// A client reads from its connection.
    ClientReceives(usize),
    /// The host thread reads from a connection.
    DataplaneReceives(usize),
    /// The change of the lanes goes on.
    JobGoesOn,
    /// It fails.
    JobFails,
}

impl Space for Scenario {
    type World = World;
    type Step = Step;

    const SIGHTS: &'static [Sight<World>] = sight::ALL;
    const INVARIANTS: &'static [Invariant<Self>] = invariant::ALL;

    fn name(&self) -> &'static str {
        self.name
    }

    fn starts(&self) -> Vec<World> {
        vec![World::new()]
    }

    fn next_steps(&self, world: &World, steps: &mut Vec<Step>) {
        let (budget, spent) = (&self.budget, &world.spent);
        match &world.control {
            None => steps.push(Step::StartControl),
            Some(control) => {
                if spent.control_deaths < budget.control_deaths {
                    steps.push(Step::KillControl);
                }
                if control.connection.is_some() && spent.breaks < budget.breaks {
                    steps.push(Step::Break);
                }
                if control.connection.is_none() && world.dataplane.is_some() {
                    steps.push(Step::Connect);
                }
                // Elsewhere the wish is refused at once, and nothing comes of it.
                if control.proposer.is_agreed() && spent.wishes < budget.wishes {
                    steps.extend(EDITED.map(Step::Wish));
                }
                if control.proposer.is_agreed() && spent.reopens < budget.reopens {
                    steps.push(Step::Reopen);
                }
                if control.proposer.is_agreed()
                    && control.proposer.owed().is_some()
                    && spent.appearances < budget.appearances
                {
                    steps.push(Step::Appear);
                }
            }
        }
        for (number, connection) in world.connections.iter().enumerate() {
            let ended = |open: bool, nothing: bool| !open && nothing;
            if connection.client_end
                && (!connection.down.is_empty()
                    || ended(connection.dataplane_end, connection.down.is_empty()))
            {
                steps.push(Step::ClientReceives(number));
            }
            if connection.dataplane_end
                && (!connection.up.is_empty()
                    || ended(connection.client_end, connection.up.is_empty()))
            {
                steps.push(Step::DataplaneReceives(number));
            }
        }
        let Some(dataplane) = &world.dataplane else {
            return steps.push(Step::StartDataplane);
        };
        if spent.dataplane_deaths < budget.dataplane_deaths {
            steps.push(Step::KillDataplane);
        }
        if spent.leaves < budget.leaves {
            steps.push(Step::StopDataplane);
        }
        if spent.untrusted_users < budget.untrusted_users {
            steps.push(Step::Intrude);
        }
        if dataplane.job.is_some() {
            steps.push(Step::JobGoesOn);
        }
        if dataplane.may_fail() && spent.failures < budget.failures {
            steps.push(Step::JobFails);
        }
    }

    fn after(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        next.step(self, step);
        Some(next)
    }

    fn excused(&self) -> &[&'static str] {
        &self.excused
    }

    fn take_observed(world: &mut World) -> u32 {
        std::mem::take(&mut world.observed)
    }
}

impl World {
    /// Something happens.
    pub fn step(&mut self, scenario: &Scenario, step: Step) {
        let mutant = scenario.mutant;
        match step {
            Step::StartControl => self.control = Some(Control::default()),
            Step::KillControl => {
                self.spent.control_deaths += 1;
                let connection = self.control.take().and_then(|it| it.connection);
                if let Some(number) = connection {
                    self.close(number);
                }
            }
            Step::StartDataplane => self.start_dataplane(),
            Step::KillDataplane => {
                self.spent.dataplane_deaths += 1;
                self.end_dataplane();
            }
            Step::StopDataplane => {
                self.spent.leaves += 1;
                let partner = self.dataplane.as_ref().and_then(|it| it.acceptor.partner());
                if let Some(partner) = partner {
                    let connection = &mut self.connections[partner as usize];
                    if connection.client_end {
                        connection.down.push_back(Down::Leave);
                    }
                }
                self.end_dataplane();
            }
            Step::Connect => self.connect(mutant),
            Step::Break => {
                self.spent.breaks += 1;
                let control = self.control.as_mut();
                if let Some(number) = control.and_then(|it| it.connection.take()) {
                    self.close(number);
                    self.control_input(mutant, Input::Lost);
                }
            }
            Step::Intrude => {
                self.spent.untrusted_users += 1;
                self.intrude();
            }
            Step::Wish(wants) => {
                self.spent.wishes += 1;
                self.file = wants;
                self.control_input(mutant, Input::Wished { wants });
            }
            Step::Reopen => {
                self.spent.reopens += 1;
                self.control_input(mutant, Input::Reopen);
            }
            Step::Appear => {
                self.spent.appearances += 1;
                self.control_input(mutant, Input::Appeared);
            }
            Step::ClientReceives(number) => self.client_receives(mutant, number),
            Step::DataplaneReceives(number) => self.dataplane_receives(mutant, number),
            Step::JobGoesOn => self.job_goes_on(mutant, false),
            Step::JobFails => {
                self.spent.failures += 1;
                self.job_goes_on(mutant, true);
            }
        }
    }

    /// Datagrams to the dataplane are lost.
    fn end_dataplane(&mut self) {
        self.dataplane = None;
        for connection in &mut self.connections {
            connection.dataplane_end = false;
            connection.up.clear();
        }
    }
}
