//! A hunt finds a deliberate defect, ends with a small case of it, and finds nothing else.

use std::time::{Duration, Instant};

use covalent_sim::{
    Mutant, group,
    hunt::{Bounds, Finding, Hunt, Kind, Simulation, shrink},
    mesh::MeshMutant,
};

/// How long anything here may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// Long enough that the number of seeds ends a search.
const BOUNDS: Bounds = Bounds {
    time: PATIENCE,
    seeds: 200,
};

/// The seed at which hunts begin here.
const BASE: u64 = 1_000;

fn ended(kind: Kind, runs_max: u64, stops_at_first: bool) -> Hunt {
    let mut hunt = Hunt::start(vec![kind], BASE, runs_max, stops_at_first);
    let until = Instant::now() + PATIENCE;
    while hunt.wait(Duration::from_millis(50)) {
        assert!(Instant::now() < until, "{:?}", hunt.unfinished());
    }
    hunt
}

/// Returns the finding of a hunt for a mutant that breaks this invariant, and others too.
fn found(kind: Kind, invariant: &str) -> Finding {
    let runs_max = if kind.simulation() == Simulation::Meshes {
        12
    } else {
        60
    };
    let hunt = ended(kind, runs_max, false);
    let is_wanted = |finding: &&Finding| finding.broken.invariant == invariant;
    let finding = hunt.findings().iter().find(is_wanted);
    finding.expect("the mutant is found").clone()
}

#[test]
fn mutants_are_found_and_shrunk_to_a_few_nodes_faults_and_events() {
    let retries = MeshMutant::RetriesBlindly;
    let cases: [(Kind, &str, [usize; 3]); 5] = [
        (
            Kind::Links(Some(Mutant::RetriesBlindly)),
            "exactly-once",
            [2, 2, 300],
        ),
        (
            Kind::Links(Some(Mutant::ExecutesAtMessageOne)),
            "isolation",
            [2, 1, 100],
        ),
        (
            Kind::Links(Some(Mutant::HidesRestarts)),
            "reported-truthfully",
            [2, 2, 600],
        ),
        (
            Kind::Groups(Some(group::Mutant::SkipsNull)),
            "total-order",
            [3, 3, 3],
        ),
        (Kind::Meshes(vec![12], Some(retries)), "once", [3, 2, 8]),
    ];
    for (kind, invariant, [nodes, faults, events]) in cases {
        let finding = found(kind, invariant);
        let smallest = shrink(&finding, BOUNDS, &mut || true);
        let size = smallest.size;
        assert!(
            size.nodes <= nodes && size.faults <= faults && size.events as usize <= events,
            "{size:?} of {finding:?}, the size is {:?}",
            finding.case.size()
        );
        assert_eq!(smallest.broken.invariant, invariant);
        assert_eq!(
            smallest.case.run(),
            Some(smallest.broken),
            "it replays: {}",
            smallest.case.command()
        );
    }
}

#[test]
fn a_sound_build_is_hunted_without_a_finding_and_every_seed_is_run_once() {
    for simulation in Simulation::ALL {
        let kind = Kind::of(simulation, &[9, 12], None).expect("no mutant");
        let runs = if simulation == Simulation::Meshes {
            8
        } else {
            80
        };
        let hunt = ended(kind, runs, true);
        assert_eq!(hunt.findings(), [], "{simulation}");
        let shares = hunt.shares();
        assert_eq!(shares[0].runs, runs);
        assert_eq!(shares[0].seeds, BASE..BASE + runs);
        assert!(hunt.unfinished().is_empty());
    }
}

#[test]
fn the_search_for_a_smaller_case_stops_when_it_is_no_longer_needed() {
    let finding = found(Kind::Links(Some(Mutant::Reordering)), "evidence");
    let smallest = shrink(&finding, BOUNDS, &mut || false);
    assert_eq!(smallest.case, finding.case);
}
