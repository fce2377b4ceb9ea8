//! Founding, joining, state transfer, and members that return.

use covalent_protocol::group::{
    BadEnvelope, Contact, GroupStanding, Incarnation, MulticastError, STATE_BYTES_MAX,
};
use proptest::{collection::vec, prelude::*, sample::Index};

use crate::rack::{Rack, Report};

#[test]
fn as_many_as_it_takes_found_a_group() {
    for founders in 1..=5 {
        let mut rack = Rack::founding(founders, founders as u8);
        rack.introduce();
        rack.settle();
        rack.assert_sound();
        for index in 0..founders {
            assert_eq!(rack.groups[index].standing(), GroupStanding::Member);
            let view = rack.groups[index].view().unwrap();
            assert_eq!((view.number, view.members.len()), (1, founders));
            assert_eq!(view.voters, view.all_members());
            rack.groups[index].multicast(b"hello").unwrap();
        }
        rack.settle();
        assert_eq!(rack.delivered(0).len(), founders);
        rack.assert_sound();
    }
}

#[test]
fn fewer_found_nothing() {
    let mut rack = Rack::founding(3, 3);
    rack.introduce_some(&[0, 1]);
    rack.settle();
    for group in &rack.groups {
        assert_eq!(group.standing(), GroupStanding::Searching);
        assert_eq!(group.view(), None);
    }
}

#[test]
fn a_restarted_founder_delays_no_other_founder() {
    // Envelopes between the second and the third are slow, so the first knows of three founders
    // before they do. Then the second stops.
    let mut rack = Rack::founding(3, 3);
    rack.introduce();
    rack.cut(1, 2);
    for _ in 0..6 {
        rack.collect_posted();
        rack.deliver_all();
    }
    rack.kill(1);
    rack.cuts.clear();
    rack.in_flight.retain(|posted| posted.from != 1);
    rack.settle();
    // The third learned the founders from the first, and the two are more than half.
    for index in [0, 2] {
        assert_eq!(rack.groups[index].standing(), GroupStanding::Member);
        assert_eq!(rack.groups[index].view().unwrap().members.len(), 2);
    }
    let former = rack.incarnation(1);
    rack.restart_with(1, Some(former), 3, 3);
    rack.introduce();
    rack.settle();
    rack.assert_sound();
    rack.assert_converged();
    assert_eq!(rack.groups[0].view().unwrap().members.len(), 3);
}

/// A path report for a node also holds for a member that arrives there later, because the link
/// layer reports it once.
#[test]
fn a_joiner_without_a_path_is_taken_in_once_there_is_one() {
    let mut rack = Rack::of(3);
    rack.settle();
    let node = rack.contact(2).guid;
    rack.groups[0].on_path(node, false);
    rack.kill(2);
    rack.settle();
    assert_eq!(rack.groups[0].view().unwrap().members.len(), 2);
    rack.restart(2, Some(rack.incarnation(2)));
    rack.introduce();
    rack.settle();
    assert_eq!(rack.groups[2].standing(), GroupStanding::Searching);
    assert_eq!(rack.groups[0].view().unwrap().members.len(), 2);
    rack.groups[0].on_path(node, true);
    rack.settle();
    rack.assert_sound();
    rack.assert_converged();
    assert_eq!(rack.groups[0].view().unwrap().members.len(), 3);
}

#[test]
fn a_founder_that_reaches_too_few_continues_to_search() {
    let mut rack = Rack::founding(3, 3);
    rack.introduce();
    let others = [1, 2].map(|index| rack.contact(index).guid);
    let needs_paths = |rack: &Rack| others.map(|guid| rack.groups[0].needs_path(guid));
    assert_eq!(needs_paths(&rack), [false; 2], "they are no members");
    for _ in 0..3 {
        rack.collect_posted();
        rack.deliver_all();
    }
    // It knows all of them and has begun to found, which waits for each.
    assert_eq!(rack.groups[0].standing(), GroupStanding::Searching);
    assert_eq!(needs_paths(&rack), [true; 2]);
    rack.cut(0, 1);
    rack.cut(0, 2);
    rack.settle();
    assert_eq!(rack.groups[0].standing(), GroupStanding::Searching);
    rack.take_events(0);
    assert!(rack.reports[0].is_empty(), "{:?}", rack.reports[0]);
}

