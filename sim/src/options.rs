//! What may be chosen about a run; the seed decides the rest.

use std::ops::RangeInclusive;

use crate::{
    mutant::Mutant,
    named::{Set, named},
};

/// How many nodes a world may have.
pub const NODES: RangeInclusive<usize> = 2..=16;

/// What a run is told. What it is not told, its seed decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Nodes, within [`NODES`].
    pub nodes: Option<usize>,
    /// What is cabled to what.
    pub topology: Option<Topology>,
    /// Classes of faults that occur, each rarely or often. Without it a seed picks the classes as well.
    pub faults: Option<Faults>,
    /// Events until the faults stop.
    pub steps: Option<u32>,
    /// What is broken on purpose, to see the checkers find it.
    pub mutant: Option<Mutant>,
}

impl Options {
    /// The command that makes the run of `seed` again.
    #[must_use]
    pub fn command(&self, seed: u64) -> String {
        let mut command = format!("covalent sim --seed {seed}");
        if let Some(nodes) = self.nodes {
            command += &format!(" --nodes {nodes}");
        }
        if let Some(topology) = self.topology {
            command += &format!(" --topology {topology}");
        }
        if let Some(faults) = &self.faults {
            command += &format!(" --faults {faults}");
        }
        if let Some(steps) = self.steps {
            command += &format!(" --steps {steps}");
        }
        if let Some(mutant) = self.mutant {
            command += &format!(" --mutant {mutant}");
        }
        command
    }
}

named! {
    "topology":
    /// What is cabled to what.
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
    /// That frames overtake each other is none: a cable keeps order. [`Mutant::Reordering`] breaks that.
    Fault {
        /// Frames vanish.
        Loss = "loss",
        /// Bits of frames flip, those of the Ethernet header too.
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
        /// A program vanishes, and with it the interest in what it asked for.
        Cancel = "cancel",
        /// Random bytes arrive as a link frame.
        Noise = "noise",
        /// A node's registers, and records under way to it, become anything.
        Arbitrary = "arbitrary",
        /// Somebody who hears nothing puts frames with valid CRCs on cables. Occurs only where it
        /// is named.
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
    fn a_command_says_what_was_chosen() {
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
