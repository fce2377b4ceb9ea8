//! Trees over the links of whole nodes: notes among exchanges, under the window, through failures.
#![allow(clippy::unwrap_used)]

mod rack;

use covalent_protocol::{
    DownReason, FabricConfig, LinkState, Mode, NodeEvent,
    tree::Standing,
    wire::{ETHERNET_HEADER_BYTES, RECORD_BYTES, frame, slice::Kind},
};
use rack::{Rack, guid, messages};

const SQUARE: [(usize, usize); 4] = [(0, 1), (1, 2), (2, 3), (3, 0)];

#[test]
fn all_nodes_know_the_routes_to_all_and_their_names() {
    let rack = Rack::up(4, &SQUARE);
    rack.assert_all_attached();
    for from in 0..4 {
        for to in 0..4 {
            let route = rack.route(from, to);
            let hops = (4 + to - from) % 4;
            assert_eq!(
                route.len() - 1,
                hops.min(4 - hops),
                "{from} to {to}: {route:?}"
            );
            let tree = rack.nodes[from].tree(guid(to)).unwrap();
            assert_eq!(tree.name.unwrap().as_str(), format!("n{to}"));
            let attached = |event: &NodeEvent| {
                matches!(
                    event,
                    NodeEvent::Attached { root, .. } if *root == guid(to),
                )
            };
            assert_eq!(rack.hosts[from].trees.iter().any(attached), from != to);
        }
        assert_eq!(rack.nodes[from].trees().count(), 4);
    }
}

/// A cable fails and only one end has a carrier that reports it. The other one detects it by
/// silence.
#[test]
fn a_cut_that_one_end_notices_is_repaired_at_both() {
    for (cables, nodes) in [(&SQUARE[..], 4), (&[(0, 1), (1, 2), (2, 0)], 3)] {
        for (cable, &(a, b)) in cables.iter().enumerate() {
            for side in [0, 1] {
                let mut rack = Rack::up(nodes, cables);
                rack.cut(cable);
                rack.carrier_at(cable, side, false);
                let (near, far) = [(a, b), (b, a)][side];
                rack.settle();
                assert_eq!(rack.route(near, far).len(), nodes, "around, at once");
                rack.run(6);
                rack.assert_all_attached();
                assert_eq!(rack.route(far, near).len(), nodes);
                assert_eq!(rack.downs(far), [DownReason::PeerSilent]);
                rack.plug(cable);
                rack.run(4);
                rack.assert_all_attached();
                assert_eq!(rack.route(near, far), [near, far]);
            }
        }
    }
}

#[test]
fn a_cut_off_node_reports_the_loss_and_its_end() {
    let mut rack = Rack::up(3, &[(0, 1), (1, 2)]);
    rack.pull(1);
    rack.settle();
    for (at, root) in [(0, 2), (1, 2), (2, 0), (2, 1)] {
        assert_eq!(rack.nodes[at].route(guid(root)), None);
        let lost = NodeEvent::Lost { root: guid(root) };
        assert!(rack.hosts[at].trees.contains(&lost), "{at} of {root}");
    }
    rack.plug(1);
    rack.settle();
    rack.assert_all_attached();
}

#[test]
fn a_node_without_a_fabric_is_a_neighbor_as_ever() {
    let mut rack = Rack::with(3, &[(0, 1), (1, 2)], |at| {
        (at != 1).then(FabricConfig::default)
    });
    rack.plug_all();
    rack.settle();
    rack.run(3);
    for at in 0..3 {
        assert!(
            rack.nodes[at]
                .links()
                .all(|link| link.state == LinkState::Up)
        );
        assert_eq!(rack.downs(at), []);
    }
    assert_eq!(rack.nodes[0].trees().count(), 1);
    assert_eq!(rack.nodes[1].trees().count(), 0);
    rack.nodes[0]
        .submit(guid(1), Mode::TwoPhase, b"x", 1)
        .unwrap();
    rack.settle();
    assert_eq!((rack.hosts[1].executed, rack.hosts[0].completed), (1, 1));
}

