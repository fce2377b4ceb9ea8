//! Miswired cables: each link that does not come up reports the reason, once when it begins and
//! once when it is over.
#![allow(clippy::unwrap_used)]

mod support;

use covalent_protocol::{
    FRAME_BYTES_MAX, LinkEvent, LinkRefusal, LinkState, Mode, Name, Node, NodeConfig,
};
use support::{Journal, Side, forge};

const KEEPALIVE_MISSES: u32 = 10;

/// A port: the number of a node, and that of its port.
type End = (usize, u16);

/// Nodes, and the destination of each port's frames.
struct Rack {
    sides: Vec<Side>,
    fibers: Vec<(End, End)>,
}

fn side(guid: u64, incarnation: u64, ports: u16) -> Side {
    let mut node = Node::new(NodeConfig {
        slots: 4,
        keepalive_misses_max: KEEPALIVE_MISSES,
        transactions_max: 16,
        ..NodeConfig::new(guid, incarnation, Name::new("node").unwrap())
    });
    for port in 0..ports {
        node.add_link(port, [2, 0, 0, incarnation as u8, guid as u8, port as u8])
            .unwrap();
    }
    Side {
        node,
        host: Journal::default(),
    }
}

impl Rack {
    /// Nodes with these GUIDs and incarnations, each with two ports.
    fn new(nodes: &[(u64, u64)]) -> Self {
        let sides = nodes
            .iter()
            .map(|&(guid, incarnation)| side(guid, incarnation, 2));
        Self {
            sides: sides.collect(),
            fibers: Vec::new(),
        }
    }

    fn carrier(&mut self, (side, port): End, up: bool) {
        let Side { node, host } = &mut self.sides[side];
        node.on_carrier(port, up, host);
    }

    /// Frames of `from` arrive at `to`. Both have a carrier.
    fn fiber(&mut self, from: End, to: End) {
        self.fibers.push((from, to));
        self.carrier(from, true);
        self.carrier(to, true);
    }

    fn cable(&mut self, one: End, other: End) {
        self.fiber(one, other);
        self.fiber(other, one);
    }

    /// Removes the fibers from and to a port. Only silence reveals it.
    fn cut(&mut self, end: End) {
        self.fibers.retain(|&(from, to)| from != end && to != end);
    }

    /// As [`Self::cut`], and the carriers go.
    fn pull(&mut self, end: End) {
        for (from, to) in self.fibers.clone() {
            if from == end || to == end {
                self.carrier(from, false);
                self.carrier(to, false);
            }
        }
        self.cut(end);
    }

    /// Delivers the frames of each port until none has any.
    fn settle(&mut self) {
        let mut buffer = [0; FRAME_BYTES_MAX];
        for _ in 0..200 {
            let mut moved = false;
            for from in 0..self.sides.len() {
                for port in 0..2 {
                    while let Some(len) = self.sides[from].node.poll_transmit(port, &mut buffer) {
                        moved = true;
                        for &(_, (to, at)) in
                            self.fibers.iter().filter(|fiber| fiber.0 == (from, port))
                        {
                            let Side { node, host } = &mut self.sides[to];
                            node.on_frame(at, &buffer[..len], host);
                        }
                    }
                }
            }
            if !moved {
                return;
            }
        }
        panic!("the rack never became quiescent");
    }

    fn run(&mut self, ticks: u32) {
        for _ in 0..ticks {
            for Side { node, host } in &mut self.sides {
                node.on_tick(host);
            }
            self.settle();
        }
    }

    fn refusal(&self, (side, port): End) -> Option<LinkRefusal> {
        let mut links = self.sides[side].node.links();
        links.find(|link| link.port == port).unwrap().refusal
    }

    fn is_up(&self, (side, port): End) -> bool {
        let mut links = self.sides[side].node.links();
        links.find(|link| link.port == port).unwrap().state == LinkState::Up
    }

    /// The reported refusals of a port; `None` for one that is over.
    fn reported(&self, (side, port): End) -> Vec<Option<LinkRefusal>> {
        let events = self.sides[side].host.events.iter();
        events
            .filter(|event| event.port() == port)
            .filter_map(|event| match event {
                LinkEvent::Refused { why, .. } => Some(Some(*why)),
                LinkEvent::RefusalOver { .. } => Some(None),
                _ => None,
            })
            .collect()
    }

