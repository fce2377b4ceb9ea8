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
fn everybody_knows_the_way_to_everybody_and_what_they_are_called() {
    let rack = Rack::up(4, &SQUARE);
    rack.assert_all_hang();
    for from in 0..4 {
        for to in 0..4 {
            let way = rack.way(from, to);
            let hops = (4 + to - from) % 4;
            assert_eq!(way.len() - 1, hops.min(4 - hops), "{from} to {to}: {way:?}");
            let tree = rack.nodes[from].tree(guid(to)).unwrap();
            assert_eq!(tree.name.unwrap().as_str(), format!("n{to}"));
            let hangs = |event: &NodeEvent| matches!(event, NodeEvent::Hangs { root, .. } if *root == guid(to));
            assert_eq!(rack.hosts[from].trees.iter().any(hangs), from != to);
        }
        assert_eq!(rack.nodes[from].trees().count(), 4);
    }
}

/// A cable dies and only one end has a carrier to tell it. The other one learns it from silence.
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
                assert_eq!(rack.way(near, far).len(), nodes, "around, at once");
                rack.run(6);
                rack.assert_all_hang();
                assert_eq!(rack.way(far, near).len(), nodes);
                assert_eq!(rack.downs(far), [DownReason::PeerSilent]);
                rack.plug(cable);
                rack.run(4);
                rack.assert_all_hang();
                assert_eq!(rack.way(near, far), [near, far]);
            }
        }
    }
}

#[test]
fn who_is_cut_off_is_told_and_told_when_it_is_over() {
    let mut rack = Rack::up(3, &[(0, 1), (1, 2)]);
    rack.pull(1);
    rack.settle();
    for (at, root) in [(0, 2), (1, 2), (2, 0), (2, 1)] {
        assert_eq!(rack.nodes[at].way(guid(root)), None);
        let lost = NodeEvent::Lost { root: guid(root) };
        assert!(rack.hosts[at].trees.contains(&lost), "{at} of {root}");
    }
    rack.plug(1);
    rack.settle();
    rack.assert_all_hang();
}

