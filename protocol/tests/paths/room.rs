//! Reservations, refusals, and that all of it is released.

use covalent_protocol::{FabricConfig, Mode, NodeConfig, SubmitError};

use crate::{
    far::{LINE_OF_4, far_config, rack, rack_of, ring},
    rack::{Rack, guid},
};

fn with_room(paths: u16, transits: u16) -> impl Fn(usize) -> NodeConfig {
    move |at| NodeConfig {
        fabric: Some(FabricConfig {
            paths,
            transits,
            ..FabricConfig::default()
        }),
        ..far_config(at)
    }
}

fn refused(rack: &Rack, at: usize) -> u64 {
    rack.nodes[at].channel_counters().refused
}

/// Any node fails between any two control messages of a path that is being reserved or released, at
/// each hop: nothing stays reserved.
#[test]
fn reservations_are_released_whichever_node_dies_when() {
    let whole = |rack: &mut Rack| {
        let mut steps = 0;
        rack.start_exchange(0, 3, Mode::OnePhase, b"x", 1);
        while rack.step() {
            steps += 1;
        }
        steps
    };
    let steps = whole(&mut rack(4, LINE_OF_4));
    for step in 0..steps {
        for victim in 0..4 {
            let mut rack = rack(4, LINE_OF_4);
            rack.start_exchange(0, 3, Mode::OnePhase, b"x", 1);
            (0..step).for_each(|_| assert!(rack.step()));
            // It is gone: all its cables are.
            for cable in 0..3 {
                if rack.cables[cable].ends.iter().any(|end| end.0 == victim) {
                    rack.pull(cable);
                }
            }
            rack.settle();
            rack.run(12);
            for at in (0..4).filter(|&at| at != victim) {
                assert_eq!(rack.nodes[at].channels(), 0, "{step} {victim}: {at}");
                assert_eq!(rack.nodes[at].transits(), 0, "{step} {victim}: {at}");
                assert_eq!(rack.nodes[at].paths().count(), 0, "{step} {victim}: {at}");
            }
        }
    }
}

#[test]
fn a_node_without_a_free_transit_refuses_the_path() {
    let mut rack = rack_of(4, LINE_OF_4, |at| {
        with_room(4, if at == 1 { 0 } else { 4 })(at)
    });
    rack.start_exchange(0, 3, Mode::TwoPhase, b"x", 1);
    rack.settle();
    assert_eq!(refused(&rack, 0), 1);
    assert_eq!(rack.nodes[1].channel_counters().declined, 1);
    rack.run(3);
    assert_eq!(
        refused(&rack, 0),
        4,
        "requested again at each tick, and no more often"
    );
    // It was never sent, so it is not in doubt; it waits.
    assert_eq!(rack.hosts[0].in_doubt, [0; 0]);
    assert_eq!(rack.hosts[0].completed, 0);
    rack.nodes[0].cancel_interest(|_| true);
    rack.run(2);
    rack.assert_at_rest();
    // From elsewhere it is reached.
    rack.start_exchange(2, 0, Mode::OnePhase, b"y", 1);
    rack.settle();
    assert_eq!(rack.hosts[0].executed, 0, "only 1 leads there");
    rack.start_exchange(1, 3, Mode::OnePhase, b"z", 1);
    rack.settle();
    assert_eq!(rack.times(3, b"z"), 1, "its own paths are others");
}

#[test]
fn a_node_without_a_spare_end_refuses_the_path() {
    let mut rack = rack_of(4, LINE_OF_4, |at| {
        with_room(if at == 3 { 0 } else { 4 }, 4)(at)
    });
    rack.start_exchange(0, 3, Mode::TwoPhase, b"x", 1);
    rack.settle();
    assert_eq!(refused(&rack, 0), 1);
    assert_eq!(rack.nodes[3].channel_counters().declined, 1);
    assert_eq!(rack.nodes[1].transits() + rack.nodes[2].transits(), 0);
}

/// A node with one end talks to many, one after the other: an idle path is released for the next.
#[test]
fn one_end_serves_many_in_turn() {
    let cables: Vec<(usize, usize)> = (1..6).map(|leaf| (0, leaf)).collect();
    let mut rack = rack_of(6, &cables, |at| with_room(1, 8)(at));
    for round in 0..3u8 {
        for to in 2..6 {
            rack.start_exchange(
                1,
                to,
                Mode::TwoPhase,
                &[round, to as u8],
                u64::from(round) * 8 + to as u64,
            );
        }
        rack.settle();
        rack.run(20);
        for to in 2..6 {
            assert_eq!(rack.times(to, &[round, to as u8]), 1, "{round} {to}");
        }
    }
    assert_eq!(rack.hosts[1].completed, 12);
    rack.idle();
    rack.assert_at_rest();
}

