#![allow(clippy::unwrap_used)]

use super::*;

const HELD: Held = Held {
    incarnation: 7,
    epoch: 3,
    digest: 0xa,
};
const PROPOSAL: Proposal = Proposal {
    epoch: 4,
    believes: HELD,
    wants: 0xb,
};
const CONTROL: u64 = 1;

/// A joint of two lanes and the orders that it returned.
struct Played {
    joint: Joint,
    orders: Vec<Order>,
}

impl Played {
    fn new() -> Self {
        let mut played = Self {
            joint: Joint::new(HELD, 2),
            orders: Vec::new(),
        };
        played.expect(
            Input::Queried { from: CONTROL },
            &[Order::Report {
                to: CONTROL,
                held: HELD,
            }],
        );
        played
    }

    /// A joint with an exchange in flight.
    fn proposed() -> Self {
        let mut played = Self::new();
        let proposed = Input::Proposed {
            from: CONTROL,
            proposal: PROPOSAL,
        };
        played.expect(proposed, &[Order::Prepare]);
        played
    }

    fn expect(&mut self, input: Input, orders: &[Order]) {
        self.orders.clear();
        self.joint.on(input, &mut self.orders);
        assert_eq!(self.orders, orders, "after {input:?}");
    }

    /// Both lanes answer; only the last answer has orders.
    fn both(&mut self, succeeded: [bool; 2], orders: &[Order]) {
        let [first, second] = succeeded;
        self.expect(
            Input::Answered {
                lane: 0,
                succeeded: first,
            },
            &[],
        );
        self.expect(
            Input::Answered {
                lane: 1,
                succeeded: second,
            },
            orders,
        );
    }

    /// Both lanes are taking.
    fn taking(detaches_ports: bool) -> Self {
        let mut played = Self::proposed();
        played.expect(
            Input::Prepared { detaches_ports },
            &all(Step::Judge(PROPOSAL)),
        );
        let take = [vec![Order::Pause], all(Step::Take(PROPOSAL)).to_vec()].concat();
        if detaches_ports {
            played.both([true; 2], &all(Step::DetachPorts(PROPOSAL)));
            played.both([true; 2], &[Order::Open]);
            played.expect(Input::Opened, &take);
        } else {
            played.both([true; 2], &take);
        }
        assert_eq!(played.joint.phase(), Some(Phase::Taking));
        played
    }
}

fn all(step: Step) -> [Order; 2] {
    [0, 1].map(|lane| Order::Lane { lane, step })
}

fn refused(refusal: Refusal) -> [Order; 2] {
    [
        Order::DropUnused,
        Order::Reply {
            to: CONTROL,
            verdict: Verdict::Refused(refusal),
            held: HELD,
        },
    ]
}

#[test]
fn a_proposal_that_all_lanes_take_is_entered_and_reported() {
    for detaches_ports in [false, true] {
        let mut played = Played::taking(detaches_ports);
        played.both([true; 2], &all(Step::Settle(4)));
        let held = PROPOSAL.held();
        played.both(
            [true; 2],
            &[
                Order::Resume,
                Order::Enter(held),
                Order::DropUnused,
                Order::Reply {
                    to: CONTROL,
                    verdict: Verdict::Taken,
                    held,
                },
            ],
        );
        assert_eq!(played.joint.held(), held);
        assert_eq!(played.joint.phase(), None);
    }
}

#[test]
fn a_proposal_that_cannot_be_prepared_or_judged_changes_no_lane() {
    let mut played = Played::proposed();
    played.expect(Input::Unprepared, &refused(Refusal::Unready));
    let mut played = Played::proposed();
    played.expect(
        Input::Prepared {
            detaches_ports: true,
        },
        &all(Step::Judge(PROPOSAL)),
    );
    played.both([true, false], &refused(Refusal::Lane(1)));
    assert_eq!(played.joint.held(), HELD);
    assert_eq!(played.joint.phase(), None);
}

#[test]
fn one_refusing_lane_makes_the_others_undo() {
    let mut played = Played::taking(false);
    let undo = Order::Lane {
        lane: 0,
        step: Step::Undo(4),
    };
    // The one that failed has undone already.
    played.both([true, false], &[undo]);
    let [drop, reply] = refused(Refusal::Lane(1));
    played.expect(
        Input::Answered {
            lane: 0,
            succeeded: true,
        },
        &[Order::Resume, drop, reply],
    );
    let mut played = Played::taking(false);
    let [drop, reply] = refused(Refusal::Lane(0));
    played.both([false, false], &[Order::Resume, drop, reply]);
}

