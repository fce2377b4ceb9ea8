//! Ways to build it wrong: each is found, by the checker whose invariant it breaks, within a few seeds.

use std::ops::ControlFlow;

use covalent_sim::{
    Mutant, Options, World,
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
        &["told-truthfully"],
    ),
    (
        Mutant::KeepsReservations,
        &[Fault::Carrier],
        &["reservation", "credit"],
    ),
    (
        Mutant::CorruptsUnnoticed,
        &[],
        &["integrity", "told-truthfully"],
    ),
    (Mutant::HalvesTransfers, &[], &["conservation"]),
    (
        Mutant::HidesRestarts,
        &[Fault::Crash],
        &["exactly-once", "told-truthfully"],
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
        &["integrity", "paths", "told-truthfully"],
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
        let (again, trace) = World::new(failure.seed, &options, true).run(failure.seed);
        let again = again.expect_err("it failed before");
        assert_eq!(again.violation, failure.violation);
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
fn nothing_that_loses_nothing_fails_a_link() {
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