#[test]
fn contacts_pass_from_one_to_the_other() {
    // The first three know the fourth alone, and no member looks up another one.
    let mut rack = Rack::founding(4, 4);
    for index in 0..3 {
        rack.meet(index, 3);
    }
    rack.settle();
    rack.assert_sound();
    for group in &rack.groups {
        assert_eq!(group.standing(), GroupStanding::Member);
    }
}

#[test]
fn a_founder_that_dies_during_founding_is_no_obstacle() {
    let mut left_out = false;
    for sends in 0..30 {
        let mut rack = Rack::founding(3, 3);
        rack.introduce();
        let mut left: u32 = sends;
        for _ in 0..400 {
            rack.collect_posted();
            if left == 0 && !rack.dead[1] {
                rack.in_flight.retain(|posted| posted.from != 1);
                rack.kill(1);
            }
            if rack.in_flight.is_empty() {
                break;
            }
            if rack.in_flight[0].from == 1 {
                left = left.saturating_sub(1);
            }
            rack.deliver(0);
        }
        rack.kill(1);
        rack.settle();
        rack.assert_sound();
        let one = rack.groups[0].standing();
        assert_eq!(one, rack.groups[2].standing(), "after {sends}");
        if one == GroupStanding::Member {
            assert_eq!(rack.groups[0].view().unwrap().members.len(), 2);
            let was_in_view = rack.views(0)[0].members.len() == 3;
            let former = rack.incarnation(1);
            rack.restart(1, Some(former));
            rack.introduce();
            rack.settle();
            rack.assert_converged();
            // A member of no view may have founded another group: this one does not know the
            // outcome of its messages.
            let outcome = |reports: &Report| {
                matches!(
                    reports,
                    Report::Other(text) if text.contains("Outcome"),
                )
            };
            assert_eq!(
                rack.reports[1].iter().any(outcome),
                was_in_view,
                "after {sends}"
            );
            left_out |= !was_in_view;
        } else {
            // It died before the others knew that it would found.
            assert_eq!(one, GroupStanding::Searching, "after {sends}");
        }
    }
    assert!(left_out, "a founder was in no view");
}

#[test]
fn a_joiner_gets_the_state_of_the_start_of_the_view_and_then_votes() {
    for turns in [0, 1, 5] {
        let mut rack = Rack::founding(3, 2);
        rack.introduce_some(&[0, 1]);
        rack.settle();
        for turn in 0..20 {
            rack.groups[turn % 2].multicast(&[turn as u8; 9]).unwrap();
        }
        for _ in 0..turns {
            rack.collect_posted();
            rack.deliver_all();
        }
        rack.meet(2, 1);
        for turn in 0..40 {
            let _ = rack.groups[turn % 2].multicast(&[turn as u8; 9]);
            rack.collect_posted();
            rack.deliver_all();
            (0..3).for_each(|index| rack.take_events(index));
        }
        rack.settle();
        rack.assert_sound();
        rack.assert_converged();
        let view = *rack.groups[2].view().unwrap();
        assert_eq!(view.members.len(), 3);
        assert_eq!(
            view.voters,
            view.all_members(),
            "a view after it has the state"
        );
        assert_eq!(rack.states[2], rack.states[0]);
        assert_eq!(rack.states[1], rack.states[0]);
        // In the view that took it in it had no vote.
        let first = rack.views(2)[0];
        assert_eq!(first.voters.len(), 2);
        rack.groups[2].multicast(b"mine").unwrap();
        rack.settle();
        rack.assert_sound();
        assert_eq!(rack.states[2], rack.states[0]);
    }
}

