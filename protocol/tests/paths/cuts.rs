//! A hop fails at every point of an exchange, at each hop, noticed by one end of the cable or by
//! both. The exchange is executed once, and the waiting caller gets that outcome over the other
//! path or once there is one.

use covalent_protocol::Mode;

use crate::{
    far::{LINE_OF_4, rack, ring},
    rack::{Ended, Rack},
};

/// Which end notices a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Noticed {
    Both,
    First,
    Second,
    /// Only silence reveals it.
    Unnoticed,
}

const NOTICED: [Noticed; 4] = [
    Noticed::Both,
    Noticed::First,
    Noticed::Second,
    Noticed::Unnoticed,
];

fn cut(rack: &mut Rack, cable: usize, noticed: Noticed) {
    rack.cut(cable);
    for side in [0, 1] {
        let alone = [Noticed::First, Noticed::Second][side];
        if noticed == alone || noticed == Noticed::Both {
            rack.carrier_at(cable, side, false);
        }
    }
}

/// The number of frames of a whole exchange until everything is at rest, on a new path or on an
/// existing one.
fn steps(nodes: usize, cables: &[(usize, usize)], to: usize, is_warm: bool, mode: Mode) -> usize {
    let mut rack = rack(nodes, cables);
    warm_up(&mut rack, to, is_warm);
    rack.start_exchange(0, to, mode, b"once", 1);
    let mut steps = 0;
    while rack.step() {
        steps += 1;
    }
    assert_eq!(rack.end(0, 1), Some(&Ended::Committed(b"once".to_vec())));
    steps
}

fn warm_up(rack: &mut Rack, to: usize, is_warm: bool) {
    if is_warm {
        rack.start_exchange(0, to, Mode::OnePhase, b"warm", 0);
        rack.settle();
    }
}

#[test]
fn a_cut_is_survived_over_the_other_route() {
    for nodes in 3..=6 {
        let cables = ring(nodes);
        let to = nodes / 2;
        let kinds = [
            (Mode::TwoPhase, true),
            (Mode::OnePhase, true),
            (Mode::TwoPhase, false),
        ];
        // The longest way once, the shorter ones from the first note on too.
        for (mode, is_warm) in kinds.into_iter().take(if nodes > 4 { 1 } else { 3 }) {
            let steps = steps(nodes, &cables, to, is_warm, mode);
            // Where the way of the path leads: the first, the middle and the last hop.
            for cable in 0..to {
                for noticed in NOTICED {
                    for step in 0..steps {
                        let what = format!("{nodes} {mode:?} {is_warm} {cable} {noticed:?} {step}");
                        let mut rack = rack(nodes, &cables);
                        warm_up(&mut rack, to, is_warm);
                        rack.start_exchange(0, to, mode, b"once", 1);
                        (0..step).for_each(|_| assert!(rack.step()));
                        cut(&mut rack, cable, noticed);
                        rack.settle();
                        rack.run(12);
                        let committed = Ended::Committed(b"once".to_vec());
                        assert_eq!(rack.end(0, 1), Some(&committed), "{what}");
                        assert_eq!(rack.times(to, b"once"), 1, "{what}");
                        assert_eq!(rack.nodes[0].in_doubt(), 0, "{what}");
                        rack.idle();
                        rack.assert_at_rest();
                    }
                }
            }
        }
    }
}

#[test]
fn without_another_route_it_is_in_doubt_until_the_cable_is_mended() {
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        let steps = steps(4, LINE_OF_4, 3, true, mode);
        let mut doubts = 0;
        for cable in 0..3 {
            for noticed in NOTICED {
                for step in 0..steps {
                    let what = format!("{mode:?} {cable} {noticed:?} {step}");
                    let mut rack = rack(4, LINE_OF_4);
                    warm_up(&mut rack, 3, true);
                    rack.start_exchange(0, 3, mode, b"once", 1);
                    (0..step).for_each(|_| assert!(rack.step()));
                    cut(&mut rack, cable, noticed);
                    rack.settle();
                    rack.run(20);
                    let executed = rack.times(3, b"once");
                    let reported = rack.hosts[0].in_doubt.contains(&1);
                    match rack.end(0, 1) {
                        Some(Ended::Committed(_)) => assert_eq!(executed, 1, "{what}"),
                        Some(other) => panic!("{other:?}: {what}"),
                        // Sent, or never sent: then it waits, as for any peer that is not there.
                        None => assert!(reported || executed == 0, "{what}"),
                    }
                    doubts += usize::from(reported);
                    assert_eq!(rack.hosts[3].admitted, [], "{what}: reversed");
                    for at in 0..4 {
                        assert_eq!(rack.nodes[at].channels(), 0, "{what}: {at}");
                    }
                    rack.pull(cable);
                    rack.plug(cable);
                    rack.settle();
                    rack.run(4);
                    let committed = Ended::Committed(b"once".to_vec());
                    assert_eq!(rack.end(0, 1), Some(&committed), "{what}");
                    assert_eq!(rack.times(3, b"once"), 1, "{what}");
                    rack.idle();
                    rack.assert_at_rest();
                }
            }
        }
        assert!(doubts > steps, "{doubts} of {steps}");
    }
}

