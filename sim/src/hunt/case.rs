//! One run of one simulator, what it broke, and smaller cases.

use fastrand::Rng;

use crate::{
    World, group, mesh,
    named::named,
    options::{Fault, Faults, Options},
    run,
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
        match self {
            Self::Links(seed, _) | Self::Groups(seed, _) | Self::Meshes(seed, _) => *seed,
        }
    }

    /// The same options with another seed.
    #[must_use]
    pub fn with_seed(&self, seed: u64) -> Self {
        let mut case = self.clone();
        match &mut case {
            Self::Links(own, _) | Self::Groups(own, _) | Self::Meshes(own, _) => *own = seed,
        }
        case
    }

    /// The command that makes this run again.
    #[must_use]
    pub fn command(&self) -> String {
        match self {
            Self::Links(seed, options) => options.command(*seed),
            Self::Groups(seed, options) => options.command(*seed),
            Self::Meshes(seed, options) => options.command(*seed),
        }
    }

    /// Runs it to its end. `None` if every invariant held.
    #[must_use]
    pub fn run(&self) -> Option<Broken> {
        let broken = |checker: &str, what: String| Broken {
            invariant: checker.to_owned(),
            what,
        };
        match self {
            Self::Links(seed, options) => {
                let violation = run(*seed, options).err()?.violation;
                Some(broken(violation.checker, violation.what))
            }
            Self::Groups(seed, options) => {
                let violation = group::run(*seed, options).err()?.violation;
                Some(broken(violation.checker, violation.what))
            }
            Self::Meshes(seed, options) => {
                let shape = match mesh::shape(*seed, options) {
                    Ok(shape) => shape,
                    Err(error) => return Some(broken("shape", error.to_string())),
                };
                let violation = mesh::run(*seed, shape, options, None).0.err()?.violation;
                Some(broken(violation.checker, violation.what))
            }
        }
    }

    /// How large it is. `None` if there is no such world.
    #[must_use]
    pub fn size(&self) -> Option<Size> {
        Some(match self {
            Self::Links(seed, options) => {
                let world = World::new(*seed, options, false);
                Size {
                    nodes: world.plan().nodes,
                    faults: world.plan().faults().len(),
                    events: world.plan().steps,
                }
            }
            Self::Groups(seed, options) => {
                let plan = group_plan(*seed, options)?;
                Size {
                    nodes: plan.shape.nodes,
                    faults: plan.faults.iter().count(),
                    events: plan.deeds.len() as u32,
                }
            }
            Self::Meshes(seed, options) => Size {
                nodes: mesh::shape(*seed, options).ok()?.nodes,
                faults: options.faults.iter().count(),
                events: options.churn,
            },
        })
    }

    /// Returns the case with `nodes` nodes and the classes of faults that occur now. The seed draws
    /// the rest again.
    #[must_use]
    pub fn with_nodes(&self, nodes: usize) -> Option<Self> {
        let case = match self {
            Self::Links(seed, options) => {
                let mut options = options.clone();
                options.faults = Some(link_faults(*seed, &options));
                options.nodes = Some(nodes);
                Self::Links(*seed, options)
            }
            Self::Groups(seed, options) => {
                let mut options = options.clone();
                options.faults = Some(group_plan(*seed, &options)?.faults);
                options.nodes = Some(nodes);
                Self::Groups(*seed, options)
            }
            Self::Meshes(seed, options) => {
                let mut options = options.clone();
                options.nodes = Some(nodes);
                if mesh::shape(*seed, &options).is_err() {
                    options.form = Form::Random(4);
                }
                Self::Meshes(*seed, options)
            }
        };
        case.size().map(|_| case)
    }

    /// Each case that lacks one class of its faults.
    #[must_use]
    pub fn without_a_class(&self) -> Vec<Self> {
        match self {
            Self::Links(seed, options) => link_faults(*seed, options)
                .each_left_out()
                .map(|faults| {
                    let faults = Some(faults);
                    let options = options.clone();
                    Self::Links(*seed, Options { faults, ..options })
                })
                .collect(),
            Self::Groups(seed, options) => {
                let Some(plan) = group_plan(*seed, options) else {
                    return Vec::new();
                };
                let each = plan.faults.each_left_out().map(|faults| {
                    let faults = Some(faults);
                    let options = options.clone();
                    Self::Groups(*seed, group::Options { faults, ..options })
                });
                each.collect()
            }
            Self::Meshes(seed, options) => options
                .faults
                .each_left_out()
                .map(|faults| {
                    let options = options.clone();
                    Self::Meshes(*seed, mesh::MeshOptions { faults, ..options })
                })
                .collect(),
        }
    }

    /// With so many events at most. The seed makes the same events as before, up to that number.
    #[must_use]
    pub fn with_events(&self, events: u32) -> Self {
        let mut case = self.clone();
        match &mut case {
            Self::Links(_, options) => options.steps = Some(events.max(1)),
            Self::Groups(_, options) => options.churn = Some(events),
            Self::Meshes(_, options) => options.churn = events,
        }
        case
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

/// The classes of faults that occur in a world of links.
fn link_faults(seed: u64, options: &Options) -> Faults {
    let world = World::new(seed, options, false);
    let classes: Vec<_> = world.plan().faults().iter().map(|fault| fault.0).collect();
    Faults::of(&classes)
}

fn group_plan(seed: u64, options: &group::Options) -> Option<group::plan::Plan> {
    group::plan::Plan::new(&mut Rng::with_seed(seed), options).ok()
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