#[test]
fn a_node_without_a_fabric_is_a_neighbour_as_ever() {
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

/// A neighbour that says what no node says fails its link and nothing else.
#[test]
fn a_note_that_no_node_says_fails_its_link_alone() {
    type Forge = fn(&mut [u8]);
    let forgeries: [(&str, Forge); 5] = [
        ("kind", |payload| payload[0] = 99),
        ("flag", |payload| payload[1] |= 0x80),
        ("nobody", |payload| payload[6..14].fill(0)),
        ("as a seek", |payload| payload[0] = 2),
        ("as denials", |payload| payload[0] = 3),
    ];
    for (what, forge) in forgeries {
        let mut rack = Rack::new(3, &[(0, 1), (1, 2)]);
        rack.plug_all();
        // Until the first frame of 0 with notes.
        let frame = loop {
            rack.send();
            let is_note = |frame: &Vec<u8>| messages(frame)[0].0 == Kind::Note;
            let first = rack.cables[0].under_way[1].front();
            if let Some(frame) = first.filter(|frame| is_note(frame)) {
                break frame.clone();
            }
            rack.fly();
        };
        let mut forged = frame.clone();
        let payload = ETHERNET_HEADER_BYTES + 28;
        forge(&mut forged[payload..payload + 28]);
        frame::seal(&mut forged);
        rack.cables[0].under_way[1].clear();
        rack.inject(0, 1, &forged);
        assert_eq!(rack.downs(1), [DownReason::Violation], "{what}");
        assert_eq!(rack.nodes[1].tree(guid(0)), None, "nothing of it was heard");
        rack.settle();
        assert_eq!(rack.downs(2), [], "{what}");
        rack.run(6);
        rack.assert_all_hang();
    }
}

#[test]
fn a_note_carries_no_rider() {
    let mut rack = Rack::up(2, &[(0, 1)]);
    rack.plug(0);
    rack.pull(0);
    rack.plug(0);
    let mut frame = loop {
        rack.send();
        let first = rack.cables[0].under_way[1].front();
        if let Some(frame) = first.filter(|frame| messages(frame)[0].0 == Kind::Note) {
            break frame.clone();
        }
        rack.fly();
    };
    frame[ETHERNET_HEADER_BYTES + 23] = 1;
    frame::seal(&mut frame);
    rack.inject(0, 1, &frame);
    assert_eq!(rack.downs(1).last(), Some(&DownReason::Violation));
}

/// Where more links are up than there are berths, the others carry what they carry.
#[test]
fn more_links_than_berths_are_links_all_the_same() {
    let cables: Vec<(usize, usize)> = (1..=18).map(|leaf| (0, leaf)).collect();
    let mut rack = Rack::up(19, &cables);
    assert_eq!(rack.nodes[0].trees().count(), 17);
    let no_berth = |event: &&NodeEvent| matches!(event, NodeEvent::NoBerth { .. });
    assert_eq!(rack.hosts[0].trees.iter().filter(no_berth).count(), 2);
    for leaf in 1..=18 {
        let taken = rack.nodes[leaf].submit(guid(0), Mode::OnePhase, b"x", 1);
        assert_eq!(taken, Ok(()));
    }
    rack.settle();
    assert_eq!(rack.hosts[0].executed, 18);
    // A berth that is given back is taken by whoever comes up next.
    rack.pull(0);
    rack.pull(17);
    rack.plug(17);
    rack.settle();
    assert!(rack.nodes[0].way(guid(18)).is_some());
}

/// A tree of nodes, cut in its middle, so that all that is beyond has to pass over one cable.
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

/// Hundreds of roots are told over one link, and never more is under way than the receiver announced room for.
#[test]
fn many_roots_pass_under_the_window() {
    let window = 32;
    let mut middle = Middle::new(240, window);
    let Middle { rack, cable, nodes } = &mut middle;
    assert_eq!(rack.nodes[0].trees().count(), *nodes / 2);
    rack.plug(*cable);
    let (mut most, mut notes) = (0, 0);
    for _ in 0..1000 {
        rack.send();
        let under_way = &rack.cables[*cable].under_way[0];
        let records = |frame: &Vec<u8>| (frame.len() - ETHERNET_HEADER_BYTES) / RECORD_BYTES;
        most = most.max(under_way.iter().map(records).sum());
        let is_note = |&(kind, _): &(Kind, usize)| kind == Kind::Note;
        notes += under_way
            .iter()
            .flat_map(|frame| messages(frame))
            .filter(is_note)
            .count();
        if !rack.fly() {
            break;
        }
    }
    assert!(most <= usize::from(window), "{most} records under way");
    assert!(notes >= *nodes / 2 / 40, "{notes}");
    assert_eq!(rack.nodes[0].trees().count(), *nodes);
    rack.assert_all_hang();
    // It fails and comes back: all is lost, and then said anew.
    rack.pull(*cable);
    rack.settle();
    assert_eq!(rack.nodes[0].way(guid(*nodes - 1)), None);
    rack.plug(*cable);
    rack.settle();
    rack.assert_all_hang();
}

/// Notes take half of a frame while exchanges wait, and all of it else.
#[test]
fn notes_and_exchanges_share_a_frame() {
    let mut middle = Middle::new(200, 250);
    let Middle { rack, cable, .. } = &mut middle;
    rack.plug(*cable);
    let (at, _) = rack.cables[*cable].ends[0];
    let (peer, _) = rack.cables[*cable].ends[1];
    // Until the link is up, but nothing was said in its epoch.
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
            (of(Kind::Note), of(Kind::Request))
        })
        .filter(|&(notes, _)| notes > 0)
        .collect();
    assert!(shares.len() >= 2, "{shares:?}");
    assert!((1..=12).contains(&shares[0].0), "{shares:?}");
    assert_eq!(shares[0].1, 4, "all four slots: {shares:?}");
    assert!(shares[1].0 > 12, "nothing else waits: {shares:?}");
    rack.cables[*cable].under_way[1].extend(frames);
    rack.settle();
    assert_eq!(rack.hosts[at].completed, 60);
    rack.assert_all_hang();
}

/// A root that is gone for long is forgotten over real links too: they say when everybody heard that it is lost.
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
    rack.assert_all_hang();
}

/// A neighbour's cables have one share of a full table together.
#[test]
fn a_neighbour_with_many_cables_leaves_roots_to_another() {
    // Behind 1 are 3 to 12, more than 0 has room for beside 2 with 13 to 16.
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
            // What comes over a cable with a lower number is heard first.
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
        assert_eq!(its, [Some(Standing::Hangs); 5], "{parallel}");
    }
}
