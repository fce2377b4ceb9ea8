//! The end of a view: members that die, paths that break, and who goes on.

use covalent_protocol::group::{Group, GroupStanding};
use proptest::{collection::vec, prelude::*, sample::Index};

use crate::rack::{Rack, Told, contact};

/// A rack of `n` in which everybody multicasts and nothing has arrived but what `k` turns brought.
fn busy(n: usize, turns: usize) -> Rack {
    let mut rack = Rack::of(n);
    for turn in 0..turns {
        for member in 0..n {
            rack.groups[member].multicast(&[turn as u8; 40]).unwrap();
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn whatever_happens_there_is_one_history(steps in vec(step(), 1..250)) {
        let mut rack = Rack::of(N);
        let mut alarms = 0;
        for step in steps {
            match step {
                Step::Multicast(member) => {
                    let _ = rack.groups[member].multicast(&[member as u8; 30]);
                }
                Step::Arrive(which) => {
                    rack.gather();
                    for at in which {
                        let open = rack.deliverable();
                        if !open.is_empty() {
                            rack.deliver(open[at.index(open.len())]);
                        }
                    }
                }
                Step::Twice(at) => {
                    rack.gather();
                    let open = rack.deliverable();
                    if !open.is_empty() {
                        rack.deliver_unclear(open[at.index(open.len())]);
                    }
                }
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
