//! Each kind of exchange, of each length, over one hop and more.

use covalent_protocol::{Mode, PATH_PORTS, SubmitError};

use crate::{
    far::{BYTES_MAX, LINE, LINE_OF_4, SQUARE, rack, ring},
    rack::{Ended, REFUSED, guid},
};

const MODES: [Mode; 2] = [Mode::OnePhase, Mode::TwoPhase];

/// Lengths around those at which a message takes one more record, one more frame, or a frame of its
/// own on the path.
fn lengths() -> impl Iterator<Item = usize> {
    let around = [1, 28, 76, 700, 748, 980, 1028, 1084, 2168, 3252, BYTES_MAX];
    let near = around.into_iter().flat_map(|at| [at - 1, at, at + 1]);
    near.filter(|bytes| (1..=BYTES_MAX).contains(bytes))
}

#[test]
fn every_kind_and_length_is_executed_once_at_the_far_end() {
    for (cables, nodes, to) in [(LINE, 3, 2), (LINE_OF_4, 4, 3), (SQUARE, 4, 2)] {
        let mut rack = rack(nodes, cables);
        let mut token = 0;
        for bytes in lengths() {
            for mode in MODES {
                token += 1;
                let request: Vec<u8> = (0..bytes).map(|at| (at * 7 + bytes) as u8).collect();
                let before = rack.hosts[to].executed;
                rack.start_exchange(0, to, mode, &request, token);
                rack.settle();
                assert_eq!(
                    rack.end(0, token),
                    Some(&Ended::Committed(request)),
                    "{bytes} bytes, {mode:?}, {cables:?}"
                );
                assert_eq!(rack.hosts[to].executed, before + 1);
            }
        }
        rack.start_exchange(0, to, Mode::TwoPhase, REFUSED, 0);
        rack.settle();
        assert_eq!(rack.end(0, 0), Some(&Ended::Refused));
        for at in 0..nodes {
            let executed = if at == to { token as usize } else { 0 };
            assert_eq!(rack.hosts[at].executed, executed, "at {at}");
        }
        assert_eq!(rack.paths_up(0), 1, "one path for all");
        rack.idle();
        rack.assert_at_rest();
    }
}

#[test]
fn all_nodes_of_a_ring_exchange_with_all_at_once() {
    for nodes in 3..=6 {
        let mut rack = rack(nodes, &ring(nodes));
        let mut token = 0;
        for from in 0..nodes {
            for to in (0..nodes).filter(|&to| to != from) {
                for number in 0..12 {
                    token += 1;
                    let request =
                        [from as u8, to as u8, number, 0xaa].repeat(1 + 40 * number as usize);
                    rack.start_exchange(from, to, MODES[token as usize % 2], &request, token);
                }
            }
        }
        rack.settle();
        for at in 0..nodes {
            assert_eq!(
                rack.hosts[at].ended.len(),
                12 * (nodes - 1),
                "{nodes}: {at}"
            );
            assert_eq!(rack.hosts[at].executed, 12 * (nodes - 1), "{nodes}: {at}");
            let mut journal = rack.hosts[at].journal.clone();
            journal.sort();
            journal.dedup();
            assert_eq!(journal.len(), 12 * (nodes - 1), "each once");
            assert_eq!(rack.hosts[at].in_doubt, [0; 0]);
        }
        rack.idle();
        rack.assert_at_rest();
    }
}

/// The initiator's completion is a reply of the far end itself: a forward by a transit does not
/// count.
#[test]
fn nothing_is_reported_before_the_far_end_has_committed() {
    for mode in MODES {
        let mut rack = rack(4, LINE_OF_4);
        rack.start_exchange(0, 3, mode, b"first", 1);
        rack.settle();
        rack.start_exchange(0, 3, mode, b"second", 2);
        while rack.end(0, 2).is_none() {
            assert!(rack.fly());
            if rack.end(0, 2).is_some() {
                assert_eq!(rack.times(3, b"second"), 1);
            }
        }
        assert_eq!(rack.hosts[1].executed + rack.hosts[2].executed, 0);
    }
}

#[test]
fn a_far_target_must_be_known() {
    let mut rack = rack(3, LINE);
    let mut start_exchange = |guid| rack.nodes[0].submit(guid, Mode::OnePhase, b"x", 1);
    assert_eq!(start_exchange(guid(7)), Err(SubmitError::NoSuchPeer));
    assert_eq!(
        start_exchange(guid(0)),
        Err(SubmitError::NoSuchPeer),
        "itself"
    );
    assert_eq!(start_exchange(guid(2)), Ok(()));
    assert_eq!(
        rack.nodes[0].add_link(PATH_PORTS, [2; 6]),
        Err(covalent_protocol::AddLinkError::PortOfPath)
    );
    rack.settle();
    let path = rack.nodes[0].paths().next().unwrap();
    assert!((path.far, path.opener) == (guid(2), true));
    assert!(path.link.port >= PATH_PORTS);
    assert_eq!(
        rack.nodes[0].links().count(),
        1,
        "a path is no link of a cable"
    );
    let path = rack.nodes[2].paths().next().unwrap();
    assert!((path.far, path.opener) == (guid(0), false));
    assert_eq!(rack.nodes[1].transits(), 1);
    assert_eq!(rack.nodes[1].channels(), 2);
}
