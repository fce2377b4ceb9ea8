//! Options of a run. The seed decides the rest.

use std::ops::RangeInclusive;

use fastrand::Rng;

use super::{mutant::Mutant, plan::Plan, report::Report, world::World};
use crate::{
    harness::{Command, Drawn, Failure, Simulator},
    named::{Set, named},
    shape::Form,
};

/// How many nodes a world may have. Each has one member at a time.
pub const NODES: RangeInclusive<usize> = 2..=16;

/// Options of a run. The seed decides those that are not set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Nodes, within [`NODES`].
    pub nodes: Option<usize>,
    /// Shape of the cabling.
    pub shape: Option<Form>,
    /// Classes of faults that occur, each rarely or often. If unset, the seed picks the classes as
    /// well.
    pub faults: Option<Faults>,
    /// Maximum number of faults, besides those of envelopes. The seed decides on the same ones in
    /// the same order.
    pub churn: Option<u32>,
    /// A deliberate defect, to verify that the checkers find it.
    pub mutant: Option<Mutant>,
}

impl Simulator for Options {
    type Report = Report;
    type Fault = Fault;

    fn command(&self, seed: u64) -> String {
        let command = Command::new(format!("covalent sim group --seed {seed}"))
            .with("nodes", self.nodes)
            .with("shape", self.shape.as_ref())
            .with("faults", self.faults)
            .with("churn", self.churn)
            .with("mutant", self.mutant);
        command.0
    }

    fn run(&self, seed: u64) -> Result<Report, Box<Failure>> {
        World::new(seed, self, false)
            .map_err(|error| self.without_world(seed, &error))?
            .run(seed)
            .0
    }

    fn drawn(&self, seed: u64) -> Option<Drawn<Fault>> {
        let plan = Plan::new(&mut Rng::with_seed(seed), self).ok()?;
        Some(Drawn {
            nodes: plan.shape.nodes,
            faults: plan.faults,
            events: plan.deeds.len() as u32,
        })
    }

    fn with_nodes(mut self, _: u64, nodes: usize) -> Self {
        self.nodes = Some(nodes);
        self
    }

    fn with_faults(mut self, faults: Faults) -> Self {
        self.faults = Some(faults);
        self
    }

    fn with_events(mut self, events: u32) -> Self {
        self.churn = Some(events);
        self
    }
}

named! {
    "class of faults of a group":
    /// A class of faults.
    Fault {
        /// Some envelopes take eight times as long as others.
        Late = "late",
        /// Some envelopes arrive twice.
        Duplicate = "duplicate",
        /// Some envelopes end unclear: they arrived or did not.
        Unclear = "unclear",
        /// Some envelopes are refused because a queue is full, and did not arrive.
        Refuse = "refuse",
        /// A cable is cut, and mended later.
        Cut = "cut",
        /// All cables between two or three parts of the nodes are cut, and mended later.
        Partition = "partition",
        /// An application is killed. Its daemon continues.
        Kill = "kill",
        /// A node crashes with everything that runs there.
        Crash = "crash",
        /// An application is killed between two of its envelopes.
        Midway = "midway",
        /// An application stands still for a while.
        Halt = "halt",
        /// One end of a path holds it for lost while it is there, and finds it again later.
        Accuse = "accuse",
        /// A node is lost and found again by all others, several times.
        Flap = "flap",
        /// An application takes no events for a while.
        Full = "full",
        /// Applications start on nodes without one, and restart where one was excluded. Often the
        /// first ones found the group.
        Join = "join",
        /// An application requests to exclude a member.
        Suspect = "suspect",
        /// An application leaves.
        Leave = "leave",
        /// An untrusted local user sends envelopes for a while in the names of local and remote
        /// members.
        Forge = "forge",
    }
}

/// A set of classes of faults.
pub type Faults = Set<Fault>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_lists_the_chosen_options() {
        let options = Options {
            nodes: Some(5),
            shape: Some(Form::Ring),
            faults: Some(Faults::of(&[Fault::Kill])),
            churn: Some(2),
            mutant: None,
        };
        assert_eq!(
            options.command(7),
            "covalent sim group --seed 7 --nodes 5 --shape ring --faults kill --churn 2"
        );
        assert_eq!(Options::default().command(7), "covalent sim group --seed 7");
    }
}
