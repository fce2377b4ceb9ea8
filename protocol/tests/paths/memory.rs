//! The memory of a node for peers that query it over paths, with more peers than it has space for.
//! Nothing is executed twice, and no peer gets the reply "forgotten" if nothing had to be
//! remembered for it.

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

/// A star whose node 1, with a single end, served all others one after the other: more than it has
/// latches for.
fn requested_by_all(nodes: usize) -> Rack {
    let mut rack = rack_of(nodes, &star(nodes), with_ends(1));
    for from in 2..nodes {
        rack.start_exchange(from, 1, MODES[from % 2], &[from as u8], 1);
        rack.settle();
        rack.run(4);
        assert_eq!(rack.times(1, &[from as u8]), 1, "{from}");
    }
    rack
}

/// The cable of `from` is cut at each point of an exchange with node 1, and mended. The result must
/// be the same as without the cut.
#[track_caller]
fn assert_any_cut_is_harmless(from: usize, before: impl Fn() -> Rack) {
    for mode in MODES {
        for step in 0.. {
            let mut rack = before();
            rack.start_exchange(from, 1, mode, b"once", 9);
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
fn a_latch_whose_initiator_learned_its_end_is_evicted_without_a_trace() {
    assert_any_cut_is_harmless(2, || requested_by_all(9));
}

#[test]
fn a_forgotten_peer_that_learned_all_is_met_as_a_new_one() {
    // More than the table of peers can hold: three for each cable and for each path.
    assert_any_cut_is_harmless(2, || requested_by_all(12));
}

/// Exchanges whose replies are not known to have arrived are evicted. Their loss is reported, and
/// later exchanges do not count as lost.
#[test]
fn evicted_path_latches_are_unknown_up_to_an_epoch() {
    const LAST: usize = 9;
    let before = || {
        let mut rack = rack_of(LAST + 1, &star(LAST + 1), with_ends(1));
        for from in 2..=LAST {
            rack.start_exchange(from, 1, Mode::OnePhase, &[from as u8], 1);
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
    assert_any_cut_is_harmless(2, || {
        let mut rack = before();
        rack.plug(1);
        rack.settle();
        rack.run(4);
        assert_eq!(rack.end(2, 1), Some(&Ended::PeerRestarted));
        rack
    });
}

/// A peer that may still query is remembered longer than peers that need not, however long it was
/// silent.
#[test]
fn latches_that_may_be_queried_outlive_those_that_were_learned() {
    for mode in MODES {
        let mut rack = rack_of(7, &star(7), with_ends(1));
        rack.start_exchange(2, 1, mode, b"open", 1);
        while rack.times(1, b"open") == 0 {
            assert!(rack.step());
        }
        rack.pull(1);
        rack.settle();
        rack.run(4);
        // With that one more than there are sets.
        for round in 0..2 {
            for from in 3..7 {
                rack.start_exchange(from, 1, mode, &[round, from as u8], 2 + u64::from(round));
                rack.settle();
                rack.run(4);
            }
        }
        rack.plug(1);
        rack.settle();
        rack.run(4);
        let committed = Ended::Committed(b"open".to_vec());
        assert_eq!(rack.end(2, 1), Some(&committed), "{mode:?}");
        assert_eq!(rack.times(1, b"open"), 1);
    }
}

/// Cables are cut and mended at random while all nodes submit, with so little memory that latches
/// are evicted all the time. Nothing is executed twice, and every exchange reported as executed was
/// executed.
#[test]
fn nothing_is_done_twice_however_little_is_remembered() {
    let mut restarted = 0;
    let mut requested = 0;
    for seed in 0..60 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let nodes = rng.usize(5..9);
        let mut cables = star(nodes);
        // Another way for some.
        cables.extend((2..nodes).step_by(2).map(|leaf| (leaf - 1, leaf)));
        let mut rack = rack_of(nodes, &cables, with_ends(rng.u16(1..3)));
        let mut requests = vec![];
        for _ in 0..rng.usize(20..60) {
            for _ in 0..rng.usize(0..3) {
                let (from, to) = (rng.usize(1..nodes), rng.usize(1..nodes));
                let request = (requests.len() as u32).to_le_bytes();
                let token = requests.len() as u64;
                let mode = MODES[rng.usize(..2)];
                if from != to
                    && rack.nodes[from]
                        .submit(guid(to), mode, &request, token)
                        .is_ok()
                {
                    requests.push((from, to));
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
            if rack.hosts.iter().map(|host| host.completed).sum::<usize>() == requests.len() {
                break;
            }
            // Not all at once, or nodes with one end might request paths from each other forever.
            let first = rng.usize(..nodes);
            for at in (first..nodes).chain(0..first) {
                rack.nodes[at].on_tick(&mut rack.hosts[at]);
                rack.settle();
            }
        }
        for (token, &(from, to)) in requests.iter().enumerate() {
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
        requested += requests.len();
        rack.idle();
        rack.assert_at_rest();
    }
    assert!(restarted * 50 < requested, "{restarted} of {requested}");
}

/// A path to a node with a direct cable is spare: no exchange begins on it. When both fail, no more
/// exchanges are in doubt than a cable has slots.
#[test]
fn no_exchange_begins_on_a_path_beside_a_cable() {
    let mut rack = rack_of(3, &[(0, 1), (1, 2), (0, 2)], far_config);
    rack.pull(2);
    rack.settle();
    rack.start_exchange(0, 2, Mode::TwoPhase, b"far", 0);
    rack.settle();
    rack.plug(2);
    rack.settle();
    assert_eq!(rack.paths_up(0), 1);
    let open_on_paths = |rack: &Rack| {
        let links = rack.nodes.iter().flat_map(|node| node.path_links());
        links.map(|link| link.open_transactions).sum::<u32>()
    };
    for token in 1..=12 {
        rack.start_exchange(0, 2, Mode::TwoPhase, &[token], token.into());
        rack.start_exchange(2, 0, Mode::TwoPhase, &[token], token.into());
    }
    for _ in 0..6 {
        assert!(rack.step());
        assert_eq!(open_on_paths(&rack), 0);
    }
    rack.pull(2);
    rack.send();
    assert!(open_on_paths(&rack) > 0, "the cable is pulled");
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
