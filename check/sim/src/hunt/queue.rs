//! Chooses the next case, so that each simulator has the same share of the cores.

use std::{ops::Range, time::Duration};

use super::case::{Case, Simulation};
use crate::{Mutant, group, mesh, named::UnknownName};

/// Nodes of a mesh, unless specified.
pub const MESH_NODES: usize = 100;

/// Kind of case that a hunt makes from the seeds of a simulator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Worlds of links.
    Links(Option<Mutant>),
    /// Groups.
    Groups(Option<group::Mutant>),
    /// Meshes of each of these sizes in turn.
    Meshes(Vec<usize>, Option<mesh::MeshMutant>),
}

impl Kind {
    /// The kind of a simulator. A mutant is one of its own, by name.
    ///
    /// # Errors
    /// The simulator has no such mutant.
    pub fn of(
        simulation: Simulation,
        mesh_nodes: &[usize],
        mutant: Option<&str>,
    ) -> Result<Self, UnknownName> {
        Ok(match simulation {
            Simulation::Links => Self::Links(mutant.map(str::parse).transpose()?),
            Simulation::Groups => Self::Groups(mutant.map(str::parse).transpose()?),
            Simulation::Meshes => {
                let nodes = if mesh_nodes.is_empty() {
                    vec![MESH_NODES]
                } else {
                    mesh_nodes.to_vec()
                };
                Self::Meshes(nodes, mutant.map(str::parse).transpose()?)
            }
        })
    }

    /// Which simulator it is.
    #[must_use]
    pub const fn simulation(&self) -> Simulation {
        match self {
            Self::Links(_) => Simulation::Links,
            Self::Groups(_) => Simulation::Groups,
            Self::Meshes(..) => Simulation::Meshes,
        }
    }

    fn case(&self, seed: u64) -> Case {
        match self {
            Self::Links(mutant) => Case::links(seed, *mutant),
            Self::Groups(mutant) => Case::groups(seed, *mutant),
            Self::Meshes(nodes, mutant) => {
                Case::meshes(seed, nodes[(seed % nodes.len() as u64) as usize], *mutant)
            }
        }
    }
}

/// Share of a simulator in a hunt.
#[derive(Debug, Clone)]
pub struct Share {
    /// Kind of its cases.
    pub kind: Kind,
    /// The seeds that were begun.
    pub seeds: Range<u64>,
    /// Runs that ended.
    pub runs: u64,
    /// Time of cores that they took.
    pub took: Duration,
    /// Runs in flight.
    running: u32,
}

/// The seeds of all simulators of a hunt.
#[derive(Debug)]
pub(super) struct Queue {
    shares: Vec<Share>,
    /// Runs that each simulator begins at most.
    runs_max: u64,
    closed: bool,
}

impl Queue {
    pub(super) fn new(kinds: Vec<Kind>, base: u64, runs_max: u64) -> Self {
        let shares = kinds.into_iter().map(|kind| Share {
            kind,
            seeds: base..base,
            runs: 0,
            took: Duration::ZERO,
            running: 0,
        });
        Self {
            shares: shares.collect(),
            runs_max,
            closed: false,
        }
    }

    /// The next case: of the simulator that had the least, those in flight counted as its others.
    pub(super) fn next(&mut self) -> Option<Case> {
        if self.closed {
            return None;
        }
        let open = self.shares.iter_mut().filter(|share| {
            let begun = share.seeds.end - share.seeds.start;
            begun < self.runs_max && share.seeds.end < u64::MAX
        });
        let share = open.min_by_key(|share| {
            // How long a run takes is known when one has ended: until then one is enough.
            let is_untried = share.runs == 0 && share.running > 0;
            let runs = u32::try_from(share.runs).unwrap_or(u32::MAX);
            let mean = share.took.checked_div(runs).unwrap_or_default();
            let had = share.took + mean * share.running;
            (is_untried, had, share.running)
        })?;
        let case = share.kind.case(share.seeds.end);
        share.seeds.end += 1;
        share.running += 1;
        Some(case)
    }

    pub(super) fn done(&mut self, simulation: Simulation, took: Duration) {
        let of = |share: &&mut Share| share.kind.simulation() == simulation;
        if let Some(share) = self.shares.iter_mut().find(of) {
            share.running -= 1;
            share.runs += 1;
            share.took += took;
        }
    }

    /// From now on there is no next case.
    pub(super) const fn close(&mut self) {
        self.closed = true;
    }

    pub(super) fn shares(&self) -> &[Share] {
        &self.shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulators_share_time_equally_and_not_runs() {
        let kinds = Simulation::ALL.map(|simulation| Kind::of(simulation, &[], None));
        let kinds = kinds.into_iter().flatten().collect();
        let mut queue = Queue::new(kinds, 5, 1000);
        for _ in 0..600 {
            let case = queue.next().expect("a case");
            let took = match case.simulation() {
                Simulation::Links => 4,
                Simulation::Groups => 8,
                Simulation::Meshes => 400,
            };
            queue.done(case.simulation(), Duration::from_millis(took));
        }
        let took: Vec<u128> = queue
            .shares()
            .iter()
            .map(|share| share.took.as_millis())
            .collect();
        let (least, most) = (took.iter().min(), took.iter().max());
        assert!(
            most.zip(least)
                .is_some_and(|(most, least)| most - least <= 400),
            "{took:?}"
        );
        assert_eq!(queue.shares()[0].seeds.start, 5);
        queue.close();
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn a_slow_simulator_does_not_take_every_core_at_first() {
        let kinds = Simulation::ALL.map(|simulation| Kind::of(simulation, &[], None));
        let mut queue = Queue::new(kinds.into_iter().flatten().collect(), 0, 1000);
        let mut meshes = 0;
        for _ in 0..50 {
            let simulation = queue.next().expect("a case").simulation();
            match simulation {
                Simulation::Meshes => meshes += 1,
                ended => queue.done(ended, Duration::from_millis(10)),
            }
        }
        assert_eq!(meshes, 1, "the first has not ended");
    }

    #[test]
    fn a_simulator_stays_within_its_number_of_runs() {
        let kinds = vec![Kind::Links(None), Kind::Groups(None)];
        let mut queue = Queue::new(kinds, 0, 3);
        assert_eq!(std::iter::from_fn(|| queue.next()).count(), 6);
    }
}