#[test]
fn state_is_sent_in_pieces_within_bounded_memory() {
    let mut rack = Rack::founding(2, 1);
    rack.restart(1, None);
    rack.settle();
    rack.meet(1, 0);
    rack.gives_by_hand = true;
    rack.settle();
    let to = rack.incarnation(1);
    let wanted =
        |reports: &Report| matches!(reports, Report::Other(event) if event.contains("StateWanted"));
    assert!(rack.reports[0].iter().any(wanted));
    let group = &mut rack.groups[0];
    let longer = [0; STATE_BYTES_MAX + 1];
    assert_eq!(
        group.send_snapshot(to, &longer, false),
        Err(MulticastError::TooLong)
    );
    assert_eq!(
        group.send_snapshot(to, &[], false),
        Err(MulticastError::Empty)
    );
    assert_eq!(
        group.send_snapshot(Incarnation(5), &[1], false),
        Err(MulticastError::NotWanted)
    );
    let mut bytes_sent = 0;
    for piece in 0..50u8 {
        while rack.groups[0]
            .send_snapshot(to, &[piece; STATE_BYTES_MAX], false)
            .is_err()
        {
            rack.rest();
        }
        bytes_sent += STATE_BYTES_MAX;
    }
    while let Err(error) = rack.groups[0].send_snapshot(to, &[], true) {
        assert_eq!(error, MulticastError::Full);
        rack.rest();
    }
    assert_eq!(
        rack.groups[0].send_snapshot(to, &[1], false),
        Err(MulticastError::NotWanted)
    );
    rack.settle();
    let mut pieces = 0u8;
    let mut bytes = 0;
    for reports in &rack.reports[1] {
        if let Report::State(data, last, _) = reports {
            bytes += data.len();
            assert_eq!(*last, bytes == bytes_sent && data.is_empty());
            assert!(data.iter().all(|byte| *byte == pieces));
            pieces += 1;
        }
    }
    assert_eq!((bytes, pieces), (bytes_sent, 51));
    assert_eq!(rack.groups[1].view().unwrap().voters.len(), 2);
}

#[test]
fn a_view_that_ends_before_the_state_was_there_begins_it_anew() {
    let mut rack = Rack::founding(4, 3);
    rack.introduce_some(&[0, 1, 2]);
    rack.settle();
    rack.groups[1].multicast(b"before").unwrap();
    rack.settle();
    rack.gives_by_hand = true;
    rack.meet(3, 0);
    rack.settle();
    let to = rack.incarnation(3);
    rack.groups[0].send_snapshot(to, &[1; 100], false).unwrap();
    rack.groups[2].multicast(b"while").unwrap();
    rack.settle();
    assert!(
        rack.reports[3]
            .iter()
            .any(|reports| matches!(reports, Report::State(..)))
    );
    rack.kill(0);
    rack.gives_by_hand = false;
    rack.settle();
    rack.assert_sound();
    rack.assert_converged();
    let void = |reports: &Report| matches!(reports, Report::Other(event) if event == "StateVoid");
    assert!(rack.reports[3].iter().any(void));
    assert_eq!(rack.states[3], rack.states[1]);
    let view = rack.groups[3].view().unwrap();
    assert_eq!((view.members.len(), view.voters.len()), (3, 3));
}

#[test]
fn messages_delivered_before_the_sender_had_the_state_are_counted_with_it() {
    let mut rack = Rack::founding(4, 3);
    rack.introduce_some(&[0, 1, 2]);
    rack.settle();
    rack.gives_by_hand = true;
    rack.meet(3, 0);
    rack.settle();
    for _ in 0..3 {
        rack.groups[3].multicast(b"early").unwrap();
        rack.settle();
    }
    let own = rack.incarnation(3);
    let is_own =
        |reports: &&Report| matches!(reports, Report::Delivered { sender, .. } if *sender == own);
    assert_eq!(rack.reports[1].iter().filter(is_own).count(), 3);
    rack.kill(0);
    rack.gives_by_hand = false;
    rack.settle();
    rack.groups[3].multicast(b"late").unwrap();
    rack.settle();
    rack.assert_sound();
    let within = rack.reports[3].iter().filter_map(|reports| match reports {
        Report::State(_, true, delivered_to) => Some(*delivered_to),
        _ => None,
    });
    assert_eq!(within.collect::<Vec<_>>(), [3]);
    assert_eq!(rack.reports[3].iter().filter(is_own).count(), 1);
}

