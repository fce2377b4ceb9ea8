//! The scenarios to check.

use super::{
    invariant,
    mutant::Mutant,
    scenario::{Budget, Scenario},
};

/// Returns the scenarios in which all invariants must hold. `bounded`: within bounds that take
/// seconds, otherwise minutes.
#[must_use]
pub fn scenarios(bounded: bool) -> Vec<Scenario> {
    let more = u8::from(!bounded);
    let none = Budget::default();
    vec![
        Scenario::new(
            "control-dies",
            Budget {
                wishes: 2,
                control_deaths: 1 + more,
                breaks: more,
                failures: 1,
                ..none
            },
        ),
        Scenario::new(
            "dataplane-dies",
            Budget {
                wishes: 1 + more,
                dataplane_deaths: 1 + more,
                breaks: 1,
                failures: more,
                ..none
            },
        ),
        Scenario::new(
            "both-die",
            Budget {
                wishes: 1,
                control_deaths: 1,
                dataplane_deaths: 1,
                leaves: 1,
                breaks: more,
                failures: more,
                ..none
            },
        ),
        Scenario::new(
            "ports-opened-again",
            Budget {
                wishes: more,
                reopens: 2,
                dataplane_deaths: more,
                breaks: 1,
                failures: 1,
                ..none
            },
        ),
        Scenario::new(
            "reinstated-later",
            Budget {
                wishes: 1,
                reopens: more,
                appearances: 1 + more,
                dataplane_deaths: 1,
                failures: 1,
                breaks: more,
                ..none
            },
        ),
        Scenario::new(
            "a-second-client",
            Budget {
                wishes: 1 + more,
                untrusted_users: 1,
                breaks: more,
                failures: 1,
                ..none
            },
        ),
    ]
}

/// Returns the mutants, each with the invariant that it must break. Every invariant occurs.
#[must_use]
pub fn mutants() -> Vec<(Scenario, &'static str)> {
    let wrong = |name, mutant, budget| Scenario {
        mutant,
        excused: vec![invariant::ENDS_AGREED],
        ..Scenario::new(name, budget)
    };
    let one = Budget {
        wishes: 1,
        ..Budget::default()
    };
    let dies = Budget {
        control_deaths: 1,
        ..one
    };
    let is_restarted = Budget {
        dataplane_deaths: 1,
        ..one
    };
    let intruded = Budget {
        untrusted_users: 1,
        ..one
    };
    let reopened = Budget {
        reopens: 1,
        breaks: 1,
        ..Budget::default()
    };
    let by_text = || wrong("reopens-by-text", Mutant::ReopensByText, reopened);
    let early = || wrong("replies-when-prepared", Mutant::RepliesWhenPrepared, one);
    vec![
        (early(), invariant::SAME_EPOCH),
        (early(), invariant::REPORTED_TRUTHFULLY),
        (early(), invariant::WHOLE_OR_NOT),
        (
            wrong("believes-nothing", Mutant::BelievesNothing, intruded),
            invariant::NO_STALE_TAKING,
        ),
        (
            Scenario {
                excused: Vec::new(),
                ..wrong("no-incarnation", Mutant::NoIncarnation, is_restarted)
            },
            invariant::ENDS_AGREED,
        ),
        (
            wrong("gives-up", Mutant::GivesUp, dies),
            invariant::WHOLE_OR_NOT,
        ),
        (
            wrong("waits-for-control", Mutant::WaitsForControl, dies),
            invariant::NO_WAIT_FOR_THE_DEAD,
        ),
        (
            wrong("control-from-file", Mutant::ControlFromFile, dies),
            invariant::SAME_EPOCH,
        ),
        (
            wrong("same-revision", Mutant::SameEpoch, is_restarted),
            invariant::ONE_MEANING,
        ),
        (
            wrong("answers-in-the-middle", Mutant::AnswersInTheMiddle, dies),
            invariant::SAME_EPOCH,
        ),
        (
            wrong("no-partner", Mutant::NoPartner, dies),
            invariant::SAME_EPOCH,
        ),
        (by_text(), invariant::SAME_EPOCH),
        (by_text(), invariant::REPORTED_TRUTHFULLY),
    ]
}
