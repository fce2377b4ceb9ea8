//! Founding, joining, state, and who comes back.

use covalent_protocol::group::{
    BadEnvelope, Contact, GroupStanding, Life, MulticastError, STATE_BYTES_MAX,
};
use proptest::{collection::vec, prelude::*, sample::Index};

use crate::rack::{Rack, Told};

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
            assert_eq!(view.voters, view.everybody());
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
        assert_eq!(group.standing(), GroupStanding::Seeking);
        assert_eq!(group.view(), None);
    }
}

#[test]
fn a_founder_that_begins_anew_holds_nobody_up() {
    // Envelopes between the second and the third are slow, so that the first one knows of three founders before they do; then the second dies.
    let mut rack = Rack::founding(3, 3);
    rack.introduce();
    rack.cut(1, 2);
    for _ in 0..6 {
        rack.gather();
        rack.deliver_all();
    }
    rack.kill(1);
    rack.cuts.clear();
    rack.under_way.retain(|posted| posted.from != 1);
    rack.settle();
    // The third was told by the first with whom it founds, and the two are more than half.
    for index in [0, 2] {
        assert_eq!(rack.groups[index].standing(), GroupStanding::Member);
        assert_eq!(rack.groups[index].view().unwrap().members.len(), 2);
    }
    let former = rack.life(1);
    rack.restart_with(1, Some(former), 3, 3);
    rack.introduce();
    rack.settle();
    rack.assert_sound();
    rack.assert_converged();
    assert_eq!(rack.groups[0].view().unwrap().members.len(), 3);
}

/// What a link layer says of a node holds for whoever comes there later: it says that once.
#[test]
fn who_comes_where_no_path_leads_is_taken_in_once_one_does() {
    let mut rack = Rack::of(3);
    rack.settle();
    let node = rack.contact(2).guid;
    rack.groups[0].on_path(node, false);
    rack.kill(2);
    rack.settle();
    assert_eq!(rack.groups[0].view().unwrap().members.len(), 2);
    rack.restart(2, Some(rack.life(2)));
    rack.introduce();
    rack.settle();
    assert_eq!(rack.groups[2].standing(), GroupStanding::Seeking);
    assert_eq!(rack.groups[0].view().unwrap().members.len(), 2);
    rack.groups[0].on_path(node, true);
    rack.settle();
    rack.assert_sound();
    rack.assert_converged();
    assert_eq!(rack.groups[0].view().unwrap().members.len(), 3);
}

#[test]
fn who_founds_and_reaches_too_few_goes_on_seeking() {
    let mut rack = Rack::founding(3, 3);
    rack.introduce();
    let others = [1, 2].map(|index| rack.contact(index).guid);
    let needs_paths = |rack: &Rack| others.map(|guid| rack.groups[0].needs_path(guid));
    assert_eq!(needs_paths(&rack), [false; 2], "they are strangers");
    for _ in 0..3 {
        rack.gather();
        rack.deliver_all();
    }
    // It knows all of them and has begun to found, which waits for each.
    assert_eq!(rack.groups[0].standing(), GroupStanding::Seeking);
    assert_eq!(needs_paths(&rack), [true; 2]);
    rack.cut(0, 1);
    rack.cut(0, 2);
    rack.settle();
    assert_eq!(rack.groups[0].standing(), GroupStanding::Seeking);
    rack.take_events(0);
    assert!(rack.told[0].is_empty(), "{:?}", rack.told[0]);
}

