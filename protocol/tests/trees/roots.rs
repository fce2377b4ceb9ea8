//! The functions of roots: waves, restarts, names, twins; and the limit on their number.

use covalent_protocol::{
    Name,
    tree::{Standing, TreeEvent, Trees, TreesConfig, note::BadControlMessage},
};

use crate::mesh::{Mesh, config, grid, guid, torus};

/// Where ranks run out, the root provides space with a new wave.
#[test]
fn a_flapping_cable_costs_waves_and_never_a_route() {
    let mut mesh = Mesh::settled(3, &[(0, 1), (1, 2), (2, 0)]);
    for round in 0..200 {
        let cable = round % 2 * 2;
        mesh.fail(cable);
        mesh.settle();
        mesh.truth();
        mesh.mend(cable);
        mesh.settle();
        mesh.truth();
        if round % 8 == 7 {
            mesh.run(1);
        }
    }
    let waves = mesh.nodes[0].counters().waves;
    assert!((2..100).contains(&waves), "{waves} waves");
}

#[test]
fn a_root_that_restarts_counts_on_and_is_no_twin() {
    let mut mesh = Mesh::settled(9, &torus(3, 3));
    for incarnation in [7, 3, 2, 9] {
        let before = mesh.tree(0, 4).unwrap().label.wave();
        mesh.restart(4, incarnation);
        mesh.settle();
        mesh.truth();
        for cable in mesh.cables_of(4) {
            mesh.mend(cable);
        }
        mesh.settle();
        mesh.run(3);
        mesh.truth();
        let wave = mesh.tree(0, 4).unwrap().label.wave();
        let first = 1 + u64::from(incarnation);
        assert!(
            wave >= before.max(first),
            "wave {wave} in incarnation {incarnation}"
        );
        let waves = mesh.nodes[4].counters().waves;
        assert_eq!(waves > 0, before > first, "it began with {first}");
        for node in (0..9).filter(|&node| node != 4) {
            let called = mesh.tree(node, 4).unwrap().name.unwrap();
            assert_eq!(called.as_str(), format!("n4.{incarnation}"), "at {node}");
        }
    }
    let twins = mesh
        .events
        .iter()
        .flatten()
        .filter(|event| **event == TreeEvent::Twin);
    assert_eq!(twins.count(), 0);
}

#[test]
fn every_root_is_called_by_its_name_everywhere() {
    let mut mesh = Mesh::new(9, &grid(3, 3));
    for cable in 0..mesh.cables.len() {
        mesh.mend(cable);
    }
    mesh.settle();
    for node in 0..9 {
        for root in 0..9 {
            let name = mesh.tree(node, root).unwrap().name.unwrap();
            assert_eq!(name.as_str(), format!("n{root}.1"));
            let reported = TreeEvent::Called {
                root: guid(root),
                name,
            };
            let times = mesh.events[node].iter().filter(|event| **event == reported);
            assert_eq!(times.count(), usize::from(node != root), "{node} of {root}");
        }
    }
}

#[test]
fn two_roots_with_one_guid_learn_of_each_other() {
    let mut mesh = Mesh::new(4, &[(0, 1), (1, 2), (2, 3)]);
    mesh.nodes[3] = {
        let mut trees = Trees::new(&TreesConfig {
            guid: guid(0),
            ..config(3, 9)
        });
        trees.add_neighbor().unwrap();
        trees
    };
    for cable in 0..3 {
        mesh.mend(cable);
    }
    mesh.settle();
    mesh.run(6);
    for node in [0, 3] {
        let twins = mesh.events[node]
            .iter()
            .filter(|event| **event == TreeEvent::Twin);
        assert_eq!(twins.count(), 1, "at {node}");
    }
}

#[test]
fn a_node_without_a_tree_attaches_to_the_others() {
    let mut mesh = Mesh::new(2, &[(0, 1)]);
    mesh.nodes[1] = {
        let mut trees = Trees::new(&TreesConfig {
            roots: false,
            ..config(1, 1)
        });
        trees.add_neighbor().unwrap();
        trees
    };
    mesh.mend(0);
    mesh.settle();
    assert_eq!(mesh.standing(1, 0), Some(Standing::Attached));
    assert_eq!(mesh.standing(0, 1), None);
    assert_eq!(mesh.standing(1, 1), None);
}

