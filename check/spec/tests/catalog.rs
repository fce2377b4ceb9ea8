//! The catalogs within bounds that take seconds; `make spec` takes the whole.

use std::collections::BTreeSet;

use covalent_spec::{Space, agreement, catalog, explore, group, trees};

/// Every invariant holds in every state, and the searches come by everything that they are about.
fn hold<S: Space>(scenarios: Vec<S>) {
    let mut seen = BTreeSet::new();
    for scenario in scenarios {
        let explored = explore(scenario);
        assert!(explored.broken.is_empty(), "{explored:#?}");
        seen.extend(explored.seen);
    }
    let all: BTreeSet<_> = S::SIGHTS.iter().map(|sight| sight.name).collect();
    assert_eq!(seen, all);
}

/// Each mistake is found, and by each invariant something is.
fn are_found<S: Space>(mutants: Vec<(S, &'static str)>) {
    let mut found = BTreeSet::new();
    for (scenario, broken) in mutants {
        let explored = explore(scenario);
        assert!(
            explored.broken.contains_key(broken),
            "{broken}: {explored:#?}"
        );
        found.insert(broken);
    }
    let all: BTreeSet<_> = S::INVARIANTS.iter().map(|(name, _)| *name).collect();
    assert_eq!(found, all);
}

#[test]
fn the_production_state_machines_hold() {
    hold(catalog::bounded());
}

#[test]
fn mutants_are_found() {
    are_found(catalog::mutants());
}

#[test]
fn agreements_hold() {
    hold(agreement::catalog::scenarios(true));
}

#[test]
fn mutants_of_agreements_are_found() {
    are_found(agreement::catalog::mutants());
}

#[test]
fn the_production_machine_of_groups_holds() {
    hold(group::catalog::bounded());
}

#[test]
fn mutants_of_groups_are_found() {
    are_found(group::catalog::mutants());
}

#[test]
fn the_production_trees_hold() {
    hold(trees::catalog::scenarios(true));
}

#[test]
fn mutants_of_trees_are_found() {
    are_found(trees::catalog::mutants());
}

/// Frames that overtake one another, and records without numbers, are each safe alone.
#[test]
fn halves_of_reordering_are_safe_alone() {
    for scenario in catalog::halves() {
        let explored = explore(scenario);
        assert!(explored.broken.is_empty(), "{explored:#?}");
    }
}
