//! Options of a run. The seed decides the rest.

use super::{
    churn::{run, shape},
    figures::MeshReport,
    load::MeshLoad,
    mutant::MeshMutant,
    time::ROUND_TRIP_UNITS,
};
use crate::{
    harness::{Command, Drawn, Failure, Simulator},
    named::{Set, named},
    shape::{Form, VALENCE},
};

/// Options of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeshOptions {
    /// Shape of the cabling.
    pub form: Form,
    /// Number of nodes, if the form does not set it.
    pub nodes: Option<usize>,
    /// Most cables at a node: 2 to [`VALENCE_MAX`](crate::shape::VALENCE_MAX).
    pub valence: usize,
    /// Classes of faults that occur.
    pub faults: MeshFaults,
    /// Faults in all.
    pub churn: u32,
    /// Round trips of a link between two faults in the mean.
    pub every_rt: u32,
    /// Which nodes request verbs from which.
    pub load: MeshLoad,
    /// By how much the delays of cables differ, in hundredths of the delay: 0 to 90.
    pub jitter_percent: u32,
    /// Round trips of a link in a tick interval.
    pub tick_rt: u32,
    /// A deliberate defect, to verify that the checkers find it.
    pub mutant: Option<MeshMutant>,
}

impl MeshOptions {
    /// Options with the defaults: a random shape of 12 nodes, 40 faults of all classes, and one
    /// fault about every 60 round trips. There are verbs between neighbors, no jitter, and 100
    /// round trips in a tick interval.
    #[must_use]
    pub fn new() -> Self {
        Self {
            form: Form::Random(4),
            nodes: Some(12),
            valence: VALENCE,
            faults: MeshFaults::ALL,
            churn: 40,
            every_rt: 60,
            load: MeshLoad::Verbs,
            jitter_percent: 0,
            tick_rt: 100,
            mutant: None,
        }
    }

    /// Units in a tick interval.
    #[must_use]
    pub fn tick_units(&self) -> u64 {
        u64::from(self.tick_rt.max(1)) * ROUND_TRIP_UNITS
    }
}

impl Simulator for MeshOptions {
    type Report = MeshReport;
    type Fault = FaultClass;

    fn command(&self, seed: u64) -> String {
        let usual = Self::new();
        let command = Command::new("covalent sim mesh")
            .with("shape", Some(&self.form))
            .with("nodes", self.nodes)
            .with("seed", Some(seed))
            .with("faults", Some(self.faults))
            .unless("valence", self.valence, &usual.valence)
            .unless("churn", self.churn, &usual.churn)
            .unless("every", self.every_rt, &usual.every_rt)
            .unless("jitter", self.jitter_percent, &usual.jitter_percent)
            .unless("pace", self.tick_rt, &usual.tick_rt)
            .unless("load", self.load, &usual.load)
            .with("mutant", self.mutant);
        command.0
    }

    fn run(&self, seed: u64) -> Result<MeshReport, Box<Failure>> {
        let shape = shape(seed, self).map_err(|error| self.without_world(seed, &error))?;
        run(seed, shape, self, None).0
    }

    fn drawn(&self, seed: u64) -> Option<Drawn<FaultClass>> {
        Some(Drawn {
            nodes: shape(seed, self).ok()?.nodes,
            faults: self.faults,
            events: self.churn,
        })
    }

    fn with_nodes(mut self, seed: u64, nodes: usize) -> Self {
        self.nodes = Some(nodes);
        if shape(seed, &self).is_err() {
            self.form = Form::Random(4);
        }
        self
    }

    fn with_faults(mut self, faults: MeshFaults) -> Self {
        self.faults = faults;
        self
    }

    fn with_events(mut self, events: u32) -> Self {
        self.churn = events;
        self
    }
}

impl Default for MeshOptions {
    fn default() -> Self {
        Self::new()
    }
}

named! {
    "class of faults of a mesh":
    /// A class of faults of a mesh.
    FaultClass {
        /// A cable is cut in both directions, and both ports notice.
        Cut = "cut",
        /// A cable is cut in both directions, and at most one port notices.
        Silent = "silent",
        /// A cable loses everything in one direction, noticed at either port or not.
        OneWay = "one-way",
        /// A cable is cut and whole again before many round trips have passed.
        Flap = "flap",
        /// A node is off for a while, and has forgotten everything when it starts again.
        Crash = "crash",
        /// A node stands still for a while; nothing is lost.
        Stall = "stall",
        /// A cable loses some of its frames for a while.
        Loss = "loss",
        /// All cables between some of the nodes and the others are cut.
        Partition = "partition",
        /// A node beside the mesh lies to the one to which it is cabled. Occurs only where it is
        /// named.
        Liar = "liar",
    } rare: Liar
}

/// A set of classes of faults.
pub type MeshFaults = Set<FaultClass>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_lists_the_chosen_options() {
        let options = MeshOptions {
            form: Form::Torus(None),
            nodes: Some(100),
            faults: MeshFaults::of(&[FaultClass::Cut]),
            churn: 7,
            load: MeshLoad::None,
            ..MeshOptions::new()
        };
        assert_eq!(
            options.command(3),
            "covalent sim mesh --shape torus --nodes 100 --seed 3 --faults cut --churn 7 --load \
             none"
        );
        assert_eq!(
            MeshOptions::new().command(0),
            "covalent sim mesh --shape random:4 --nodes 12 --seed 0 --faults all"
        );
    }
}
