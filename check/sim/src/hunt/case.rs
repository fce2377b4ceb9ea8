//! One run of one simulator, what it broke, and smaller cases.

use fastrand::Rng;

use crate::{
    group,
    harness::Simulator,
    mesh,
    named::named,
    options::{Fault, Faults, Options},
    shape::Form,
};

named! {
    "simulator":
    /// A simulator.
    Simulation {
        /// Links and nodes: `covalent sim`.
        Links = "links",
        /// Groups of applications: `covalent sim group`.
        Groups = "groups",
        /// Meshes with time: `covalent sim mesh`.
        Meshes = "meshes",
    }
}

/// A seed and its options: the same case is the same run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Case {
    /// Of links and nodes.
    Links(u64, Options),
    /// Of a group.
    Groups(u64, group::Options),
    /// Of a mesh.
    Meshes(u64, mesh::MeshOptions),
}

/// An invariant that a run broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Its checker, or `panic` and where.
    pub invariant: String,
    /// Description by the checker.
    pub what: String,
}

/// How large a case is. The smaller one has fewer nodes, then fewer classes, then fewer events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size {
    /// Nodes.
    pub nodes: usize,
    /// Classes of faults that occur.
    pub faults: usize,
    /// Events of links; faults of groups and meshes, at most.
    pub events: u32,
}

/// Evaluates an expression of a case's seed and options, whatever its simulator.
macro_rules! of_any {
    ($case:expr, |$seed:ident, $options:ident| $value:expr) => {
        match $case {
            Case::Links($seed, $options) => $value,
            Case::Groups($seed, $options) => $value,
            Case::Meshes($seed, $options) => $value,
        }
    };
}

/// Cases of the same simulator and seed, with other options.
macro_rules! with_others {
    ($case:expr, |$seed:ident, $options:ident| $others:expr) => {
        match $case {
            Case::Links($seed, $options) => with_others!(Links, $seed, $others),
            Case::Groups($seed, $options) => with_others!(Groups, $seed, $others),
            Case::Meshes($seed, $options) => with_others!(Meshes, $seed, $others),
        }
    };
    ($kind:ident, $seed:ident, $others:expr) => {
        $others
            .into_iter()
            .map(|options| Case::$kind(*$seed, options))
            .collect::<Vec<_>>()
    };
}

impl Case {
    /// Which simulator runs it.
    #[must_use]
    pub const fn simulation(&self) -> Simulation {
        match self {
            Self::Links(..) => Simulation::Links,
            Self::Groups(..) => Simulation::Groups,
            Self::Meshes(..) => Simulation::Meshes,
        }
    }

    /// Its seed.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        of_any!(self, |seed, _options| *seed)
    }

    /// The same options with another seed.
    #[must_use]
    pub fn with_seed(&self, seed: u64) -> Self {
        let mut case = self.clone();
        of_any!(&mut case, |own, _options| *own = seed);
        case
    }

    /// The command that makes this run again.
    #[must_use]
    pub fn command(&self) -> String {
        of_any!(self, |seed, options| options.command(*seed))
    }

    /// Runs it to its end. `None` if every invariant held.
    #[must_use]
    pub fn run(&self) -> Option<Broken> {
        let failure = of_any!(self, |seed, options| options.run(*seed).err());
        let violation = failure?.violation;
        Some(Broken {
            invariant: violation.checker.to_owned(),
            what: violation.what,
        })
    }

    /// How large it is. `None` if there is no such world.
    #[must_use]
    pub fn size(&self) -> Option<Size> {
        of_any!(self, |seed, options| {
            let drawn = options.drawn(*seed)?;
            Some(Size {
                nodes: drawn.nodes,
                faults: drawn.faults.iter().count(),
                events: drawn.events,
            })
        })
    }

    /// Returns the case with `nodes` nodes and the classes of faults that occur now. The seed draws
    /// the rest again.
    #[must_use]
    pub fn with_nodes(&self, nodes: usize) -> Option<Self> {
        let case = with_others!(self, |seed, options| {
            let faults = options.drawn(*seed)?.faults;
            [options.clone().with_faults(faults).with_nodes(*seed, nodes)]
        });
        case.into_iter().find(|case| case.size().is_some())
    }

    /// Each case that lacks one class of its faults.
    #[must_use]
    pub fn without_a_class(&self) -> Vec<Self> {
        with_others!(self, |seed, options| {
            let drawn = options.drawn(*seed);
            let each = drawn.into_iter().flat_map(|it| it.faults.each_left_out());
            each.map(|faults| options.clone().with_faults(faults))
        })
    }

    /// With so many events at most. The seed makes the same events as before, up to that number.
    #[must_use]
    pub fn with_events(&self, events: u32) -> Self {
        match self {
            Self::Links(seed, options) => Self::Links(*seed, options.clone().with_events(events)),
            Self::Groups(seed, options) => Self::Groups(*seed, options.clone().with_events(events)),
            Self::Meshes(seed, options) => Self::Meshes(*seed, options.clone().with_events(events)),
        }
    }

    /// Returns the case for a link seed. Most leave everything to the seed. Some have a forger,
    /// which occurs only where it is named.
    pub(super) fn links(seed: u64, mutant: Option<crate::Mutant>) -> Self {
        let mut rng = Rng::with_seed(seed);
        let faults = (rng.u8(..4) == 0).then(|| {
            // A forger does not occur with arbitrary registers, and a liar only where it is named.
            let others = Fault::ALL
                .iter()
                .filter(|fault| !matches!(fault, Fault::Arbitrary | Fault::Lie));
            let mut faults = vec![Fault::Forge];
            faults.extend(others.filter(|_| rng.u8(..3) == 0));
            Faults::of(&faults)
        });
        let options = Options {
            faults,
            mutant,
            ..Options::default()
        };
        Self::Links(seed, options)
    }

    /// The case that a hunt makes of a group seed: everything is left to the seed.
    pub(super) fn groups(seed: u64, mutant: Option<group::Mutant>) -> Self {
        let options = group::Options {
            mutant,
            ..group::Options::default()
        };
        Self::Groups(seed, options)
    }

    /// The case that a hunt makes of a mesh seed: all faults, on one of some shapes.
    pub(super) fn meshes(seed: u64, nodes: usize, mutant: Option<mesh::MeshMutant>) -> Self {
        let mut rng = Rng::with_seed(seed);
        let form = [Form::Torus(None), Form::Random(4), Form::Grid(None)][rng.usize(..3)].clone();
        let jitter_percent = [0, 40][rng.usize(..2)];
        let options = mesh::MeshOptions {
            form,
            nodes: Some(nodes),
            jitter_percent,
            mutant,
            ..mesh::MeshOptions::new()
        };
        Self::Meshes(seed, options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reduction_makes_a_case_smaller() {
        for case in [
            Case::links(7, None),
            Case::groups(7, None),
            Case::meshes(7, 12, None),
        ] {
            let whole = case.size().expect("a world");
            let few = case.with_nodes(3).expect("a world");
            assert_eq!(few.size().expect("a world").nodes, 3, "{few:?}");
            assert!(few.command().contains("--nodes 3"), "{}", few.command());
            for less in few.without_a_class() {
                let size = less.size().expect("a world");
                assert!(size < few.size().expect("a world"), "{less:?}");
            }
            let short = case.with_events(1).size().expect("a world");
            assert_eq!((short.nodes, short.faults), (whole.nodes, whole.faults));
            assert!(short.events <= 1, "{short:?}");
        }
    }
}