/// A transit loses its memory, and with it nothing of an exchange.
#[test]
fn a_transit_may_restart_at_any_point() {
    for (nodes, cables) in [(4, LINE_OF_4.to_vec()), (6, ring(6))] {
        for mode in [Mode::OnePhase, Mode::TwoPhase] {
            let steps = steps(nodes, &cables, 3, true, mode);
            for transit in [1, 2] {
                for step in 0..steps {
                    for loses_wires in [false, true] {
                        let what = format!("{nodes} {mode:?} {transit} {step} {loses_wires}");
                        let mut rack = rack(nodes, &cables);
                        warm_up(&mut rack, 3, true);
                        rack.start_exchange(0, 3, mode, b"once", 1);
                        (0..step).for_each(|_| assert!(rack.step()));
                        if loses_wires {
                            for cable in &mut rack.cables {
                                if cable.ends.iter().any(|end| end.0 == transit) {
                                    cable
                                        .in_flight
                                        .iter_mut()
                                        .for_each(|direction| direction.clear());
                                }
                            }
                        }
                        rack.restart(transit);
                        rack.settle();
                        rack.run(20);
                        let committed = Ended::Committed(b"once".to_vec());
                        assert_eq!(rack.end(0, 1), Some(&committed), "{what}");
                        assert_eq!(rack.times(3, b"once"), 1, "{what}");
                        rack.idle();
                        rack.assert_at_rest();
                    }
                }
            }
        }
    }
}

/// Either end loses its memory: the far one reports that the outcome is unknown, the near one has
/// forgotten its requests.
#[test]
fn either_end_may_restart_at_any_point() {
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        let steps = steps(4, LINE_OF_4, 3, true, mode);
        for end in [0, 3] {
            for step in 0..steps {
                let what = format!("{mode:?} {end} {step}");
                let mut rack = rack(4, LINE_OF_4);
                warm_up(&mut rack, 3, true);
                rack.start_exchange(0, 3, mode, b"once", 1);
                (0..step).for_each(|_| assert!(rack.step()));
                rack.restart(end);
                rack.settle();
                rack.run(20);
                assert!(rack.times(3, b"once") <= 1, "{what}");
                match rack.end(0, 1) {
                    Some(Ended::Committed(_)) => assert_eq!(rack.times(3, b"once"), 1, "{what}"),
                    Some(Ended::PeerRestarted) => assert_eq!(end, 3, "{what}"),
                    Some(Ended::Refused) => panic!("{what}"),
                    None => assert_eq!(end, 0, "{what}"),
                }
                rack.idle();
                rack.assert_at_rest();
                rack.start_exchange(0, 3, mode, b"again", 2);
                rack.settle();
                assert_eq!(rack.times(3, b"again"), 1, "{what}");
            }
        }
    }
}

/// A hop fails at the initiator alone, with its request in flight, because a transit stood still.
/// The initiator queries the outcome over the other path, gets the reply "never seen", and
/// resubmits. Then the first path continues.
#[test]
fn a_request_that_a_path_held_back_is_not_executed_after_never_seen() {
    let cables = ring(5);
    let mut overtaken = 0;
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        // An initiator that met the target before, with ends that had more paths than the target's,
        // comes up first.
        for (earlier, is_warm) in [(false, false), (false, true), (true, false)] {
            for step in 0.. {
                let what = format!("{mode:?} {earlier} {is_warm} {step}");
                let mut rack = rack(5, &cables);
                if earlier {
                    warm_up(&mut rack, 2, true);
                    rack.idle();
                    warm_up(&mut rack, 3, true);
                }
                warm_up(&mut rack, 2, is_warm);
                rack.start_exchange(0, 2, mode, b"once", 1);
                if (0..step).any(|_| !rack.step()) {
                    break;
                }
                rack.send();
                let held = std::mem::take(&mut rack.cables[0].in_flight[1]);
                rack.cut(0);
                rack.carrier_at(0, 0, false);
                rack.settle();
                let committed = Ended::Committed(b"once".to_vec());
                overtaken += usize::from(rack.end(0, 1) == Some(&committed) && !held.is_empty());
                for frame in held {
                    rack.inject(0, 1, &frame);
                    rack.settle();
                }
                rack.run(12);
                assert_eq!(rack.end(0, 1), Some(&committed), "{what}");
                assert_eq!(rack.times(2, b"once"), 1, "{what}");
                rack.idle();
                rack.assert_at_rest();
            }
        }
    }
    assert!(overtaken >= 10, "{overtaken}");
}
