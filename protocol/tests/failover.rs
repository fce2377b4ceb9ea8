//! A link is cut at each of the points of an exchange. Every time it ends exactly once.
#![allow(clippy::unwrap_used)]

mod support;

use covalent_protocol::{DownReason, MAX_PAYLOAD_BYTES, Mode, Refusal};
use support::{A, B, Bench, Ending};

const PAYLOAD: &[u8] = b"take 5 from 1, give them to 2";
const TOKEN: u64 = 42;

/// Takes the first `steps` steps of an exchange that A starts, all on cable 0.
fn walk(bench: &mut Bench, mode: Mode, steps: usize) {
    bench.submit(A, mode, PAYLOAD, TOKEN);
    for step in 0..steps {
        match step % 4 {
            0 => bench.send_on(A, 0),
            1 => assert!(bench.deliver(B, 0)),
            2 => bench.send_on(B, 0),
            _ => assert!(bench.deliver(A, 0)),
        }
    }
}

/// Steps of an exchange. A cut comes before the first, or behind any.
const fn steps(mode: Mode) -> usize {
    match mode {
        Mode::OnePhase => 4,
        Mode::TwoPhase => 8,
    }
}

fn every_cut(visit: impl Fn(Mode, usize)) {
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        for cut in 0..=steps(mode) {
            visit(mode, cut);
        }
    }
}

fn assert_exactly_once(bench: &Bench, what: &str) {
    let executed: Vec<_> = bench.sides[B]
        .host
        .executed
        .iter()
        .map(|(_, payload)| &payload[..])
        .collect();
    assert_eq!(executed, [PAYLOAD], "{what}");
    let reply = bench.sides[B].host.reply_to(PAYLOAD);
    assert_eq!(
        bench.sides[A].host.completed,
        [(TOKEN, Ending::Committed(reply))],
        "{what}"
    );
    assert_eq!(bench.sides[A].node.in_doubt(), 0, "{what}");
    assert_eq!(
        bench.sides[A].node.room(),
        300,
        "nothing is left behind, {what}"
    );
    assert!(
        bench.sides[B].host.admitted.is_empty(),
        "nothing remains reserved, {what}"
    );
}

/// The link still works, in both directions and on every slot.
fn assert_healthy(bench: &mut Bench) {
    bench.assert_up();
    let done = bench.sides.each_ref().map(|side| side.host.completed.len());
    for token in 1000..1020 {
        bench.submit(A, Mode::TwoPhase, b"afterwards", token);
        bench.submit(B, Mode::OnePhase, b"afterwards", token);
    }
    bench.settle();
    for (side, done) in bench.sides.iter().zip(done) {
        assert_eq!(side.host.completed.len(), done + 20);
    }
}

#[test]
fn a_cut_with_a_second_link_is_resolved_over_it() {
    every_cut(|mode, cut| {
        let mut bench = Bench::up(2);
        walk(&mut bench, mode, cut);
        bench.pull(0);
        bench.settle();
        assert_exactly_once(&bench, &format!("{mode:?}, cut behind step {cut}"));
        assert!(
            bench.sides[A].host.in_doubt.is_empty(),
            "there was a path all the time"
        );
        bench.plug(0);
        bench.settle();
        assert_healthy(&mut bench);
    });
}

#[test]
fn a_cut_without_a_second_link_is_in_doubt_until_it_heals() {
    every_cut(|mode, cut| {
        let mut bench = Bench::up(1);
        walk(&mut bench, mode, cut);
        bench.pull(0);
        bench.run(20);
        let open = (1..steps(mode)).contains(&cut);
        assert_eq!(
            bench.sides[A].host.in_doubt,
            if open { vec![TOKEN] } else { vec![] }
        );
        assert_eq!(bench.sides[A].node.in_doubt(), u64::from(open));
        assert!(
            !open || bench.sides[A].host.completed.is_empty(),
            "never guess"
        );
        bench.plug(0);
        bench.settle();
        assert_exactly_once(&bench, &format!("{mode:?}, cut behind step {cut}"));
        assert_healthy(&mut bench);
    });
}

