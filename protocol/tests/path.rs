//! Whether a path leads to a node: told when the links' evidence changes, and not when a link merely fails.
#![allow(clippy::unwrap_used)]

mod support;

use covalent_protocol::{DownReason, Mode};
use support::{A, B, Bench, GUIDS};

/// Silent paces after which the bench's nodes declare a link dead.
const SILENT_PACES_MAX: usize = 4;
/// Handshakes in vain after which a link is given up.
const HANDSHAKES_IN_VAIN: usize = 4;

/// Paces at one side; nothing that is said is heard.
fn paces_alone(bench: &mut Bench, side: usize, paces: usize) {
    for _ in 0..paces {
        let support::Side { node, host } = &mut bench.sides[side];
        node.on_tick(host);
        bench.send(side);
        for cable in 0..bench.cables.len() {
            bench.lose(cable);
        }
    }
}

fn told(bench: &Bench, side: usize) -> &[(u64, bool)] {
    &bench.sides[side].host.paths
}

const UP: (u64, bool) = (GUIDS[B], true);
const LOST: (u64, bool) = (GUIDS[B], false);

#[test]
fn a_path_is_there_once_a_link_is_up_and_told_once() {
    let mut bench = Bench::new(2);
    assert!(!bench.sides[A].node.has_path(GUIDS[B]), "never met");
    assert!(bench.sides[A].node.has_path(GUIDS[A]), "to itself");
    bench.carrier(0, true);
    bench.settle();
    assert_eq!(told(&bench, A), [UP]);
    bench.carrier(1, true);
    bench.settle();
    bench.assert_up();
    assert_eq!(told(&bench, A), [UP]);
    assert!(bench.sides[A].node.has_path(GUIDS[B]));
}

/// Whatever the link fails of, it is up again after a round trip or at the next pace, and nothing is told.
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
        assert_eq!(told(&bench, A), [UP], "message {lost}");
        assert_eq!(told(&bench, B), [(GUIDS[A], true)], "message {lost}");
    }
}

#[test]
fn the_last_carrier_shows_at_once_and_so_does_its_return() {
    let mut bench = Bench::up(2);
    bench.pull(0);
    assert_eq!(told(&bench, A), [UP], "another link is up");
    bench.pull(1);
    assert_eq!(told(&bench, A), [UP, LOST]);
    assert!(!bench.sides[A].node.has_path(GUIDS[B]));
    bench.run(20);
    bench.plug(1);
    assert_eq!(told(&bench, A), [UP, LOST], "a carrier alone is no path");
    bench.settle();
    assert_eq!(told(&bench, A), [UP, LOST, UP]);
    assert_eq!(
        told(&bench, B),
        [(GUIDS[A], true), (GUIDS[A], false), (GUIDS[A], true)]
    );
}

/// The cable is dead and no carrier tells. The link falls silent, and then its handshakes are in vain.
#[test]
fn silence_shows_when_enough_handshakes_were_in_vain() {
    let mut bench = Bench::up(1);
    paces_alone(&mut bench, A, SILENT_PACES_MAX);
    assert_eq!(bench.sides[A].host.downs(), [DownReason::PeerSilent]);
    paces_alone(&mut bench, A, HANDSHAKES_IN_VAIN - 1);
    assert_eq!(told(&bench, A), [UP]);
    paces_alone(&mut bench, A, 1);
    assert_eq!(told(&bench, A), [UP, LOST]);
    paces_alone(&mut bench, A, 50);
    assert_eq!(told(&bench, A), [UP, LOST], "told once");
    bench.run(3);
    assert_eq!(told(&bench, A), [UP, LOST, UP]);
}

/// A link that failed for another reason is waited for as long as a silent one, and each handshake that is heard begins that anew.
#[test]
fn a_link_is_waited_for_as_long_as_something_is_heard() {
    let mut bench = Bench::up(1);
    for _ in 0..10 {
        let support::Side { node, host } = &mut bench.sides[A];
        node.on_transmit_failed(0, host);
        paces_alone(&mut bench, A, HANDSHAKES_IN_VAIN - 1);
        // B says something, and does not hear the answer.
        let support::Side { node, host } = &mut bench.sides[B];
        node.on_transmit_failed(0, host);
        node.on_tick(host);
        bench.send(B);
        assert!(bench.deliver(A, 0));
        paces_alone(&mut bench, A, HANDSHAKES_IN_VAIN - 2);
        assert_eq!(told(&bench, A), [UP]);
        // Begins with one more pace.
        bench.run(3);
        bench.assert_up();
    }
    assert_eq!(told(&bench, A), [UP]);
}

/// What one cable says is no evidence of the other: a node is lost when all links on which it spoke last are.
#[test]
fn every_link_of_a_node_must_be_given_up() {
    let mut bench = Bench::up(2);
    bench.pull(0);
    paces_alone(&mut bench, A, SILENT_PACES_MAX + HANDSHAKES_IN_VAIN - 1);
    assert_eq!(told(&bench, A), [UP]);
    // The carrier returns in time: that link is waited for from here on.
    bench.plug(0);
    paces_alone(&mut bench, A, HANDSHAKES_IN_VAIN - 1);
    assert_eq!(told(&bench, A), [UP]);
    paces_alone(&mut bench, A, 1);
    assert_eq!(told(&bench, A), [UP, LOST]);
}

/// A life that ends and another one that begins at once: the link says so, and the path stays.
#[test]
fn a_restart_within_the_patience_of_a_link_is_no_loss() {
    let mut bench = Bench::up(1);
    bench.restart(B);
    bench.run(3);
    bench.assert_up();
    assert!(!bench.sides[A].host.downs().is_empty());
    assert_eq!(told(&bench, A), [UP]);
}
