//! Cables that lead where none should: each link that does not come up says why, once when that begins and once when it is over.
#![allow(clippy::unwrap_used)]

mod support;

use covalent_protocol::{
    FRAME_BYTES_MAX, LinkEvent, LinkRefusal, LinkState, Mode, Name, Node, NodeConfig,
};
use support::{Journal, Side, forge};

const SILENT_PACES: u32 = 10;

/// A port: the number of a node, and that of its port.
type End = (usize, u16);

/// Nodes, and where what each port sends arrives.
struct Rack {
    sides: Vec<Side>,
    fibres: Vec<(End, End)>,
}

fn side(guid: u64, incarnation: u64, ports: u16) -> Side {
    let mut node = Node::new(NodeConfig {
        slots: 4,
        silent_paces_max: SILENT_PACES,
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
        let sides = nodes.iter().map(|&(guid, life)| side(guid, life, 2));
        Self {
            sides: sides.collect(),
            fibres: Vec::new(),
        }
    }

    fn carrier(&mut self, (side, port): End, up: bool) {
        let Side { node, host } = &mut self.sides[side];
        node.on_carrier(port, up, host);
    }

    /// What `from` sends arrives at `to`. Both have a carrier.
    fn fibre(&mut self, from: End, to: End) {
        self.fibres.push((from, to));
        self.carrier(from, true);
        self.carrier(to, true);
    }

    fn cable(&mut self, one: End, other: End) {
        self.fibre(one, other);
        self.fibre(other, one);
    }

    /// Takes away what leads from and to a port. Nobody notices, but by its silence.
    fn cut(&mut self, end: End) {
        self.fibres.retain(|&(from, to)| from != end && to != end);
    }

    /// As [`Self::cut`], and the carriers go.
    fn pull(&mut self, end: End) {
        for (from, to) in self.fibres.clone() {
            if from == end || to == end {
                self.carrier(from, false);
                self.carrier(to, false);
            }
        }
        self.cut(end);
    }

    /// What each port has to send arrives, until nobody has anything.
    fn settle(&mut self) {
        let mut buffer = [0; FRAME_BYTES_MAX];
        for _ in 0..200 {
            let mut moved = false;
            for from in 0..self.sides.len() {
                for port in 0..2 {
                    while let Some(len) = self.sides[from].node.poll_transmit(port, &mut buffer) {
                        moved = true;
                        for &(_, (to, at)) in
                            self.fibres.iter().filter(|fibre| fibre.0 == (from, port))
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
        panic!("the rack never came to rest");
    }

    fn run(&mut self, paces: u32) {
        for _ in 0..paces {
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

    /// What was told of refusals of a port; nothing for one that was over.
    fn told(&self, (side, port): End) -> Vec<Option<LinkRefusal>> {
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
        rack.fibre((0, one), (0, other));
        if one != other {
            rack.fibre((0, other), (0, one));
        }
        rack.run(30);
        for (port, leads_to) in [(one, other), (other, one)] {
            let why = Some(LinkRefusal::OwnPort(leads_to));
            assert_eq!(rack.refusal((0, port)), why);
            assert_eq!(rack.told((0, port)), [why], "told once");
        }
        rack.pull((0, one));
        assert_eq!(rack.refusal((0, one)), None);
        rack.cable((0, one), (1, 0));
        rack.run(30);
        assert!(rack.is_up((0, one)));
        assert_eq!(
            rack.told((0, one)),
            [Some(LinkRefusal::OwnPort(other)), None]
        );
        assert_eq!(rack.told((1, 0)), []);
    }
}

/// The carrier stays, as it does where a switch is in between, and what was found goes away by not being found any more.
#[test]
fn what_is_not_found_any_more_is_over() {
    let mut rack = Rack::new(&[(1, 100)]);
    rack.fibre((0, 0), (0, 0));
    rack.run(3);
    rack.cut((0, 0));
    rack.run(SILENT_PACES / 2);
    assert_eq!(rack.refusal((0, 0)), Some(LinkRefusal::OwnPort(0)));
    rack.run(1);
    assert_eq!(rack.refusal((0, 0)), None);
    rack.run(30);
    assert_eq!(
        rack.told((0, 0)),
        [Some(LinkRefusal::OwnPort(0)), None],
        "each once"
    );
}

#[test]
fn two_nodes_of_one_guid_on_one_cable_both_say_so() {
    let mut rack = Rack::new(&[(1, 100), (1, 101)]);
    rack.cable((0, 0), (1, 0));
    rack.run(1);
    assert_eq!(
        rack.told((0, 0)),
        [],
        "a handshake of an earlier life may be under way"
    );
    rack.run(30);
    for side in [0, 1] {
        assert_eq!(rack.told((side, 0)), [Some(LinkRefusal::OwnGuid)]);
        assert!(!rack.is_up((side, 0)));
    }
    rack.pull((0, 0));
    let guid = side(2, 102, 2);
    rack.sides[1] = guid;
    rack.cable((0, 0), (1, 0));
    rack.run(3);
    assert!(rack.is_up((0, 0)));
    assert_eq!(rack.told((0, 0)), [Some(LinkRefusal::OwnGuid), None]);
}

/// The second one displaces the first, because a node that restarts looks the same. But the first one speaks again, which no earlier
/// life does.
#[test]
fn of_two_neighbours_with_one_guid_the_displaced_one_is_refused() {
    let mut rack = Rack::new(&[(1, 100), (2, 101), (2, 102)]);
    rack.cable((0, 0), (1, 0));
    rack.run(2);
    assert!(rack.is_up((0, 0)));
    rack.cable((0, 1), (2, 0));
    rack.run(40);
    let why = Some(LinkRefusal::TwinGuid(2));
    assert!(rack.is_up((0, 1)) && !rack.is_up((0, 0)));
    assert_eq!((rack.told((0, 0)), rack.told((0, 1))), (vec![why], vec![]));
    assert_eq!(
        (rack.failures((0, 0)), rack.failures((0, 1))),
        (1, 0),
        "they take no turns"
    );
    // The refused one does not believe either that it is up.
    assert!(!rack.is_up((1, 0)));
    assert_eq!(rack.failures((1, 0)), 1);
    // Once the other one is gone it is a neighbour as any.
    rack.pull((2, 0));
    rack.run(3);
    assert!(rack.is_up((0, 0)) && rack.is_up((1, 0)));
    assert_eq!(rack.told((0, 0)), [why, None]);
    // Which goes on.
    let Side { node, host } = &mut rack.sides[0];
    node.submit(2, Mode::TwoPhase, b"works", 7).unwrap();
    let _ = host;
    rack.run(1);
    assert_eq!(rack.sides[0].host.completed.len(), 1);
    // With all its cables, though its life is among those of before.
    rack.cable((0, 1), (1, 1));
    rack.run(3);
    assert!(rack.is_up((0, 0)) && rack.is_up((0, 1)));
    rack.pull((1, 1));
    // If the other returns, it is the one that was displaced.
    rack.cable((0, 1), (2, 0));
    rack.run(30);
    assert!(rack.is_up((0, 0)) && !rack.is_up((0, 1)));
    assert_eq!(rack.told((0, 1)), [why]);
}

#[test]
fn a_node_that_restarts_is_no_twin() {
    let mut rack = Rack::new(&[(1, 100), (2, 101)]);
    rack.cable((0, 0), (1, 0));
    rack.cable((0, 1), (1, 1));
    for life in 102..110 {
        rack.run(2);
        assert!(rack.is_up((0, 0)) && rack.is_up((0, 1)));
        rack.sides[1] = side(2, life, 2);
        for port in [0, 1] {
            rack.carrier((1, port), true);
        }
    }
    rack.run(20);
    assert_eq!((rack.told((0, 0)), rack.told((0, 1))), (vec![], vec![]));
}

/// Three fibres lead in a circle: each node hears one that hears another.
#[test]
fn fibres_that_are_crossed_are_told_at_each_end() {
    let mut rack = Rack::new(&[(1, 100), (2, 101), (3, 102)]);
    for node in 0..3 {
        rack.fibre((node, 0), ((node + 1) % 3, 0));
    }
    rack.run(7);
    assert_eq!(rack.told((0, 0)), []);
    rack.run(30);
    for (node, heard) in [(0, 3), (1, 1), (2, 2)] {
        let told = rack.told((node, 0));
        assert_eq!(told, [Some(LinkRefusal::Crossed(heard))], "node {node}");
    }
    // Put right between two of them, without a carrier that tells.
    rack.fibres.clear();
    rack.cable((0, 0), (1, 0));
    rack.run(3);
    assert!(rack.is_up((0, 0)));
    rack.run(30);
    for (node, heard) in [(0, 3), (1, 1), (2, 2)] {
        assert_eq!(
            rack.told((node, 0)),
            [Some(LinkRefusal::Crossed(heard)), None],
            "node {node}"
        );
    }
}

/// A fibre that is dead is not crossed, though the end that hears nothing goes on to echo what it heard from a life that is over.
#[test]
fn an_echo_of_an_earlier_life_is_not_taken_for_a_crossed_cable() {
    let mut rack = Rack::new(&[(1, 100), (2, 101)]);
    rack.cable((0, 0), (1, 0));
    // The other end hears one handshake and then nothing any more; its own arrive.
    let mut buffer = [0; FRAME_BYTES_MAX];
    let len = rack.sides[0].node.poll_transmit(0, &mut buffer).unwrap();
    rack.fibres.retain(|&(from, _)| from.0 == 1);
    let Side { node, host } = &mut rack.sides[1];
    node.on_frame(0, &buffer[..len], host);
    rack.sides[0] = side(1, 150, 2);
    rack.carrier((0, 0), true);
    rack.run(40);
    assert_eq!(rack.told((0, 0)), []);
}

#[test]
fn a_cable_that_several_share_brings_no_link_up() {
    let mut rack = Rack::new(&[(1, 100), (2, 101), (3, 102)]);
    let hub = |rack: &mut Rack, nodes: &[usize]| {
        for &from in nodes {
            for &to in nodes {
                if from != to {
                    rack.fibre((from, 0), (to, 0));
                }
            }
        }
    };
    hub(&mut rack, &[0, 1, 2]);
    rack.run(12);
    let failed = [0, 1, 2].map(|node| rack.failures((node, 0)));
    rack.run(50);
    for (node, failed) in failed.into_iter().enumerate() {
        assert_eq!(rack.told((node, 0)), [Some(LinkRefusal::Shared)]);
        assert!(!rack.is_up((node, 0)));
        let since = rack.failures((node, 0)) - failed;
        assert_eq!(since, 0, "nobody comes and goes");
    }
    rack.cut((2, 0));
    rack.run(SILENT_PACES + 4);
    assert!(rack.is_up((0, 0)) && rack.is_up((1, 0)));
    assert_eq!(rack.told((0, 0)), [Some(LinkRefusal::Shared), None]);
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
        rack.fibre(from, to);
    }
    rack.run(40);
    for end in [(0, 0), (0, 1), (1, 0)] {
        let told = rack.told(end);
        // Which it hears first is its own, for some paces.
        assert!(
            told.len() <= 2 && told.last() == Some(&Some(LinkRefusal::Shared)),
            "{end:?}: {told:?}"
        );
    }
}

#[test]
fn a_cable_that_leads_to_one_neighbour_after_another_is_not_shared() {
    let mut rack = Rack::new(&[(1, 100), (2, 101), (3, 102), (4, 103)]);
    for node in [1, 2, 3, 1, 2] {
        rack.cable((0, 0), (node, 0));
        rack.run(SILENT_PACES + 4);
        assert!(rack.is_up((0, 0)));
        // No carrier tells.
        rack.cut((node, 0));
        rack.run(2);
    }
    assert_eq!(rack.told((0, 0)), []);
}

#[test]
fn a_cable_that_was_moved_is_no_fault() {
    let mut rack = Rack::new(&[(1, 100), (2, 101)]);
    rack.cable((0, 0), (1, 0));
    for round in 0..8 {
        rack.run(3);
        let here = round % 2;
        assert!(rack.is_up((0, here)), "round {round}");
        // No carrier tells.
        rack.cut((1, 0));
        rack.cable((0, 1 - here), (1, 0));
    }
    rack.run(3);
    assert_eq!((rack.told((0, 0)), rack.told((0, 1))), (vec![], vec![]));
}

/// A link has room for three peers: each of them has an exchange that waits for its return.
#[test]
fn a_neighbour_without_room_is_told() {
    let mut rack = Rack {
        sides: (0..5).map(|node| side(1 + node, 100, 1)).collect(),
        fibres: Vec::new(),
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
    assert_eq!(rack.told((0, 0)), [Some(LinkRefusal::NoRoom)]);
    rack.pull((0, 0));
    rack.cable((0, 0), (1, 0));
    rack.run(3);
    assert!(rack.is_up((0, 0)));
    assert_eq!(rack.told((0, 0)), [Some(LinkRefusal::NoRoom), None]);
}

/// Whoever says another thing in each frame is told of at the pace of the ticks.
#[test]
fn no_more_is_told_than_there_are_paces() {
    let mut rack = Rack::new(&[(1, 100), (2, 101)]);
    rack.cable((0, 0), (1, 0));
    let mut buffer = [0; FRAME_BYTES_MAX];
    let len = rack.sides[1].node.poll_transmit(0, &mut buffer).unwrap();
    for pace in 1..20 {
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
        assert!(rack.told((0, 0)).len() <= pace, "{:?}", rack.told((0, 0)));
        let Side { node, host } = &mut rack.sides[0];
        node.on_tick(host);
    }
    assert!(rack.told((0, 0)).len() > 10);
}
