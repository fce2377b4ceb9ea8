//! Losses and dead links are found out by events: balls that come back, and the round trips of other links. No tick passes
//! here unless a test says so.
#![allow(clippy::unwrap_used)]

mod support;

use covalent_protocol::{DownReason, FRAME_BYTES_MAX, Mode, Node, NodeConfig, wire::slice::Kind};
use proptest::prelude::*;
use support::{A, B, Bench, config};

/// Two nodes that declare a link dead after so many round trips of another.
fn with_ratio(cables: usize, event_ratio: u32) -> Bench {
    let mut bench = Bench::new(cables);
    for side in [A, B] {
        bench.sides[side].node = Node::new(NodeConfig {
            event_ratio,
            silent_paces_max: 1000,
            ..config(side, 100 + side as u64, 4)
        });
        for cable in 0..cables {
            let mac = [2, 0, 0, 0, side as u8, cable as u8];
            bench.sides[side].node.add_link(cable as u16, mac).unwrap();
        }
    }
    for cable in 0..cables {
        bench.carrier(cable, true);
    }
    bench.settle();
    bench.assert_up();
    bench
}

/// Both programs have nothing to do, then everything moves until it rests; so many times.
fn quiet(bench: &mut Bench, times: usize) {
    for _ in 0..times {
        for side in &mut bench.sides {
            side.node.on_quiet();
        }
        bench.settle();
    }
}

/// Everything moves by one flight: what both ends have to say is said, then all of it is heard, but on the directions in
/// `dead` (cable, hearing side).
fn flight(bench: &mut Bench, dead: &[(usize, usize)]) {
    bench.send(A);
    bench.send(B);
    for &(cable, side) in dead {
        bench.cables[cable][side].clear();
    }
    for cable in 0..bench.cables.len() {
        for side in [A, B] {
            for _ in 0..bench.cables[cable][side].len() {
                bench.deliver(side, cable);
            }
        }
    }
}

fn assert_once(bench: &Bench) {
    assert_eq!(bench.sides[B].host.executed.len(), 1);
    assert_eq!(bench.sides[A].host.completed.len(), 1);
    assert_eq!(bench.sides[A].node.room(), 300);
}

/// Each record of a lone exchange is lost in turn. The ball tells, on the only link.
#[test]
fn a_lone_record_that_is_lost_is_missed_without_a_tick() {
    for (mode, messages) in [(Mode::OnePhase, 2), (Mode::TwoPhase, 4)] {
        for lost in 0..messages {
            let mut bench = Bench::up(1);
            bench.submit(A, mode, b"x", 1);
            for message in 0..=lost {
                let from = message % 2;
                bench.send(from);
                assert_eq!(bench.cables[0][1 - from].len(), 1, "and no ball");
                if message == lost {
                    bench.lose(0);
                } else {
                    assert!(bench.deliver(1 - from, 0));
                }
            }
            bench.settle();
            assert!(bench.sides[A].host.completed.is_empty());
            quiet(&mut bench, 1);
            assert_once(&bench);
            let seen = [B, A][lost % 2];
            assert_eq!(bench.sides[seen].host.downs(), [DownReason::SequenceGap]);
            bench.assert_up();
        }
    }
}

#[test]
fn a_link_with_nothing_open_asks_nothing() {
    let mut bench = Bench::up(2);
    bench.submit(A, Mode::TwoPhase, b"x", 1);
    bench.settle();
    let before = bench.link(A, 0).counters.tx_frames + bench.link(A, 1).counters.tx_frames;
    quiet(&mut bench, 100);
    let after = bench.link(A, 0).counters.tx_frames + bench.link(A, 1).counters.tx_frames;
    assert_eq!(after, before);
}

/// However often the caller is quiet, one ball is under way on each link.
#[test]
fn one_ball_is_under_way_at_a_time() {
    let mut bench = Bench::up(2);
    bench.submit(A, Mode::TwoPhase, b"x", 1);
    bench.send_on(A, 0);
    for _ in 0..100 {
        bench.sides[A].node.on_quiet();
        bench.send(A);
    }
    assert_eq!(bench.under_way(B, 0), [Kind::Tentative, Kind::Ball]);
    assert_eq!(bench.under_way(B, 1), [Kind::Ball]);
}

