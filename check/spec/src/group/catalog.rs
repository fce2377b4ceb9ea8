//! The scenarios that are checked.

use super::{
    invariant,
    mutant::Mutant,
    scenario::{Arrival, Budget, Scenario},
};

/// Ticks after the last spontaneous step, within which everything comes to rest.
const TICKS: u8 = 4;

/// Envelopes arrive in the order in which they were sent, except on some paths. Members die alone.
const fn in_order(slow: Vec<[usize; 2]>, held: Vec<[usize; 2]>) -> Arrival {
    Arrival::InOrder { slow, held }
}

const fn budget(deaths: u8, accusations: u8, divisions: u8) -> Budget {
    Budget {
        deaths,
        accusations,
        divisions,
        ticks: 0,
    }
}

const fn deaths(deaths: u8) -> Budget {
    Budget {
        ticks: TICKS,
        ..budget(deaths, 0, 0)
    }
}

/// A member leaves behind a full window to a member whose envelopes wait for their first one.
fn leaves_behind_a_window() -> Scenario {
    Scenario {
        multicasts: vec![1, 1, 0, 0, 0],
        leavers: vec![2],
        unhurried: true,
        arrival: in_order(Vec::new(), vec![[1, 2]]),
        budget: deaths(0),
        ..Scenario::new("leaves-behind-a-window", 3)
    }
}

/// The same, and that member dies.
fn dead_window_left_behind() -> Scenario {
    Scenario {
        budget: deaths(1),
        mortal: vec![1],
        name: "leaves-behind-the-dead",
        ..leaves_behind_a_window()
    }
}

/// Two views end before a member of both learns how the first one ended, because both windows to it
/// are full.
fn two_ends() -> Scenario {
    Scenario {
        multicasts: vec![0; 6],
        suspicions: vec![[2, 1], [0, 2]],
        unhurried: true,
        arrival: in_order(Vec::new(), vec![[0, 2], [1, 2]]),
        budget: deaths(1),
        mortal: vec![1],
        ..Scenario::new("two-ends", 3)
    }
}

/// A member joins another one, whose link layer may consider the path to it lost since before the
/// join. The joiner may die.
fn joins_doubted() -> Scenario {
    Scenario {
        in_view: 1,
        budget: budget(1, 1, 0),
        mortal: vec![1],
        doubters: vec![[0, 1]],
        ..Scenario::new("joins-doubted", 2)
    }
}

/// The oldest member leaves while another one joins. It may die when only the joiner knows the next
/// view.
fn joins_and_leaves() -> Scenario {
    Scenario {
        in_view: 2,
        leavers: vec![0],
        arrival: in_order(vec![[0, 1]], Vec::new()),
        budget: deaths(1),
        mortal: vec![0],
        ..Scenario::new("joins-and-leaves", 3)
    }
}

/// A member joins two others. Any member may die.
fn joins() -> Scenario {
    Scenario {
        in_view: 2,
        arrival: in_order(Vec::new(), Vec::new()),
        budget: deaths(1),
        ..Scenario::new("joins", 3)
    }
}

/// A member joins, and finds the queues of two groups of one member each. Both admit it, and any
/// member may die.
fn taken_in_twice() -> Scenario {
    Scenario {
        in_view: 2,
        in_other: 1,
        arrival: in_order(vec![[0, 2], [1, 2]], Vec::new()),
        budget: deaths(1),
        ..Scenario::new("taken-in-twice", 3)
    }
}

/// Three members, of which two found a group, with one slow path. Any member may die.
fn founds() -> Scenario {
    Scenario {
        in_view: 0,
        founders: 2,
        arrival: in_order(vec![[0, 1]], Vec::new()),
        budget: deaths(1),
        ..Scenario::new("founds", 3)
    }
}

/// Three members, of which two found a group. Each may receive from a different one first, so that
/// each waits for the next.
fn founds_in_a_circle() -> Scenario {
    Scenario {
        arrival: in_order(Vec::new(), vec![[0, 1], [1, 2], [2, 0]]),
        budget: deaths(0),
        name: "founds-in-a-circle",
        ..founds()
    }
}

/// A member joins two others without a state. The oldest may die while the other one does not know
/// of the join.
fn joins_stateless() -> Scenario {
    Scenario {
        stateless: true,
        arrival: in_order(vec![[0, 1]], Vec::new()),
        mortal: vec![0],
        name: "joins-stateless",
        ..joins()
    }
}

/// The oldest member continues without the other one, admits a joiner, and leaves.
fn outlived() -> Scenario {
    Scenario {
        in_view: 2,
        leavers: vec![0],
        unhurried: true,
        divisions: vec![vec![0, 1, 0]],
        divided: true,
        mended: true,
        arrival: in_order(Vec::new(), Vec::new()),
        budget: deaths(0),
        ..Scenario::new("outlived", 3)
    }
}

