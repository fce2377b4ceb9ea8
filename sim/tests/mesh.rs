//! Meshes of production nodes, with time.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;

use covalent_sim::{
    mesh::{self, FaultClass, MeshFaults, MeshMutant, MeshOptions, Trace},
    shape::Form,
};

fn options(form: &str, nodes: usize) -> MeshOptions {
    MeshOptions {
        form: form.parse().unwrap(),
        nodes: Some(nodes),
        ..MeshOptions::new()
    }
}

fn hold(seeds: std::ops::Range<u64>, options: &MeshOptions) -> mesh::MeshReport {
    mesh::run_seeds(seeds, options, |_| ControlFlow::Continue(()))
        .unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn every_invariant_holds_under_churn_in_every_shape() {
    for (form, nodes, seeds) in [
        ("line", 3, 0..40),
        ("ring", 5, 0..40),
        ("chords:2", 8, 0..40),
        ("full", 4, 0..40),
        ("grid", 12, 0..20),
        ("torus", 9, 0..20),
        ("random:3", 12, 0..60),
    ] {
        let count = seeds.end;
        let mut options = options(form, nodes);
        options.jitter_percent = 40;
        let report = hold(seeds, &options);
        // A simulation in which nothing happens proves nothing.
        for (what, least) in [
            (report.faults, 10),
            (report.link_failures, 15),
            (report.committed, 500),
            (report.doubted, 1),
            (report.restarted, 1),
            (report.questions, 2),
        ] {
            assert!(what >= least * count, "{form}: {report:?}");
        }
    }
}

#[test]
fn a_seed_is_one_run() {
    for seed in 0..5 {
        let options = options("random:4", 10);
        let shape = mesh::shape(seed, &options).unwrap();
        let runs = [None, None, Some(Trace::default())].map(|trace| {
            let (result, trace) = mesh::run(seed, shape.clone(), &options, trace);
            let kept = trace.map_or(0, |trace| trace.marks.len() + trace.arrows.len());
            (result.unwrap(), kept)
        });
        assert_eq!(runs[0].0, runs[1].0);
        // Looking on changes nothing.
        assert_eq!(runs[0].0, runs[2].0);
        assert!(runs[2].1 > 1000, "{}", runs[2].1);
        let other = mesh::run(seed + 1, shape, &options, None).0.unwrap();
        assert_ne!(other.fingerprint, runs[0].0.fingerprint);
    }
}

#[test]
fn each_mutant_is_found_by_the_checker_whose_invariant_it_breaks() {
    for (mutant, faults, checker) in [
        (MeshMutant::RetriesBlindly, FaultClass::Cut, "once"),
        (MeshMutant::GuessesInDoubt, FaultClass::Cut, "once"),
        (MeshMutant::HidesRestarts, FaultClass::Crash, "once"),
    ] {
        let options = MeshOptions {
            faults: MeshFaults::of(&[faults]),
            mutant: Some(mutant),
            ..MeshOptions::new()
        };
        let found = mesh::run_seeds(0..50, &options, |_| ControlFlow::Continue(()));
        let failure = found.expect_err(mutant.as_str());
        assert_eq!(failure.violation.checker, checker, "{mutant}: {failure}");
        let replay = failure.to_string();
        assert!(replay.contains(&format!("--mutant {mutant}")), "{replay}");
    }
}

#[test]
fn a_hundred_nodes_settle_and_survive_churn() {
    let mut options = options("torus", 100);
    options.form = Form::Torus(None);
    let report = hold(0..2, &options);
    assert!(report.settle_rt < 10.0, "{report:?}");
}
