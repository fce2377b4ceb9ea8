//! What is reserved, what is refused, and that all of it is given back.

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

/// Whoever dies between any two notes of a path that is being reserved or given back, at each hop: nothing stays.
#[test]
fn what_is_reserved_is_given_back_whoever_dies_when() {
    let whole = |rack: &mut Rack| {
        let mut steps = 0;
        rack.ask(0, 3, Mode::OnePhase, b"x", 1);
        while rack.step() {
            steps += 1;
        }
        steps
    };
    let steps = whole(&mut rack(4, LINE_OF_4));
    for step in 0..steps {
        for victim in 0..4 {
            let mut rack = rack(4, LINE_OF_4);
            rack.ask(0, 3, Mode::OnePhase, b"x", 1);
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
fn a_node_without_room_to_pass_on_says_so() {
    let mut rack = rack_of(4, LINE_OF_4, |at| {
        with_room(4, if at == 1 { 0 } else { 4 })(at)
    });
    rack.ask(0, 3, Mode::TwoPhase, b"x", 1);
    rack.settle();
    assert_eq!(refused(&rack, 0), 1);
    assert_eq!(rack.nodes[1].channel_counters().declined, 1);
    rack.run(3);
    assert_eq!(
        refused(&rack, 0),
        4,
        "asked again with each pace, and no more often"
    );
    // It was never sent, so nobody is in doubt; it waits.
    assert_eq!(rack.hosts[0].in_doubt, [0; 0]);
    assert_eq!(rack.hosts[0].completed, 0);
    rack.nodes[0].cancel_interest(|_| true);
    rack.run(2);
    rack.assert_at_rest();
    // From elsewhere it is reached.
    rack.ask(2, 0, Mode::OnePhase, b"y", 1);
    rack.settle();
    assert_eq!(rack.hosts[0].executed, 0, "only 1 leads there");
    rack.ask(1, 3, Mode::OnePhase, b"z", 1);
    rack.settle();
    assert_eq!(rack.times(3, b"z"), 1, "its own paths are others");
}

#[test]
fn a_node_without_an_end_to_spare_says_so() {
    let mut rack = rack_of(4, LINE_OF_4, |at| {
        with_room(if at == 3 { 0 } else { 4 }, 4)(at)
    });
    rack.ask(0, 3, Mode::TwoPhase, b"x", 1);
    rack.settle();
    assert_eq!(refused(&rack, 0), 1);
    assert_eq!(rack.nodes[3].channel_counters().declined, 1);
    assert_eq!(rack.nodes[1].transits() + rack.nodes[2].transits(), 0);
}

/// A node with one end talks to many, one after the other: who is idle makes room.
#[test]
fn one_end_serves_many_in_turn() {
    let cables: Vec<(usize, usize)> = (1..6).map(|leaf| (0, leaf)).collect();
    let mut rack = rack_of(6, &cables, |at| with_room(1, 8)(at));
    for round in 0..3u8 {
        for to in 2..6 {
            rack.ask(
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

/// A node asks many more than its table has room for, one after the other: who is idle for longest is forgotten.
#[test]
fn a_table_of_peers_is_no_bound_on_whom_a_node_may_ask() {
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
    let told = &rack.hosts[1].paths;
    assert!(told.contains(&(guid(2), true)) && told.contains(&(guid(2), false)));
    rack.idle();
    rack.assert_at_rest();
}

/// All room to pass on is taken by paths that nobody uses: whoever asks for one gets it within a few paces, and not only when those are given back by themselves.
#[test]
fn room_that_nobody_uses_is_asked_back() {
    // 0 and 5 are reached over 1 and 2; 2 has room for one path.
    let cables = [(0, 1), (1, 2), (2, 3), (2, 4), (1, 5)];
    for (first, then) in [((0, 3), (4, 3)), ((3, 0), (5, 4)), ((4, 3), (0, 3))] {
        let mut rack = rack_of(6, &cables, |at| {
            with_room(4, if at == 2 { 1 } else { 4 })(at)
        });
        rack.ask(first.0, first.1, Mode::TwoPhase, b"first", 1);
        rack.settle();
        rack.ask(then.0, then.1, Mode::TwoPhase, b"then", 2);
        rack.settle();
        assert_eq!(rack.times(then.1, b"then"), 0);
        rack.run(5);
        assert_eq!(rack.times(then.1, b"then"), 1, "{first:?} {then:?}");
        // One that is used is not given back.
        rack.ask(first.0, first.1, Mode::TwoPhase, b"waits", 3);
        for round in 0..8u8 {
            rack.ask(
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

/// More nodes ask one than it has ends: those who wait are served when others are idle.
#[test]
fn one_end_is_asked_by_many() {
    let cables: Vec<(usize, usize)> = (1..7).map(|leaf| (0, leaf)).collect();
    let mut rack = rack_of(7, &cables, |at| with_room(2, 8)(at));
    for from in 2..7 {
        rack.ask(from, 1, Mode::TwoPhase, &[from as u8], 1);
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

/// Two nodes with one end each ask each other over one that has room for one path, and their paces pass at the same distance each time: whoever is heard first in the
/// middle has it, and is not refused at the other end for what that one asks for in vain.
#[test]
fn two_that_ask_each_other_with_one_end_each_do_not_refuse_each_other() {
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
            rack.ask(one, other, Mode::TwoPhase, b"there", 1);
            fly(&mut rack);
            rack.ask(other, one, Mode::TwoPhase, b"back", 1);
            rack.settle();
            for _ in 0..4 {
                rack.tick(one);
                fly(&mut rack);
                rack.tick(middle);
                rack.tick(other);
                rack.settle();
            }
            assert_eq!(rack.times(other, b"there"), 1, "{case}");
            assert_eq!(rack.times(one, b"back"), 1, "{case}");
            rack.idle();
            rack.assert_at_rest();
        }
    }
}

/// Nodes with one end each ask one another at the same time around a circle.
#[test]
fn a_circle_of_nodes_with_one_end_each_does_not_stand_still() {
    for around in [[0, 2, 4], [4, 2, 0]] {
        let mut rack = rack_of(6, &ring(6), with_room(1, 4));
        for (place, &from) in around.iter().enumerate() {
            let to = around[(place + 1) % 3];
            rack.ask(from, to, Mode::TwoPhase, &[from as u8], 1);
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
fn what_is_too_far_is_refused() {
    let cables: Vec<(usize, usize)> = (0..65).map(|at| (at, at + 1)).collect();
    let mut rack = rack_of(66, &cables, with_room(2, 2));
    let way = rack.nodes[0].way(guid(65)).unwrap();
    assert_eq!(way.hops, 65);
    rack.ask(0, 64, Mode::TwoPhase, b"near", 1);
    rack.ask(0, 65, Mode::TwoPhase, b"far", 2);
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
    rack.ask(0, 2, Mode::TwoPhase, b"x", 1);
    rack.settle();
    assert_eq!(rack.paths_up(0), 1);
    rack.plug(2);
    rack.settle();
    rack.run(4);
    rack.assert_at_rest();
    rack.ask(0, 2, Mode::TwoPhase, b"y", 2);
    rack.settle();
    assert_eq!(rack.times(2, b"y"), 1);
    rack.assert_at_rest();
    // And back: what is open on the cable is asked about over a path.
    rack.ask(0, 2, Mode::TwoPhase, b"z", 3);
    rack.send();
    rack.pull(2);
    rack.settle();
    rack.run(2);
    assert_eq!((rack.times(2, b"z"), rack.hosts[0].completed), (1, 3));
}

/// Many paths of one neighbour, all of them in use, leave room to another's.
#[test]
fn one_neighbour_leaves_room_for_the_paths_of_another() {
    // 0 asks 2 to 9 over 1, which has room for eight; 10 asks over 1 too.
    let cables: Vec<(usize, usize)> = [0]
        .into_iter()
        .chain(2..=10)
        .map(|leaf| (1, leaf))
        .collect();
    let mut rack = rack_of(11, &cables, |at| {
        with_room(16, if at == 1 { 8 } else { 4 })(at)
    });
    for to in 2..=9 {
        rack.ask(0, to, Mode::TwoPhase, b"greedy", to as u64);
    }
    rack.settle();
    assert_eq!(rack.nodes[1].transits(), 6);
    let drops = |rack: &Rack| rack.nodes[1].links().next().unwrap().counters.drops;
    assert_eq!(drops(&rack).quota_transits, 2);
    rack.ask(10, 2, Mode::TwoPhase, b"modest", 1);
    rack.settle();
    assert_eq!(rack.times(2, b"modest"), 1);
    // What the first waits for comes when its own are given back.
    rack.run(6);
    for to in 2..=9 {
        assert_eq!(rack.times(to, b"greedy"), 1, "{to}");
    }
    rack.idle();
    rack.assert_at_rest();
}

/// So do those that it asks for over several cables.
#[test]
fn one_neighbour_with_many_cables_leaves_room_for_the_paths_of_another() {
    for parallel in [2, 4] {
        let mut cables = vec![(0, 1); parallel];
        cables.extend((2..=10).map(|leaf| (1, leaf)));
        let cable_of = |leaf: usize| parallel + leaf - 2;
        let mut rack = Rack::configured(11, &cables, |at| {
            with_room(16, if at == 1 { 8 } else { 4 })(at)
        });
        rack.plug(cable_of(10));
        for number in 0..parallel {
            // What comes over a cable with a lower number is heard first.
            rack.plug(parallel - 1 - number);
            rack.settle();
            let leaves = (2..=9).filter(|leaf| leaf % parallel == number);
            for to in leaves {
                rack.plug(cable_of(to));
                rack.settle();
                rack.ask(0, to, Mode::TwoPhase, b"greedy", to as u64);
                rack.settle();
            }
        }
        assert_eq!(rack.nodes[1].transits(), 6, "{parallel}");
        let over = rack.nodes[1].links().take(parallel);
        let over: u64 = over.map(|link| link.counters.drops.quota_transits).sum();
        // Those that wait ask again when the next leaf comes.
        assert!(over >= 2, "{parallel}: {over}");
        rack.ask(10, 2, Mode::TwoPhase, b"modest", 1);
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

/// Many paths to a node over one neighbour leave ends to another's, and to the node itself.
#[test]
fn one_neighbour_leaves_ends_to_others() {
    // 3 to 8 ask 0 over 1; 9 over 2; and 0 itself asks 9.
    let mut cables = vec![(0, 1), (0, 2), (2, 9)];
    cables.extend((3..=8).map(|leaf| (1, leaf)));
    let mut rack = rack_of(10, &cables, |at| {
        with_room(if at == 0 { 4 } else { 8 }, 16)(at)
    });
    for from in 3..=8 {
        rack.ask(from, 0, Mode::TwoPhase, b"greedy", 1);
    }
    rack.settle();
    assert_eq!(rack.paths_up(0), 3);
    let drops = |rack: &Rack| rack.nodes[0].links().next().unwrap().counters.drops;
    assert_eq!(drops(&rack).quota_ends, 3);
    rack.ask(9, 0, Mode::TwoPhase, b"modest", 1);
    rack.settle();
    assert_eq!(rack.times(0, b"modest"), 1);
    rack.run(12);
    assert_eq!(rack.times(0, b"greedy"), 6);
    rack.idle();
    rack.assert_at_rest();
}

/// So do those that lead there over several cables of one.
#[test]
fn one_neighbour_with_many_cables_leaves_ends_to_others() {
    for parallel in [2, 4] {
        let mut cables = vec![(0, 1); parallel];
        cables.extend([(0, 2), (2, 9)]);
        cables.extend((3..=8).map(|leaf| (1, leaf)));
        let mut rack = Rack::configured(10, &cables, |at| {
            with_room(if at == 0 { 4 } else { 8 }, 16)(at)
        });
        (parallel..cables.len()).for_each(|cable| rack.plug(cable));
        for number in 0..parallel {
            // A path to a neighbour leads over its first link that is up.
            rack.plug(parallel - 1 - number);
            rack.settle();
            for from in (3..=8).filter(|from| from % parallel == number) {
                rack.ask(from, 0, Mode::TwoPhase, b"greedy", 1);
            }
            rack.settle();
        }
        assert_eq!(rack.paths_up(0), 3, "{parallel}");
        let over = rack.nodes[0].links().take(parallel);
        let over: u64 = over.map(|link| link.counters.drops.quota_ends).sum();
        assert_eq!(over, 3, "{parallel}");
        rack.ask(9, 0, Mode::TwoPhase, b"modest", 1);
        rack.settle();
        assert_eq!(rack.times(0, b"modest"), 1, "{parallel}");
        rack.run(12);
        assert_eq!(rack.times(0, b"greedy"), 6, "{parallel}");
        rack.idle();
        rack.assert_at_rest();
    }
}
