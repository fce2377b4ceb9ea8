//! What may be chosen about a run; the seed decides the rest.

use std::{fmt, ops::RangeInclusive, str::FromStr};

use super::mutant::Mutant;
use crate::{options::UnknownName, shape::Form};

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
        if let Some(mutant) = self.mutant {
            command += &format!(" --mutant {mutant}");
        }
        command
    }
}

macro_rules! faults {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A class of faults.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Fault {
            $($(#[$doc])* $variant,)*
        }

        impl Fault {
            /// All of them.
            pub const ALL: [Self; [$(Self::$variant),*].len()] = [$(Self::$variant),*];

            /// Its name on the command line.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

faults! {
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
}

/// A set of classes of faults. As text: names with commas between, or `none`, or `all`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults(u32);

impl Faults {
    /// No class.
    pub const NONE: Self = Self(0);
    /// Every class.
    pub const ALL: Self = Self((1 << Fault::ALL.len()) - 1);

    /// These classes.
    #[must_use]
    pub fn of(faults: &[Fault]) -> Self {
        Self(
            faults
                .iter()
                .fold(0, |set, fault| set | 1 << (*fault as u8)),
        )
    }

    /// Whether `fault` is among them.
    #[must_use]
    pub const fn has(self, fault: Fault) -> bool {
        self.0 & 1 << (fault as u8) != 0
    }

    /// The classes.
    pub fn classes(self) -> impl Iterator<Item = Fault> {
        Fault::ALL.into_iter().filter(move |fault| self.has(*fault))
    }
}

impl FromStr for Faults {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "none" => return Ok(Self::NONE),
            "all" => return Ok(Self::ALL),
            _ => {}
        }
        let mut faults = Self::NONE;
        for word in text.split(',').map(str::trim) {
            let fault = Fault::ALL
                .into_iter()
                .find(|fault| fault.as_str() == word)
                .ok_or_else(|| {
                    let names = Fault::ALL.iter().map(|fault| fault.as_str());
                    UnknownName::new(
                        "class of faults of a group",
                        word.to_owned(),
                        names.chain(["none", "all"]).collect(),
                    )
                })?;
            faults.0 |= 1 << (fault as u8);
        }
        Ok(faults)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NONE => return f.write_str("none"),
            Self::ALL => return f.write_str("all"),
            _ => {}
        }
        let names: Vec<_> = self.classes().map(Fault::as_str).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_set_of_faults_reads_as_it_was_written() {
        for set in [
            Faults::NONE,
            Faults::ALL,
            Faults::of(&[Fault::Late, Fault::Suspect]),
        ] {
            assert_eq!(set.to_string().parse(), Ok(set));
        }
        let set: Faults = "kill, cut".parse().unwrap();
        for fault in Fault::ALL {
            let named = matches!(fault, Fault::Kill | Fault::Cut);
            assert_eq!(set.has(fault), named, "{fault:?}");
        }
        let error = "kill,loss".parse::<Faults>().unwrap_err().to_string();
        assert!(
            error.contains("`loss`") && error.contains("partition"),
            "{error}"
        );
    }

    #[test]
    fn a_command_says_what_was_chosen() {
        let options = Options {
            nodes: Some(5),
            shape: Some(Form::Ring),
            faults: Some(Faults::of(&[Fault::Kill])),
            mutant: None,
        };
        assert_eq!(
            options.command(7),
            "covalent sim group --seed 7 --nodes 5 --shape ring --faults kill"
        );
        assert_eq!(Options::default().command(7), "covalent sim group --seed 7");
    }
}
