//! The scenarios that are checked.

use covalent_protocol::wire::FRAME_PAYLOAD_BYTES_MAX;

use crate::{
    invariant,
    mutant::Mutant,
    scenario::{Budget, Scenario, Wish, every_wish},
};

const FORTH: [usize; 2] = [0, 1];
const BACK: [usize; 2] = [1, 0];

/// Any of these attempts is refused, or none.
const REFUSALS: &[u8] = &[0, 1, 2];
const NO_REFUSAL: &[u8] = &[0];

fn one(refused: &[u8]) -> Vec<Vec<Wish>> {
    every_wish(&[FORTH], refused)
}

fn two() -> Vec<Vec<Wish>> {
    every_wish(&[FORTH, FORTH], NO_REFUSAL)
}

fn both_directions() -> Vec<Vec<Wish>> {
    every_wish(&[FORTH, BACK], NO_REFUSAL)
}

const fn budget(losses: u8, cuts: u8, ticks: u8, restarts: u8) -> Budget {
    Budget {
        losses,
        cuts,
        ticks,
        restarts,
        quiets: 0,
        cancels: 0,
        forgeries: 0,
        moves: 0,
        copies: 0,
    }
}

fn two_cables() -> Vec<[usize; 2]> {
    vec![FORTH; 2]
}

/// Returns the scenarios in which all invariants must hold, within bounds that take minutes.
#[must_use]
pub fn whole() -> Vec<Scenario> {
    vec![
        Scenario {
            wishes: one(REFUSALS),
            budget: budget(1, 1, 1, 0),
            up: false,
            ..Scenario::new("from-nothing")
        },
        Scenario {
            wishes: two(),
            budget: budget(2, 1, 1, 0),
            ..Scenario::new("one-slot")
        },
        Scenario {
            wishes: two(),
            budget: budget(1, 1, 0, 0),
            slots: 2,
            ..Scenario::new("two-slots")
        },
        Scenario {
            wishes: both_directions(),
            budget: budget(1, 1, 0, 0),
            ..Scenario::new("both-ways")
        },
        Scenario {
            cables: two_cables(),
            wishes: one(REFUSALS),
            budget: budget(0, 2, 0, 0),
            ..Scenario::new("alternate-path")
        },
        Scenario {
            cables: two_cables(),
            wishes: two(),
            budget: budget(0, 1, 0, 0),
            event_ratio: 2,
            records_max: 4,
            ..Scenario::new("alternate-path-two")
        },
        Scenario {
            cables: two_cables(),
            wishes: one(NO_REFUSAL),
            budget: budget(1, 0, 0, 0),
            up: false,
            ..Scenario::new("from-nothing-two-cables")
        },
        Scenario {
            wishes: one(REFUSALS),
            budget: budget(1, 0, 3, 0),
            keepalive_misses_max: 2,
            ..Scenario::new("silence")
        },
        Scenario {
            wishes: one(NO_REFUSAL),
            budget: budget(1, 1, 0, 1),
            ..Scenario::new("restart")
        },
        Scenario {
            wishes: one(NO_REFUSAL),
            budget: budget(1, 0, 1, 1),
            ..Scenario::new("restart-tick")
        },
        Scenario {
            cables: two_cables(),
            wishes: one(NO_REFUSAL),
            budget: budget(1, 0, 0, 1),
            ..Scenario::new("restart-two-cables")
        },
        Scenario {
            wishes: one(REFUSALS),
            budget: budget(1, 1, 1, 0),
            eager: false,
            ..Scenario::new("at-leisure")
        },
        Scenario {
            budget: budget(1, 0, 1, 0),
            ..piggybacking()
        },
        Scenario {
            budget: budget(1, 1, 1, 0),
            ..long()
        },
        Scenario {
            budget: Budget {
                quiets: 1,
                ..budget(0, 1, 0, 0)
            },
            records_max: 3,
            ..by_events()
        },
        Scenario {
            budget: budget(0, 2, 0, 0),
            ..triangle()
        },
        Scenario {
            budget: Budget {
                cancels: 1,
                ..budget(1, 1, 1, 0)
            },
            ..alone()
        },
        Scenario {
            budget: Budget {
                forgeries: 2,
                ..budget(1, 0, 1, 0)
            },
            ..forger()
        },
        Scenario {
            budget: Budget {
                forgeries: 1,
                ..budget(0, 0, 1, 1)
            },
            name: "forger-restart",
            ..forger()
        },
        forger_from_nothing(),
        from_an_earlier_life(),
        moved(),
        Scenario {
            budget: Budget {
                moves: 1,
                ..budget(0, 1, 0, 0)
            },
            name: "moved-and-cut",
            ..moved()
        },
        crossed(),
    ]
}

/// Two nodes whose only cable may stay cut, with programs that exit.
fn alone() -> Scenario {
    Scenario {
        wishes: two(),
        slots: 2,
        for_good: vec![0],
        ..Scenario::new("alone")
    }
}

