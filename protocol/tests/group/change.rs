//! The end of a view: members that die, paths that break, and who goes on.

use covalent_protocol::group::{End, Group, GroupStanding, WINDOW};
use proptest::{collection::vec, prelude::*, sample::Index};

use crate::rack::{Rack, Told, contact};

/// A rack of `n` in which everybody multicasts and nothing has arrived but what `k` turns brought.
fn busy(n: usize, turns: usize) -> Rack {
    let mut rack = Rack::of(n);
    for turn in 0..turns {
        for member in 0..n {
            assert!(rack.multicast(member));
        }
        rack.gather();
        for at in (0..rack.under_way.len()).rev() {
            if (at + turn) % 3 == 0 {
                rack.deliver(at);
            }
        }
        rack.take_events(turn % n);
    }
    rack
}

/// The victim stands still, and its queue takes all that fits, before it goes. Then nobody has more to say to it but a ball, and who says that is
/// left out for what another one says of it.
#[test]
fn who_is_gone_is_noticed_though_the_one_before_it_is_left_out() {
    let (accuser, before, victim) = (0, 2, 3);
    let mut rack = Rack::of(5);
    rack.rest();
    let mut kept = 0;
    for _ in 0..20 {
        for member in (0..5).filter(|&member| member != victim) {
            let _ = rack.multicast(member);
        }
        rack.gather();
        let under_way = std::mem::take(&mut rack.under_way);
        let (to_it, others): (Vec<_>, Vec<_>) = under_way
            .into_iter()
            .partition(|posted| posted.to == victim);
        rack.under_way = others;
        for posted in to_it {
            kept += 1;
            rack.groups[posted.from].on_end(posted.ticket, End::Done);
        }
        rack.deliver_all();
    }
    assert!(kept >= 4 * (WINDOW - 1), "their windows are full: {kept}");
    rack.kill(victim);
    rack.cut(accuser, before);
    for member in [accuser, before] {
        rack.notice(member);
    }
    rack.rest();
    rack.mend(accuser, before);
    for member in [accuser, before] {
        rack.notice(member);
    }
    rack.settle();
    rack.assert_sound();
    rack.assert_converged();
    for member in [0, 1, 4] {
        let members = rack.groups[member].view().unwrap().members.len();
        assert_eq!(members, 3, "{member}");
    }
}

/// Four members, of which 1 and 2 find all that they may say to each other still waiting in their queues when the view has ended: they hear of that from
/// the others. `says` tells who has something to multicast, `why` gives them a reason to end the view. What waits is then taken.
fn behind_full_windows(says: &[usize], why: impl Fn(&mut Rack)) -> Rack {
    let between = [1, 2];
    let mut rack = Rack::of(4);
    rack.rest();
    let mut kept = Vec::new();
    let mut pass = |rack: &mut Rack| {
        rack.gather();
        for posted in std::mem::take(&mut rack.under_way) {
            if between.contains(&posted.from) && between.contains(&posted.to) {
                rack.groups[posted.from].on_end(posted.ticket, End::Done);
                kept.push(posted);
            } else {
                rack.under_way.push(posted);
            }
        }
        rack.deliver_all();
    };
    for _ in 0..20 {
        for &member in says {
            let _ = rack.multicast(member);
        }
        pass(&mut rack);
    }
    why(&mut rack);
    for _ in 0..10 {
        pass(&mut rack);
        (0..4).for_each(|member| rack.take_events(member));
    }
    for member in between {
        let said = kept.iter().filter(|posted| posted.from == member);
        assert_eq!(said.count(), WINDOW, "the window of {member} is full");
    }
    for posted in kept {
        let guid = contact(posted.from).guid;
        let taken = rack.groups[posted.to].on_envelope(guid, &posted.bytes);
        taken.unwrap();
    }
    rack
}

/// Each owes the other the end, and has no room for it before it hears what the other one took.
#[test]
fn two_behind_full_windows_tell_each_other_how_the_view_ended() {
    let mut rack = behind_full_windows(&[0, 1, 2, 3], |rack| {
        rack.kill(3);
        rack.groups[0].suspect(contact(3).life);
    });
    for member in 0..3 {
        assert_eq!(rack.views(member).len(), 2, "{member} knows the end");
    }
    rack.settle();
    rack.assert_sound();
    rack.assert_converged();
}