#[test]
fn a_link_failure_reverses_open_exchanges_at_the_responder_at_once() {
    for cut in 0..=steps(Mode::TwoPhase) {
        let mut bench = Bench::up(1);
        walk(&mut bench, Mode::TwoPhase, cut);
        bench.pull(0);
        // From message 1 until the receipt of message 3, even if the peer never returns.
        let reversed = usize::from((2..6).contains(&cut));
        let host = &bench.sides[B].host;
        assert_eq!(host.reversed.len(), reversed, "cut behind step {cut}");
        assert!(host.admitted.is_empty(), "cut behind step {cut}");
        bench.plug(0);
        bench.settle();
        assert_eq!(bench.sides[B].host.reversed.len(), reversed);
        assert_exactly_once(&bench, &format!("cut behind step {cut}"));
    }
}

#[test]
fn a_silent_cut_is_detected_by_ticks() {
    every_cut(|mode, cut| {
        for cables in [1, 2] {
            let mut bench = Bench::up(cables);
            walk(&mut bench, mode, cut);
            bench.lose(0);
            bench.cut[0] = true;
            bench.run(8);
            bench.cut[0] = false;
            bench.run(3);
            assert_exactly_once(
                &bench,
                &format!("{mode:?}, cut behind step {cut}, {cables} cables"),
            );
            assert_healthy(&mut bench);
        }
    });
}

/// The initiator sees the failure, queries over the second link and acts on the reply. The
/// responder still holds the first link as up and receives the messages in flight on it.
#[test]
fn requests_that_arrive_after_the_latch_have_no_effect() {
    every_cut(|mode, cut| {
        let mut bench = Bench::up(2);
        walk(&mut bench, mode, cut);
        bench.carrier_at(A, 0, false);
        for _ in 0..20 {
            bench.send_on(A, 1);
            while bench.deliver(B, 1) {}
            bench.send_on(B, 1);
            while bench.deliver(A, 1) {}
        }
        assert_exactly_once(
            &bench,
            &format!("{mode:?}, cut behind step {cut}, before the late frames"),
        );
        while bench.deliver(B, 0) || bench.deliver(A, 0) {}
        bench.settle();
        assert_exactly_once(
            &bench,
            &format!("{mode:?}, cut behind step {cut}, behind the late frames"),
        );
        bench.carrier_at(A, 0, true);
        bench.settle();
        assert_healthy(&mut bench);
    });
}

#[test]
fn only_the_responder_sees_the_failure() {
    every_cut(|mode, cut| {
        for cables in [1, 2] {
            let mut bench = Bench::up(cables);
            walk(&mut bench, mode, cut);
            bench.carrier_at(B, 0, false);
            bench.settle();
            bench.carrier_at(B, 0, true);
            bench.run(3);
            assert_exactly_once(
                &bench,
                &format!("{mode:?}, cut behind step {cut}, {cables} cables"),
            );
            assert_healthy(&mut bench);
        }
    });
}

/// The second link fails too, at each point of the resolution, and the query is repeated.
#[test]
fn a_lost_query_or_answer_is_queried_again() {
    every_cut(|mode, cut| {
        if cut == 0 || cut == steps(mode) {
            return;
        }
        for second_cut in 0..=4 {
            for heal in [0, 1] {
                let what = format!(
                    "{mode:?}, cut behind step {cut}, resolution behind {second_cut}, heal {heal}"
                );
                let mut bench = Bench::up(2);
                walk(&mut bench, mode, cut);
                bench.pull(0);
                for step in 0..second_cut {
                    match step {
                        0 => bench.send_on(A, 1),
                        1 => assert!(bench.deliver(B, 1), "{what}"),
                        2 => bench.send_on(B, 1),
                        _ => assert!(bench.deliver(A, 1), "{what}"),
                    }
                }
                bench.pull(1);
                bench.run(3);
                bench.plug(heal);
                bench.settle();
                assert_exactly_once(&bench, &what);
                bench.plug(1 - heal);
                bench.settle();
                assert_healthy(&mut bench);
            }
        }
    });
}