#[test]
fn members_without_the_state_do_not_act_for_the_group() {
    let mut rack = Rack::founding(3, 1);
    rack.restart(1, None);
    rack.restart(2, None);
    rack.settle();
    rack.gives_by_hand = true;
    rack.meet(1, 0);
    rack.meet(2, 0);
    rack.settle();
    assert_eq!(rack.groups[2].view().unwrap().members.len(), 3);
    rack.kill(0);
    rack.settle();
    rack.assert_sound();
    for index in [1, 2] {
        assert_eq!(rack.groups[index].standing(), GroupStanding::Minority);
    }
}

#[test]
fn an_excluded_member_rejoins_as_a_new_one_and_learns_its_outcome() {
    let mut rack = Rack::founding(3, 3);
    rack.introduce();
    rack.settle();
    for _ in 0..5 {
        rack.groups[2].multicast(b"reported").unwrap();
    }
    rack.settle();
    for other in [0, 1] {
        rack.cut(2, other);
    }
    (0..3).for_each(|index| rack.notice(index));
    for _ in 0..3 {
        rack.groups[2].multicast(b"in doubt").unwrap();
    }
    rack.settle();
    assert_eq!(rack.groups[2].standing(), GroupStanding::Minority);
    assert_eq!(rack.groups[0].view().unwrap().members.len(), 2);
    rack.cuts.clear();
    (0..3).for_each(|index| rack.notice(index));
    rack.settle();
    assert_eq!(rack.groups[2].standing(), GroupStanding::Stopped);
    let stopped = "Stopped { why: Excluded, undelivered: 6 }";
    assert!(
        rack.reports[2].contains(&Report::Other(stopped.into())),
        "{:?}",
        rack.reports[2]
    );
    let former = rack.incarnation(2);
    rack.restart(2, Some(former));
    rack.meet(2, 0);
    rack.settle();
    rack.assert_sound();
    rack.assert_converged();
    assert_eq!(rack.groups[2].view().unwrap().members.len(), 3);
    let outcome = Report::Other("Outcome { delivered_to: 5 }".into());
    assert!(rack.reports[2].contains(&outcome), "{:?}", rack.reports[2]);
    assert_eq!(rack.states[2], rack.states[0]);
}

#[test]
fn a_member_that_missed_several_views_learns_it_on_request() {
    let mut rack = Rack::founding(5, 5);
    rack.introduce();
    rack.settle();
    for other in 0..4 {
        rack.cut(4, other);
    }
    (0..5).for_each(|index| rack.notice(index));
    rack.settle();
    rack.kill(3);
    rack.settle();
    rack.groups[1].leave();
    rack.settle();
    assert_eq!(rack.groups[0].view().unwrap().members.len(), 2);
    rack.cuts.clear();
    (0..5).for_each(|index| rack.notice(index));
    rack.settle();
    rack.assert_sound();
    assert_eq!(rack.groups[4].standing(), GroupStanding::Stopped);
}

#[test]
fn a_founder_that_meets_a_group_founds_no_other() {
    let mut rack = Rack::founding(4, 3);
    rack.introduce_some(&[0, 1, 2]);
    rack.settle();
    assert_eq!(rack.groups[0].standing(), GroupStanding::Member);
    rack.meet(3, 2);
    rack.settle();
    rack.assert_sound();
    rack.assert_converged();
    assert_eq!(rack.groups[3].view().unwrap().members.len(), 4);
}

#[test]
fn of_more_candidates_than_it_takes_some_found_and_the_others_join() {
    let mut rack = Rack::founding(5, 3);
    rack.introduce();
    rack.settle();
    for index in 0..5 {
        // A member that had founded a group with others is notified, and returns.
        if rack.groups[index].standing() == GroupStanding::Stopped {
            rack.restart(index, None);
        }
    }
    rack.introduce();
    rack.settle();
    rack.assert_sound();
    for group in &rack.groups {
        assert_eq!(group.standing(), GroupStanding::Member);
        assert_eq!(group.view().unwrap().members.len(), 5);
    }
}

