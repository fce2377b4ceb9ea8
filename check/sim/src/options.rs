//! Options of a run. The seed decides the rest.

use std::ops::RangeInclusive;

use fastrand::Rng;

use crate::{
    harness::{Command, Drawn, Failure, Simulator},
    mutant::Mutant,
    named::{Set, named},
    plan::Plan,
    report::Report,
    world::World,
};

/// How many nodes a world may have.
pub const NODES: RangeInclusive<usize> = 2..=16;

/// Options of a run. The seed decides those that are not set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Nodes, within [`NODES`].
    pub nodes: Option<usize>,
    /// Shape of the cabling.
    pub topology: Option<Topology>,
    /// Classes of faults that occur, each rarely or often. If unset, the seed picks the classes as
    /// well.
    pub faults: Option<Faults>,
    /// Events until the faults stop.
    pub steps: Option<u32>,
    /// A deliberate defect, to verify that the checkers find it.
    pub mutant: Option<Mutant>,
}

impl Simulator for Options {
    type Report = Report;
    type Fault = Fault;

    fn command(&self, seed: u64) -> String {
        let command = Command::new(format!("covalent sim --seed {seed}"))
            .with("nodes", self.nodes)
            .with("topology", self.topology)
            .with("faults", self.faults)
            .with("steps", self.steps)
            .with("mutant", self.mutant);
        command.0
    }

    fn run(&self, seed: u64) -> Result<Report, Box<Failure>> {
        World::new(seed, self, false).run(seed).0
    }

    fn drawn(&self, seed: u64) -> Option<Drawn<Fault>> {
        let plan = Plan::new(&mut Rng::with_seed(seed), self);
        let faults: Vec<_> = plan.faults().iter().map(|(fault, _)| *fault).collect();
        Some(Drawn {
            nodes: plan.nodes,
            faults: Faults::of(&faults),
            events: plan.steps,
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
        self.steps = Some(events.max(1));
        self
    }
}

named! {
    "topology":
    /// Shape of the cabling.
    Topology {
        /// Each node to the next.
        Line = "line",
        /// As a line, and the last to the first.
        Ring = "ring",
        /// Each node to each other.
        Full = "full",
        /// A tree that the seed grows, with some cables more.
        Random = "random",
    }
}

named! {
    "class of faults":
    /// A class of faults.
    ///
    /// Reordered frames are no fault: a cable keeps order. [`Mutant::Reordering`] breaks that.
    Fault {
        /// Frames vanish.
        Loss = "loss",
        /// Bits of frames flip, including those of the Ethernet header.
        Corrupt = "corrupt",
        /// A NIC hands a frame out a second time, behind later ones even.
        Duplicate = "duplicate",
        /// A cable loses everything in one direction, noticed at either port or not.
        CutOneWay = "cut-one-way",
        /// A cable loses everything in both directions, noticed at either port or not.
        CutBoth = "cut-both",
        /// A port loses or finds its carrier.
        Carrier = "carrier",
        /// A port cannot transmit.
        Transmit = "transmit",
        /// A node, or one direction of a cable, stands still for a while; nothing is lost.
        Stall = "stall",
        /// A node restarts without its memory, and without its journal if it had one.
        Crash = "crash",
        /// A node restarts with its journal.
        Restart = "restart",
        /// Cables are plugged elsewhere.
        Move = "move",
        /// A program vanishes, and its exchanges have no waiter any more.
        Cancel = "cancel",
        /// Random bytes arrive as a link frame.
        Noise = "noise",
        /// A node's registers, and records in flight to it, become arbitrary.
        Arbitrary = "arbitrary",
        /// A sender that receives nothing puts frames with valid CRCs on cables. Occurs only where
        /// it is named.
        Forge = "forge",
        /// A node beside the world lies to the one to which it is cabled. Occurs only where it is
        /// named.
        Lie = "lie",
    } rare: Lie
}

/// A set of classes of faults.
pub type Faults = Set<Fault>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_lists_the_chosen_options() {
        let options = Options {
            nodes: Some(3),
            topology: Some(Topology::Ring),
            faults: Some(Faults::of(&[Fault::Stall])),
            steps: Some(9),
            mutant: None,
        };
        assert_eq!(
            options.command(7),
            "covalent sim --seed 7 --nodes 3 --topology ring --faults stall --steps 9"
        );
        assert_eq!(Options::default().command(7), "covalent sim --seed 7");
    }
}
