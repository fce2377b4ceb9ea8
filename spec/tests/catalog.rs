//! The catalog within bounds that take seconds; `make spec` takes the whole.

use std::collections::BTreeSet;

use covalent_spec::{catalog, explore, sight};

/// Every invariant holds in every state, and the searches come by everything that they are about.
#[test]
fn the_production_state_machines_hold() {
    let mut seen = BTreeSet::new();
    for scenario in catalog::bounded() {
        let explored = explore(scenario);
        assert!(explored.broken.is_empty(), "{explored:#?}");
        seen.extend(explored.seen);
    }
    let all: BTreeSet<_> = sight::ALL.iter().map(|sight| sight.name).collect();
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
    let all: BTreeSet<_> = covalent_spec::invariant::all()
        .iter()
        .map(|invariant| invariant.name)
        .collect();
    assert_eq!(found, all);
}

/// Frames that overtake one another, and records without numbers, are each safe alone.
#[test]
fn halves_of_reordering_are_safe_alone() {
    for scenario in catalog::halves() {
        let explored = explore(scenario);
        assert!(explored.broken.is_empty(), "{explored:#?}");
    }
}
