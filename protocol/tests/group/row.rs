//! Rows only grow, with duplicate and late ones too.

use covalent_protocol::group::{
    Members,
    row::{Ballot, Change, Frontier, Proposal, Row},
};
use proptest::prelude::*;

/// A row that a member might send: a ballot has one proposal.
pub fn row() -> impl Strategy<Value = Row> {
    let frontier = (
        0..9u64,
        0..9u64,
        any::<[u8; 32]>(),
        any::<(bool, bool, bool)>(),
    );
    let change = (0..3u32, 0..8u32, ballot(), ballot());
    (frontier, change).prop_map(
        |((rounds, delivered, received, flags), (attempt, claims, promised, accepted))| Row {
            frontier: Frontier {
                rounds,
                delivered,
                received: received.map(u64::from),
                leaving: flags.0,
                has_state: flags.1,
                wedged: flags.2,
            },
            change: Change {
                attempt,
                claims: Members::from_bits(claims),
                promised,
                accepted,
                proposal: (accepted != Ballot::NONE).then(|| proposal_of(accepted)),
            },
        },
    )
}

fn ballot() -> impl Strategy<Value = Ballot> {
    (0..3u32, 0..3usize).prop_map(|(attempt, rank)| match attempt {
        0 => Ballot::NONE,
        attempt => Ballot::new(attempt, rank),
    })
}

fn proposal_of(ballot: Ballot) -> Proposal {
    Proposal {
        survivors: Members::from_bits(u32::try_from(ballot.0).unwrap()),
        ..Proposal::default()
    }
}

fn merged(mut one: Row, other: &Row) -> Row {
    one.merge(other);
    one
}

proptest! {
    #[test]
    fn merging_is_a_join((a, b, c) in (row(), row(), row())) {
        prop_assert_eq!(merged(a, &b), merged(b, &a), "commutes");
        prop_assert_eq!(merged(merged(a, &b), &c), merged(a, &merged(b, &c)), "associates");
        prop_assert_eq!(merged(a, &a), a, "idempotent");
        let both = merged(a, &b);
        prop_assert_eq!(merged(both, &b), both, "never goes back");
        let mut one = a;
        prop_assert_eq!(one.merge(&b), both != a, "returns whether it grew");
    }

    #[test]
    fn no_field_decreases((a, b) in (row(), row())) {
        let both = merged(a, &b);
        for one in [a, b] {
            prop_assert!(both.frontier.rounds >= one.frontier.rounds);
            prop_assert!(both.frontier.delivered >= one.frontier.delivered);
            prop_assert!(
                both.frontier.received.iter().zip(one.frontier.received).all(
                    |(&after, before)| after >= before,
                ),
            );
            prop_assert!(both.frontier.wedged >= one.frontier.wedged);
            prop_assert!(both.frontier.leaving >= one.frontier.leaving);
            prop_assert!(both.frontier.has_state >= one.frontier.has_state);
            prop_assert!(both.change.attempt >= one.change.attempt);
            prop_assert!(both.change.promised >= one.change.promised);
            prop_assert!(both.change.accepted >= one.change.accepted);
            prop_assert_eq!(both.change.proposal.is_some(), both.change.accepted != Ballot::NONE);
            if both.change.attempt == one.change.attempt {
                prop_assert!(one.change.claims.without(both.change.claims).is_empty());
            }
        }
    }
}

#[test]
fn ballots_go_by_number_and_then_by_rank() {
    let ballot = Ballot::new(u32::MAX, 31);
    assert_eq!((ballot.number(), ballot.leader()), (u32::MAX, 31));
    assert!(Ballot::new(1, 31) < Ballot::new(2, 0));
    assert!(Ballot::new(2, 0) < Ballot::new(2, 1));
    assert!(Ballot::NONE < Ballot::new(1, 0));
}
