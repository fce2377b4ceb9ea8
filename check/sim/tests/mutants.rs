//! Deliberate defects: the checker whose invariant a defect breaks finds it within a few seeds.

use std::ops::ControlFlow;

use covalent_sim::{
    Mutant, Options, World,
    harness::Simulator,
    options::{Fault, Faults},
    run, run_seeds,
};

/// Seeds within which a mutant must be found.
const SEEDS: u64 = 30;

/// Each with the faults that it needs to show, and the checkers that may find it.
const MUTANTS: [(Mutant, &[Fault], &[&str]); 14] = [
    (Mutant::Reordering, &[], &["evidence"]),
    (Mutant::ExecutesAtMessageOne, &[], &["isolation"]),
    (
        Mutant::RetriesBlindly,
        &[Fault::CutBoth, Fault::Carrier],
        &["exactly-once"],
    ),
    (
        Mutant::GuessesInDoubt,
        &[Fault::CutBoth, Fault::Carrier],
        &["reported-truthfully"],
    ),
    (
        Mutant::KeepsReservations,
        &[Fault::Carrier],
        &["reservation", "credit"],
    ),
    (
        Mutant::CorruptsUnnoticed,
        &[],
        &["integrity", "reported-truthfully"],
    ),
    (Mutant::HalvesTransfers, &[], &["conservation"]),
    (
        Mutant::HidesRestarts,
        &[Fault::Crash],
        &["exactly-once", "reported-truthfully"],
    ),
    (
        Mutant::AcknowledgesEarly,
        &[Fault::Restart],
        &["durability"],
    ),
    (Mutant::TearsCommits, &[Fault::Restart], &["durability"]),
    (Mutant::StampsByItself, &[], &["causality"]),
    (
        Mutant::DeniesForgotten,
        &[Fault::CutBoth, Fault::Carrier],
        &["answers"],
    ),
    (
        Mutant::GuessableEpochs,
        &[Fault::Forge, Fault::Carrier],
        &["forgery"],
    ),
    (
        Mutant::TrustsAnyName,
        &[Fault::Lie],
        &["integrity", "paths", "reported-truthfully"],
    ),
];

#[test]
fn every_mutant_is_found_by_the_checker_that_watches_for_it() {
    assert_eq!(MUTANTS.map(|(mutant, ..)| mutant), Mutant::ALL);
    for (mutant, faults, checkers) in MUTANTS {
        let options = Options {
            faults: Some(Faults::of(faults)),
            mutant: Some(mutant),
            ..Options::default()
        };
        let failure = run_seeds(0..SEEDS, &options, |_| ControlFlow::Continue(()))
            .expect_err(&format!("{mutant}: not found in {SEEDS} seeds"));
        assert!(
            checkers.contains(&failure.violation.checker),
            "{mutant}: {failure}"
        );
        assert!(
            failure.to_string().contains(&options.command(failure.seed)),
            "{failure}"
        );
        // It replays.
        let (rerun, trace) = World::new(failure.seed, &options, true).run(failure.seed);
        let rerun = rerun.expect_err("it failed before");
        assert_eq!(rerun.violation, failure.violation);
        assert!(!trace.is_empty());
    }
}

#[test]
fn the_same_faults_without_a_mutant_find_nothing() {
    for (mutant, faults, _) in MUTANTS {
        let options = Options {
            faults: Some(Faults::of(faults)),
            ..Options::default()
        };
        for seed in 0..SEEDS {
            run(seed, &options).unwrap_or_else(|failure| panic!("without {mutant}: {failure}"));
        }
    }
}

#[test]
fn faults_without_loss_fail_no_link() {
    let options = Options {
        faults: Some(Faults::of(&[
            Fault::Duplicate,
            Fault::Stall,
            Fault::Noise,
            Fault::Cancel,
        ])),
        ..Options::default()
    };
    for seed in 0..20 * SEEDS {
        run(seed, &options).unwrap_or_else(|failure| panic!("{failure}"));
    }
}