fn long() -> Scenario {
    Scenario {
        wishes: one(NO_REFUSAL),
        request_bytes: FRAME_PAYLOAD_BYTES_MAX as u16 + 1,
        ..Scenario::new("two-frames")
    }
}

/// Two cables whose round trips are measured against each other.
fn by_events() -> Scenario {
    Scenario {
        cables: two_cables(),
        wishes: one(NO_REFUSAL),
        event_ratio: 2,
        ..Scenario::new("by-events")
    }
}

/// The first two nodes lose their cable for good; the third has one to each.
fn triangle() -> Scenario {
    Scenario {
        nodes: 3,
        cables: vec![FORTH, [0, 2], [2, 1]],
        wishes: one(NO_REFUSAL),
        for_good: vec![0],
        ..Scenario::new("triangle")
    }
}

fn piggybacking() -> Scenario {
    Scenario {
        wishes: two(),
        slots: 2,
        eager: false,
        ..Scenario::new("piggybacks")
    }
}

/// A blind forger puts frames on the cable.
fn forger() -> Scenario {
    Scenario {
        wishes: one(NO_REFUSAL),
        budget: Budget {
            forgeries: 1,
            ..budget(1, 0, 1, 0)
        },
        ..Scenario::new("forger")
    }
}

/// The same, before any frame was sent on the cable.
fn forger_from_nothing() -> Scenario {
    Scenario {
        up: false,
        name: "forger-from-nothing",
        ..forger()
    }
}

/// Two cables are mixed up: one node finds each other one on the port of the other.
fn moved() -> Scenario {
    Scenario {
        nodes: 3,
        cables: vec![FORTH, [0, 2]],
        wishes: one(NO_REFUSAL),
        budget: Budget {
            moves: 1,
            ..budget(0, 0, 1, 0)
        },
        event_ratio: 2,
        records_max: 4,
        drawn: true,
        ..Scenario::new("moved-to-another-node")
    }
}

/// Two cables between the same two nodes are mixed up.
fn crossed() -> Scenario {
    Scenario {
        nodes: 2,
        cables: two_cables(),
        name: "moved-to-another-port",
        ..moved()
    }
}

/// A frame arrives, and once more after both nodes lost their memory and met again: the second copy
/// is one of the first, behind the handshakes.
fn from_an_earlier_life() -> Scenario {
    Scenario {
        wishes: one(NO_REFUSAL),
        budget: Budget {
            copies: 2,
            ..budget(0, 0, 0, 2)
        },
        records_max: 3,
        drawn: true,
        ..Scenario::new("from-an-earlier-life")
    }
}

/// The same within bounds that take seconds.
#[must_use]
pub fn bounded() -> Vec<Scenario> {
    vec![
        Scenario {
            wishes: one(NO_REFUSAL),
            budget: budget(1, 0, 1, 0),
            up: false,
            ..Scenario::new("from-nothing")
        },
        Scenario {
            wishes: two(),
            budget: budget(1, 0, 1, 0),
            ..Scenario::new("one-slot")
        },
        Scenario {
            wishes: two(),
            budget: budget(1, 0, 1, 0),
            slots: 2,
            ..Scenario::new("two-slots")
        },
        Scenario {
            wishes: both_directions(),
            budget: budget(0, 1, 0, 0),
            ..Scenario::new("both-ways")
        },
        Scenario {
            cables: two_cables(),
            wishes: one(REFUSALS),
            budget: budget(1, 1, 0, 0),
            ..Scenario::new("alternate-path")
        },
        Scenario {
            wishes: one(NO_REFUSAL),
            budget: budget(0, 0, 3, 0),
            keepalive_misses_max: 2,
            ..Scenario::new("silence")
        },
        Scenario {
            wishes: one(NO_REFUSAL),
            budget: budget(0, 0, 1, 1),
            ..Scenario::new("restart")
        },
        Scenario {
            wishes: one(NO_REFUSAL),
            budget: budget(1, 0, 1, 0),
            eager: false,
            ..Scenario::new("at-leisure")
        },
        Scenario {
            budget: budget(1, 0, 0, 0),
            ..piggybacking()
        },
        Scenario {
            budget: budget(1, 0, 1, 0),
            ..long()
        },
        Scenario {
            budget: Budget {
                quiets: 1,
                ..budget(0, 0, 0, 0)
            },
            records_max: 6,
            ..by_events()
        },
        Scenario {
            budget: budget(0, 1, 0, 0),
            ..triangle()
        },
        forger(),
        Scenario {
            budget: Budget {
                forgeries: 1,
                ..budget(1, 0, 0, 0)
            },
            ..forger_from_nothing()
        },
        from_an_earlier_life(),
        Scenario {
            wishes: one(NO_REFUSAL).into_iter().take(1).collect(),
            records_max: 3,
            ..moved()
        },
        // Two exchanges with a tick have 800,000 states: only `whole` searches them.
        Scenario {
            budget: Budget {
                cancels: 1,
                ..budget(0, 1, 0, 0)
            },
            ..alone()
        },
        Scenario {
            wishes: one(NO_REFUSAL),
            budget: Budget {
                cancels: 1,
                ..budget(1, 1, 1, 0)
            },
            name: "alone-one",
            ..alone()
        },
    ]
}