/// It knows of no view that ended: an end of view 0 has no members, and is no envelope.
#[test]
fn whoever_is_put_out_of_its_first_view_says_nothing_again() {
    let mut rack = Rack::of(3);
    rack.rest();
    let _ = rack.multicast(1);
    rack.gather_of(1);
    let posted = std::mem::take(&mut rack.under_way);
    assert!(posted.iter().any(|posted| posted.from == 1));
    let known = rack.known_of(contact(0), 1, true);
    rack.groups[1].on_envelope(contact(0).guid, &known).unwrap();
    assert_eq!(rack.groups[1].standing(), GroupStanding::Stopped);
    for posted in posted {
        rack.groups[posted.from].on_end(posted.ticket, End::Unclear);
    }
    for _ in 0..3 {
        rack.groups[1].on_tick();
        rack.gather_of(1);
        assert!(rack.under_way.is_empty(), "{:?}", rack.under_way);
    }
}

/// Whoever left stays until all have heard of the end.
#[test]
fn who_leaves_behind_a_full_window_says_goodbye() {
    let mut rack = behind_full_windows(&[0, 1, 3], |rack| rack.groups[2].leave());
    assert_eq!(rack.groups[2].standing(), GroupStanding::Left);
    let goodbye = Told::Other("Left".to_owned());
    assert!(!rack.told[2].contains(&goodbye), "one has still to hear");
    rack.settle();
    assert!(rack.told[2].contains(&goodbye));
    rack.assert_sound();
    rack.assert_converged();
}

#[test]
fn who_is_gone_is_left_out_in_two_round_trips() {
    for n in 2..=8 {
        for victim in 0..n {
            let mut rack = Rack::of(n);
            rack.rest();
            rack.kill(victim);
            let finder = (victim + 1) % n;
            rack.groups[finder].suspect(contact(victim).life);
            if n == 2 && victim == 0 {
                rack.rest();
                assert_eq!(rack.groups[1].standing(), GroupStanding::Minority);
                continue;
            }
            let mut halves = 0;
            while !(0..n).all(|index| rack.dead[index] || rack.views(index).len() == 2) {
                rack.gather();
                rack.deliver_all();
                (0..n).for_each(|index| rack.take_events(index));
                halves += 1;
                assert!(halves <= 4, "victim {victim} of {n}");
            }
            rack.rest();
            rack.assert_sound();
            for index in (0..n).filter(|&index| index != victim) {
                let view = rack.groups[index].view().unwrap();
                assert_eq!((view.number, view.members.len()), (2, n - 1));
                assert_eq!(rack.groups[index].standing(), GroupStanding::Member);
            }
        }
    }
}

/// A member dies while another one's death is worked off, after each number of envelopes that it says.
#[test]
fn whoever_dies_at_whatever_step_the_others_agree() {
    for turns in [0, 3] {
        for victim in 0..4 {
            for says in 0..40 {
                let mut rack = busy(5, turns);
                rack.kill(4);
                rack.groups[victim].suspect(contact(4).life);
                let mut left = says;
                for _ in 0..4000 {
                    (0..4).for_each(|index| rack.take_events(index));
                    rack.gather();
                    while left > 0
                        && let Some(at) = rack.under_way.iter().position(|p| p.from == victim)
                    {
                        rack.deliver(at);
                        left -= 1;
                    }
                    if left == 0 && !rack.dead[victim] {
                        // What it said is there; the rest was never said.
                        rack.under_way.retain(|posted| posted.from != victim);
                        rack.kill(victim);
                    }
                    if rack.under_way.is_empty() {
                        break;
                    }
                    rack.deliver(0);
                }
                rack.kill(victim);
                rack.settle();
                rack.assert_sound();
                rack.assert_converged();
                let alive = (0..4).find(|&index| index != victim).unwrap();
                let view = rack.groups[alive].view().unwrap();
                assert_eq!(view.members.len(), 3, "victim {victim} after {says}");
            }
        }
    }
}

