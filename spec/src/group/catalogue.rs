//! The scenarios that are checked.

use super::{
    invariant,
    mutant::Mutant,
    scenario::{Budget, Scenario},
};

const fn budget(deaths: u8, accusations: u8, divisions: u8) -> Budget {
    Budget {
        deaths,
        accusations,
        divisions,
    }
}

/// Two, each with a message, of which one may die.
fn two_crash() -> Scenario {
    Scenario {
        asks: vec![0, 1],
        budget: budget(1, 0, 0),
        ..Scenario::new("two-crash", 2)
    }
}

/// Two who are parted.
fn two_divided() -> Scenario {
    Scenario {
        asks: vec![1],
        budget: budget(0, 0, 1),
        divisions: vec![vec![0, 1]],
        mended: true,
        ..Scenario::new("two-divided", 2)
    }
}

/// The second takes the way to the third for lost, may decide with the oldest, and may die before that one knows.
fn three_leader() -> Scenario {
    Scenario {
        budget: budget(1, 1, 0),
        mortal: vec![1],
        doubters: vec![[1, 2]],
        ..Scenario::new("three-leader", 3)
    }
}

/// What must hold, within bounds that take minutes.
#[must_use]
pub fn whole() -> Vec<Scenario> {
    let mut scenarios = bounded();
    scenarios.push(three_leader());
    scenarios
}

/// What must hold, within bounds that take seconds.
#[must_use]
pub fn bounded() -> Vec<Scenario> {
    vec![
        Scenario {
            asks: vec![0, 1],
            reorder: 2,
            ..Scenario::new("two-flow", 2)
        },
        two_crash(),
        two_divided(),
        Scenario {
            budget: budget(1, 0, 0),
            ..Scenario::new("three-crash", 3)
        },
        Scenario {
            budget: budget(2, 0, 0),
            ..Scenario::new("three-two-deaths", 3)
        },
        Scenario {
            budget: budget(0, 1, 0),
            doubters: vec![[2, 0]],
            ..Scenario::new("false-alarm", 3)
        },
    ]
}

/// Mistakes, each with the invariant that it breaks.
#[must_use]
pub fn mutants() -> Vec<(Scenario, &'static str)> {
    vec![
        (
            Scenario {
                name: "any-majority",
                mutant: Mutant::AnyMajority,
                ..two_divided()
            },
            invariant::ONE_VIEW,
        ),
        (
            Scenario {
                name: "takes-max-trim",
                asks: vec![2],
                budget: budget(1, 0, 0),
                mortal: vec![2],
                mutant: Mutant::TakesMaxTrim,
                ..Scenario::new("", 3)
            },
            invariant::ALL_OR_NONE,
        ),
        (
            Scenario {
                name: "forgets-accepted",
                mutant: Mutant::ForgetsAccepted,
                ..three_leader()
            },
            invariant::ENDS,
        ),
    ]
}
