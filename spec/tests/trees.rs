//! Trees within bounds that take seconds.

use std::collections::BTreeSet;

use covalent_spec::trees::{catalogue, explore, sight};

/// Every invariant holds in every state, and the searches come by everything that they are about.
#[test]
fn the_production_trees_hold() {
    let mut seen = BTreeSet::new();
    for scenario in catalogue::scenarios(true) {
        let explored = explore(scenario);
        assert!(explored.broken.is_empty(), "{explored:#?}");
        seen.extend(explored.seen);
    }
    let all: BTreeSet<_> = sight::ALL.iter().map(|sight| sight.name).collect();
    assert_eq!(seen, all);
}

/// Each mistake is found.
#[test]
fn mutants_of_trees_are_found() {
    for (scenario, broken) in catalogue::mutants() {
        let explored = explore(scenario);
        assert!(
            explored.broken.contains_key(broken),
            "{broken}: {explored:#?}"
        );
    }
}