/// Returns the mutants, each with the invariant that it must break. Every invariant occurs.
#[must_use]
pub fn mutants() -> Vec<(Scenario, &'static str)> {
    let cut_once = |name, mutant| Scenario {
        wishes: one(NO_REFUSAL),
        budget: budget(0, 1, 0, 0),
        mutant,
        ..Scenario::new(name)
    };
    let two_frames = Scenario {
        wishes: two(),
        slots: 2,
        mutant: Mutant::Reorder,
        ..Scenario::new("reordering-with-numbers")
    };
    let beside_another = Scenario {
        cables: two_cables(),
        ..cut_once("no-latch", Mutant::NoLatch)
    };
    let cut_for_good = |name, mutant| Scenario {
        budget: budget(0, 1, 0, 0),
        mutant,
        ..Scenario { name, ..triangle() }
    };
    let over_neighbor = cut_for_good("no-latch-for-neighbors", Mutant::NoLatchForNeighbors);
    let made_up = cut_for_good("neighbor-answers", Mutant::NeighborAnswers);
    let deliver_at_1 = cut_once("deliver-at-message-1", Mutant::DeliverAt1);
    let fire_and_forget = cut_once("fire-and-forget", Mutant::FireAndForget);
    let reordering = cut_once("reordering", Mutant::ReorderUnnumbered);
    let unnumbered = cut_once("numberless-in-order", Mutant::Unnumbered);
    let keep_reserved = cut_once("keep-reserved", Mutant::KeepReserved);
    let keep_callers = Scenario {
        name: "keep-callers",
        budget: Budget {
            cancels: 1,
            ..budget(0, 1, 0, 0)
        },
        mutant: Mutant::KeepCallers,
        ..alone()
    };
    let forged = |name, mutant| Scenario {
        mutant,
        name,
        ..forger()
    };
    let needs_no_echo = forged("needs-no-echo", Mutant::NeedsNoEcho);
    let any_epoch = forged("any-epoch", Mutant::AnyEpoch);
    let same_epochs = Scenario {
        drawn: false,
        name: "same-epochs",
        ..moved()
    };
    let same_epochs_again = Scenario {
        drawn: false,
        name: "same-epochs-again",
        ..from_an_earlier_life()
    };
    let knows_by_port = Scenario {
        mutant: Mutant::KnowsByPort,
        name: "knows-by-port",
        ..moved()
    };
    [
        (deliver_at_1.clone(), invariant::EXACTLY_ONCE),
        (deliver_at_1.clone(), invariant::AGREEMENT),
        (deliver_at_1, invariant::ISOLATION),
        (fire_and_forget.clone(), invariant::EXACTLY_ONCE),
        (fire_and_forget, invariant::ONE_COPY),
        (beside_another, invariant::EXACTLY_ONCE),
        (reordering.clone(), invariant::EXACTLY_ONCE),
        (reordering, invariant::BOOKS),
        (two_frames, invariant::NO_STORM),
        (over_neighbor, invariant::AGREEMENT),
        (made_up, invariant::AGREEMENT),
        (unnumbered, invariant::ENDS_RESOLVED),
        (keep_reserved, invariant::NOTHING_RESERVED),
        (keep_callers, invariant::ENDS_RESOLVED),
        (needs_no_echo, invariant::BOOKS),
        (any_epoch, invariant::NO_STORM),
        (knows_by_port, invariant::EXACTLY_ONCE),
        (same_epochs, invariant::EXACTLY_ONCE),
        (same_epochs_again, invariant::EXACTLY_ONCE),
    ]
    .into_iter()
    .map(|(scenario, broken)| {
        let mut others: Vec<_> = invariant::ALL.iter().map(|(name, _)| *name).collect();
        others.retain(|&other| other != broken);
        let scenario = Scenario {
            excused: others,
            ..scenario
        };
        (scenario, broken)
    })
    .collect()
}

/// Returns the two halves of the mutant `reordering`, each of which must be safe alone. Also
/// returns a neighbor that invents replies, which must not cause a second execution. Each is
/// excused from the invariants that it breaks among [`mutants`].
#[must_use]
pub fn halves() -> Vec<Scenario> {
    vec![
        Scenario {
            wishes: one(NO_REFUSAL),
            budget: budget(0, 1, 0, 0),
            mutant: Mutant::Unnumbered,
            excused: vec![invariant::ENDS_RESOLVED],
            ..Scenario::new("numberless-in-order")
        },
        Scenario {
            wishes: two(),
            budget: budget(0, 1, 0, 0),
            mutant: Mutant::Reorder,
            excused: vec![invariant::NO_STORM],
            ..Scenario::new("reordering-with-numbers")
        },
        Scenario {
            name: "neighbor-answers",
            budget: budget(0, 1, 0, 0),
            mutant: Mutant::NeighborAnswers,
            excused: vec![invariant::AGREEMENT, invariant::ENDS_RESOLVED],
            ..triangle()
        },
    ]
}