/// A node submits to many more peers than its table holds, one after the other: the peer that was
/// idle for longest is evicted.
#[test]
fn a_full_peer_table_bounds_no_exchanges_with_far_nodes() {
    let cables: Vec<(usize, usize)> = (1..16).map(|leaf| (0, leaf)).collect();
    let mut rack = rack_of(16, &cables, |at| with_room(1, 8)(at));
    let mut waited = 0;
    for to in 2..16 {
        while let Err(error) =
            rack.nodes[1].submit(guid(to), Mode::TwoPhase, &[to as u8], to as u64)
        {
            assert_eq!(error, SubmitError::Full);
            waited += 1;
            assert!(waited < 20, "for {to}");
            rack.run(1);
        }
        rack.settle();
        rack.run(4);
        assert_eq!(rack.times(to, &[to as u8]), 1, "{to}");
    }
    assert_eq!(rack.hosts[1].completed, 14);
    let reported = &rack.hosts[1].paths;
    assert!(reported.contains(&(guid(2), true)) && reported.contains(&(guid(2), false)));
    rack.idle();
    rack.assert_at_rest();
}

/// Unused paths take all transit space. A new request gets a path within a few ticks, and not only
/// when the unused ones expire by themselves.
#[test]
fn unused_room_is_requested_back() {
    // 0 and 5 are reached over 1 and 2; 2 has space for one path.
    let cables = [(0, 1), (1, 2), (2, 3), (2, 4), (1, 5)];
    for (first, then) in [((0, 3), (4, 3)), ((3, 0), (5, 4)), ((4, 3), (0, 3))] {
        let mut rack = rack_of(6, &cables, |at| {
            with_room(4, if at == 2 { 1 } else { 4 })(at)
        });
        rack.start_exchange(first.0, first.1, Mode::TwoPhase, b"first", 1);
        rack.settle();
        rack.start_exchange(then.0, then.1, Mode::TwoPhase, b"then", 2);
        rack.settle();
        assert_eq!(rack.times(then.1, b"then"), 0);
        rack.run(5);
        assert_eq!(rack.times(then.1, b"then"), 1, "{first:?} {then:?}");
        // One that is used is not given back.
        rack.start_exchange(first.0, first.1, Mode::TwoPhase, b"waits", 3);
        for round in 0..8u8 {
            rack.start_exchange(
                then.0,
                then.1,
                Mode::OnePhase,
                &[round],
                4 + u64::from(round),
            );
            rack.run(1);
        }
        assert_eq!(rack.times(first.1, b"waits"), 0, "{first:?} {then:?}");
        rack.run(6);
        assert_eq!(rack.times(first.1, b"waits"), 1, "{first:?} {then:?}");
        rack.idle();
        rack.assert_at_rest();
    }
}

/// More nodes submit to one node than it has ends: the waiting ones are served when others are
/// idle.
#[test]
fn one_end_serves_many_nodes_in_turn() {
    let cables: Vec<(usize, usize)> = (1..7).map(|leaf| (0, leaf)).collect();
    let mut rack = rack_of(7, &cables, |at| with_room(2, 8)(at));
    for from in 2..7 {
        rack.start_exchange(from, 1, Mode::TwoPhase, &[from as u8], 1);
    }
    rack.settle();
    rack.run(40);
    for from in 2..7 {
        assert_eq!(rack.times(1, &[from as u8]), 1, "{from}");
        assert_eq!(rack.hosts[from].completed, 1, "{from}");
    }
    rack.idle();
    rack.assert_at_rest();
}

/// Two nodes with one end each request paths to each other over a node with space for one path.
/// Their ticks pass at the same distance each time. The first request at the middle gets the path,
/// and the other end does not refuse it because of its own pending request.
#[test]
fn two_nodes_with_one_end_each_that_open_at_once_do_not_refuse() {
    for (one, middle, other) in [
        (0, 1, 2),
        (2, 1, 0),
        (0, 2, 1),
        (1, 2, 0),
        (1, 0, 2),
        (2, 0, 1),
    ] {
        for distance in 0..4 {
            let mut rack = rack_of(3, &[(one, middle), (middle, other)], with_room(1, 1));
            let case = format!("{one} {middle} {other} {distance}");
            let fly = |rack: &mut Rack| {
                for _ in 0..distance {
                    rack.fly();
                }
            };
            rack.start_exchange(one, other, Mode::TwoPhase, b"there", 1);
            fly(&mut rack);
            rack.start_exchange(other, one, Mode::TwoPhase, b"back", 1);
            rack.settle();
            for _ in 0..4 {
                rack.tick_at(one);
                fly(&mut rack);
                rack.tick_at(middle);
                rack.tick_at(other);
                rack.settle();
            }
            assert_eq!(rack.times(other, b"there"), 1, "{case}");
            assert_eq!(rack.times(one, b"back"), 1, "{case}");
            rack.idle();
            rack.assert_at_rest();
        }
    }
}