#[test]
fn a_false_alarm_leaves_one_out_and_it_is_told() {
    for accuser in 0..3 {
        for accused in (0..3).filter(|&accused| accused != accuser) {
            let mut rack = busy(3, 2);
            rack.groups[accuser].suspect(contact(accused).life);
            rack.settle();
            rack.assert_sound();
            rack.assert_converged();
            assert_eq!(rack.groups[accused].standing(), GroupStanding::Stopped);
            assert_eq!(rack.groups[accuser].standing(), GroupStanding::Member);
            let stopped = rack.told[accused]
                .iter()
                .any(|told| matches!(told, Told::Other(event) if event.contains("Excluded")));
            assert!(stopped, "{:?}", rack.told[accused]);
        }
    }
}

#[test]
fn of_two_who_accuse_each_other_one_stays() {
    let mut rack = Rack::of(4);
    rack.rest();
    rack.cut(1, 3);
    rack.notice(1);
    rack.notice(3);
    rack.settle();
    rack.assert_sound();
    for index in [0, 1, 2] {
        let members = &rack.groups[index].view().unwrap().members;
        assert_eq!(members[..], [contact(0), contact(1), contact(2)]);
    }
    assert_eq!(rack.groups[3].standing(), GroupStanding::Stopped);
}

#[test]
fn the_word_of_the_dead_evicts_nobody_who_is_reached_by_more_than_half() {
    // The oldest accuses the youngest, tells that to one member alone, and dies.
    let mut rack = Rack::of(3);
    rack.rest();
    rack.groups[0].suspect(contact(2).life);
    rack.gather();
    rack.under_way.retain(|posted| posted.to == 1);
    rack.deliver_all();
    rack.kill(0);
    rack.settle();
    rack.assert_sound();
    for index in [1, 2] {
        let view = rack.groups[index].view().unwrap();
        assert_eq!(view.members[..], [contact(1), contact(2)], "at {index}");
    }
}

#[test]
fn half_with_the_oldest_goes_on_and_the_other_half_says_that_it_stopped() {
    let mut rack = busy(4, 3);
    for one in [0, 1] {
        for other in [2, 3] {
            rack.cut(one, other);
        }
    }
    (0..4).for_each(|index| rack.notice(index));
    rack.settle();
    rack.assert_sound();
    for index in [0, 1] {
        assert_eq!(rack.groups[index].standing(), GroupStanding::Member);
        assert_eq!(rack.groups[index].view().unwrap().number, 2);
    }
    for index in [2, 3] {
        assert_eq!(rack.groups[index].standing(), GroupStanding::Minority);
        let stopped =
            |told: &&Told| matches!(told, Told::Other(event) if event.contains("Minority"));
        assert_eq!(rack.told[index].iter().filter(stopped).count(), 1);
    }
}

#[test]
fn a_minority_goes_on_when_the_paths_return() {
    let mut rack = busy(3, 3);
    for one in 0..3 {
        for other in one + 1..3 {
            rack.cut(one, other);
        }
    }
    (0..3).for_each(|index| rack.notice(index));
    rack.settle();
    for group in &rack.groups {
        assert_eq!(group.standing(), GroupStanding::Minority);
    }
    for one in 0..3 {
        for other in one + 1..3 {
            rack.mend(one, other);
        }
    }
    (0..3).for_each(|index| rack.notice(index));
    rack.settle();
    rack.assert_sound();
    rack.assert_converged();
    let stands = |index: usize| rack.groups[index].standing() == GroupStanding::Member;
    assert!((0..3).filter(|&index| stands(index)).count() >= 2);
}

#[test]
fn one_after_the_other_goes_and_the_last_one_is_told() {
    let mut rack = busy(5, 3);
    for victim in [4, 1, 3] {
        rack.kill(victim);
        rack.settle();
        rack.assert_sound();
        rack.assert_converged();
    }
    let view = rack.groups[0].view().unwrap();
    assert_eq!(view.members[..], [contact(0), contact(2)]);
    rack.kill(0);
    rack.settle();
    assert_eq!(rack.groups[2].standing(), GroupStanding::Minority);
}

