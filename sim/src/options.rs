//! What may be chosen about a run; the seed decides the rest.

use std::{fmt, ops::RangeInclusive, str::FromStr};

use crate::mutant::Mutant;

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

/// What is cabled to what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// Each node to the next.
    Line,
    /// As a line, and the last to the first.
    Ring,
    /// Each node to each other.
    Full,
    /// A tree that the seed grows, with some cables more.
    Random,
}

impl Topology {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Line, Self::Ring, Self::Full, Self::Random];

    /// Its name on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Ring => "ring",
            Self::Full => "full",
            Self::Random => "random",
        }
    }
}

/// A class of faults.
///
/// That frames overtake each other is none: a cable keeps order. [`Mutant::Reordering`] breaks that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// Frames vanish.
    Loss,
    /// Bits of frames flip, those of the Ethernet header too.
    Corrupt,
    /// A NIC hands a frame out a second time, behind later ones even.
    Duplicate,
    /// A cable loses everything in one direction, noticed at either port or not.
    CutOneWay,
    /// A cable loses everything in both directions, noticed at either port or not.
    CutBoth,
    /// A port loses or finds its carrier.
    Carrier,
    /// A port cannot transmit.
    Transmit,
    /// A node, or one direction of a cable, stands still for a while; nothing is lost.
    Stall,
    /// A node restarts without its memory, and without its journal if it had one.
    Crash,
    /// A node restarts with its journal.
    Restart,
    /// Cables are plugged elsewhere.
    Move,
    /// A program vanishes, and with it the interest in what it asked for.
    Cancel,
    /// Random bytes arrive as a link frame.
    Noise,
    /// A node's registers, and records under way to it, become anything.
    Arbitrary,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Loss,
        Self::Corrupt,
        Self::Duplicate,
        Self::CutOneWay,
        Self::CutBoth,
        Self::Carrier,
        Self::Transmit,
        Self::Stall,
        Self::Crash,
        Self::Restart,
        Self::Move,
        Self::Cancel,
        Self::Noise,
        Self::Arbitrary,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Corrupt => "corrupt",
            Self::Duplicate => "duplicate",
            Self::CutOneWay => "cut-one-way",
            Self::CutBoth => "cut-both",
            Self::Carrier => "carrier",
            Self::Transmit => "transmit",
            Self::Stall => "stall",
            Self::Crash => "crash",
            Self::Restart => "restart",
            Self::Move => "move",
            Self::Cancel => "cancel",
            Self::Noise => "noise",
            Self::Arbitrary => "arbitrary",
        }
    }
}

/// A set of classes of faults. As text: names with commas between, or `none`, or `all`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults(u16);

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
}

/// A word that names nothing here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    what: &'static str,
    found: String,
    known: Vec<&'static str>,
}

impl UnknownName {
    pub(crate) const fn new(what: &'static str, found: String, known: Vec<&'static str>) -> Self {
        Self { what, found, known }
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no {}; there are: {}",
            self.found,
            self.what,
            self.known.join(", ")
        )
    }
}

impl std::error::Error for UnknownName {}

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
                        "class of faults",
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
        let names: Vec<_> = Fault::ALL
            .into_iter()
            .filter(|fault| self.has(*fault))
            .map(Fault::as_str)
            .collect();
        f.write_str(&names.join(","))
    }
}

impl FromStr for Topology {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL
            .into_iter()
            .find(|topology| topology.as_str() == text)
            .ok_or_else(|| {
                let names = Self::ALL.map(Self::as_str).to_vec();
                UnknownName::new("topology", text.to_owned(), names)
            })
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
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
            Faults::of(&[Fault::Loss, Fault::Noise]),
        ] {
            assert_eq!(set.to_string().parse(), Ok(set));
        }
        let set: Faults = "loss, cut-both".parse().unwrap();
        for fault in Fault::ALL {
            let named = matches!(fault, Fault::Loss | Fault::CutBoth);
            assert_eq!(set.has(fault), named, "{fault:?}");
        }
        let error = "loss,reorder".parse::<Faults>().unwrap_err().to_string();
        assert!(
            error.contains("`reorder`") && error.contains("cut-one-way"),
            "{error}"
        );
    }

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
