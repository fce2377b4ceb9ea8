//! What may be chosen about a run; the seed decides the rest.

use std::{fmt, str::FromStr};

use super::{mutant::MeshMutant, time::ROUND_TRIP_UNITS};
use crate::{
    options::UnknownName,
    shape::{Form, VALENCE},
};

/// What a run is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeshOptions {
    /// What is cabled to what.
    pub form: Form,
    /// Nodes, where the form does not say how many.
    pub nodes: Option<usize>,
    /// Most cables at a node: 2 to [`crate::shape::VALENCE_MAX`].
    pub valence: usize,
    /// Classes of faults that occur.
    pub faults: MeshFaults,
    /// Faults in all.
    pub churn: u32,
    /// Round trips of a link between two faults in the mean.
    pub every_rt: u32,
    /// Neighbours ask each other for verbs all the time.
    pub load: bool,
    /// By how much the delays of cables differ, in hundredths of the delay: 0 to 90.
    pub jitter_percent: u32,
    /// Round trips of a link in a pace.
    pub pace_rt: u32,
    /// What is broken on purpose, to see the checkers find it.
    pub mutant: Option<MeshMutant>,
}

impl MeshOptions {
    /// Options with the defaults: a random shape of 12 nodes, 40 faults of all classes, one about every 60 round trips, verbs
    /// between neighbours, no jitter, 100 round trips in a pace.
    #[must_use]
    pub fn new() -> Self {
        Self {
            form: Form::Random(4),
            nodes: Some(12),
            valence: VALENCE,
            faults: MeshFaults::ALL,
            churn: 40,
            every_rt: 60,
            load: true,
            jitter_percent: 0,
            pace_rt: 100,
            mutant: None,
        }
    }

    /// Units in a pace.
    #[must_use]
    pub fn pace_units(&self) -> u64 {
        u64::from(self.pace_rt.max(1)) * ROUND_TRIP_UNITS
    }

    /// The command that makes the run of `seed` again.
    #[must_use]
    pub fn command(&self, seed: u64) -> String {
        let usual = Self::new();
        let mut command = format!("covalent sim mesh --shape {}", self.form);
        if let Some(nodes) = self.nodes {
            command += &format!(" --nodes {nodes}");
        }
        command += &format!(" --seed {seed} --faults {}", self.faults);
        let mut say = |name: &str, said: u32, usual: u32| {
            if said != usual {
                command += &format!(" --{name} {said}");
            }
        };
        say("valence", self.valence as u32, usual.valence as u32);
        say("churn", self.churn, usual.churn);
        say("every", self.every_rt, usual.every_rt);
        say("jitter", self.jitter_percent, usual.jitter_percent);
        say("pace", self.pace_rt, usual.pace_rt);
        if !self.load {
            command += " --load none";
        }
        if let Some(mutant) = self.mutant {
            command += &format!(" --mutant {mutant}");
        }
        command
    }
}

impl Default for MeshOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// A class of faults of a mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FaultClass {
    /// A cable is cut in both directions, and both ports notice.
    Cut,
    /// A cable is cut in both directions, and at most one port notices.
    Silent,
    /// A cable loses everything in one direction, noticed at either port or not.
    OneWay,
    /// A cable is cut and whole again before many round trips have passed.
    Flap,
    /// A node is off for a while, and has forgotten everything when it starts again.
    Crash,
    /// A node stands still for a while; nothing is lost.
    Stall,
    /// A cable loses some of its frames for a while.
    Loss,
    /// All cables between some of the nodes and the others are cut.
    Partition,
}

impl FaultClass {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Cut,
        Self::Silent,
        Self::OneWay,
        Self::Flap,
        Self::Crash,
        Self::Stall,
        Self::Loss,
        Self::Partition,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Silent => "silent",
            Self::OneWay => "one-way",
            Self::Flap => "flap",
            Self::Crash => "crash",
            Self::Stall => "stall",
            Self::Loss => "loss",
            Self::Partition => "partition",
        }
    }
}

/// A set of classes of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeshFaults(u16);

impl MeshFaults {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// All of them.
    pub const ALL: Self = Self((1 << FaultClass::ALL.len()) - 1);

    /// These.
    #[must_use]
    pub const fn of(classes: &[FaultClass]) -> Self {
        let mut set = 0;
        let mut at = 0;
        while at < classes.len() {
            set |= 1 << classes[at] as u8;
            at += 1;
        }
        Self(set)
    }

    /// Whether a class is one of them.
    #[must_use]
    pub const fn has(self, class: FaultClass) -> bool {
        self.0 & 1 << class as u8 != 0
    }

    /// Those that are.
    pub fn iter(self) -> impl Iterator<Item = FaultClass> {
        let all = FaultClass::ALL.into_iter();
        all.filter(move |class| self.has(*class))
    }
}

impl FromStr for MeshFaults {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "none" => return Ok(Self::NONE),
            "all" => return Ok(Self::ALL),
            _ => {}
        }
        let mut set = Self::NONE;
        for word in text.split(',').map(str::trim) {
            let mut classes = FaultClass::ALL.into_iter();
            let class = classes
                .find(|class| class.as_str() == word)
                .ok_or_else(|| {
                    let names = FaultClass::ALL.iter().map(|class| class.as_str());
                    UnknownName::new(
                        "class of faults of a mesh",
                        word.to_owned(),
                        names.chain(["none", "all"]).collect(),
                    )
                })?;
            set.0 |= 1 << class as u8;
        }
        Ok(set)
    }
}

impl fmt::Display for MeshFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NONE => f.write_str("none"),
            Self::ALL => f.write_str("all"),
            set => {
                let names: Vec<_> = set.iter().map(FaultClass::as_str).collect();
                f.write_str(&names.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_set_of_faults_reads_as_it_was_written() {
        for set in [
            MeshFaults::NONE,
            MeshFaults::ALL,
            MeshFaults::of(&[FaultClass::OneWay, FaultClass::Crash]),
        ] {
            assert_eq!(set.to_string().parse(), Ok(set));
        }
        let error = "cut,melt".parse::<MeshFaults>().unwrap_err().to_string();
        assert!(
            error.contains("`melt`") && error.contains("one-way"),
            "{error}"
        );
    }

    #[test]
    fn a_command_says_what_was_chosen() {
        let options = MeshOptions {
            form: Form::Torus(None),
            nodes: Some(100),
            faults: MeshFaults::of(&[FaultClass::Cut]),
            churn: 7,
            load: false,
            ..MeshOptions::new()
        };
        assert_eq!(
            options.command(3),
            "covalent sim mesh --shape torus --nodes 100 --seed 3 --faults cut --churn 7 --load none"
        );
        assert_eq!(
            MeshOptions::new().command(0),
            "covalent sim mesh --shape random:4 --nodes 12 --seed 0 --faults all"
        );
    }
}