#[test]
fn who_leaves_has_all_its_messages_delivered_and_says_goodbye() {
    for n in 1..=4 {
        for leaver in 0..n {
            let mut rack = busy(n, 2);
            rack.groups[leaver].leave();
            assert!(rack.groups[leaver].multicast(b"late").is_err());
            rack.settle();
            rack.assert_sound();
            assert_eq!(rack.groups[leaver].standing(), GroupStanding::Left);
            assert_eq!(rack.told[leaver].last(), Some(&Told::Other("Left".into())));
            for index in (0..n).filter(|&index| index != leaver) {
                let view = rack.groups[index].view().unwrap();
                assert_eq!(view.members.len(), n - 1, "leaver {leaver} of {n}");
                let of_leaver = |told: &&(_, u64, _)| told.0 == contact(leaver).life;
                assert_eq!(rack.delivered(index).iter().filter(of_leaver).count(), 2);
            }
        }
    }
    // All at once.
    let mut rack = busy(3, 2);
    rack.groups.iter_mut().for_each(Group::leave);
    rack.settle();
    rack.assert_sound();
    for group in &rack.groups {
        assert_eq!(group.standing(), GroupStanding::Left);
    }
}

/// Sends what all members have to say, and has arrive only what `arrives` lets, until nothing of it is left.
fn deliver_some(rack: &mut Rack, arrives: impl Fn(usize, usize) -> bool) {
    for _ in 0..1000 {
        rack.gather();
        let mut posted = rack.under_way.iter();
        let Some(at) = posted.position(|posted| arrives(posted.from, posted.to)) else {
            return;
        };
        rack.deliver(at);
        (0..rack.groups.len()).for_each(|index| rack.take_events(index));
    }
    panic!("they never come to rest");
}

/// Five, of which the last one is dead, and the others know it and have told the oldest one so.
fn without_the_last() -> Rack {
    let mut rack = Rack::of(5);
    rack.rest();
    rack.kill(4);
    (0..4).for_each(|index| rack.groups[index].suspect(contact(4).life));
    rack
}

#[test]
fn what_one_decided_who_died_is_what_the_others_go_on_with() {
    let mut rack = without_the_last();
    // The next leader hears nothing of the proposal; the two others accept it, and the oldest one decides, alone, and dies.
    while rack.views(0).len() < 2 {
        rack.gather();
        let mut posted = rack.under_way.iter();
        let arrives = posted.position(|p| p.to == 0 || (p.from == 0 && p.to != 1));
        rack.deliver(arrives.unwrap());
        rack.take_events(0);
    }
    rack.under_way.retain(|posted| posted.from != 0);
    rack.kill(0);
    (1..4).for_each(|index| rack.groups[index].suspect(contact(0).life));
    // Those two do not hear from each other that they are enough; the next leader has to see it.
    deliver_some(&mut rack, |from, to| from == 1 || to == 1 || to == 0);
    rack.settle();
    rack.assert_sound();
    rack.assert_converged();
    assert_eq!(rack.views(1)[1], rack.views(0)[1]);
}

#[test]
fn who_promised_does_not_accept_what_comes_late() {
    let mut rack = without_the_last();
    // The oldest one proposes, and nobody hears it.
    deliver_some(&mut rack, |_, to| to == 0);
    // The others promise to the next leader; only what it proposes is on its way.
    (1..4).for_each(|index| rack.groups[index].suspect(contact(0).life));
    deliver_some(&mut rack, |from, to| from > 1 && to == 1);
    for index in [2, 3] {
        assert_eq!(rack.views(index).len(), 1, "nothing is decided");
    }
    // Now the late one comes to two of them, whose answers would be enough.
    deliver_some(&mut rack, |from, to| from == 0 && to > 1);
    deliver_some(&mut rack, |from, to| from > 1 && to == 0);
    deliver_some(&mut rack, |from, to| from > 0 && to > 0);
    rack.settle();
    rack.assert_sound();
    assert_eq!(rack.groups[0].standing(), GroupStanding::Stopped);
    for index in 1..4 {
        assert_eq!(rack.groups[index].view().unwrap().members.len(), 3);
    }
}