/// The lanes of a node have the addresses behind its own.
#[test]
fn a_route_leads_to_every_lane_of_a_root() {
    let mesh = Mesh::settled(3, &[(0, 1), (1, 2)]);
    let trees = &mesh.nodes[2];
    let route = trees.route(guid(0)).unwrap();
    assert_eq!((route.root, route.hops), (guid(0), 2));
    assert_eq!(trees.route(guid(0) + 255), Some(route));
    assert_eq!(trees.route(guid(1) + 1).unwrap().root, guid(1));
    assert_eq!(trees.route(guid(0) - 1), None);
    assert_eq!(trees.route(guid(2)), None, "it is here");
    assert_eq!(trees.route(u64::MAX), None);
    assert_eq!(trees.standing(guid(2) + 256), None);
}

/// Roots beyond the capacity are left out, and reported once.
#[test]
fn a_full_table_keeps_its_trees() {
    let mut mesh = Mesh::new(6, &[(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]);
    mesh.nodes[0] = {
        let mut trees = Trees::new(&TreesConfig {
            roots_max: 4,
            ..config(0, 1)
        });
        for _ in 0..5 {
            trees.add_neighbor().unwrap();
        }
        trees
    };
    for cable in 0..5 {
        mesh.mend(cable);
    }
    mesh.settle();
    mesh.run(3);
    assert_eq!(mesh.nodes[0].trees().count(), 4);
    let full = |event: &&TreeEvent| matches!(event, TreeEvent::Full { .. });
    assert_eq!(mesh.events[0].iter().filter(full).count(), 1);
    for root in 0..4 {
        assert!(mesh.attached(0, root));
    }
}

/// A tree whose root is gone for long is forgotten, which frees its slot.
#[test]
fn a_root_that_is_gone_is_forgotten_and_may_return() {
    let mut mesh = Mesh::settled(4, &[(0, 1), (1, 2), (2, 3), (3, 1)]);
    mesh.fail(0);
    mesh.settle();
    mesh.run(249);
    assert_eq!(mesh.standing(2, 0), Some(Standing::Lost));
    mesh.run(2);
    for node in 1..4 {
        assert_eq!(mesh.standing(node, 0), None, "at {node}");
    }
    mesh.truth();
    mesh.restart(0, 1);
    mesh.mend(0);
    mesh.settle();
    mesh.truth();
    assert!(mesh.attached(3, 0));
}

/// Two thousand roots come and go, and a table for a few has space for each.
#[test]
fn roots_that_come_and_go_leave_room() {
    let mut mesh = Mesh::settled(3, &[(0, 1), (1, 2)]);
    for node in [1, 2] {
        let small = TreesConfig {
            roots_max: 8,
            ..config(node, 1)
        };
        mesh.restart_with(node, &small);
    }
    mesh.mend(1);
    for visitor in 0..2_000u64 {
        let guid = (1 << 32) + (visitor << 8);
        let newcomer = TreesConfig {
            guid,
            ..config(0, 1)
        };
        mesh.restart_with(0, &newcomer);
        mesh.mend(0);
        mesh.settle();
        let attached = mesh.nodes[2].standing(guid);
        assert_eq!(attached, Some(Standing::Attached), "the visitor {visitor}");
        mesh.fail(0);
        mesh.settle();
        mesh.run(2);
    }
    assert!(mesh.nodes[2].trees().count() <= 8);
}

#[test]
fn invalid_control_messages_are_refused_and_change_nothing() {
    let mut mesh = Mesh::settled(2, &[(0, 1)]);
    let before: Vec<_> = mesh.nodes[0].trees().collect();
    let mut silent = |event| panic!("{event:?}");
    for (note, error) in [
        (&[][..], BadControlMessage::Kind),
        (&[77], BadControlMessage::Kind),
        (&[1, 0], BadControlMessage::Length),
        (&[3, 0, 0, 0, 0, 0, 0, 0, 0], BadControlMessage::ZeroGuid),
    ] {
        let result = mesh.nodes[0].on_control_message(0, note, &mut silent);
        assert_eq!(result, Err(error));
    }
    assert_eq!(mesh.nodes[0].trees().collect::<Vec<_>>(), before);
    assert_eq!(mesh.nodes[0].next_message_bytes(0), None);
    assert_eq!(mesh.nodes[0].next_message_bytes(200), None);
    let name = Name::new("x").unwrap();
    let mut space = [0; 64];
    let mut called = covalent_protocol::tree::note::Writer::called(&mut space);
    called.name(guid(0), &name);
    let len = called.finish().unwrap();
    mesh.nodes[0]
        .on_control_message(0, &space[..len], &mut silent)
        .unwrap();
    assert_eq!(
        mesh.nodes[0].trees().collect::<Vec<_>>(),
        before,
        "its own name is its own"
    );
}