#[test]
fn contacts_pass_from_one_to_the_other() {
    // The first two know the third alone, and nobody looks up anybody else.
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
fn a_founder_that_dies_meanwhile_is_no_obstacle() {
    let mut left_out = false;
    for says in 0..30 {
        let mut rack = Rack::founding(3, 3);
        rack.introduce();
        let mut left: u32 = says;
        for _ in 0..400 {
            rack.gather();
            if left == 0 && !rack.dead[1] {
                rack.under_way.retain(|posted| posted.from != 1);
                rack.kill(1);
            }
            if rack.under_way.is_empty() {
                break;
            }
            if rack.under_way[0].from == 1 {
                left = left.saturating_sub(1);
            }
            rack.deliver(0);
        }
        rack.kill(1);
        rack.settle();
        rack.assert_sound();
        let one = rack.groups[0].standing();
        assert_eq!(one, rack.groups[2].standing(), "after {says}");
        if one == GroupStanding::Member {
            assert_eq!(rack.groups[0].view().unwrap().members.len(), 2);
            let was_in_view = rack.views(0)[0].members.len() == 3;
            let former = rack.life(1);
            rack.restart(1, Some(former));
            rack.introduce();
            rack.settle();
            rack.assert_converged();
            // Who was in no view may have founded another group: this one does not know what became of its messages.
            let fate = |told: &Told| matches!(told, Told::Other(text) if text.contains("Fate"));
            assert_eq!(rack.told[1].iter().any(fate), was_in_view, "after {says}");
            left_out |= !was_in_view;
        } else {
            // It died before the others knew that it would found.
            assert_eq!(one, GroupStanding::Seeking, "after {says}");
        }
    }
    assert!(left_out, "somebody who was to found was in no view");
}

#[test]
fn one_who_joins_gets_the_state_of_the_views_beginning_and_then_votes() {
    for turns in [0, 1, 5] {
        let mut rack = Rack::founding(3, 2);
        rack.introduce_some(&[0, 1]);
        rack.settle();
        for turn in 0..20 {
            rack.groups[turn % 2].multicast(&[turn as u8; 9]).unwrap();
        }
        for _ in 0..turns {
            rack.gather();
            rack.deliver_all();
        }
        rack.meet(2, 1);
        for turn in 0..40 {
            let _ = rack.groups[turn % 2].multicast(&[turn as u8; 9]);
            rack.gather();
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
            view.everybody(),
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
fn state_is_given_in_pieces_and_its_room_is_bounded() {
    let mut rack = Rack::founding(2, 1);
    rack.restart(1, None);
    rack.settle();
    rack.meet(1, 0);
    rack.gives_by_hand = true;
    rack.settle();
    let to = rack.life(1);
    let wanted = |told: &Told| matches!(told, Told::Other(event) if event.contains("StateWanted"));
    assert!(rack.told[0].iter().any(wanted));
    let group = &mut rack.groups[0];
    let longer = [0; STATE_BYTES_MAX + 1];
    assert_eq!(
        group.give_state(to, &longer, false),
        Err(MulticastError::TooLong)
    );
    assert_eq!(group.give_state(to, &[], false), Err(MulticastError::Empty));
    assert_eq!(
        group.give_state(Life(5), &[1], false),
        Err(MulticastError::NotWanted)
    );
    let mut given = 0;
    for piece in 0..50u8 {
        while rack.groups[0]
            .give_state(to, &[piece; STATE_BYTES_MAX], false)
            .is_err()
        {
            rack.rest();
        }
        given += STATE_BYTES_MAX;
    }
    while let Err(error) = rack.groups[0].give_state(to, &[], true) {
        assert_eq!(error, MulticastError::Full);
        rack.rest();
    }
    assert_eq!(
        rack.groups[0].give_state(to, &[1], false),
        Err(MulticastError::NotWanted)
    );
    rack.settle();
    let mut pieces = 0u8;
    let mut bytes = 0;
    for told in &rack.told[1] {
        if let Told::State(data, last, _) = told {
            bytes += data.len();
            assert_eq!(*last, bytes == given && data.is_empty());
            assert!(data.iter().all(|byte| *byte == pieces));
            pieces += 1;
        }
    }
    assert_eq!((bytes, pieces), (given, 51));
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
    let to = rack.life(3);
    rack.groups[0].give_state(to, &[1; 100], false).unwrap();
    rack.groups[2].multicast(b"while").unwrap();
    rack.settle();
    assert!(
        rack.told[3]
            .iter()
            .any(|told| matches!(told, Told::State(..)))
    );
    rack.kill(0);
    rack.gives_by_hand = false;
    rack.settle();
    rack.assert_sound();
    rack.assert_converged();
    let void = |told: &Told| matches!(told, Told::Other(event) if event == "StateVoid");
    assert!(rack.told[3].iter().any(void));
    assert_eq!(rack.states[3], rack.states[1]);
    let view = rack.groups[3].view().unwrap();
    assert_eq!((view.members.len(), view.voters.len()), (3, 3));
}

#[test]
fn what_was_delivered_before_its_sender_had_the_state_is_told_with_it() {
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
    let own = rack.life(3);
    let is_own = |told: &&Told| matches!(told, Told::Delivered { sender, .. } if *sender == own);
    assert_eq!(rack.told[1].iter().filter(is_own).count(), 3);
    rack.kill(0);
    rack.gives_by_hand = false;
    rack.settle();
    rack.groups[3].multicast(b"late").unwrap();
    rack.settle();
    rack.assert_sound();
    let within = rack.told[3].iter().filter_map(|told| match told {
        Told::State(_, true, delivered_to) => Some(*delivered_to),
        _ => None,
    });
    assert_eq!(within.collect::<Vec<_>>(), [3]);
    assert_eq!(rack.told[3].iter().filter(is_own).count(), 1);
}

#[test]
fn members_without_the_state_do_not_speak_for_the_group() {
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
fn who_was_left_out_comes_back_as_somebody_new_and_hears_its_fate() {
    let mut rack = Rack::founding(3, 3);
    rack.introduce();
    rack.settle();
    for _ in 0..5 {
        rack.groups[2].multicast(b"told").unwrap();
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
        rack.told[2].contains(&Told::Other(stopped.into())),
        "{:?}",
        rack.told[2]
    );
    let former = rack.life(2);
    rack.restart(2, Some(former));
    rack.meet(2, 0);
    rack.settle();
    rack.assert_sound();
    rack.assert_converged();
    assert_eq!(rack.groups[2].view().unwrap().members.len(), 3);
    let fate = Told::Other("Fate { delivered_to: 5 }".into());
    assert!(rack.told[2].contains(&fate), "{:?}", rack.told[2]);
    assert_eq!(rack.states[2], rack.states[0]);
}

#[test]
fn who_missed_more_than_one_view_is_told_when_it_asks() {
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
fn who_meets_a_group_does_not_found_another_one() {
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
        // One who had founded with others by itself is told, and comes back.
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
fn other_terms_are_told_and_not_taken_in() {
    let mut rack = Rack::founding(2, 1);
    rack.settle();
    rack.restart_with(1, None, 0, 7);
    rack.meet(1, 0);
    rack.settle();
    assert_eq!(rack.groups[1].standing(), GroupStanding::Seeking);
    assert_eq!(rack.groups[0].view().unwrap().members.len(), 1);
}

#[test]
fn a_stranger_ends_nobodys_stay() {
    let mut rack = Rack::founding(2, 2);
    rack.introduce();
    rack.settle();
    rack.gather();
    // It owns a queue on another node or on that of a member, and shows the token of that queue.
    let member = rack.contact(0);
    for (stranger, why) in [
        (
            Contact {
                guid: 0x999,
                ..member
            },
            BadEnvelope::Life,
        ),
        (Contact { rkey: 99, ..member }, BadEnvelope::Life),
        (
            Contact {
                life: Life::of(member.guid, 99, 99),
                rkey: 99,
                ..member
            },
            BadEnvelope::Sender,
        ),
    ] {
        let known = rack.known_of(stranger, 1, true);
        assert_eq!(
            rack.groups[1].on_envelope(stranger.guid, &known),
            Err(why),
            "{stranger:?}"
        );
    }
    assert_eq!(rack.groups[1].standing(), GroupStanding::Member);
}

/// What happens next in a drawn run.
#[derive(Debug, Clone)]
enum Step {
    Multicast(usize),
    Arrive(Vec<Index>),
    Twice(Index),
    Events(usize),
    Tick(usize),
    Kill(usize),
    /// One that is dead or stopped begins anew.
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
    fn whoever_comes_and_goes_there_is_one_history(steps in vec(step(), 1..400)) {
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
                    // Who leaves is there until it is told that it left.
                    let left = rack.told[member].last() == Some(&Told::Other("Left".into()));
                    let over = left || rack.groups[member].standing() == GroupStanding::Stopped;
                    if rack.dead[member] || over {
                        let former = rack.life(member);
                        rack.restart(member, Some(former));
                        (0..N).filter(|&other| other != member).for_each(|other| rack.meet(member, other));
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