/// Nodes with one end each submit to one another at the same time around a circle.
#[test]
fn a_circle_of_nodes_with_one_end_each_does_not_stand_still() {
    for around in [[0, 2, 4], [4, 2, 0]] {
        let mut rack = rack_of(6, &ring(6), with_room(1, 4));
        for (place, &from) in around.iter().enumerate() {
            let to = around[(place + 1) % 3];
            rack.start_exchange(from, to, Mode::TwoPhase, &[from as u8], 1);
        }
        rack.run(20);
        for (place, &from) in around.iter().enumerate() {
            let to = around[(place + 1) % 3];
            assert_eq!(rack.times(to, &[from as u8]), 1, "{around:?}: {from}");
            assert_eq!(rack.hosts[from].completed, 1, "{around:?}: {from}");
        }
        rack.idle();
        rack.assert_at_rest();
    }
}

#[test]
fn a_path_that_is_too_long_is_refused() {
    let cables: Vec<(usize, usize)> = (0..65).map(|at| (at, at + 1)).collect();
    let mut rack = rack_of(66, &cables, with_room(2, 2));
    let route = rack.nodes[0].route(guid(65)).unwrap();
    assert_eq!(route.hops, 65);
    rack.start_exchange(0, 64, Mode::TwoPhase, b"near", 1);
    rack.start_exchange(0, 65, Mode::TwoPhase, b"far", 2);
    rack.settle();
    assert_eq!(rack.times(64, b"near"), 1);
    assert_eq!(rack.times(65, b"far"), 0);
    assert_eq!(refused(&rack, 0), 1);
    assert_eq!(rack.nodes[64].channel_counters().declined, 1);
    assert_eq!(rack.paths_up(0), 1);
}

#[test]
fn a_cable_that_comes_up_takes_over_from_the_path() {
    let mut rack = rack_of(3, &[(0, 1), (1, 2), (0, 2)], far_config);
    rack.pull(2);
    rack.settle();
    rack.start_exchange(0, 2, Mode::TwoPhase, b"x", 1);
    rack.settle();
    assert_eq!(rack.paths_up(0), 1);
    rack.plug(2);
    rack.settle();
    rack.run(4);
    rack.assert_at_rest();
    rack.start_exchange(0, 2, Mode::TwoPhase, b"y", 2);
    rack.settle();
    assert_eq!(rack.times(2, b"y"), 1);
    rack.assert_at_rest();
    // The reverse: an exchange open on the cable is queried over a path.
    rack.start_exchange(0, 2, Mode::TwoPhase, b"z", 3);
    rack.send();
    rack.pull(2);
    rack.settle();
    rack.run(2);
    assert_eq!((rack.times(2, b"z"), rack.hosts[0].completed), (1, 3));
}

/// Many paths of one neighbor, all of them in use, leave space for those of another.
#[test]
fn one_neighbor_leaves_room_for_the_paths_of_another() {
    // 0 submits to 2 to 9 over 1, which has space for eight; 10 submits over 1 too.
    let cables: Vec<(usize, usize)> = [0]
        .into_iter()
        .chain(2..=10)
        .map(|leaf| (1, leaf))
        .collect();
    let mut rack = rack_of(11, &cables, |at| {
        with_room(16, if at == 1 { 8 } else { 4 })(at)
    });
    for to in 2..=9 {
        rack.start_exchange(0, to, Mode::TwoPhase, b"greedy", to as u64);
    }
    rack.settle();
    assert_eq!(rack.nodes[1].transits(), 6);
    let drops = |rack: &Rack| rack.nodes[1].links().next().unwrap().counters.drops;
    assert_eq!(drops(&rack).quota_transits, 2);
    rack.start_exchange(10, 2, Mode::TwoPhase, b"modest", 1);
    rack.settle();
    assert_eq!(rack.times(2, b"modest"), 1);
    // The first neighbor's waiting requests succeed when its own paths are released.
    rack.run(6);
    for to in 2..=9 {
        assert_eq!(rack.times(to, b"greedy"), 1, "{to}");
    }
    rack.idle();
    rack.assert_at_rest();
}