#[test]
fn a_refusal_that_was_lost_is_learned_and_not_changed() {
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        for cables in [1, 2] {
            let mut bench = Bench::up(cables);
            bench.sides[B].host.refuse = Some(Refusal::NoResources);
            walk(&mut bench, mode, 2);
            bench.sides[B].host.refuse = None;
            bench.pull(0);
            bench.settle();
            bench.plug(0);
            bench.settle();
            assert_eq!(
                bench.sides[A].host.completed,
                [(TOKEN, Ending::Refused(Refusal::NoResources))]
            );
            assert!(bench.sides[B].host.executed.is_empty());
        }
    }
}

#[test]
fn a_reversed_exchange_is_applied_again_and_may_be_refused() {
    let mut bench = Bench::up(2);
    walk(&mut bench, Mode::TwoPhase, 2);
    bench.sides[B].host.refuse = Some(Refusal::UnknownRegion);
    bench.pull(0);
    bench.settle();
    assert_eq!(
        bench.sides[A].host.completed,
        [(TOKEN, Ending::Refused(Refusal::UnknownRegion))]
    );
    assert_eq!(bench.link(A, 0).counters.reversed, 1);
    assert_eq!(bench.link(A, 0).counters.resolved, 1);
}

#[test]
fn every_slot_is_unresolved_and_the_same_link_resolves_them() {
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        for steps in 1..steps(mode) {
            let mut bench = Bench::up(1);
            for token in 0..30 {
                bench.submit(A, mode, &[token as u8], token);
                bench.submit(B, mode, &[token as u8], token);
            }
            for step in 0..steps {
                match step % 2 {
                    0 => {
                        bench.send(A);
                        bench.send(B);
                    }
                    _ => {
                        bench.deliver(A, 0);
                        bench.deliver(B, 0);
                    }
                }
            }
            bench.pull(0);
            bench.plug(0);
            bench.settle();
            for (side, other) in [(A, B), (B, A)] {
                let mut executed: Vec<u8> = bench.sides[other]
                    .host
                    .executed
                    .iter()
                    .map(|(_, payload)| payload[0])
                    .collect();
                executed.sort_unstable();
                assert_eq!(
                    executed,
                    (0..30).collect::<Vec<_>>(),
                    "{mode:?} behind step {steps}"
                );
                assert_eq!(bench.sides[side].host.completed.len(), 30);
            }
        }
    }
}

/// Both ends have every slot open in both directions when the cable goes, over and over.
#[test]
fn both_sides_initiate_through_repeated_cuts() {
    let mut bench = Bench::up(2);
    let mut token = 0u64;
    for round in 0..200 {
        for _ in 0..6 {
            token += 1;
            let mode = if token.is_multiple_of(3) {
                Mode::OnePhase
            } else {
                Mode::TwoPhase
            };
            for side in [A, B] {
                bench.submit(side, mode, &token.to_le_bytes(), token);
            }
        }
        for step in 0..round % 7 {
            bench.send(A);
            bench.send(B);
            if step % 2 == 0 {
                bench.deliver(B, step % 2);
                bench.deliver(A, 1 - step % 2);
            } else {
                while bench.deliver(A, 0) || bench.deliver(B, 1) {}
            }
        }
        bench.pull(round % 2);
        bench.settle();
        bench.plug(round % 2);
        bench.settle();
    }
    for (side, other) in [(A, B), (B, A)] {
        let mut executed: Vec<_> = bench.sides[other]
            .host
            .executed
            .iter()
            .map(|(_, payload)| payload.clone())
            .collect();
        executed
            .sort_unstable_by_key(|payload| u64::from_le_bytes(payload[..].try_into().unwrap()));
        let expected: Vec<_> = (1..=token)
            .map(|token| token.to_le_bytes().to_vec())
            .collect();
        assert_eq!(executed, expected);
        assert_eq!(bench.sides[side].host.completed.len() as u64, token);
    }
    assert!(bench.link(A, 0).counters.reversed > 0 && bench.link(A, 0).counters.resolved > 0);
}