    fn failures(&self, (side, port): End) -> u64 {
        let mut links = self.sides[side].node.links();
        let link = links.find(|link| link.port == port).unwrap();
        link.counters.failures.total()
    }
}

#[test]
fn a_cable_that_leads_back_names_both_ports() {
    for (one, other) in [(0, 1), (0, 0)] {
        let mut rack = Rack::new(&[(1, 100), (2, 101)]);
        rack.fiber((0, one), (0, other));
        if one != other {
            rack.fiber((0, other), (0, one));
        }
        rack.run(30);
        for (port, leads_to) in [(one, other), (other, one)] {
            let why = Some(LinkRefusal::OwnPort(leads_to));
            assert_eq!(rack.refusal((0, port)), why);
            assert_eq!(rack.reported((0, port)), [why], "reported once");
        }
        rack.pull((0, one));
        assert_eq!(rack.refusal((0, one)), None);
        rack.cable((0, one), (1, 0));
        rack.run(30);
        assert!(rack.is_up((0, one)));
        assert_eq!(
            rack.reported((0, one)),
            [Some(LinkRefusal::OwnPort(other)), None]
        );
        assert_eq!(rack.reported((1, 0)), []);
    }
}

/// The carrier stays, as with a switch in between. A finding ends when it is not found any more.
#[test]
fn a_refusal_that_is_not_found_again_is_over() {
    let mut rack = Rack::new(&[(1, 100)]);
    rack.fiber((0, 0), (0, 0));
    rack.run(3);
    rack.cut((0, 0));
    rack.run(KEEPALIVE_MISSES / 2);
    assert_eq!(rack.refusal((0, 0)), Some(LinkRefusal::OwnPort(0)));
    rack.run(1);
    assert_eq!(rack.refusal((0, 0)), None);
    rack.run(30);
    assert_eq!(
        rack.reported((0, 0)),
        [Some(LinkRefusal::OwnPort(0)), None],
        "each once"
    );
}

#[test]
fn two_nodes_with_one_guid_on_one_cable_both_report_it() {
    let mut rack = Rack::new(&[(1, 100), (1, 101)]);
    rack.cable((0, 0), (1, 0));
    rack.run(1);
    assert_eq!(
        rack.reported((0, 0)),
        [],
        "a handshake of an earlier incarnation may be in flight"
    );
    rack.run(30);
    for side in [0, 1] {
        assert_eq!(rack.reported((side, 0)), [Some(LinkRefusal::OwnGuid)]);
        assert!(!rack.is_up((side, 0)));
    }
    rack.pull((0, 0));
    let guid = side(2, 102, 2);
    rack.sides[1] = guid;
    rack.cable((0, 0), (1, 0));
    rack.run(3);
    assert!(rack.is_up((0, 0)));
    assert_eq!(rack.reported((0, 0)), [Some(LinkRefusal::OwnGuid), None]);
}

/// The second one displaces the first, because a restarted node looks the same. But the first one
/// sends again, which no earlier incarnation does.
#[test]
fn of_two_neighbors_with_one_guid_the_displaced_one_is_refused() {
    let mut rack = Rack::new(&[(1, 100), (2, 101), (2, 102)]);
    rack.cable((0, 0), (1, 0));
    rack.run(2);
    assert!(rack.is_up((0, 0)));
    rack.cable((0, 1), (2, 0));
    rack.run(40);
    let why = Some(LinkRefusal::TwinGuid(2));
    assert!(rack.is_up((0, 1)) && !rack.is_up((0, 0)));
    assert_eq!(
        (rack.reported((0, 0)), rack.reported((0, 1))),
        (vec![why], vec![])
    );
    assert_eq!(
        (rack.failures((0, 0)), rack.failures((0, 1))),
        (1, 0),
        "they take no turns"
    );
    // The refused one does not believe either that it is up.
    assert!(!rack.is_up((1, 0)));
    assert_eq!(rack.failures((1, 0)), 1);
    // Once the other one is gone it is a neighbor as any.
    rack.pull((2, 0));
    rack.run(3);
    assert!(rack.is_up((0, 0)) && rack.is_up((1, 0)));
    assert_eq!(rack.reported((0, 0)), [why, None]);
    // The second one continues.
    let Side { node, host } = &mut rack.sides[0];
    node.submit(2, Mode::TwoPhase, b"works", 7).unwrap();
    let _ = host;
    rack.run(1);
    assert_eq!(rack.sides[0].host.completed.len(), 1);
    // With all its cables, though its incarnation is among the former ones.
    rack.cable((0, 1), (1, 1));
    rack.run(3);
    assert!(rack.is_up((0, 0)) && rack.is_up((0, 1)));
    rack.pull((1, 1));
    // If the other returns, it is the one that was displaced.
    rack.cable((0, 1), (2, 0));
    rack.run(30);
    assert!(rack.is_up((0, 0)) && !rack.is_up((0, 1)));
    assert_eq!(rack.reported((0, 1)), [why]);
}

