//! Quorums.

use covalent_protocol::group::Members;

#[test]
fn any_two_quorums_of_the_same_voters_meet() {
    // Voters of every kind among eight ranks, so the oldest voter is not always rank 0.
    for voters in (0..256).map(Members::from_bits) {
        let quorums: Vec<Members> = (0..256)
            .map(Members::from_bits)
            .filter(|some| some.without(voters).is_empty() && some.is_quorum_of(voters))
            .collect();
        assert_eq!(quorums.is_empty(), voters.is_empty());
        for one in &quorums {
            for other in &quorums {
                assert!(
                    !one.and(*other).is_empty(),
                    "{one:?} and {other:?} of {voters:?}"
                );
            }
        }
    }
}

#[test]
fn exactly_one_of_two_parts_is_a_quorum() {
    for voters in (1..256).map(Members::from_bits) {
        for part in (0..256).map(Members::from_bits) {
            let other = voters.without(part);
            assert_ne!(part.is_quorum_of(voters), other.is_quorum_of(voters));
        }
    }
}

#[test]
fn of_two_members_the_older_is_a_quorum() {
    let both = Members::first(2);
    assert!(Members::only(0).is_quorum_of(both));
    assert!(!Members::only(1).is_quorum_of(both));
    assert!(!Members::NONE.is_quorum_of(both));
    assert!(!Members::NONE.is_quorum_of(Members::NONE));
    // A member without a vote does not count.
    assert!(!Members::from_bits(0b1110).is_quorum_of(Members::only(0)));
    assert_eq!(Members::first(32).len(), 32);
    assert!(!Members::first(32).contains(32));
}
