//! What may be chosen about a run; the seed decides the rest.

use std::ops::RangeInclusive;

use super::mutant::Mutant;
use crate::{
    named::{Set, named},
    shape::Form,
};

/// How many nodes a world may have. Each has one member at a time.
pub const NODES: RangeInclusive<usize> = 2..=16;

/// What a run is told. What it is not told, its seed decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Nodes, within [`NODES`].
    pub nodes: Option<usize>,
    /// What is cabled to what.
    pub shape: Option<Form>,
    /// Classes of faults that occur, each rarely or often. Without it a seed picks the classes as well.
    pub faults: Option<Faults>,
    /// Faults in all, at most, besides those of envelopes. The seed decides on the same ones in the same order.
    pub churn: Option<u32>,
    /// What is broken on purpose, to see the checkers find it.
    pub mutant: Option<Mutant>,
}

impl Options {
    /// The command that makes the run of `seed` again.
    #[must_use]
    pub fn command(&self, seed: u64) -> String {
        let mut command = format!("covalent sim group --seed {seed}");
        if let Some(nodes) = self.nodes {
            command += &format!(" --nodes {nodes}");
        }
        if let Some(shape) = &self.shape {
            command += &format!(" --shape {shape}");
        }
        if let Some(faults) = &self.faults {
            command += &format!(" --faults {faults}");
        }
        if let Some(churn) = self.churn {
            command += &format!(" --churn {churn}");
        }
        if let Some(mutant) = self.mutant {
            command += &format!(" --mutant {mutant}");
        }
        command
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
        /// Some envelopes are refused for want of room and did not arrive.
        Refuse = "refuse",
        /// A cable is cut, and mended later.
        Cut = "cut",
        /// All cables between two or three parts of the nodes are cut, and mended later.
        Partition = "partition",
        /// An application is killed; its daemon goes on.
        Kill = "kill",
        /// A node dies, and all that runs there.
        Crash = "crash",
        /// An application is killed between two of the envelopes that it says.
        Midway = "midway",
        /// An application stands still for a while.
        Halt = "halt",
        /// One end of a path holds it for lost while it is there, and finds it again later.
        Accuse = "accuse",
        /// A node is lost and found again by all others, several times.
        Flap = "flap",
        /// An application takes no events for a while.
        Full = "full",
        /// Applications start where none runs, and anew where one was left out; often the group is founded by those that are there first.
        Join = "join",
        /// An application says of a member that it should go.
        Suspect = "suspect",
        /// An application leaves.
        Leave = "leave",
        /// A stranger on a node sends envelopes for a while in the name of members there and elsewhere.
        Forge = "forge",
    }
}

/// A set of classes of faults.
pub type Faults = Set<Fault>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_says_what_was_chosen() {
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
