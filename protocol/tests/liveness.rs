//! Losses and dead links are detected by events: returning keepalives, and the round trips of other
//! links. No tick passes here unless a test requests it.
#![allow(clippy::unwrap_used)]

mod support;

use covalent_protocol::{
    DownReason, FRAME_BYTES_MAX, LinkState, Mode, Node, NodeConfig, wire::slice::Kind,
};
use proptest::prelude::*;
use support::{A, B, Bench, config};

/// Two nodes that declare a link dead after `event_ratio` round trips of another.
fn with_ratio(cables: usize, event_ratio: u32) -> Bench {
    let mut bench = Bench::new(cables);
    for side in [A, B] {
        bench.sides[side].node = Node::new(NodeConfig {
            event_ratio,
            keepalive_misses_max: 1000,
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
fn idle(bench: &mut Bench, times: usize) {
    for _ in 0..times {
        for side in &mut bench.sides {
            side.node.on_quiet();
        }
        bench.settle();
    }
}

/// Advances everything by one flight: both ends send everything, then receive all of it, except in
/// the directions in `dead` (cable, receiving side).
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

/// Each record of a lone exchange is lost in turn. The keepalive reveals it, on the only link.
#[test]
fn a_lone_record_that_is_lost_is_missed_without_a_tick() {
    for (mode, messages) in [(Mode::OnePhase, 2), (Mode::TwoPhase, 4)] {
        for lost in 0..messages {
            let mut bench = Bench::up(1);
            bench.submit(A, mode, b"x", 1);
            for message in 0..=lost {
                let from = message % 2;
                bench.send(from);
                assert_eq!(bench.cables[0][1 - from].len(), 1, "and no keepalive");
                if message == lost {
                    bench.lose(0);
                } else {
                    assert!(bench.deliver(1 - from, 0));
                }
            }
            bench.settle();
            assert!(bench.sides[A].host.completed.is_empty());
            idle(&mut bench, 1);
            assert_once(&bench);
            let seen = [B, A][lost % 2];
            assert_eq!(bench.sides[seen].host.downs(), [DownReason::SequenceGap]);
            bench.assert_up();
        }
    }
}

#[test]
fn a_link_with_nothing_open_sends_no_ping() {
    let mut bench = Bench::up(2);
    bench.submit(A, Mode::TwoPhase, b"x", 1);
    bench.settle();
    let before = bench.link(A, 0).counters.tx_frames + bench.link(A, 1).counters.tx_frames;
    idle(&mut bench, 100);
    let after = bench.link(A, 0).counters.tx_frames + bench.link(A, 1).counters.tx_frames;
    assert_eq!(after, before);
}

/// However often the caller reports quiet, each link has one ping in flight.
#[test]
fn one_ping_is_in_flight_at_a_time() {
    let mut bench = Bench::up(2);
    bench.submit(A, Mode::TwoPhase, b"x", 1);
    bench.send_on(A, 0);
    for _ in 0..100 {
        bench.sides[A].node.on_quiet();
        bench.send(A);
    }
    assert_eq!(bench.in_flight(B, 0), [Kind::Tentative, Kind::Keepalive]);
    assert_eq!(bench.in_flight(B, 1), [Kind::Keepalive]);
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
            // The ping, without a reply yet.
            bench.send_on(A, 0);
            bench.sides[A].node.on_quiet();
        }
        let wanted: &[DownReason] = if measured {
            &[DownReason::PeerRttExceeded]
        } else {
            &[]
        };
        assert_eq!(bench.sides[A].host.downs(), wanted);
        bench.settle();
        assert_eq!(bench.sides[A].host.completed.len(), 101);
        assert_eq!(bench.sides[B].host.executed.len(), 101);
    }
}

/// A cable fails in one direction or both, with an exchange open on it at any point, and no carrier
/// reports it. The round trips of the other cable do.
#[test]
fn a_dead_cable_is_detected_by_the_round_trips_of_another() {
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
                                .any(|side| side.host.downs() == [DownReason::PeerRttExceeded]),
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
fn without_a_ratio_no_link_is_declared_dead() {
    let mut bench = with_ratio(2, 0);
    bench.submit(A, Mode::TwoPhase, b"x", 1);
    bench.cut[0] = true;
    bench.send_on(A, 0);
    idle(&mut bench, 100);
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

/// Only one direction is dead, and there is no other link: the peer's keepalives arrive and reflect
/// nothing.
#[test]
fn a_peer_that_receives_nothing_is_detected_by_its_own_keepalives() {
    let mut bench = with_ratio(1, 4);
    bench.run(2);
    bench.submit(A, Mode::TwoPhase, b"x", 1);
    let Bench { sides, .. } = &mut bench;
    let mut ticks = 0;
    while sides[A].host.downs().is_empty() {
        // A's frames are lost and ticks pass. B's first keepalive reflects what it had received
        // before.
        let mut buffer = [0; FRAME_BYTES_MAX];
        sides[A].node.on_tick(&mut sides[A].host);
        while sides[A].node.poll_transmit(0, &mut buffer).is_some() {}
        sides[B].node.on_tick(&mut sides[B].host);
        while let Some(len) = sides[B].node.poll_transmit(0, &mut buffer) {
            let frame = buffer[..len].to_vec();
            sides[A].node.on_frame(0, &frame, &mut sides[A].host);
        }
        ticks += 1;
        assert!(ticks <= 6);
    }
    assert_eq!(sides[A].host.downs(), [DownReason::Unreflected]);
}

/// A side that was stopped finds all keepalives of its peer at once. The peer sent them before this
/// side's unsent frames, so they are no evidence about those frames.
#[test]
fn keepalives_that_waited_for_a_paused_side_are_no_evidence() {
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

/// A link that made progress since it came up comes back at once, however often it fails.
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

/// Any handshake frame of a link that failed after progress is lost. The round trips of the other
/// link cause it to be repeated.
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
            let mut frames = 0;
            for _ in 0..40 {
                for side in &mut bench.sides {
                    side.node.on_quiet();
                }
                bench.send(A);
                bench.send(B);
                for receiver in [A, B] {
                    while let Some(frame) = bench.cables[0][receiver].pop_front() {
                        if frames != lost {
                            bench.inject(receiver, 0, &frame);
                        }
                        frames += 1;
                    }
                    while bench.deliver(receiver, 1) {}
                }
            }
            bench.assert_up();
        }
    }
}

/// A dead cable does not cause handshakes forever: an idle system comes to rest without a tick.
#[test]
fn an_unanswered_handshake_is_repeated_a_bounded_number_of_times() {
    let mut bench = Bench::up(2);
    for token in 0..8 {
        bench.submit(A, Mode::OnePhase, b"x", token);
    }
    bench.settle();
    let side = &mut bench.sides[A];
    side.node.on_transmit_failed(0, &mut side.host);
    bench.cut[0] = true;
    idle(&mut bench, 20);
    let sent = bench.sides[A]
        .node
        .links()
        .map(|link| link.counters.tx_frames);
    let sent: u64 = sent.sum();
    idle(&mut bench, 100);
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
    Idle(usize),
    Tick,
    Flight,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..2usize, any::<bool>()).prop_map(|(side, two_phase)| Step::Submit(side, two_phase)),
        2 => (0..2usize).prop_map(Step::Idle),
        1 => Just(Step::Tick),
        6 => Just(Step::Flight),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// With cables of one length and no losses, no link is declared dead, even at the smallest
    /// ratio.
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
                Step::Idle(side) => bench.sides[side].node.on_quiet(),
                // A tick is longer than a round trip.
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

/// A program that names its peer finds it during an interruption too.
#[test]
fn a_link_that_is_not_up_remembers_its_last_peer() {
    let mut bench = Bench::with_slots(1, 1);
    assert_eq!(bench.link(A, 0).peer, None, "none was met");
    bench.carrier(0, true);
    bench.settle();
    let peer = bench.link(A, 0).peer;
    assert!(peer.is_some());
    bench.carrier(0, false);
    let link = bench.link(A, 0);
    assert_eq!(
        (link.state, link.peer, link.peer_port),
        (LinkState::Down, peer, None)
    );
    assert_eq!(
        link.peer_name.map(covalent_protocol::Name::as_str),
        Some("b")
    );
}
