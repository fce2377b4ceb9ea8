//! The receiver limits what may be in flight: slots, now and later, and records.
#![allow(clippy::unwrap_used)]

mod support;

use covalent_protocol::{
    DownReason, FRAME_BYTES_MAX, MAX_PAYLOAD_BYTES, Mode, Node, NodeConfig, wire::slice::Kind,
};
use proptest::prelude::*;
use support::{A, B, Bench, config, kinds};

/// Two nodes that announce rings with space for these numbers of frames.
fn with_windows(slots: u8, windows: [u16; 2]) -> Bench {
    let mut bench = Bench::with_slots(1, slots);
    for side in [A, B] {
        let mut node = Node::new(NodeConfig {
            keepalive_misses_max: 1000,
            ..config(side, 100 + side as u64, slots)
        });
        node.add_link(0, [2, 0, 0, 0, 0, side as u8]).unwrap();
        node.set_window(0, windows[side]);
        bench.sides[side].node = node;
    }
    bench.carrier(0, true);
    bench.settle();
    bench.assert_up();
    bench
}

fn grant(bench: &mut Bench, side: usize, slots: u8) {
    bench.sides[side].node.set_grant(0, slots);
    bench.settle();
}

fn submit(bench: &mut Bench, exchanges: u64) {
    for token in 0..exchanges {
        let mode = [Mode::OnePhase, Mode::TwoPhase][token as usize % 2];
        bench.submit(A, mode, b"x", token);
    }
}

#[test]
fn a_receiver_without_room_stalls_the_sender_and_loses_nothing() {
    let mut bench = Bench::up(1);
    grant(&mut bench, B, 0);
    submit(&mut bench, 20);
    bench.run(20);
    assert!(bench.sides[B].host.admitted.is_empty() && bench.sides[B].host.executed.is_empty());
    assert_eq!(bench.link(A, 0).open_transactions, 0);
    // The other direction has a credit of its own.
    bench.submit(B, Mode::TwoPhase, b"y", 1);
    bench.settle();
    assert_eq!(bench.sides[B].host.completed.len(), 1);
    for (slots, open) in [(1, 1), (3, 3), (2, 2), (9, 4)] {
        bench.sides[B].node.set_grant(0, slots);
        bench.send(B);
        while bench.deliver(A, 0) {}
        let executed = bench.sides[B].host.executed.len();
        bench.send(A);
        assert_eq!(bench.link(A, 0).open_transactions, open, "{slots}");
        assert_eq!(bench.sides[B].host.executed.len(), executed);
        // Open exchanges end although the grant drops to zero meanwhile.
        bench.sides[B].node.set_grant(0, 0);
        bench.settle();
        assert_eq!(bench.link(A, 0).open_transactions, 0);
    }
    assert!(bench.sides[A].host.completed.len() < 20);
    grant(&mut bench, B, 4);
    assert_eq!(bench.sides[A].host.completed.len(), 20);
    assert_eq!(bench.sides[B].host.executed.len(), 20);
    assert!(bench.sides.iter().all(|side| side.host.downs().is_empty()));
}

/// A message that needs nearly the whole window waits behind a few records that the peer received
/// and has no reason to reflect. The sender pings for the reflection, without waiting for a tick or
/// for traffic of the peer.
#[test]
fn a_message_that_needs_the_whole_window_triggers_a_ping() {
    for answers in 1..=4 {
        for bytes in [700, 1100, 4000] {
            let mut bench = with_windows(4, [32, 32]);
            for token in 0..answers {
                bench.submit(B, Mode::OnePhase, b"x", token);
            }
            bench.settle();
            assert_eq!(bench.sides[B].host.completed.len(), answers as usize);
            bench.submit(A, Mode::OnePhase, &vec![7; bytes], 1);
            bench.settle();
            assert_eq!(
                bench.sides[A].host.completed.len(),
                1,
                "{answers} records are not reflected, {bytes} bytes wait"
            );
        }
    }
}

/// The grant holds in the next epoch from its first moment, and exchanges left open by a failure
/// are resolved without any grant.
#[test]
fn a_grant_outlives_a_failure_and_questions_need_none() {
    for open in 1..8 {
        let mut bench = Bench::up(1);
        submit(&mut bench, 4);
        for step in 0..open {
            match step % 4 {
                0 => bench.send(A),
                1 => assert!(bench.deliver(B, 0)),
                2 => bench.send(B),
                _ => assert!(bench.deliver(A, 0)),
            }
        }
        bench.sides[B].node.set_grant(0, 0);
        bench.pull(0);
        bench.plug(0);
        bench.run(2);
        let side = &bench.sides[A];
        assert_eq!(
            (side.node.in_doubt(), bench.link(A, 0).open_transactions),
            (0, 0)
        );
        let done = side.host.completed.len();
        assert_eq!(bench.sides[B].host.executed.len(), done);
        bench.submit(A, Mode::OnePhase, b"x", 9);
        bench.run(4);
        assert_eq!(bench.sides[A].host.completed.len(), done);
        grant(&mut bench, B, 2);
        assert_eq!(bench.sides[A].host.completed.len(), 5);
        assert_eq!(bench.sides[B].host.executed.len(), 5);
    }
}

/// Slots that are withheld, leave and return within the grant in any order are used once each.
#[test]
fn slots_follow_the_grant() {
    let mut bench = Bench::up_with_slots(1, 7);
    let mut token = 0;
    for (round, slots) in [3, 0, 7, 2, 5, 5, 1, 7, 0, 4, 7].into_iter().enumerate() {
        for _ in 0..9 {
            token += 1;
            bench.submit(A, Mode::TwoPhase, b"x", token);
        }
        bench.send(A);
        bench.deliver(B, 0);
        bench.sides[B].node.set_grant(0, slots);
        if round % 3 == 2 {
            bench.pull(0);
            bench.plug(0);
        }
        bench.settle();
    }
    grant(&mut bench, B, 7);
    bench.run(2);
    assert_eq!(bench.sides[A].host.completed.len() as u64, token);
    assert_eq!(bench.sides[B].host.executed.len() as u64, token);
    bench.send(A);
    submit(&mut bench, 50);
    bench.send(A);
    assert_eq!(bench.link(A, 0).open_transactions, 7);
}