/// A neighbor that sends an invalid control message fails its link and nothing else.
#[test]
fn an_invalid_control_message_fails_its_link_alone() {
    type Forge = fn(&mut [u8]);
    let forgeries: [(&str, Forge); 5] = [
        ("kind", |payload| payload[0] = 99),
        ("flag", |payload| payload[1] |= 0x80),
        ("no node", |payload| payload[6..14].fill(0)),
        ("as a search", |payload| payload[0] = 2),
        ("as denials", |payload| payload[0] = 3),
    ];
    for (what, forge) in forgeries {
        let mut rack = Rack::new(3, &[(0, 1), (1, 2)]);
        rack.plug_all();
        // Until the first frame of 0 with notes.
        let frame = loop {
            rack.send();
            let is_control_message = |frame: &Vec<u8>| messages(frame)[0].0 == Kind::ControlMessage;
            let first = rack.cables[0].in_flight[1].front();
            if let Some(frame) = first.filter(|frame| is_control_message(frame)) {
                break frame.clone();
            }
            rack.fly();
        };
        let mut forged = frame.clone();
        let payload = ETHERNET_HEADER_BYTES + 28;
        forge(&mut forged[payload..payload + 28]);
        frame::seal(&mut forged);
        rack.cables[0].in_flight[1].clear();
        rack.inject(0, 1, &forged);
        assert_eq!(rack.downs(1), [DownReason::Violation], "{what}");
        assert_eq!(
            rack.nodes[1].tree(guid(0)),
            None,
            "nothing of it was accepted"
        );
        rack.settle();
        assert_eq!(rack.downs(2), [], "{what}");
        rack.run(6);
        rack.assert_all_attached();
    }
}

#[test]
fn a_control_message_carries_no_piggyback() {
    let mut rack = Rack::up(2, &[(0, 1)]);
    rack.plug(0);
    rack.pull(0);
    rack.plug(0);
    let mut frame = loop {
        rack.send();
        let first = rack.cables[0].in_flight[1].front();
        if let Some(frame) = first.filter(|frame| messages(frame)[0].0 == Kind::ControlMessage) {
            break frame.clone();
        }
        rack.fly();
    };
    frame[ETHERNET_HEADER_BYTES + 23] = 1;
    frame::seal(&mut frame);
    rack.inject(0, 1, &frame);
    assert_eq!(rack.downs(1).last(), Some(&DownReason::Violation));
}

/// With more links up than neighbor indices, the others still carry exchanges.
#[test]
fn links_beyond_the_neighbor_indices_are_links_all_the_same() {
    let cables: Vec<(usize, usize)> = (1..=18).map(|leaf| (0, leaf)).collect();
    let mut rack = Rack::up(19, &cables);
    assert_eq!(rack.nodes[0].trees().count(), 17);
    let no_index = |event: &&NodeEvent| matches!(event, NodeEvent::NoNeighborIndex { .. });
    assert_eq!(rack.hosts[0].trees.iter().filter(no_index).count(), 2);
    for leaf in 1..=18 {
        let taken = rack.nodes[leaf].submit(guid(0), Mode::OnePhase, b"x", 1);
        assert_eq!(taken, Ok(()));
    }
    rack.settle();
    assert_eq!(rack.hosts[0].executed, 18);
    // The next link that comes up takes a released neighbor index.
    rack.pull(0);
    rack.pull(17);
    rack.plug(17);
    rack.settle();
    assert!(rack.nodes[0].route(guid(18)).is_some());
}

/// A tree of nodes, cut in its middle, so that everything beyond has to pass over one cable.
struct Middle {
    rack: Rack,
    cable: usize,
    nodes: usize,
}

impl Middle {
    fn new(nodes: usize, window: u16) -> Self {
        // Two binary trees, and a cable between their roots.
        let half = nodes / 2;
        let mut cables: Vec<(usize, usize)> = vec![(0, half)];
        for base in [0, half] {
            cables.extend((1..half).map(|at| (base + at, base + (at - 1) / 2)));
        }
        let mut rack = Rack::new(nodes, &cables);
        for end in rack.cables[0].ends {
            rack.nodes[end.0].set_window(end.1, window);
        }
        for cable in 1..cables.len() {
            rack.plug(cable);
        }
        rack.settle();
        Self {
            rack,
            cable: 0,
            nodes,
        }
    }
}