#[test]
fn whoever_was_taken_for_gone_leads_again_with_a_new_attempt() {
    let mut rack = Rack::of(5);
    rack.rest();
    // One does not reach the oldest, so the others promise to the next one. That one does not reach the first one then: the oldest leads again.
    rack.cut(0, 2);
    rack.notice(2);
    rack.gather();
    rack.deliver_all();
    rack.gather();
    rack.cut(1, 2);
    rack.notice(1);
    rack.settle();
    rack.assert_sound();
    for index in [0, 1, 3, 4] {
        let view = rack.groups[index].view().unwrap();
        assert_eq!(view.members.len(), 4, "at {index}");
        assert_eq!(view.rank_of(contact(2).life), None);
    }
}

/// What happens next in a drawn run.
#[derive(Debug, Clone)]
enum Step {
    Multicast(usize),
    /// Envelopes arrive, any ones.
    Arrive(Vec<Index>),
    Twice(Index),
    Events(usize),
    Tick(usize),
    Kill(usize),
    Cut(usize, usize),
    Mend(usize, usize),
    Notice(usize),
    Suspect(usize, usize),
    Leave(usize),
}

const N: usize = 5;

fn step() -> impl Strategy<Value = Step> {
    let member = || 0..N;
    let two = || (0..N, 1..N).prop_map(|(one, step)| (one, (one + step) % N));
    prop_oneof![
        60 => member().prop_map(Step::Multicast),
        200 => vec(any::<Index>(), 1..8).prop_map(Step::Arrive),
        10 => any::<Index>().prop_map(Step::Twice),
        60 => member().prop_map(Step::Events),
        20 => member().prop_map(Step::Tick),
        3 => member().prop_map(Step::Kill),
        8 => two().prop_map(|(one, other)| Step::Cut(one, other)),
        12 => two().prop_map(|(one, other)| Step::Mend(one, other)),
        40 => member().prop_map(Step::Notice),
        2 => two().prop_map(|(one, other)| Step::Suspect(one, other)),
        2 => member().prop_map(Step::Leave),
    ]
}

/// Deaths, cuts and accusations, most of which are known only to some when the next one comes.
fn accusation() -> impl Strategy<Value = Step> {
    let member = || 0..N;
    let two = || (0..N, 1..N).prop_map(|(one, step)| (one, (one + step) % N));
    prop_oneof![
        40 => vec(any::<Index>(), 1..8).prop_map(Step::Arrive),
        10 => two().prop_map(|(one, other)| Step::Suspect(one, other)),
        10 => two().prop_map(|(one, other)| Step::Cut(one, other)),
        5 => two().prop_map(|(one, other)| Step::Mend(one, other)),
        2 => member().prop_map(Step::Kill),
        20 => member().prop_map(Step::Notice),
    ]
}

/// Has all of that happen. Returns how often somebody accused another.
fn run(rack: &mut Rack, steps: Vec<Step>) -> u32 {
    let mut alarms = 0;
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
            Step::Cut(one, other) => rack.cut(one, other),
            Step::Mend(one, other) => rack.mend(one, other),
            Step::Notice(member) => rack.notice(member),
            Step::Suspect(one, other) => {
                alarms += 1;
                rack.groups[one].suspect(contact(other).life);
            }
            Step::Leave(member) => rack.groups[member].leave(),
        }
        rack.assert_sound();
    }
    alarms
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    /// Leaders that each know something else outbid each other only until they know the same.
    #[test]
    fn accusations_come_to_rest(steps in vec(accusation(), 1..60)) {
        let mut rack = Rack::of(N);
        run(&mut rack, steps);
        rack.settle();
        rack.assert_sound();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn whatever_happens_there_is_one_history(steps in vec(step(), 1..250)) {
        let mut rack = Rack::of(N);
        let alarms = run(&mut rack, steps);
        rack.cuts.clear();
        (0..N).for_each(|index| rack.notice(index));
        rack.settle();
        rack.assert_sound();
        // Applications that accuse one another can leave no quorum, though all are there.
        if alarms == 0 {
            rack.assert_converged();
        }
    }
}