#[test]
fn detached_ports_are_restored() {
    // Not all gave them back.
    let mut played = Played::proposed();
    played.expect(
        Input::Prepared {
            detaches_ports: true,
        },
        &all(Step::Judge(PROPOSAL)),
    );
    played.both([true; 2], &all(Step::DetachPorts(PROPOSAL)));
    played.both([true, false], &[Order::Restore]);
    let put_back = |lane| Order::Lane {
        lane,
        step: Step::PutBack(4),
    };
    played.expect(Input::Restored, &[put_back(0)]);
    played.expect(
        Input::Answered {
            lane: 0,
            succeeded: true,
        },
        &refused(Refusal::Lane(1)),
    );
    // Their successors cannot be opened.
    let mut played = Played::proposed();
    played.expect(
        Input::Prepared {
            detaches_ports: true,
        },
        &all(Step::Judge(PROPOSAL)),
    );
    played.both([true; 2], &all(Step::DetachPorts(PROPOSAL)));
    played.both([true; 2], &[Order::Open]);
    played.expect(Input::Unopened, &[Order::Restore]);
    played.expect(Input::Restored, &[put_back(0), put_back(1)]);
    played.both([true; 2], &refused(Refusal::Unready));
    // A lane cannot take; both gave theirs back.
    let mut played = Played::taking(true);
    played.both([false, false], &[Order::Resume, Order::Restore]);
    played.expect(Input::Restored, &[put_back(0), put_back(1)]);
    played.both([true; 2], &refused(Refusal::Lane(0)));
}

#[test]
fn only_the_last_client_that_queried_may_propose() {
    let mut played = Played::new();
    played.expect(
        Input::Queried { from: 2 },
        &[Order::Report { to: 2, held: HELD }],
    );
    let proposed = Input::Proposed {
        from: CONTROL,
        proposal: PROPOSAL,
    };
    let [_, reply] = refused(Refusal::Stale);
    played.expect(proposed, &[reply]);
    // A client that disconnected is no longer the partner.
    played.expect(Input::Gone { from: 2 }, &[]);
    assert_eq!(played.joint.partner(), None);
    played.expect(proposed, &[reply]);
}

#[test]
fn a_proposal_that_does_not_fit_is_refused_at_once() {
    let cases = [
        (
            Proposal {
                believes: Held {
                    incarnation: 6,
                    ..HELD
                },
                ..PROPOSAL
            },
            Refusal::Stale,
        ),
        (
            Proposal {
                epoch: 3,
                ..PROPOSAL
            },
            Refusal::NotLater,
        ),
    ];
    for (proposal, refusal) in cases {
        let mut played = Played::new();
        let [_, reply] = refused(refusal);
        let from = CONTROL;
        played.expect(Input::Proposed { from, proposal }, &[reply]);
        assert_eq!(played.joint.phase(), None);
    }
}

#[test]
fn an_exchange_ends_without_a_waiter_and_later_queries_are_answered() {
    let mut played = Played::taking(false);
    played.expect(Input::Gone { from: CONTROL }, &[]);
    played.expect(Input::Queried { from: 2 }, &[]);
    played.expect(Input::Queried { from: 3 }, &[]);
    played.expect(Input::Gone { from: 2 }, &[]);
    let repeated = Input::Proposed {
        from: 3,
        proposal: PROPOSAL,
    };
    let busy = Order::Reply {
        to: 3,
        verdict: Verdict::Refused(Refusal::Busy),
        held: HELD,
    };
    played.expect(repeated, &[busy]);
    played.both([true; 2], &all(Step::Settle(4)));
    let held = PROPOSAL.held();
    played.both(
        [true; 2],
        &[
            Order::Resume,
            Order::Enter(held),
            Order::DropUnused,
            Order::Report { to: 3, held },
        ],
    );
}

#[test]
fn inputs_that_answer_nothing_are_ignored() {
    let strays = [
        Input::Prepared {
            detaches_ports: false,
        },
        Input::Unprepared,
        Input::Opened,
        Input::Unopened,
        Input::Restored,
        Input::Answered {
            lane: 0,
            succeeded: false,
        },
        Input::Answered {
            lane: 9,
            succeeded: true,
        },
    ];
    let mut played = Played::new();
    for stray in strays {
        played.expect(stray, &[]);
    }
    let mut played = Played::taking(false);
    let lane = Input::Answered {
        lane: 1,
        succeeded: true,
    };
    played.expect(lane, &[]);
    // Twice by the same lane is not by both.
    played.expect(lane, &[]);
    for stray in &strays[..5] {
        played.expect(*stray, &[]);
    }
    assert_eq!(played.joint.phase(), Some(Phase::Taking));
}
