//! The scenarios that are checked.

use super::{
    invariant,
    mutant::Mutant,
    scenario::{Budget, Scenario},
};

fn of(name: &'static str, cables: &[[usize; 2]], cuts: u8, mends: u8) -> Scenario {
    Scenario {
        name,
        cables: cables.to_vec(),
        budget: Budget {
            cuts,
            mends,
            ticks: 0,
        },
        garbage: None,
        mutant: Mutant::None,
    }
}

/// A node is attached to another one, which has no other path.
fn line(cuts: u8, mends: u8) -> Scenario {
    of("line", &[[0, 1], [1, 2]], cuts, mends)
}

/// Each neighbor of the root has another way.
fn triangle(cuts: u8, mends: u8) -> Scenario {
    of("triangle", &[[0, 1], [1, 2], [2, 0]], cuts, mends)
}

/// The opposite node is attached to either neighbor, and receives requests from both.
fn square(cuts: u8, mends: u8) -> Scenario {
    of("square", &[[0, 1], [1, 2], [2, 3], [3, 0]], cuts, mends)
}

/// All nodes except the root depend on one cable.
fn kite(cuts: u8, mends: u8) -> Scenario {
    of("kite", &[[0, 1], [1, 2], [1, 3], [2, 3]], cuts, mends)
}

/// Two cables between the same nodes and others fail one upon the other.
fn two_breaks(cuts: u8, mends: u8) -> Scenario {
    let cables = [[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]];
    of("two-breaks", &cables, cuts, mends)
}

/// The table of the root's neighbor holds anything.
fn garbage(variants: u64) -> Scenario {
    Scenario {
        name: "garbage",
        budget: Budget {
            ticks: 4,
            ..Budget::default()
        },
        garbage: Some((1, variants)),
        ..of("", &[[0, 1]], 0, 0)
    }
}

/// Returns the scenarios in which all invariants must hold, within bounds that take seconds or
/// minutes.
#[must_use]
pub fn scenarios(bounded: bool) -> Vec<Scenario> {
    if bounded {
        vec![
            triangle(1, 1),
            triangle(2, 0),
            square(1, 0),
            two_breaks(1, 0),
            garbage(8),
        ]
    } else {
        vec![
            triangle(2, 1),
            square(2, 0),
            kite(1, 0),
            two_breaks(2, 0),
            garbage(40),
        ]
    }
}

/// Mistakes, each with the invariant that it breaks.
#[must_use]
pub fn mutants() -> Vec<(Scenario, &'static str)> {
    vec![
        (
            Scenario {
                name: "takes-anybody",
                mutant: Mutant::AcceptsAnyParent,
                ..triangle(2, 0)
            },
            invariant::ORDER,
        ),
        (
            Scenario {
                name: "takes-children",
                mutant: Mutant::TakesChildren,
                ..line(2, 1)
            },
            invariant::ACYCLIC,
        ),
        (
            Scenario {
                name: "keeps-children",
                mutant: Mutant::KeepsChildren,
                ..triangle(1, 1)
            },
            invariant::ONE_PARENT,
        ),
        (
            Scenario {
                name: "never-repeats",
                mutant: Mutant::NeverResends,
                ..two_breaks(2, 0)
            },
            invariant::ENDS,
        ),
        (
            Scenario {
                name: "deaf-to-denied",
                mutant: Mutant::DeafToDenied,
                ..triangle(2, 0)
            },
            invariant::ENDS,
        ),
        (
            Scenario {
                name: "no-digest",
                mutant: Mutant::NoDigest,
                ..garbage(8)
            },
            invariant::ENDS,
        ),
    ]
}
