#![allow(clippy::unwrap_used)]

use super::*;

const HELD: Held = Held {
    incarnation: 7,
    epoch: 3,
    digest: 0xa,
};
const OFFER: Offer = Offer {
    epoch: 4,
    believes: HELD,
    wants: 0xb,
};
const CONTROL: u64 = 1;

/// A joint of two lanes and what it ordered.
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
            Input::Asked { from: CONTROL },
            &[Order::Tell {
                to: CONTROL,
                held: HELD,
            }],
        );
        played
    }

    /// With an exchange under way.
    fn offered() -> Self {
        let mut played = Self::new();
        let offered = Input::Offered {
            from: CONTROL,
            offer: OFFER,
        };
        played.expect(offered, &[Order::Prepare]);
        played
    }

    fn expect(&mut self, input: Input, orders: &[Order]) {
        self.orders.clear();
        self.joint.on(input, &mut self.orders);
        assert_eq!(self.orders, orders, "after {input:?}");
    }

    /// Both lanes answer; only the last answer has orders.
    fn both(&mut self, went_well: [bool; 2], orders: &[Order]) {
        let [first, second] = went_well;
        self.expect(
            Input::Answered {
                lane: 0,
                went_well: first,
            },
            &[],
        );
        self.expect(
            Input::Answered {
                lane: 1,
                went_well: second,
            },
            orders,
        );
    }

    /// Both lanes are taking.
    fn taking(vacates: bool) -> Self {
        let mut played = Self::offered();
        played.expect(Input::Prepared { vacates }, &all(Step::Judge(OFFER)));
        let take = [vec![Order::Pause], all(Step::Take(OFFER)).to_vec()].concat();
        if vacates {
            played.both([true; 2], &all(Step::Vacate(OFFER)));
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
fn what_all_lanes_take_is_entered_and_told() {
    for vacates in [false, true] {
        let mut played = Played::taking(vacates);
        played.both([true; 2], &all(Step::Settle(4)));
        let held = OFFER.held();
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
fn what_cannot_be_prepared_or_judged_reaches_no_lane() {
    let mut played = Played::offered();
    played.expect(Input::Unprepared, &refused(Refusal::Unready));
    let mut played = Played::offered();
    played.expect(Input::Prepared { vacates: true }, &all(Step::Judge(OFFER)));
    played.both([true, false], &refused(Refusal::Lane(1)));
    assert_eq!(played.joint.held(), HELD);
    assert_eq!(played.joint.phase(), None);
}

#[test]
fn one_lane_that_refuses_has_the_others_undo() {
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
            went_well: true,
        },
        &[Order::Resume, drop, reply],
    );
    let mut played = Played::taking(false);
    let [drop, reply] = refused(Refusal::Lane(0));
    played.both([false, false], &[Order::Resume, drop, reply]);
}

#[test]
fn ports_that_were_given_back_come_back() {
    // Not all gave them back.
    let mut played = Played::offered();
    played.expect(Input::Prepared { vacates: true }, &all(Step::Judge(OFFER)));
    played.both([true; 2], &all(Step::Vacate(OFFER)));
    played.both([true, false], &[Order::Restore]);
    let put_back = |lane| Order::Lane {
        lane,
        step: Step::PutBack(4),
    };
    played.expect(Input::Restored, &[put_back(0)]);
    played.expect(
        Input::Answered {
            lane: 0,
            went_well: true,
        },
        &refused(Refusal::Lane(1)),
    );
    // Their successors cannot be opened.
    let mut played = Played::offered();
    played.expect(Input::Prepared { vacates: true }, &all(Step::Judge(OFFER)));
    played.both([true; 2], &all(Step::Vacate(OFFER)));
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
fn only_who_asked_last_may_offer() {
    let mut played = Played::new();
    played.expect(
        Input::Asked { from: 2 },
        &[Order::Tell { to: 2, held: HELD }],
    );
    let offered = Input::Offered {
        from: CONTROL,
        offer: OFFER,
    };
    let [_, reply] = refused(Refusal::Stale);
    played.expect(offered, &[reply]);
    // Who hung up is partner no more.
    played.expect(Input::Gone { from: 2 }, &[]);
    assert_eq!(played.joint.partner(), None);
    played.expect(offered, &[reply]);
}

#[test]
fn what_does_not_fit_is_refused_at_once() {
    let cases = [
        (
            Offer {
                believes: Held {
                    incarnation: 6,
                    ..HELD
                },
                ..OFFER
            },
            Refusal::Stale,
        ),
        (Offer { epoch: 3, ..OFFER }, Refusal::NotLater),
    ];
    for (offer, refusal) in cases {
        let mut played = Played::new();
        let [_, reply] = refused(refusal);
        let from = CONTROL;
        played.expect(Input::Offered { from, offer }, &[reply]);
        assert_eq!(played.joint.phase(), None);
    }
}

#[test]
fn an_exchange_ends_though_nobody_waits_and_who_asks_is_told_then() {
    let mut played = Played::taking(false);
    played.expect(Input::Gone { from: CONTROL }, &[]);
    played.expect(Input::Asked { from: 2 }, &[]);
    played.expect(Input::Asked { from: 3 }, &[]);
    played.expect(Input::Gone { from: 2 }, &[]);
    let again = Input::Offered {
        from: 3,
        offer: OFFER,
    };
    let busy = Order::Reply {
        to: 3,
        verdict: Verdict::Refused(Refusal::Busy),
        held: HELD,
    };
    played.expect(again, &[busy]);
    played.both([true; 2], &all(Step::Settle(4)));
    let held = OFFER.held();
    played.both(
        [true; 2],
        &[
            Order::Resume,
            Order::Enter(held),
            Order::DropUnused,
            Order::Tell { to: 3, held },
        ],
    );
}

#[test]
fn what_answers_nothing_is_ignored() {
    let strays = [
        Input::Prepared { vacates: false },
        Input::Unprepared,
        Input::Opened,
        Input::Unopened,
        Input::Restored,
        Input::Answered {
            lane: 0,
            went_well: false,
        },
        Input::Answered {
            lane: 9,
            went_well: true,
        },
    ];
    let mut played = Played::new();
    for stray in strays {
        played.expect(stray, &[]);
    }
    let mut played = Played::taking(false);
    let lane = Input::Answered {
        lane: 1,
        went_well: true,
    };
    played.expect(lane, &[]);
    // Twice by the same lane is not by both.
    played.expect(lane, &[]);
    for stray in &strays[..5] {
        played.expect(*stray, &[]);
    }
    assert_eq!(played.joint.phase(), Some(Phase::Taking));
}
