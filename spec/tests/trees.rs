//! Trees within bounds that take seconds.

use std::collections::BTreeSet;

use covalent_spec::trees::{catalog, explore, invariant, sight};

/// Every invariant holds in every state, and the searches come by everything that they are about.
#[test]
fn the_production_trees_hold() {
    let mut seen = BTreeSet::new();
    for scenario in catalog::scenarios(true) {
        let explored = explore(scenario);
        assert!(explored.broken.is_empty(), "{explored:#?}");
        seen.extend(explored.seen);
    }
    let all: BTreeSet<_> = sight::ALL.iter().map(|sight| sight.name).collect();
    assert_eq!(seen, all);
}

/// Each mistake is found, and by each invariant something is.
#[test]
fn mutants_of_trees_are_found() {
    let mut found = BTreeSet::new();
    for (scenario, broken) in catalog::mutants() {
        let explored = explore(scenario);
        assert!(
            explored.broken.contains_key(broken),
            "{broken}: {explored:#?}"
        );
        found.insert(broken);
    }
    let all: BTreeSet<_> = invariant::all()
        .iter()
        .map(|invariant| invariant.name)
        .collect();
    assert_eq!(found, all);
}