#[test]
fn a_node_that_restarts_is_no_twin() {
    let mut rack = Rack::new(&[(1, 100), (2, 101)]);
    rack.cable((0, 0), (1, 0));
    rack.cable((0, 1), (1, 1));
    for incarnation in 102..110 {
        rack.run(2);
        assert!(rack.is_up((0, 0)) && rack.is_up((0, 1)));
        rack.sides[1] = side(2, incarnation, 2);
        for port in [0, 1] {
            rack.carrier((1, port), true);
        }
    }
    rack.run(20);
    assert_eq!(
        (rack.reported((0, 0)), rack.reported((0, 1))),
        (vec![], vec![])
    );
}

/// Three fibers lead in a circle: each node receives from one that receives from another.
#[test]
fn crossed_fibers_are_reported_at_each_end() {
    let mut rack = Rack::new(&[(1, 100), (2, 101), (3, 102)]);
    for node in 0..3 {
        rack.fiber((node, 0), ((node + 1) % 3, 0));
    }
    rack.run(7);
    assert_eq!(rack.reported((0, 0)), []);
    rack.run(30);
    for (node, peer) in [(0, 3), (1, 1), (2, 2)] {
        let reported = rack.reported((node, 0));
        assert_eq!(reported, [Some(LinkRefusal::Crossed(peer))], "node {node}");
    }
    // Corrected between two of them, without a carrier change.
    rack.fibers.clear();
    rack.cable((0, 0), (1, 0));
    rack.run(3);
    assert!(rack.is_up((0, 0)));
    rack.run(30);
    for (node, peer) in [(0, 3), (1, 1), (2, 2)] {
        assert_eq!(
            rack.reported((node, 0)),
            [Some(LinkRefusal::Crossed(peer)), None],
            "node {node}"
        );
    }
}

/// A dead fiber is not a crossed one, though the end that receives nothing still echoes an earlier
/// incarnation.
#[test]
fn an_echo_of_an_earlier_incarnation_is_no_crossed_cable() {
    let mut rack = Rack::new(&[(1, 100), (2, 101)]);
    rack.cable((0, 0), (1, 0));
    // The other end receives one handshake and then nothing more. Its own handshakes arrive.
    let mut buffer = [0; FRAME_BYTES_MAX];
    let len = rack.sides[0].node.poll_transmit(0, &mut buffer).unwrap();
    rack.fibers.retain(|&(from, _)| from.0 == 1);
    let Side { node, host } = &mut rack.sides[1];
    node.on_frame(0, &buffer[..len], host);
    rack.sides[0] = side(1, 150, 2);
    rack.carrier((0, 0), true);
    rack.run(40);
    assert_eq!(rack.reported((0, 0)), []);
}

#[test]
fn a_cable_that_several_share_brings_no_link_up() {
    let mut rack = Rack::new(&[(1, 100), (2, 101), (3, 102)]);
    let hub = |rack: &mut Rack, nodes: &[usize]| {
        for &from in nodes {
            for &to in nodes {
                if from != to {
                    rack.fiber((from, 0), (to, 0));
                }
            }
        }
    };
    hub(&mut rack, &[0, 1, 2]);
    rack.run(12);
    let failed = [0, 1, 2].map(|node| rack.failures((node, 0)));
    rack.run(50);
    for (node, failed) in failed.into_iter().enumerate() {
        assert_eq!(rack.reported((node, 0)), [Some(LinkRefusal::Shared)]);
        assert!(!rack.is_up((node, 0)));
        let since = rack.failures((node, 0)) - failed;
        assert_eq!(since, 0, "no link comes and goes");
    }
    rack.cut((2, 0));
    rack.run(KEEPALIVE_MISSES + 4);
    assert!(rack.is_up((0, 0)) && rack.is_up((1, 0)));
    assert_eq!(rack.reported((0, 0)), [Some(LinkRefusal::Shared), None]);
    // A port of its own is one more too.
    let mut rack = Rack::new(&[(1, 100), (2, 101)]);
    for (from, to) in [
        ((0, 0), (0, 1)),
        ((0, 1), (0, 0)),
        ((0, 0), (1, 0)),
        ((1, 0), (0, 0)),
        ((0, 1), (1, 0)),
        ((1, 0), (0, 1)),
    ] {
        rack.fiber(from, to);
    }
    rack.run(40);
    for end in [(0, 0), (0, 1), (1, 0)] {
        let reported = rack.reported(end);
        // At first, for some ticks, it receives its own handshake.
        assert!(
            reported.len() <= 2 && reported.last() == Some(&Some(LinkRefusal::Shared)),
            "{end:?}: {reported:?}"
        );
    }
}