#[test]
fn a_joiner_with_other_terms_is_not_taken_in() {
    let mut rack = Rack::founding(2, 1);
    rack.settle();
    rack.restart_with(1, None, 0, 7);
    rack.meet(1, 0);
    rack.settle();
    assert_eq!(rack.groups[1].standing(), GroupStanding::Searching);
    assert_eq!(rack.groups[0].view().unwrap().members.len(), 1);
}

#[test]
fn a_non_member_ends_no_membership() {
    let mut rack = Rack::founding(2, 2);
    rack.introduce();
    rack.settle();
    rack.collect_posted();
    // It owns a queue on another node or on a member's node, and presents the token of that queue.
    let member = rack.contact(0);
    for (non_member, why) in [
        (
            Contact {
                guid: 0x999,
                ..member
            },
            BadEnvelope::Incarnation,
        ),
        (Contact { rkey: 99, ..member }, BadEnvelope::Incarnation),
        (
            Contact {
                incarnation: Incarnation::of(member.guid, 99, 99),
                rkey: 99,
                ..member
            },
            BadEnvelope::Sender,
        ),
    ] {
        let known = rack.known_of(non_member, 1, true);
        assert_eq!(
            rack.groups[1].on_envelope(non_member.guid, &known),
            Err(why),
            "{non_member:?}"
        );
    }
    assert_eq!(rack.groups[1].standing(), GroupStanding::Member);
}

/// The next step of a random run.
#[derive(Debug, Clone)]
enum Step {
    Multicast(usize),
    Arrive(Vec<Index>),
    Twice(Index),
    Events(usize),
    Tick(usize),
    Kill(usize),
    /// A stopped member starts a new incarnation.
    Restart(usize),
    Cut(usize, usize),
    Mend(usize, usize),
    Notice(usize),
    Leave(usize),
}

const N: usize = 4;

fn step() -> impl Strategy<Value = Step> {
    let member = || 0..N;
    let two = || (0..N, 1..N).prop_map(|(one, step)| (one, (one + step) % N));
    prop_oneof![
        60 => member().prop_map(Step::Multicast),
        240 => vec(any::<Index>(), 1..10).prop_map(Step::Arrive),
        10 => any::<Index>().prop_map(Step::Twice),
        70 => member().prop_map(Step::Events),
        40 => member().prop_map(Step::Tick),
        4 => member().prop_map(Step::Kill),
        30 => member().prop_map(Step::Restart),
        5 => two().prop_map(|(one, other)| Step::Cut(one, other)),
        12 => two().prop_map(|(one, other)| Step::Mend(one, other)),
        40 => member().prop_map(Step::Notice),
        2 => member().prop_map(Step::Leave),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn members_that_come_and_go_see_one_history(steps in vec(step(), 1..400)) {
        let mut rack = Rack::founding(N, 3);
        rack.introduce();
        for step in steps {
            match step {
                Step::Multicast(member) => {
                    rack.multicast(member);
                }
                Step::Arrive(which) => rack.arrive(&which),
                Step::Twice(at) => rack.arrive_unclear(at),
                Step::Events(member) => rack.take_events(member),
                Step::Tick(member) => rack.groups[member].on_tick(),
                Step::Kill(member) => rack.kill(member),
                Step::Restart(member) => {
                    // A leaving member is present until it is notified that it left.
                    let left = rack.reports[member].last() == Some(&Report::Other("Left".into()));
                    let over = left || rack.groups[member].standing() == GroupStanding::Stopped;
                    if rack.dead[member] || over {
                        let former = rack.incarnation(member);
                        rack.restart(member, Some(former));
                        (0..N).filter(|&other| other != member).for_each(
                            |other| rack.meet(member, other),
                        );
                    }
                }
                Step::Cut(one, other) => rack.cut(one, other),
                Step::Mend(one, other) => rack.mend(one, other),
                Step::Notice(member) => rack.notice(member),
                Step::Leave(member) => rack.groups[member].leave(),
            }
            rack.assert_sound();
        }
        rack.cuts.clear();
        (0..N).for_each(|index| rack.notice(index));
        rack.introduce();
        rack.settle();
        rack.assert_sound();
        rack.assert_converged();
    }
}
