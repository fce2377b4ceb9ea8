//! What a node remembers of those that ask it over paths, when there are more of them than it has room for: nothing is executed twice, and nobody is told that a
//! node has forgotten of which nothing had to be remembered.

use covalent_protocol::{FabricConfig, Mode, NodeConfig};

use crate::{
    far::{far_config, rack_of},
    rack::{Ended, Rack, guid},
};

const MODES: [Mode; 2] = [Mode::OnePhase, Mode::TwoPhase];

/// Few ends, and so few latches: four for each end.
fn with_ends(paths: u16) -> impl Fn(usize) -> NodeConfig {
    move |at| NodeConfig {
        fabric: Some(FabricConfig {
            paths,
            transits: 16,
            ..FabricConfig::default()
        }),
        ..far_config(at)
    }
}

/// A node in the middle, and others around it.
fn star(nodes: usize) -> Vec<(usize, usize)> {
    (1..nodes).map(|leaf| (0, leaf)).collect()
}

/// A star whose node 1, with a single end, was asked by all others, one after the other: by more than it has latches for.
fn asked_by_all(nodes: usize) -> Rack {
    let mut rack = rack_of(nodes, &star(nodes), with_ends(1));
    for from in 2..nodes {
        rack.ask(from, 1, MODES[from % 2], &[from as u8], 1);
        rack.settle();
        rack.run(4);
        assert_eq!(rack.times(1, &[from as u8]), 1, "{from}");
    }
    rack
}

/// The cable of `from` is cut at each point of an exchange with node 1, and mended. It has to end as if nothing had been.
#[track_caller]
fn ends_well_wherever_it_is_cut(from: usize, before: impl Fn() -> Rack) {
    for mode in MODES {
        for step in 0.. {
            let mut rack = before();
            rack.ask(from, 1, mode, b"once", 9);
            if !(0..step).all(|_| rack.step()) {
                assert!(step > 10, "{step}");
                break;
            }
            rack.pull(from - 1);
            rack.settle();
            rack.run(12);
            rack.plug(from - 1);
            rack.settle();
            rack.run(12);
            let committed = Ended::Committed(b"once".to_vec());
            assert_eq!(rack.end(from, 9), Some(&committed), "{mode:?} {step}");
            assert_eq!(rack.times(1, b"once"), 1, "{mode:?} {step}");
        }
    }
}

#[test]
fn who_learnt_how_it_ended_makes_room_without_a_trace() {
    ends_well_wherever_it_is_cut(2, || asked_by_all(9));
}

#[test]
fn a_forgotten_peer_that_learnt_all_is_met_as_a_new_one() {
    // More than a table of peers has room for: three for each cable and for each path.
    ends_well_wherever_it_is_cut(2, || asked_by_all(12));
}

/// Exchanges whose answers nobody is known to have heard make room: what is lost is told, and later ones are none of them.
#[test]
fn what_is_lost_of_paths_is_lost_up_to_an_epoch() {
    const LAST: usize = 9;
    let before = || {
        let mut rack = rack_of(LAST + 1, &star(LAST + 1), with_ends(1));
        for from in 2..=LAST {
            rack.ask(from, 1, Mode::OnePhase, &[from as u8], 1);
            while rack.times(1, &[from as u8]) == 0 {
                assert!(rack.step());
            }
            rack.pull(from - 1);
            rack.settle();
            rack.run(4);
        }
        rack
    };
    let mut rack = before();
    for from in 2..=LAST {
        rack.plug(from - 1);
        rack.settle();
        rack.run(4);
    }
    let lost = |from: &usize| rack.end(*from, 1) == Some(&Ended::PeerRestarted);
    let lost = (2..=LAST).filter(lost).count();
    assert!(
        (1..=4).contains(&lost),
        "{lost} of eight, for there is room for four"
    );
    for from in 2..=LAST {
        assert_eq!(rack.times(1, &[from as u8]), 1);
    }
    // The first one lost something. That is over.
    ends_well_wherever_it_is_cut(2, || {
        let mut rack = before();
        rack.plug(1);
        rack.settle();
        rack.run(4);
        assert_eq!(rack.end(2, 1), Some(&Ended::PeerRestarted));
        rack
    });
}