#[test]
fn a_cable_that_leads_to_one_neighbor_after_another_is_not_shared() {
    let mut rack = Rack::new(&[(1, 100), (2, 101), (3, 102), (4, 103)]);
    for node in [1, 2, 3, 1, 2] {
        rack.cable((0, 0), (node, 0));
        rack.run(KEEPALIVE_MISSES + 4);
        assert!(rack.is_up((0, 0)));
        // No carrier reports it.
        rack.cut((node, 0));
        rack.run(2);
    }
    assert_eq!(rack.reported((0, 0)), []);
}

#[test]
fn a_cable_that_was_moved_is_no_fault() {
    let mut rack = Rack::new(&[(1, 100), (2, 101)]);
    rack.cable((0, 0), (1, 0));
    for round in 0..8 {
        rack.run(3);
        let here = round % 2;
        assert!(rack.is_up((0, here)), "round {round}");
        // No carrier reports it.
        rack.cut((1, 0));
        rack.cable((0, 1 - here), (1, 0));
    }
    rack.run(3);
    assert_eq!(
        (rack.reported((0, 0)), rack.reported((0, 1))),
        (vec![], vec![])
    );
}

/// A link has space for three peers: each of them has an exchange that waits for its return.
#[test]
fn a_neighbor_without_room_is_reported() {
    let mut rack = Rack {
        sides: (0..5).map(|node| side(1 + node, 100, 1)).collect(),
        fibers: Vec::new(),
    };
    let mut buffer = [0; FRAME_BYTES_MAX];
    for node in 1..4 {
        rack.cable((0, 0), (node, 0));
        for _ in 0..3 {
            for Side { node, host } in &mut rack.sides {
                node.on_tick(host);
            }
            rack.settle();
        }
        let side = &mut rack.sides[0].node;
        side.submit(1 + node as u64, Mode::TwoPhase, b"doubt", 1)
            .unwrap();
        while side.poll_transmit(0, &mut buffer).is_some() {}
        rack.pull((0, 0));
    }
    rack.cable((0, 0), (4, 0));
    rack.run(20);
    assert_eq!(rack.reported((0, 0)), [Some(LinkRefusal::NoRoom)]);
    rack.pull((0, 0));
    rack.cable((0, 0), (1, 0));
    rack.run(3);
    assert!(rack.is_up((0, 0)));
    assert_eq!(rack.reported((0, 0)), [Some(LinkRefusal::NoRoom), None]);
}

/// A neighbor that sends something else in each frame causes at most one report per tick.
#[test]
fn refusals_are_reported_at_most_once_per_tick() {
    let mut rack = Rack::new(&[(1, 100), (2, 101)]);
    rack.cable((0, 0), (1, 0));
    let mut buffer = [0; FRAME_BYTES_MAX];
    let len = rack.sides[1].node.poll_transmit(0, &mut buffer).unwrap();
    for tick in 1..20 {
        for version in 3..16 {
            let mut frame = buffer[..len].to_vec();
            for record in 0..(len - 14) / 64 {
                forge(&mut frame, record, |bytes| {
                    bytes[2] = bytes[2] & 0x0f | version << 4
                });
            }
            let Side { node, host } = &mut rack.sides[0];
            node.on_frame(0, &frame, host);
        }
        assert!(
            rack.reported((0, 0)).len() <= tick,
            "{:?}",
            rack.reported((0, 0))
        );
        let Side { node, host } = &mut rack.sides[0];
        node.on_tick(host);
    }
    assert!(rack.reported((0, 0)).len() > 10);
}