/// A link in memory makes any number of round trips while a cable needs its time for one.
#[test]
fn a_link_that_is_not_measured_has_no_other_declared_dead() {
    for measured in [true, false] {
        let mut bench = with_ratio(2, 32);
        bench.sides[A].node.set_measured(1, measured);
        bench.submit(A, Mode::OnePhase, b"x", 1);
        bench.send_on(A, 0);
        for token in 2..102 {
            bench.submit(A, Mode::OnePhase, b"x", token);
            bench.send_on(A, 1);
            while bench.deliver(B, 1) {}
            bench.send_on(B, 1);
            while bench.deliver(A, 1) {}
            // The ball that asks, and nothing comes back yet.
            bench.send_on(A, 0);
            bench.sides[A].node.on_quiet();
        }
        let wanted: &[DownReason] = if measured {
            &[DownReason::Outpaced]
        } else {
            &[]
        };
        assert_eq!(bench.sides[A].host.downs(), wanted);
        bench.settle();
        assert_eq!(bench.sides[A].host.completed.len(), 101);
        assert_eq!(bench.sides[B].host.executed.len(), 101);
    }
}

/// A cable goes dead in one direction or both, with an exchange open on it at any point, and no carrier tells. The other
/// cable's round trips do.
#[test]
fn a_dead_cable_is_outpaced_by_another() {
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        for event_ratio in [4, 32] {
            for flights in 0..4 {
                for dead in [&[(0, A)][..], &[(0, B)], &[(0, A), (0, B)]] {
                    let mut bench = with_ratio(2, event_ratio);
                    bench.submit(A, mode, b"x", 1);
                    bench.send_on(A, 0);
                    for _ in 0..flights {
                        flight(&mut bench, &[]);
                    }
                    let mut trips = 0;
                    while bench.sides[A].host.completed.is_empty() {
                        for side in &mut bench.sides {
                            side.node.on_quiet();
                        }
                        flight(&mut bench, dead);
                        flight(&mut bench, dead);
                        trips += 1;
                        assert!(trips <= event_ratio + 4, "{mode:?} {flights} {dead:?}");
                    }
                    for _ in 0..10 {
                        flight(&mut bench, dead);
                    }
                    assert_once(&bench);
                    if trips > event_ratio {
                        assert!(
                            bench
                                .sides
                                .iter()
                                .any(|side| side.host.downs() == [DownReason::Outpaced]),
                            "{:?}",
                            bench.sides[A].host.events
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn without_a_ratio_nothing_is_outpaced() {
    let mut bench = with_ratio(2, 0);
    bench.submit(A, Mode::TwoPhase, b"x", 1);
    bench.cut[0] = true;
    bench.send_on(A, 0);
    quiet(&mut bench, 100);
    assert!(bench.sides[A].host.downs().is_empty());
    assert!(bench.link(A, 1).counters.tx_frames < 200);
    bench.run(1000);
    assert!(
        bench.sides[A]
            .host
            .downs()
            .contains(&DownReason::PeerSilent)
    );
    assert_once(&bench);
}

/// Only one direction is dead, and there is no other link: the peer's balls come and reflect nothing.
#[test]
fn a_peer_that_does_not_hear_is_found_out_by_its_own_balls() {
    let mut bench = with_ratio(1, 4);
    bench.run(2);
    bench.submit(A, Mode::TwoPhase, b"x", 1);
    let Bench { sides, .. } = &mut bench;
    let mut paces = 0;
    while sides[A].host.downs().is_empty() {
        // What A says is lost and paces pass; the first of B's balls reflects what it had heard before.
        let mut buffer = [0; FRAME_BYTES_MAX];
        sides[A].node.on_tick(&mut sides[A].host);
        while sides[A].node.poll_transmit(0, &mut buffer).is_some() {}
        sides[B].node.on_tick(&mut sides[B].host);
        while let Some(len) = sides[B].node.poll_transmit(0, &mut buffer) {
            let frame = buffer[..len].to_vec();
            sides[A].node.on_frame(0, &frame, &mut sides[A].host);
        }
        paces += 1;
        assert!(paces <= 6);
    }
    assert_eq!(sides[A].host.downs(), [DownReason::Unreflected]);
}

/// A side that stood still finds all balls of its peer at once. They were said before what it had not sent yet, and tell
/// nothing of whether that arrives.
#[test]
fn balls_that_waited_for_a_side_that_stood_still_are_no_evidence() {
    let mut bench = with_ratio(1, 4);
    bench.run(2);
    bench.submit(A, Mode::TwoPhase, b"x", 1);
    let mut buffer = [0; FRAME_BYTES_MAX];
    let mut unsent = Vec::new();
    while let Some(len) = bench.sides[A].node.poll_transmit(0, &mut buffer) {
        unsent.push(buffer[..len].to_vec());
    }
    assert!(!unsent.is_empty());
    let Bench { sides, .. } = &mut bench;
    for _ in 0..8 {
        sides[B].node.on_tick(&mut sides[B].host);
        while let Some(len) = sides[B].node.poll_transmit(0, &mut buffer) {
            let frame = buffer[..len].to_vec();
            sides[A].node.on_frame(0, &frame, &mut sides[A].host);
        }
    }
    assert!(sides[A].host.downs().is_empty());
    for frame in unsent {
        bench.inject(B, 0, &frame);
    }
    bench.settle();
    assert_eq!(bench.sides[A].host.completed.len(), 1);
    assert!(bench.sides.iter().all(|side| side.host.downs().is_empty()));
}

/// A link that did something useful since it came up comes back at once, however often it fails.
#[test]
fn a_failure_after_progress_waits_for_no_tick() {
    let mut bench = Bench::up(1);
    for failure in 0..50 {
        bench.submit(A, Mode::OnePhase, b"x", failure);
        bench.settle();
        assert_eq!(bench.sides[A].host.completed.len(), failure as usize + 1);
        let side = &mut bench.sides[failure as usize % 2];
        side.node.on_transmit_failed(0, &mut side.host);
        bench.settle();
        bench.assert_up();
    }
    // Without progress the first failure is free.
    let side = &mut bench.sides[A];
    side.node.on_transmit_failed(0, &mut side.host);
    bench.settle();
    bench.assert_up();
    let side = &mut bench.sides[A];
    side.node.on_transmit_failed(0, &mut side.host);
    bench.settle();
    assert_eq!(bench.link(A, 0).state, covalent_protocol::LinkState::Init);
    bench.run(1);
    bench.assert_up();
}

/// Any handshake frame of a link that failed after progress is lost. The round trips of the other link bring it back.
#[test]
fn lost_handshakes_are_repeated_by_the_round_trips_of_another_link() {
    for lost in 0..4 {
        for side in [A, B] {
            let mut bench = Bench::up(2);
            for token in 0..8 {
                bench.submit(A, Mode::OnePhase, b"x", token);
            }
            bench.settle();
            for side in [side, 1 - side] {
                let failing = &mut bench.sides[side];
                failing.node.on_transmit_failed(0, &mut failing.host);
            }
            let mut said = 0;
            for _ in 0..40 {
                for side in &mut bench.sides {
                    side.node.on_quiet();
                }
                bench.send(A);
                bench.send(B);
                for hearing in [A, B] {
                    while let Some(frame) = bench.cables[0][hearing].pop_front() {
                        if said != lost {
                            bench.inject(hearing, 0, &frame);
                        }
                        said += 1;
                    }
                    while bench.deliver(hearing, 1) {}
                }
            }
            bench.assert_up();
        }
    }
}

/// A cable that stays dead is not asked about for ever: what is quiet comes to rest without a tick.
#[test]
fn a_handshake_that_nobody_hears_is_repeated_some_times_only() {
    let mut bench = Bench::up(2);
    for token in 0..8 {
        bench.submit(A, Mode::OnePhase, b"x", token);
    }
    bench.settle();
    let side = &mut bench.sides[A];
    side.node.on_transmit_failed(0, &mut side.host);
    bench.cut[0] = true;
    quiet(&mut bench, 20);
    let sent = bench.sides[A]
        .node
        .links()
        .map(|link| link.counters.tx_frames);
    let sent: u64 = sent.sum();
    quiet(&mut bench, 100);
    let after: u64 = bench.sides[A]
        .node
        .links()
        .map(|link| link.counters.tx_frames)
        .sum();
    assert_eq!(after, sent);
}

#[derive(Debug, Clone)]
enum Step {
    Submit(usize, bool),
    Quiet(usize),
    Tick,
    Flight,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..2usize, any::<bool>()).prop_map(|(side, two_phase)| Step::Submit(side, two_phase)),
        2 => (0..2usize).prop_map(Step::Quiet),
        1 => Just(Step::Tick),
        6 => Just(Step::Flight),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// Cables of one length and nothing is lost: nobody is called dead, at the smallest ratio either.
    #[test]
    fn links_of_equal_delay_are_never_called_dead(
        cables in 1..4usize,
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        let mut bench = with_ratio(cables, 4);
        let mut token = 0;
        for step in steps {
            match step {
                Step::Submit(side, two_phase) => {
                    token += 1;
                    let mode = if two_phase { Mode::TwoPhase } else { Mode::OnePhase };
                    bench.submit(side, mode, &[7; 100], token);
                }
                Step::Quiet(side) => bench.sides[side].node.on_quiet(),
                // A pace is longer than a round trip.
                Step::Tick => {
                    bench.tick();
                    flight(&mut bench, &[]);
                    flight(&mut bench, &[]);
                }
                Step::Flight => flight(&mut bench, &[]),
            }
        }
        bench.settle();
        for side in &bench.sides {
            prop_assert_eq!(side.host.downs(), []);
            prop_assert_eq!(side.node.room(), 300);
        }
    }
}
