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

/// Control has queried.
fn queried() -> Acceptor {
    let mut acceptor = Acceptor::new(HELD);
    assert_eq!(acceptor.queried(CONTROL), Some(HELD));
    acceptor
}

/// Control's offer is accepted.
fn open() -> Acceptor {
    let mut acceptor = queried();
    acceptor.offered(CONTROL, PROPOSAL).unwrap();
    assert!(acceptor.is_open());
    acceptor
}

#[test]
fn an_exchange_ends_with_the_wanted_or_the_previous_configuration() {
    for (taken, held) in [(true, PROPOSAL.held()), (false, HELD)] {
        let mut acceptor = open();
        assert_eq!(acceptor.held(), HELD, "until the end");
        let waiting = Waiting {
            verdict: Some(CONTROL),
            reports: Vec::new(),
        };
        assert_eq!(acceptor.ended(taken), waiting);
        assert_eq!(acceptor.held(), held);
        assert!(!acceptor.is_open());
        assert_eq!(acceptor.ended(true), Waiting::default(), "once");
        assert_eq!(acceptor.held(), held);
    }
}

#[test]
fn only_the_last_client_that_queried_may_offer() {
    let mut acceptor = Acceptor::new(HELD);
    assert_eq!(acceptor.offered(CONTROL, PROPOSAL), Err(Refusal::Stale));
    let mut acceptor = queried();
    assert_eq!(acceptor.queried(2), Some(HELD));
    assert_eq!(acceptor.offered(CONTROL, PROPOSAL), Err(Refusal::Stale));
    // A client that disconnected is no longer the partner.
    acceptor.gone(2);
    assert_eq!(acceptor.partner(), None);
    assert_eq!(acceptor.offered(CONTROL, PROPOSAL), Err(Refusal::Stale));
    assert_eq!(acceptor.offered(2, PROPOSAL), Err(Refusal::Stale));
}

#[test]
fn a_proposal_must_match_the_held_state_and_have_a_later_epoch() {
    let not_later = Proposal {
        epoch: 3,
        ..PROPOSAL
    };
    let mut acceptor = queried();
    assert_eq!(acceptor.offered(CONTROL, not_later), Err(Refusal::NotLater));
    for believes in [
        Held {
            incarnation: 8,
            ..HELD
        },
        Held { epoch: 2, ..HELD },
        Held {
            digest: 0xc,
            ..HELD
        },
    ] {
        let proposal = Proposal {
            believes,
            ..PROPOSAL
        };
        assert_eq!(acceptor.offered(CONTROL, proposal), Err(Refusal::Stale));
        assert!(!acceptor.is_open());
    }
}

#[test]
fn an_exchange_ends_without_its_client_and_later_queries_are_answered_then() {
    let mut acceptor = open();
    acceptor.gone(CONTROL);
    assert_eq!(acceptor.queried(2), None);
    assert_eq!(acceptor.queried(3), None);
    acceptor.gone(2);
    let later = Proposal {
        epoch: 5,
        ..PROPOSAL
    };
    assert_eq!(acceptor.offered(3, later), Err(Refusal::Busy));
    let waiting = Waiting {
        verdict: None,
        reports: alloc::vec![3],
    };
    assert_eq!(acceptor.ended(true), waiting);
    assert_eq!(acceptor.held(), PROPOSAL.held());
}