/// Cables are cut and mended at random while everybody asks, with so little memory that latches make room all the time: nothing is done twice, and what is
/// told as done was done.
#[test]
fn nothing_is_done_twice_however_little_is_remembered() {
    let mut restarted = 0;
    let mut asked = 0;
    for seed in 0..60 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let nodes = rng.usize(5..9);
        let mut cables = star(nodes);
        // Another way for some.
        cables.extend((2..nodes).step_by(2).map(|leaf| (leaf - 1, leaf)));
        let mut rack = rack_of(nodes, &cables, with_ends(rng.u16(1..3)));
        let mut asks = vec![];
        for _ in 0..rng.usize(20..60) {
            for _ in 0..rng.usize(0..3) {
                let (from, to) = (rng.usize(1..nodes), rng.usize(1..nodes));
                let request = (asks.len() as u32).to_le_bytes();
                let token = asks.len() as u64;
                let mode = MODES[rng.usize(..2)];
                if from != to
                    && rack.nodes[from]
                        .submit(guid(to), mode, &request, token)
                        .is_ok()
                {
                    asks.push((from, to));
                }
            }
            (0..rng.usize(0..60)).for_each(|_| {
                rack.step();
            });
            let cable = rng.usize(..cables.len());
            match rng.u8(..8) {
                0 if !rack.cables[cable].cut => rack.cut(cable),
                1 if !rack.cables[cable].cut => rack.pull(cable),
                2..4 => {
                    rack.pull(cable);
                    rack.plug(cable);
                }
                4..6 => {
                    rack.settle();
                    rack.run(rng.usize(..6));
                }
                _ => {}
            }
        }
        for cable in 0..cables.len() {
            rack.pull(cable);
            rack.plug(cable);
        }
        rack.settle();
        for _ in 0..400 {
            if rack.hosts.iter().map(|host| host.completed).sum::<usize>() == asks.len() {
                break;
            }
            // Not all at once, or those with one end might ask each other for ever.
            let first = rng.usize(..nodes);
            for at in (first..nodes).chain(0..first) {
                rack.nodes[at].on_tick(&mut rack.hosts[at]);
                rack.settle();
            }
        }
        for (token, &(from, to)) in asks.iter().enumerate() {
            let done = rack.times(to, &(token as u32).to_le_bytes());
            match rack.end(from, token as u64) {
                Some(Ended::Committed(_)) => assert_eq!(done, 1, "{token} of {seed}"),
                Some(Ended::PeerRestarted) => {
                    assert!(done <= 1, "{token} of {seed}");
                    restarted += 1;
                }
                other => panic!("{other:?}: {token} of {seed}"),
            }
        }
        asked += asks.len();
        rack.idle();
        rack.assert_at_rest();
    }
    assert!(restarted * 50 < asked, "{restarted} of {asked}");
}

/// A path to a node to which a cable leads is spare: no exchange begins on it, so no more are in doubt when both fail than a cable has slots.
#[test]
fn no_exchange_begins_on_a_path_beside_a_cable() {
    let mut rack = rack_of(3, &[(0, 1), (1, 2), (0, 2)], far_config);
    rack.pull(2);
    rack.settle();
    rack.ask(0, 2, Mode::TwoPhase, b"far", 0);
    rack.settle();
    rack.plug(2);
    rack.settle();
    assert_eq!(rack.paths_up(0), 1);
    let open_on_paths = |rack: &Rack| {
        let links = rack.nodes.iter().flat_map(|node| node.path_links());
        links.map(|link| link.open_transactions).sum::<u32>()
    };
    for token in 1..=12 {
        rack.ask(0, 2, Mode::TwoPhase, &[token], token.into());
        rack.ask(2, 0, Mode::TwoPhase, &[token], token.into());
    }
    for _ in 0..6 {
        assert!(rack.step());
        assert_eq!(open_on_paths(&rack), 0);
    }
    rack.pull(2);
    rack.send();
    assert!(open_on_paths(&rack) > 0, "the cable is gone");
    rack.settle();
    for token in 1..=12 {
        assert_eq!(rack.times(2, &[token]), 1);
        assert_eq!(rack.times(0, &[token]), 1);
    }
    rack.plug(2);
    rack.settle();
    rack.idle();
    rack.assert_at_rest();
}