/// Hundreds of roots are advertised over one link, with never more in flight than the receiver's
/// window.
#[test]
fn many_roots_pass_under_the_window() {
    let window = 32;
    let mut middle = Middle::new(240, window);
    let Middle { rack, cable, nodes } = &mut middle;
    assert_eq!(rack.nodes[0].trees().count(), *nodes / 2);
    rack.plug(*cable);
    let (mut most, mut control_messages) = (0, 0);
    for _ in 0..1000 {
        rack.send();
        let in_flight = &rack.cables[*cable].in_flight[0];
        let records = |frame: &Vec<u8>| (frame.len() - ETHERNET_HEADER_BYTES) / RECORD_BYTES;
        most = most.max(in_flight.iter().map(records).sum());
        let is_control_message = |&(kind, _): &(Kind, usize)| kind == Kind::ControlMessage;
        control_messages += in_flight
            .iter()
            .flat_map(|frame| messages(frame))
            .filter(is_control_message)
            .count();
        if !rack.fly() {
            break;
        }
    }
    assert!(most <= usize::from(window), "{most} records in flight");
    assert!(control_messages >= *nodes / 2 / 40, "{control_messages}");
    assert_eq!(rack.nodes[0].trees().count(), *nodes);
    rack.assert_all_attached();
    // The link fails and comes back: all roots are unreachable, and then advertised again.
    rack.pull(*cable);
    rack.settle();
    assert_eq!(rack.nodes[0].route(guid(*nodes - 1)), None);
    rack.plug(*cable);
    rack.settle();
    rack.assert_all_attached();
}

/// Notes take half of a frame while exchanges wait, and all of it else.
#[test]
fn control_messages_and_exchanges_share_a_frame() {
    let mut middle = Middle::new(200, 250);
    let Middle { rack, cable, .. } = &mut middle;
    rack.plug(*cable);
    let (at, _) = rack.cables[*cable].ends[0];
    let (peer, _) = rack.cables[*cable].ends[1];
    // Until the link is up, with nothing sent in its epoch.
    while rack.nodes[at].links().next().unwrap().state != LinkState::Up {
        rack.fly();
    }
    for token in 0..60 {
        rack.nodes[at]
            .submit(guid(peer), Mode::OnePhase, &[7; 20], token)
            .unwrap();
    }
    let frames = rack.frames(*cable, 0);
    let shares: Vec<(usize, usize)> = frames
        .iter()
        .map(|frame| {
            let of = |kind| {
                let of = |message: &(Kind, usize)| (message.0 == kind).then_some(message.1);
                messages(frame).iter().filter_map(of).sum::<usize>()
            };
            (of(Kind::ControlMessage), of(Kind::Request))
        })
        .filter(|&(control_messages, _)| control_messages > 0)
        .collect();
    assert!(shares.len() >= 2, "{shares:?}");
    assert!((1..=12).contains(&shares[0].0), "{shares:?}");
    assert_eq!(shares[0].1, 4, "all four slots: {shares:?}");
    assert!(shares[1].0 > 12, "nothing else waits: {shares:?}");
    rack.cables[*cable].in_flight[1].extend(frames);
    rack.settle();
    assert_eq!(rack.hosts[at].completed, 60);
    rack.assert_all_attached();
}

/// A root that is gone for long is forgotten over real links too: they report when all neighbors
/// know that it is unreachable.
#[test]
fn a_node_that_is_gone_is_forgotten() {
    let mut rack = Rack::up(4, &[(0, 1), (1, 2), (2, 3), (3, 1)]);
    rack.pull(0);
    rack.run(249);
    assert_eq!(rack.nodes[2].trees().count(), 4);
    rack.run(3);
    for at in 1..4 {
        assert_eq!(rack.nodes[at].trees().count(), 3, "at {at}");
    }
    rack.plug(0);
    rack.settle();
    rack.assert_all_attached();
}

/// A neighbor's cables have one share of a full table together.
#[test]
fn a_neighbor_with_many_cables_leaves_roots_to_another() {
    // Behind 1 are 3 to 12, more than 0 has space for beside 2 with 13 to 16.
    for parallel in [2, 4] {
        let mut cables = vec![(0, 1); parallel];
        cables.extend((3..=12).map(|leaf| (1, leaf)));
        let modest = cables.len();
        cables.push((0, 2));
        cables.extend((13..=16).map(|leaf| (2, leaf)));
        let mut rack = Rack::with(17, &cables, |at| {
            Some(FabricConfig {
                roots_max: if at == 0 { 12 } else { 64 },
                ..FabricConfig::default()
            })
        });
        for number in 0..parallel {
            // Frames on a cable with a lower number are received first.
            rack.plug(parallel - 1 - number);
            rack.settle();
            for leaf in (3..=12).filter(|leaf| leaf % parallel == number) {
                rack.plug(parallel + leaf - 3);
                rack.settle();
            }
        }
        assert_eq!(rack.nodes[0].tree_count(), 12, "{parallel}");
        (modest..cables.len()).for_each(|cable| rack.plug(cable));
        rack.run(300);
        let its =
            [2, 13, 14, 15, 16].map(|at| rack.nodes[0].tree(guid(at)).map(|tree| tree.standing));
        assert_eq!(its, [Some(Standing::Attached); 5], "{parallel}");
    }
}