/// Two members found a group on each side of a division, which is then repaired. After that one may
/// die, and one is suspected.
fn two_groups() -> Scenario {
    Scenario {
        in_view: 0,
        founders: 2,
        suspicions: vec![[3, 2]],
        unhurried: true,
        divisions: vec![vec![0, 0, 1, 1]],
        divided: true,
        mended: true,
        arrival: in_order(Vec::new(), Vec::new()),
        budget: deaths(1),
        mortal: vec![0],
        ..Scenario::new("two-groups", 4)
    }
}

/// Two members, each with a message. One may die.
fn two_crash() -> Scenario {
    Scenario {
        multicasts: vec![0, 1],
        budget: budget(1, 0, 0),
        ..Scenario::new("two-crash", 2)
    }
}

/// Two members that are divided.
fn two_divided() -> Scenario {
    Scenario {
        multicasts: vec![1],
        budget: budget(0, 0, 1),
        divisions: vec![vec![0, 1]],
        mended: true,
        ..Scenario::new("two-divided", 2)
    }
}

/// The second member considers the path to the third lost. It may decide with the oldest, and may
/// die before the oldest knows the decision.
fn three_leader() -> Scenario {
    Scenario {
        budget: budget(1, 1, 0),
        mortal: vec![1],
        doubters: vec![[1, 2]],
        ..Scenario::new("three-leader", 3)
    }
}

/// Returns the scenarios in which all invariants must hold, within bounds that take minutes.
#[must_use]
pub fn whole() -> Vec<Scenario> {
    let mut scenarios = bounded();
    scenarios.push(three_leader());
    scenarios
}

/// Returns the scenarios in which all invariants must hold, within bounds that take seconds.
#[must_use]
pub fn bounded() -> Vec<Scenario> {
    vec![
        Scenario {
            multicasts: vec![0, 1],
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
        leaves_behind_a_window(),
        dead_window_left_behind(),
        two_ends(),
        joins(),
        joins_doubted(),
        joins_and_leaves(),
        taken_in_twice(),
        founds(),
        founds_in_a_circle(),
        two_groups(),
        joins_stateless(),
        outlived(),
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
                multicasts: vec![2],
                budget: budget(1, 0, 0),
                mortal: vec![2],
                mutant: Mutant::TakesMaxTrim,
                ..Scenario::new("", 3)
            },
            invariant::ALL_OR_NONE,
        ),
        (
            Scenario {
                name: "acks-before-held",
                mutant: Mutant::AcksBeforeHeld,
                multicasts: vec![0, 1],
                arrival: in_order(vec![[0, 2]], Vec::new()),
                budget: deaths(0),
                ..Scenario::new("", 3)
            },
            invariant::TOTAL_ORDER,
        ),
        (
            Scenario {
                name: "resends-delivered",
                mutant: Mutant::ResendsDelivered,
                multicasts: vec![0],
                unhurried: true,
                arrival: in_order(Vec::new(), Vec::new()),
                budget: deaths(1),
                mortal: vec![2],
                ..Scenario::new("", 3)
            },
            invariant::EXACTLY_ONCE,
        ),
        (
            Scenario {
                name: "forgets-accepted",
                mutant: Mutant::ForgetsAccepted,
                ..three_leader()
            },
            invariant::ENDS,
        ),
        (
            Scenario {
                name: "left-takes-nothing",
                mutant: Mutant::LeftTakesNothing,
                ..leaves_behind_a_window()
            },
            invariant::ENDS,
        ),
        (
            Scenario {
                name: "left-is-silent",
                mutant: Mutant::LeftIsSilent,
                ..dead_window_left_behind()
            },
            invariant::ENDS,
        ),
        (
            Scenario {
                name: "deaf-to-other-groups",
                mutant: Mutant::DeafToOtherGroups,
                ..two_groups()
            },
            invariant::QUIET,
        ),
        (
            Scenario {
                name: "welcomes-first",
                mutant: Mutant::WelcomesFirst,
                ..joins_stateless()
            },
            invariant::ENDS,
        ),
        (
            Scenario {
                name: "forgets-paths",
                mutant: Mutant::ForgetsPaths,
                ..joins_doubted()
            },
            invariant::ENDS,
        ),
        (
            Scenario {
                name: "waits-for-its-end",
                mutant: Mutant::WaitsForItsEnd,
                ..two_ends()
            },
            invariant::ENDS,
        ),
        (
            Scenario {
                name: "answers-known-stays",
                mutant: Mutant::RepliesToKnownMembers,
                ..taken_in_twice()
            },
            invariant::ENDS,
        ),
        (
            Scenario {
                name: "founds-nameless",
                mutant: Mutant::FoundsNameless,
                arrival: in_order(vec![[2, 0], [2, 1]], Vec::new()),
                budget: deaths(0),
                ..founds()
            },
            invariant::ENDS,
        ),
        (
            Scenario {
                name: "asks-no-other",
                mutant: Mutant::QueriesNone,
                ..outlived()
            },
            invariant::ENDS,
        ),
    ]
}
