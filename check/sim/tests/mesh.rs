//! Meshes of production nodes, with time.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;

use covalent_sim::{
    harness::Tally,
    mesh::{self, Exhaustive, FaultClass, MeshFaults, MeshLoad, MeshMutant, MeshOptions, Trace},
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

#[expect(clippy::print_stdout, reason = "the figures are reported")]
fn print_report(report: &mesh::MeshReport) {
    for (what, how_much) in report.figures() {
        println!("{what}: {how_much}");
    }
}

#[test]
fn every_invariant_holds_under_churn_in_every_shape() {
    for (form, nodes, seeds) in [
        ("line", 3, 0..20),
        ("ring", 5, 0..20),
        ("chords:2", 8, 0..20),
        ("full", 4, 0..20),
        ("grid", 12, 0..10),
        ("torus", 9, 0..10),
        ("random:3", 12, 0..30),
    ] {
        let count = seeds.end;
        let mut options = options(form, nodes);
        options.jitter_percent = 40;
        let report = hold(seeds, &options);
        // A simulation in which nothing happens proves nothing. So often in ten runs:
        for (what, least) in [
            (report.faults, 80),
            (report.link_failures, 80),
            (report.lost, 80),
            (report.committed, 2000),
            (report.doubted, 5),
            (report.restarted, 1),
            (report.questions, 5),
        ] {
            assert!(10 * what >= least * count, "{form}: {report:?}");
        }
    }
}

/// Half of the seeds have nodes with little capacity for paths.
#[test]
fn every_invariant_holds_of_verbs_over_several_hops() {
    let all = MeshFaults::ALL;
    let abrupt = [
        FaultClass::Cut,
        FaultClass::Flap,
        FaultClass::Crash,
        FaultClass::Stall,
    ];
    for (form, nodes, faults, seeds, jitter_percent) in [
        ("grid", 16, all, 0..10, 0),
        ("random:4", 10, all, 58..74, 40),
        // In one of these seeds a request arrives after the report that it never arrived.
        ("random:4", 10, MeshFaults::of(&abrupt), 12..28, 40),
        ("random:3", 9, all, 0..10, 0),
        ("line", 5, all, 0..10, 0),
    ] {
        let count = seeds.end - seeds.start;
        let options = MeshOptions {
            load: MeshLoad::Far,
            faults,
            jitter_percent,
            ..options(form, nodes)
        };
        let report = hold(seeds, &options);
        // So often in ten runs:
        for (what, least) in [
            (report.faults, 80),
            (report.path_ups, 200),
            (report.path_failures, 150),
            (report.committed_far, 1000),
            (report.doubted, 50),
            (report.restarted, 3),
            (report.refused, 50),
            (report.not_executed, 5),
            (report.questions, 5),
        ] {
            assert!(10 * what >= least * count, "{form}: {report:?}");
        }
        // A running node almost never forgets.
        assert!(
            1000 * report.forgotten <= report.committed_far,
            "{form}: {report:?}"
        );
    }
}

#[test]
fn a_seed_is_one_run() {
    for seed in 0..6 {
        let options = MeshOptions {
            load: [MeshLoad::Verbs, MeshLoad::Far][seed as usize % 2],
            ..options("random:4", 10)
        };
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
fn each_mutant_is_found_by_a_checker_whose_invariant_it_breaks() {
    // The first checker to detect that a node believes outdated state, or waits forever.
    let stale = ["convergence", "reaches", "one-parent", "repairs"];
    let (near, far) = (MeshLoad::Verbs, MeshLoad::Far);
    for (mutant, faults, load, checkers) in [
        (
            MeshMutant::RetriesBlindly,
            FaultClass::Cut,
            near,
            &["once"][..],
        ),
        (MeshMutant::RetriesBlindly, FaultClass::Cut, far, &["once"]),
        (MeshMutant::GuessesInDoubt, FaultClass::Cut, near, &["once"]),
        (
            MeshMutant::GuessesInDoubt,
            FaultClass::Partition,
            far,
            &["once"],
        ),
        (
            MeshMutant::HidesRestarts,
            FaultClass::Crash,
            near,
            &["once"],
        ),
        (MeshMutant::HidesRestarts, FaultClass::Crash, far, &["once"]),
        (
            MeshMutant::LosesUpdates,
            FaultClass::Cut,
            far,
            &["conservation"],
        ),
        (
            MeshMutant::KeepsWords,
            FaultClass::Cut,
            far,
            &["given-back"],
        ),
        (
            MeshMutant::TakesAnybody,
            FaultClass::Cut,
            near,
            &["acyclic"],
        ),
        (MeshMutant::DeafToLost, FaultClass::Crash, near, &stale),
        (MeshMutant::NeverRepeats, FaultClass::Cut, near, &stale),
        (MeshMutant::DeafToDenied, FaultClass::Cut, near, &stale),
        (
            MeshMutant::KeepsChildren,
            FaultClass::Cut,
            near,
            &["one-parent"],
        ),
    ] {
        let options = MeshOptions {
            faults: MeshFaults::of(&[faults]),
            load,
            mutant: Some(mutant),
            ..MeshOptions::new()
        };
        let found = mesh::run_seeds(0..50, &options, |_| ControlFlow::Continue(()));
        let failure = found.expect_err(mutant.as_str());
        let checker = failure.violation.checker;
        assert!(checkers.contains(&checker), "{mutant}: {failure}");
        let replay = failure.to_string();
        assert!(replay.contains(&format!("--mutant {mutant}")), "{replay}");
    }
}

/// Beside the mesh, a node announces roots that do not exist, and requests paths in the names of
/// others and for what is not its own. It sends anything else that a frame may hold.
#[test]
fn every_invariant_holds_beside_a_neighbor_that_lies() {
    for (form, nodes, load, seeds) in [
        ("line", 4, MeshLoad::Verbs, 0..10),
        ("ring", 6, MeshLoad::Far, 0..10),
        ("grid", 12, MeshLoad::Verbs, 0..6),
        ("random:4", 10, MeshLoad::Verbs, 0..12),
    ] {
        let options = MeshOptions {
            faults: MeshFaults::of(&FaultClass::ALL),
            load,
            jitter_percent: 40,
            ..options(form, nodes)
        };
        let count = seeds.end;
        let report = hold(seeds, &options);
        assert!(
            report.faults >= 8 * count && report.committed >= 100 * count,
            "{report:?}"
        );
    }
}

/// In each of these worlds a node requested another route to invented roots from the liar, and got
/// no reply. The table had counted these roots for the share of the neighbors attached to the node.
#[test]
fn unanswered_searches_at_a_liar_lock_no_node_out() {
    for seed in [5, 512, 527, 1753, 2017] {
        let options = MeshOptions {
            faults: MeshFaults::of(&FaultClass::ALL),
            load: MeshLoad::Far,
            jitter_percent: 40,
            ..options("random:4", 10)
        };
        hold(seed..seed + 1, &options);
    }
}

/// In the first of these worlds the liar's roots were 59 hops away, so two nodes at a time found
/// space after 118 ticks. In the others, a node was notified that a running node had forgotten.
#[test]
fn a_liar_causes_no_more_delays_and_endings_than_stated() {
    for (seed, form, nodes, load) in [
        (10_332, "random:4", 10, MeshLoad::Far),
        (10_043, "full", 5, MeshLoad::Verbs),
        (10_201, "ring", 7, MeshLoad::Verbs),
    ] {
        let options = MeshOptions {
            faults: MeshFaults::of(&FaultClass::ALL),
            load,
            jitter_percent: 40,
            ..options(form, nodes)
        };
        hold(seed..seed + 1, &options);
    }
}

#[test]
fn a_mesh_without_root_shares_is_found_beside_a_liar() {
    let options = MeshOptions {
        faults: MeshFaults::of(&[FaultClass::Liar, FaultClass::Crash]),
        mutant: Some(MeshMutant::SharesNothing),
        ..MeshOptions::new()
    };
    let found = mesh::run_seeds(0..10, &options, |_| ControlFlow::Continue(()));
    let failure = found.expect_err("a node is locked out");
    let checkers = ["convergence", "reaches", "one-parent"];
    assert!(checkers.contains(&failure.violation.checker), "{failure}");
    let replay = failure.to_string();
    assert!(
        replay.contains("--faults crash,liar") && replay.contains("--mutant shares-nothing"),
        "{replay}"
    );
}

/// At 16 and 100 nodes, or at the number in `COVALENT_MESH_NODES`.
#[test]
fn repair_time_and_messages_do_not_grow_with_the_mesh() {
    let requested = std::env::var("COVALENT_MESH_NODES").ok();
    let sizes = match requested.and_then(|nodes| nodes.parse().ok()) {
        Some(nodes) => vec![nodes],
        None => vec![16, 100],
    };
    for nodes in sizes {
        let mut options = options("torus", nodes);
        options.form = Form::Torus(None);
        options.faults = MeshFaults::of(&[FaultClass::Cut]);
        (options.churn, options.load) = (1, MeshLoad::None);
        let seeds = if nodes > 100 { 1 } else { 3 };
        let report = hold(0..seeds, &options);
        assert!(report.repairs_local.count() > seeds, "{report:?}");
        // Each node has four neighbors, and each root is reported about once to each of them.
        let most = 1.5 * 4.0 * nodes as f64;
        assert!(report.settle_adverts_per_node <= most, "{report:?}");
        // As far as the root's word goes, and links come up before.
        let most = 2 * (report.diameter_hops.max(10) + 1);
        assert!(report.settle_rt <= most as f64, "{report:?}");
        assert!(report.repairs_local.within_rt(1000) <= 2.0, "{report:?}");
        // An entry for each root, and one for each neighbor and root.
        assert!(
            report.tree_entries_per_node <= 5.0 * nodes as f64,
            "{report:?}"
        );
        let bytes = report.tree_bytes_per_node / nodes as f64;
        assert!((100.0..350.0).contains(&bytes), "{report:?}");
        if nodes > 100 {
            print_report(&report);
        }
    }
}

#[test]
fn a_hundred_nodes_survive_churn() {
    let mut options = options("torus", 100);
    options.churn = 20;
    let report = hold(0..2, &options);
    assert!(report.lost > 100 && report.committed > 1000, "{report:?}");
}

fn hold_cases(list: Exhaustive, cases: std::ops::Range<u64>) -> mesh::MeshReport {
    let options = MeshOptions::new();
    let report = mesh::run_cases(list, cases.clone(), &options, |_| ControlFlow::Continue(()))
        .unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(report.runs, cases.end - cases.start, "a case was left out");
    report
}

#[test]
fn all_63_failure_modes_of_a_triangle_hold_at_every_moment() {
    let list = Exhaustive::Three;
    assert_eq!(list.cases(), 63 * 2 * 66);
    let report = hold_cases(list, 0..list.cases());
    assert!(report.repairs_local.count() > 1000, "{report:?}");
    assert!(report.lost > 10_000 && report.doubted > 1000, "{report:?}");
}

#[test]
fn every_part_of_a_grid_fails_alone_and_in_pairs() {
    let list = Exhaustive::Sixteen;
    let report = hold_cases(list, 0..list.first_cases());
    assert!(report.repairs_local.count() > 60, "{report:?}");
    // The checker's bound: two round trips at most, if fewer than a hundred trees fail at once.
    assert!(report.repairs_local.within_rt(1000) <= 2.0, "{report:?}");
    // Each list of pairs in turn: all of them take a minute, in `make soak`.
    let (pairs, mut sum) = (780, mesh::MeshReport::default());
    for (gap, skipped) in [(0, 0), (1, 260), (2, 520)] {
        let from = list.first_cases() + gap * pairs + skipped;
        sum.add(&hold_cases(list, from..from + 60));
    }
    assert!(sum.lost > 100 && sum.found_again.count() > 100, "{sum:?}");
}

/// Each list of cases finds it without a seed.
#[test]
fn a_parent_that_keeps_departed_children_is_found_by_every_case_list() {
    let options = MeshOptions {
        mutant: Some(MeshMutant::KeepsChildren),
        ..MeshOptions::new()
    };
    for list in [Exhaustive::Three, Exhaustive::Sixteen] {
        let cases = 0..list.first_cases();
        let found = mesh::run_cases(list, cases, &options, |_| ControlFlow::Continue(()));
        let failure = found.expect_err("it is built wrong");
        assert_eq!(failure.violation.checker, "one-parent", "{failure}");
    }
}

/// With short tick intervals routes become shorter all the time while the mesh rests. In each of
/// these worlds a node had left its parent, and the advert about it was in flight when the tree was
/// checked.
#[test]
fn a_parent_knows_departed_children_once_no_tree_message_is_in_flight() {
    for (form, nodes, seed) in [("ring", 20, 4), ("torus", 25, 117), ("torus", 36, 26)] {
        let options = MeshOptions {
            form: form.parse().unwrap(),
            nodes: Some(nodes),
            tick_rt: 20,
            ..MeshOptions::new()
        };
        hold(seed..seed + 1, &options);
    }
}

/// Some pairs of failures, with verbs between all nodes of the grid.
#[test]
fn verbs_survive_pairs_of_failures_of_a_grid_over_several_hops() {
    let list = Exhaustive::Sixteen;
    let options = MeshOptions {
        load: MeshLoad::Far,
        ..MeshOptions::new()
    };
    let mut sum = mesh::MeshReport::default();
    for gap in 0..3 {
        let from = list.first_cases() + gap * 780 + 250 * gap;
        let report = mesh::run_cases(list, from..from + 40, &options, |_| {
            ControlFlow::Continue(())
        });
        sum.add(&report.unwrap_or_else(|failure| panic!("{failure}")));
    }
    assert!(
        sum.committed_far > 500 && sum.path_failures > 100,
        "{sum:?}"
    );
}
