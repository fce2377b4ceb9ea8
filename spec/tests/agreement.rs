//! How control and the dataplane agree, within bounds that take seconds. `make spec` uses the full
//! bounds.

use std::collections::BTreeSet;

use covalent_spec::agreement::{catalog, explore, invariant, sight};

/// Every invariant holds in every state, and the searches come by everything that they are about.
#[test]
fn agreements_hold() {
    let mut seen = BTreeSet::new();
    for scenario in catalog::scenarios(true) {
        let explored = explore(scenario);
        assert!(explored.broken.is_empty(), "{explored:#?}");
        seen.extend(explored.seen);
    }
    let all: BTreeSet<_> = sight::ALL.iter().map(|&(_, name)| name).collect();
    assert_eq!(seen, all);
}

/// Each mistake is found, and by each invariant something is.
#[test]
fn mutants_are_found() {
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
