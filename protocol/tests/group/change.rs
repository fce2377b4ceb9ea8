//! The end of a view: members that stop, paths that break, and the members of the next view.

use covalent_protocol::group::{End, Group, GroupStanding, WINDOW};
use proptest::{collection::vec, prelude::*, sample::Index};

use crate::rack::{Rack, Report, contact};

/// A rack of `n` members that all multicast, in which only the envelopes of `turns` turns have
/// arrived.
fn busy(n: usize, turns: usize) -> Rack {
    let mut rack = Rack::of(n);
    for turn in 0..turns {
        for member in 0..n {
            assert!(rack.multicast(member));
        }
        rack.collect_posted();
        for at in (0..rack.in_flight.len()).rev() {
            if (at + turn) % 3 == 0 {
                rack.deliver(at);
            }
        }
        rack.take_events(turn % n);
    }
    rack
}

/// The victim stops, and its queue takes all that fits, before it is gone. Then the others have
/// only a keepalive to send to it, and the member that sends it is left out because of another
/// member's claim.
#[test]
fn a_gone_member_is_noticed_though_its_ring_predecessor_is_excluded() {
    let (accuser, before, victim) = (0, 2, 3);
    let mut rack = Rack::of(5);
    rack.rest();
    let mut kept = 0;
    for _ in 0..20 {
        for member in (0..5).filter(|&member| member != victim) {
            let _ = rack.multicast(member);
        }
        rack.collect_posted();
        let in_flight = std::mem::take(&mut rack.in_flight);
        let (to_it, others): (Vec<_>, Vec<_>) = in_flight
            .into_iter()
            .partition(|posted| posted.to == victim);
        rack.in_flight = others;
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

/// Four members. For 1 and 2, everything that they may send to each other still waits in their
/// queues when the view has ended. They learn of the end from the others. `sends` lists the members
/// that multicast, `why` gives them a reason to end the view. The waiting envelopes are then taken.
fn behind_full_windows(sends: &[usize], why: impl Fn(&mut Rack)) -> Rack {
    let between = [1, 2];
    let mut rack = Rack::of(4);
    rack.rest();
    let mut kept = Vec::new();
    let mut pass = |rack: &mut Rack| {
        rack.collect_posted();
        for posted in std::mem::take(&mut rack.in_flight) {
            if between.contains(&posted.from) && between.contains(&posted.to) {
                rack.groups[posted.from].on_end(posted.ticket, End::Done);
                kept.push(posted);
            } else {
                rack.in_flight.push(posted);
            }
        }
        rack.deliver_all();
    };
    for _ in 0..20 {
        for &member in sends {
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
        let sent = kept.iter().filter(|posted| posted.from == member);
        assert_eq!(sent.count(), WINDOW, "the window of {member} is full");
    }
    for posted in kept {
        let guid = contact(posted.from).guid;
        let taken = rack.groups[posted.to].on_envelope(guid, &posted.bytes);
        taken.unwrap();
    }
    rack
}

/// Each owes the other the end of the view, and has no space for it before it learns what the other
/// one took.
#[test]
fn two_members_behind_full_windows_learn_how_the_view_ended() {
    let mut rack = behind_full_windows(&[0, 1, 2, 3], |rack| {
        rack.kill(3);
        rack.groups[0].suspect(contact(3).incarnation);
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
fn a_member_excluded_from_its_first_view_resends_nothing() {
    let mut rack = Rack::of(3);
    rack.rest();
    let _ = rack.multicast(1);
    rack.collect_posted_from(1);
    let posted = std::mem::take(&mut rack.in_flight);
    assert!(posted.iter().any(|posted| posted.from == 1));
    let known = rack.known_of(contact(0), 1, true);
    rack.groups[1].on_envelope(contact(0).guid, &known).unwrap();
    assert_eq!(rack.groups[1].standing(), GroupStanding::Stopped);
    for posted in posted {
        rack.groups[posted.from].on_end(posted.ticket, End::Unclear);
    }
    for _ in 0..3 {
        rack.groups[1].on_tick();
        rack.collect_posted_from(1);
        assert!(rack.in_flight.is_empty(), "{:?}", rack.in_flight);
    }
}

/// A member that left remains until all know of the end.
#[test]
fn a_member_that_leaves_behind_a_full_window_reports_its_leave() {
    let mut rack = behind_full_windows(&[0, 1, 3], |rack| rack.groups[2].leave());
    assert_eq!(rack.groups[2].standing(), GroupStanding::Left);
    let goodbye = Report::Other("Left".to_owned());
    assert!(
        !rack.reports[2].contains(&goodbye),
        "one has not received it yet"
    );
    rack.settle();
    assert!(rack.reports[2].contains(&goodbye));
    rack.assert_sound();
    rack.assert_converged();
}

#[test]
fn a_gone_member_is_excluded_in_two_round_trips() {
    for n in 2..=8 {
        for victim in 0..n {
            let mut rack = Rack::of(n);
            rack.rest();
            rack.kill(victim);
            let finder = (victim + 1) % n;
            rack.groups[finder].suspect(contact(victim).incarnation);
            if n == 2 && victim == 0 {
                rack.rest();
                assert_eq!(rack.groups[1].standing(), GroupStanding::Minority);
                continue;
            }
            let mut halves = 0;
            while !(0..n).all(|index| rack.dead[index] || rack.views(index).len() == 2) {
                rack.collect_posted();
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

/// A member stops while the failure of another one is handled, after each number of envelopes that
/// it sends.
#[test]
fn the_others_agree_at_whatever_step_a_member_dies() {
    for turns in [0, 3] {
        for victim in 0..4 {
            for sends in 0..40 {
                let mut rack = busy(5, turns);
                rack.kill(4);
                rack.groups[victim].suspect(contact(4).incarnation);
                let mut left = sends;
                for _ in 0..4000 {
                    (0..4).for_each(|index| rack.take_events(index));
                    rack.collect_posted();
                    while left > 0
                        && let Some(at) = rack.in_flight.iter().position(|p| p.from == victim)
                    {
                        rack.deliver(at);
                        left -= 1;
                    }
                    if left == 0 && !rack.dead[victim] {
                        // Its sent envelopes have arrived; the rest was never sent.
                        rack.in_flight.retain(|posted| posted.from != victim);
                        rack.kill(victim);
                    }
                    if rack.in_flight.is_empty() {
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
                assert_eq!(view.members.len(), 3, "victim {victim} after {sends}");
            }
        }
    }
}

#[test]
fn a_false_suspicion_excludes_one_member_that_is_notified() {
    for accuser in 0..3 {
        for accused in (0..3).filter(|&accused| accused != accuser) {
            let mut rack = busy(3, 2);
            rack.groups[accuser].suspect(contact(accused).incarnation);
            rack.settle();
            rack.assert_sound();
            rack.assert_converged();
            assert_eq!(rack.groups[accused].standing(), GroupStanding::Stopped);
            assert_eq!(rack.groups[accuser].standing(), GroupStanding::Member);
            let stopped = rack.reports[accused].iter().any(
                |reports| matches!(reports, Report::Other(event) if event.contains("Excluded")),
            );
            assert!(stopped, "{:?}", rack.reports[accused]);
        }
    }
}

#[test]
fn of_two_members_that_accuse_each_other_one_stays() {
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
fn claims_of_the_dead_evict_no_member_that_a_majority_reaches() {
    // The oldest accuses the youngest, reports that to one member alone, and stops.
    let mut rack = Rack::of(3);
    rack.rest();
    rack.groups[0].suspect(contact(2).incarnation);
    rack.collect_posted();
    rack.in_flight.retain(|posted| posted.to == 1);
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
fn half_with_the_oldest_continues_and_the_other_half_reports_a_stop() {
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
        let stopped = |reports: &&Report| {
            matches!(
                reports,
                Report::Other(event) if event.contains("Minority"),
            )
        };
        assert_eq!(rack.reports[index].iter().filter(stopped).count(), 1);
    }
}

#[test]
fn a_minority_continues_when_the_paths_return() {
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
fn members_die_one_by_one_and_the_last_one_is_a_minority() {
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
fn a_leaving_member_has_its_messages_delivered_and_reports_its_leave() {
    for n in 1..=4 {
        for leaver in 0..n {
            let mut rack = busy(n, 2);
            rack.groups[leaver].leave();
            assert!(rack.groups[leaver].multicast(b"late").is_err());
            rack.settle();
            rack.assert_sound();
            assert_eq!(rack.groups[leaver].standing(), GroupStanding::Left);
            assert_eq!(
                rack.reports[leaver].last(),
                Some(&Report::Other("Left".into()))
            );
            for index in (0..n).filter(|&index| index != leaver) {
                let view = rack.groups[index].view().unwrap();
                assert_eq!(view.members.len(), n - 1, "leaver {leaver} of {n}");
                let of_leaver = |reports: &&(_, u64, _)| reports.0 == contact(leaver).incarnation;
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

/// Sends the envelopes of all members and delivers only those that `arrives` selects, until none of
/// them is left.
fn deliver_some(rack: &mut Rack, arrives: impl Fn(usize, usize) -> bool) {
    for _ in 0..1000 {
        rack.collect_posted();
        let mut posted = rack.in_flight.iter();
        let Some(at) = posted.position(|posted| arrives(posted.from, posted.to)) else {
            return;
        };
        rack.deliver(at);
        (0..rack.groups.len()).for_each(|index| rack.take_events(index));
    }
    panic!("they never become quiescent");
}

/// Five members. The last one has stopped, and the others know it and have reported it to the
/// oldest one.
fn without_the_last() -> Rack {
    let mut rack = Rack::of(5);
    rack.rest();
    rack.kill(4);
    (0..4).for_each(|index| rack.groups[index].suspect(contact(4).incarnation));
    rack
}

#[test]
fn a_decision_of_a_member_that_died_binds_the_others() {
    let mut rack = without_the_last();
    // The next leader receives nothing of the proposal. The two others accept it, and the oldest
    // one decides alone and stops.
    while rack.views(0).len() < 2 {
        rack.collect_posted();
        let mut posted = rack.in_flight.iter();
        let arrives = posted.position(|p| p.to == 0 || (p.from == 0 && p.to != 1));
        rack.deliver(arrives.unwrap());
        rack.take_events(0);
    }
    rack.in_flight.retain(|posted| posted.from != 0);
    rack.kill(0);
    (1..4).for_each(|index| rack.groups[index].suspect(contact(0).incarnation));
    // Those two do not learn from each other that they are enough; the next leader has to find out.
    deliver_some(&mut rack, |from, to| from == 1 || to == 1 || to == 0);
    rack.settle();
    rack.assert_sound();
    rack.assert_converged();
    assert_eq!(rack.views(1)[1], rack.views(0)[1]);
}

#[test]
fn a_member_that_promised_accepts_no_earlier_ballot() {
    let mut rack = without_the_last();
    // The oldest one proposes, and no member receives it.
    deliver_some(&mut rack, |_, to| to == 0);
    // The others promise to the next leader; only its proposal is in flight.
    (1..4).for_each(|index| rack.groups[index].suspect(contact(0).incarnation));
    deliver_some(&mut rack, |from, to| from > 1 && to == 1);
    for index in [2, 3] {
        assert_eq!(rack.views(index).len(), 1, "nothing is decided");
    }
    // Now the late proposal arrives at two of them, whose replies would be enough.
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
fn a_leader_taken_for_gone_leads_again_with_a_new_attempt() {
    let mut rack = Rack::of(5);
    rack.rest();
    // Member 2 does not reach the oldest, so the others promise to the next one. Member 1 then does
    // not reach member 2: the oldest leads again.
    rack.cut(0, 2);
    rack.notice(2);
    rack.collect_posted();
    rack.deliver_all();
    rack.collect_posted();
    rack.cut(1, 2);
    rack.notice(1);
    rack.settle();
    rack.assert_sound();
    for index in [0, 1, 3, 4] {
        let view = rack.groups[index].view().unwrap();
        assert_eq!(view.members.len(), 4, "at {index}");
        assert_eq!(view.rank_of(contact(2).incarnation), None);
    }
}

/// The next step of a random run.
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

/// Executes all steps. Returns how often a member accused another.
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
                rack.groups[one].suspect(contact(other).incarnation);
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
    fn accusations_converge(steps in vec(accusation(), 1..60)) {
        let mut rack = Rack::of(N);
        run(&mut rack, steps);
        rack.settle();
        rack.assert_sound();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn any_run_has_one_history(steps in vec(step(), 1..250)) {
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