/// So do the paths that it requests over several cables.
#[test]
fn one_neighbor_with_many_cables_leaves_room_for_the_paths_of_another() {
    for parallel in [2, 4] {
        let mut cables = vec![(0, 1); parallel];
        cables.extend((2..=10).map(|leaf| (1, leaf)));
        let cable_of = |leaf: usize| parallel + leaf - 2;
        let mut rack = Rack::configured(11, &cables, |at| {
            with_room(16, if at == 1 { 8 } else { 4 })(at)
        });
        rack.plug(cable_of(10));
        for number in 0..parallel {
            // Frames on a cable with a lower number are received first.
            rack.plug(parallel - 1 - number);
            rack.settle();
            let leaves = (2..=9).filter(|leaf| leaf % parallel == number);
            for to in leaves {
                rack.plug(cable_of(to));
                rack.settle();
                rack.start_exchange(0, to, Mode::TwoPhase, b"greedy", to as u64);
                rack.settle();
            }
        }
        assert_eq!(rack.nodes[1].transits(), 6, "{parallel}");
        let over = rack.nodes[1].links().take(parallel);
        let over: u64 = over.map(|link| link.counters.drops.quota_transits).sum();
        // The waiting ones request again when the next leaf arrives.
        assert!(over >= 2, "{parallel}: {over}");
        rack.start_exchange(10, 2, Mode::TwoPhase, b"modest", 1);
        rack.settle();
        assert_eq!(rack.times(2, b"modest"), 1, "{parallel}");
        rack.run(6);
        for to in 2..=9 {
            assert_eq!(rack.times(to, b"greedy"), 1, "{parallel}: {to}");
        }
        rack.idle();
        rack.assert_at_rest();
    }
}

/// Many paths to a node over one neighbor leave ends to another's, and to the node itself.
#[test]
fn one_neighbor_leaves_ends_to_others() {
    // 3 to 8 submit to 0 over 1; 9 over 2; and 0 itself submits to 9.
    let mut cables = vec![(0, 1), (0, 2), (2, 9)];
    cables.extend((3..=8).map(|leaf| (1, leaf)));
    let mut rack = rack_of(10, &cables, |at| {
        with_room(if at == 0 { 4 } else { 8 }, 16)(at)
    });
    for from in 3..=8 {
        rack.start_exchange(from, 0, Mode::TwoPhase, b"greedy", 1);
    }
    rack.settle();
    assert_eq!(rack.paths_up(0), 3);
    let drops = |rack: &Rack| rack.nodes[0].links().next().unwrap().counters.drops;
    assert_eq!(drops(&rack).quota_ends, 3);
    rack.start_exchange(9, 0, Mode::TwoPhase, b"modest", 1);
    rack.settle();
    assert_eq!(rack.times(0, b"modest"), 1);
    rack.run(12);
    assert_eq!(rack.times(0, b"greedy"), 6);
    rack.idle();
    rack.assert_at_rest();
}

/// So do those that lead there over several cables of one.
#[test]
fn one_neighbor_with_many_cables_leaves_ends_to_others() {
    for parallel in [2, 4] {
        let mut cables = vec![(0, 1); parallel];
        cables.extend([(0, 2), (2, 9)]);
        cables.extend((3..=8).map(|leaf| (1, leaf)));
        let mut rack = Rack::configured(10, &cables, |at| {
            with_room(if at == 0 { 4 } else { 8 }, 16)(at)
        });
        (parallel..cables.len()).for_each(|cable| rack.plug(cable));
        for number in 0..parallel {
            // A path to a neighbor leads over its first link that is up.
            rack.plug(parallel - 1 - number);
            rack.settle();
            for from in (3..=8).filter(|from| from % parallel == number) {
                rack.start_exchange(from, 0, Mode::TwoPhase, b"greedy", 1);
            }
            rack.settle();
        }
        assert_eq!(rack.paths_up(0), 3, "{parallel}");
        let over = rack.nodes[0].links().take(parallel);
        let over: u64 = over.map(|link| link.counters.drops.quota_ends).sum();
        assert_eq!(over, 3, "{parallel}");
        rack.start_exchange(9, 0, Mode::TwoPhase, b"modest", 1);
        rack.settle();
        assert_eq!(rack.times(0, b"modest"), 1, "{parallel}");
        rack.run(12);
        assert_eq!(rack.times(0, b"greedy"), 6, "{parallel}");
        rack.idle();
        rack.assert_at_rest();
    }
}
