//! Whether a path leads to a node: reported when the links' evidence changes, and not when a link
//! merely fails.
#![allow(clippy::unwrap_used)]

mod support;

use covalent_protocol::{DownReason, Mode};
use support::{A, B, Bench, GUIDS};

/// Missed keepalives after which the bench's nodes declare a link dead.
const KEEPALIVE_MISSES_MAX: usize = 4;
/// Unanswered handshakes after which a link is given up.
const UNANSWERED_HANDSHAKES_MAX: usize = 4;

/// Ticks at one side, with all frames lost.
fn tick_alone(bench: &mut Bench, side: usize, ticks: usize) {
    for _ in 0..ticks {
        let support::Side { node, host } = &mut bench.sides[side];
        node.on_tick(host);
        bench.send(side);
        for cable in 0..bench.cables.len() {
            bench.lose(cable);
        }
    }
}

fn reported(bench: &Bench, side: usize) -> &[(u64, bool)] {
    &bench.sides[side].host.paths
}

const UP: (u64, bool) = (GUIDS[B], true);
const LOST: (u64, bool) = (GUIDS[B], false);

#[test]
fn a_path_exists_once_a_link_is_up_and_is_reported_once() {
    let mut bench = Bench::new(2);
    assert!(!bench.sides[A].node.has_path(GUIDS[B]), "never met");
    assert!(bench.sides[A].node.has_path(GUIDS[A]), "to itself");
    bench.carrier(0, true);
    bench.settle();
    assert_eq!(reported(&bench, A), [UP]);
    bench.carrier(1, true);
    bench.settle();
    bench.assert_up();
    assert_eq!(reported(&bench, A), [UP]);
    assert!(bench.sides[A].node.has_path(GUIDS[B]));
}

/// Whatever the cause of the failure, the link is up again after a round trip or at the next tick,
/// and nothing is reported.
#[test]
fn a_lone_frame_that_is_lost_never_shows() {
    for lost in 0..4 {
        let mut bench = Bench::up(1);
        bench.submit(A, Mode::TwoPhase, b"x", 1);
        for message in 0..=lost {
            bench.send(message % 2);
            if message == lost {
                bench.lose(0);
            } else {
                assert!(bench.deliver(1 - message % 2, 0));
            }
        }
        bench.run(3);
        assert_eq!(bench.sides[A].host.completed.len(), 1);
        let seen = [B, A][lost % 2];
        assert_eq!(bench.sides[seen].host.downs(), [DownReason::SequenceGap]);
        assert_eq!(reported(&bench, A), [UP], "message {lost}");
        assert_eq!(reported(&bench, B), [(GUIDS[A], true)], "message {lost}");
    }
}

#[test]
fn the_last_carrier_shows_at_once_and_so_does_its_return() {
    let mut bench = Bench::up(2);
    bench.pull(0);
    assert_eq!(reported(&bench, A), [UP], "another link is up");
    bench.pull(1);
    assert_eq!(reported(&bench, A), [UP, LOST]);
    assert!(!bench.sides[A].node.has_path(GUIDS[B]));
    bench.run(20);
    bench.plug(1);
    assert_eq!(
        reported(&bench, A),
        [UP, LOST],
        "a carrier alone is no path"
    );
    bench.settle();
    assert_eq!(reported(&bench, A), [UP, LOST, UP]);
    assert_eq!(
        reported(&bench, B),
        [(GUIDS[A], true), (GUIDS[A], false), (GUIDS[A], true)]
    );
}

/// The cable is dead and no carrier reports it. The link falls silent, and then its handshakes
/// remain unanswered.
#[test]
fn silence_is_reported_after_enough_unanswered_handshakes() {
    let mut bench = Bench::up(1);
    tick_alone(&mut bench, A, KEEPALIVE_MISSES_MAX);
    assert_eq!(bench.sides[A].host.downs(), [DownReason::PeerSilent]);
    tick_alone(&mut bench, A, UNANSWERED_HANDSHAKES_MAX - 1);
    assert_eq!(reported(&bench, A), [UP]);
    tick_alone(&mut bench, A, 1);
    assert_eq!(reported(&bench, A), [UP, LOST]);
    tick_alone(&mut bench, A, 50);
    assert_eq!(reported(&bench, A), [UP, LOST], "reported once");
    bench.run(3);
    assert_eq!(reported(&bench, A), [UP, LOST, UP]);
}

/// A link that failed for another reason gets the same grace period as a silent one, and each
/// received handshake restarts that period.
#[test]
fn a_link_is_waited_for_while_it_receives_something() {
    let mut bench = Bench::up(1);
    for _ in 0..10 {
        let support::Side { node, host } = &mut bench.sides[A];
        node.on_transmit_failed(0, host);
        tick_alone(&mut bench, A, UNANSWERED_HANDSHAKES_MAX - 1);
        // B sends a handshake, and does not receive the reply.
        let support::Side { node, host } = &mut bench.sides[B];
        node.on_transmit_failed(0, host);
        node.on_tick(host);
        bench.send(B);
        assert!(bench.deliver(A, 0));
        tick_alone(&mut bench, A, UNANSWERED_HANDSHAKES_MAX - 2);
        assert_eq!(reported(&bench, A), [UP]);
        // Starts with one more tick.
        bench.run(3);
        bench.assert_up();
    }
    assert_eq!(reported(&bench, A), [UP]);
}

/// The state of one cable is no evidence for another: a node is lost when all links on which it
/// last sent are.
#[test]
fn every_link_of_a_node_must_be_given_up() {
    let mut bench = Bench::up(2);
    bench.pull(0);
    tick_alone(
        &mut bench,
        A,
        KEEPALIVE_MISSES_MAX + UNANSWERED_HANDSHAKES_MAX - 1,
    );
    assert_eq!(reported(&bench, A), [UP]);
    // The carrier returns in time: that link is waited for from here on.
    bench.plug(0);
    tick_alone(&mut bench, A, UNANSWERED_HANDSHAKES_MAX - 1);
    assert_eq!(reported(&bench, A), [UP]);
    tick_alone(&mut bench, A, 1);
    assert_eq!(reported(&bench, A), [UP, LOST]);
}

/// One incarnation ends and another one starts at once: the link reports it, and the path stays.
#[test]
fn a_restart_within_the_patience_of_a_link_is_no_loss() {
    let mut bench = Bench::up(1);
    bench.restart(B);
    bench.run(3);
    bench.assert_up();
    assert!(!bench.sides[A].host.downs().is_empty());
    assert_eq!(reported(&bench, A), [UP]);
}