/// B does not read. Frames of one record each pile up, keepalives too, and fit.
#[test]
fn records_in_flight_have_room_at_a_receiver_that_does_not_read() {
    for (window, messages) in [(0, 24), (32, 24), (48, 36), (250, 192), (1000, 192)] {
        let mut bench = with_windows(255, [250, window]);
        for token in 0..250 {
            bench.submit(A, Mode::OnePhase, b"x", token);
            bench.send(A);
        }
        assert_eq!(bench.cables[0][B].len(), messages);
        for _ in 0..500 {
            let Bench { sides, .. } = &mut bench;
            sides[A].node.on_tick(&mut sides[A].host);
            bench.send(A);
        }
        assert_eq!(
            bench.cables[0][B].len(),
            usize::from(window.clamp(32, 250)),
            "keepalives may take the rest"
        );
        bench.settle();
        assert_eq!(bench.sides[A].host.completed.len(), 250);
        assert!(bench.sides.iter().all(|side| side.host.downs().is_empty()));
    }
}

#[test]
fn the_longest_message_passes_the_smallest_window() {
    let mut bench = with_windows(4, [0, 0]);
    let payload = vec![7; MAX_PAYLOAD_BYTES];
    for token in 0..20 {
        bench.submit(A, Mode::TwoPhase, &payload, token);
        bench.submit(B, Mode::OnePhase, &payload, token);
    }
    bench.settle();
    for side in &bench.sides {
        assert_eq!(side.host.completed.len(), 20);
        assert!(side.host.downs().is_empty());
    }
}

/// A peer that grants more slots than it has breaks the protocol.
#[test]
fn a_grant_beyond_the_slots_fails_the_link() {
    for (grant, fails) in [(0, false), (4, false), (5, true), (255, true)] {
        let mut bench = Bench::up(1);
        bench.tick();
        bench.send(B);
        let mut keepalive = bench.cables[0][A].pop_front().unwrap();
        assert_eq!(kinds(&keepalive), [Kind::Keepalive]);
        let at = keepalive.len() - 64
            + keepalive
                .windows(8)
                .position(|bytes| bytes == 0xb_u64.to_le_bytes())
                .unwrap()
            - 14
            - 3;
        let record = at - (keepalive.len() - 64);
        support::forge(&mut keepalive, 0, |bytes| bytes[record] = grant);
        bench.inject(A, 0, &keepalive);
        let expected: &[DownReason] = if fails { &[DownReason::Violation] } else { &[] };
        assert_eq!(bench.sides[A].host.downs(), expected, "{grant}");
    }
}

#[derive(Debug, Clone)]
enum Step {
    Submit(usize, bool),
    Send(usize),
    Deliver(usize),
    Tick(usize),
    Idle(usize),
    Grant(usize, u8),
}

fn step() -> impl Strategy<Value = Step> {
    let side = 0..2usize;
    prop_oneof![
        8 => (side.clone(), any::<bool>()).prop_map(|(side, two)| Step::Submit(side, two)),
        8 => side.clone().prop_map(Step::Send),
        4 => side.clone().prop_map(Step::Deliver),
        2 => side.clone().prop_map(Step::Tick),
        2 => side.clone().prop_map(Step::Idle),
        1 => (side, 0..9u8).prop_map(|(side, slots)| Step::Grant(side, slots)),
    ]
}

proptest! {
    /// The frames in flight never exceed the space of their receiver, though each holds one record.
    #[test]
    fn frames_in_flight_have_room(
        windows in any::<[u8; 2]>(),
        steps in proptest::collection::vec(step(), 1..2000),
    ) {
        let mut bench = with_windows(255, windows.map(u16::from));
        let mut token = 0;
        for step in steps {
            match step {
                Step::Submit(side, two_phase) => {
                    let mode = if two_phase { Mode::TwoPhase } else { Mode::OnePhase };
                    if bench.sides[side].node.room() > 0 {
                        bench.submit(side, mode, b"x", token);
                        token += 1;
                    }
                }
                Step::Send(side) => bench.send(side),
                Step::Deliver(side) => {
                    bench.deliver(side, 0);
                }
                Step::Tick(side) => {
                    let side = &mut bench.sides[side];
                    side.node.on_tick(&mut side.host);
                }
                Step::Idle(side) => bench.sides[side].node.on_quiet(),
                Step::Grant(side, slots) => bench.sides[side].node.set_grant(0, slots),
            }
            for side in [A, B] {
                let in_flight = &bench.cables[0][side];
                prop_assert!(in_flight.len() <= usize::from(windows[side].clamp(32, 250)));
                prop_assert!(in_flight.iter().all(|frame| frame.len() <= FRAME_BYTES_MAX));
            }
        }
        for side in &mut bench.sides {
            side.node.set_grant(0, 255);
        }
        bench.settle();
        for side in &bench.sides {
            // A receiver that got nothing for long enough may have been declared deaf.
            prop_assert!(side.host.downs().iter().all(|reason| matches!(
                reason,
                DownReason::Unreflected | DownReason::PeerReinitialized
            )));
        }
        let completions: usize = bench.sides.iter().map(|side| side.host.completed.len()).sum();
        if bench.sides.iter().all(|side| side.host.downs().is_empty()) {
            prop_assert_eq!(completions as u64, token);
        }
    }
}