#[test]
fn canceled_exchanges_end_in_silence() {
    let mut bench = Bench::up(1);
    for token in 0..10 {
        bench.submit(A, Mode::TwoPhase, &[token as u8], token);
    }
    bench.send(A);
    bench.sides[A].node.cancel_interest(|token| token != 9);
    bench.settle();
    let executed: Vec<u8> = bench.sides[B]
        .host
        .executed
        .iter()
        .map(|(_, payload)| payload[0])
        .collect();
    assert_eq!(executed, [0, 1, 9], "two were in flight; the others vanish");
    assert_eq!(bench.sides[A].host.completed.len(), 1);
    assert_eq!(bench.sides[A].node.room(), 300);

    bench.submit(A, Mode::TwoPhase, b"x", 20);
    bench.send(A);
    bench.sides[A].node.cancel_interest(|token| token == 20);
    bench.pull(0);
    assert!(
        bench.sides[A].host.in_doubt.is_empty(),
        "its doubt is not reported either"
    );
    assert_eq!(
        (
            bench.sides[A].node.in_doubt(),
            bench.sides[A].node.room(),
            bench.link(A, 0).open_transactions
        ),
        (0, 300, 0),
        "the peer may never return, and nothing waits for it"
    );
    bench.plug(0);
    bench.settle();
    assert_eq!(
        (bench.sides[A].node.in_doubt(), bench.sides[A].node.room()),
        (0, 300)
    );
    assert_eq!(
        bench.sides[B].host.executed.len(),
        3,
        "reversed, and no requester needs it applied again"
    );
}

/// The link is cut between any two frames of an exchange whose messages take four frames each. The
/// other link is cut too, while the reply to the query arrives over it in four frames.
#[test]
fn a_long_exchange_is_all_or_nothing_at_every_frame() {
    let payload: Vec<u8> = (0..MAX_PAYLOAD_BYTES).map(|at| (at * 7) as u8).collect();
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        let mut frames_of_both = 0;
        for cut in 0.. {
            let mut bench = Bench::up(2);
            bench.sides[B].host.reply_bytes = Some(MAX_PAYLOAD_BYTES);
            bench.submit(A, mode, &payload, TOKEN);
            let walk = |bench: &mut Bench, cable: usize, frames: usize| {
                for _ in 0..frames {
                    bench.send_on(A, cable);
                    bench.send_on(B, cable);
                    if !bench.deliver(B, cable) && !bench.deliver(A, cable) {
                        return false;
                    }
                }
                true
            };
            if !walk(&mut bench, 0, cut) {
                frames_of_both = cut - 1;
                break;
            }
            let what = format!("{mode:?}, cut behind frame {cut}");
            let executed = &bench.sides[B].host.executed;
            assert!(executed.is_empty() || executed[0].1 == payload, "{what}");
            assert!(
                cut >= 4 || bench.sides[B].host.admitted.is_empty(),
                "{what}"
            );
            bench.pull(0);
            for repetition in 0..8 {
                walk(&mut bench, 1, repetition);
                bench.pull(1);
                bench.run(1);
                bench.plug(1);
                bench.settle();
            }
            let executed: Vec<_> = bench.sides[B].host.executed.iter().collect();
            assert_eq!(executed.len(), 1, "{what}");
            assert_eq!(executed[0].1, payload, "{what}");
            let reply = bench.sides[B].host.reply_to(&payload);
            assert_eq!(
                bench.sides[A].host.completed,
                [(TOKEN, Ending::Committed(reply))],
                "{what}"
            );
            assert!(bench.sides[B].host.admitted.is_empty(), "{what}");
            bench.plug(0);
            bench.settle();
            bench.sides[B].host.reply_bytes = None;
            assert_healthy(&mut bench);
            for side in &bench.sides {
                let downs = side.host.downs();
                assert!(
                    !downs.contains(&DownReason::Violation),
                    "partial data is dropped: {downs:?}, {what}"
                );
            }
        }
        // Plus a keepalive of each side, because there are more records than may remain
        // unreflected.
        let frames = if mode == Mode::OnePhase { 8 } else { 10 };
        assert!(
            (frames..=frames + 2).contains(&frames_of_both),
            "{frames_of_both}"
        );
    }
}
