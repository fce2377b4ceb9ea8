//! How far from the failure a repair reaches, and how many round trips it takes. A flight is half
//! of one.

use covalent_protocol::tree::{Standing, TreeEvent};

use crate::mesh::{Mesh, grid, guid, torus};

/// Trees in which a node took another parent, or lost it, by node.
fn noticed(mesh: &Mesh, root: usize) -> Vec<usize> {
    let concerns = |event: &TreeEvent| match event {
        TreeEvent::Attached { root: of, .. } | TreeEvent::Lost { root: of } => *of == guid(root),
        TreeEvent::Called { .. } | TreeEvent::Twin | TreeEvent::Full { .. } => false,
    };
    (0..mesh.nodes.len())
        .filter(|&node| mesh.events[node].iter().any(concerns))
        .collect()
}

#[test]
fn a_triangle_is_repaired_in_one_round_trip() {
    let [a, b, c] = [0, 1, 2];
    let mut mesh = Mesh::settled(3, &[(a, b), (b, c), (c, a)]);
    let before = mesh.tree(b, a).unwrap().label;
    let cable = mesh.cable(a, b);
    mesh.fail(cable);
    assert_eq!(
        mesh.standing(b, a),
        Some(Standing::Searches),
        "c is as far as b"
    );
    assert_eq!(mesh.flights_until(|mesh| mesh.attached(b, a)), 2);
    assert_eq!(mesh.parent(b, a), Some(c));
    assert_eq!(
        mesh.tree(b, a).unwrap().label,
        before,
        "it did not get nearer"
    );
    mesh.settle();
    mesh.truth();
    assert_eq!(noticed(&mesh, a), [b]);
    assert_eq!(mesh.nodes[b].counters().repaired_by_search, 1);
}

#[test]
fn a_neighbor_that_is_nearer_is_taken_at_once() {
    let mut mesh = Mesh::settled(4, &[(0, 1), (0, 2), (1, 3), (2, 3)]);
    let parent = mesh.parent(3, 0).unwrap();
    let cable = mesh.cable(parent, 3);
    mesh.fail(cable);
    assert!(mesh.attached(3, 0), "no round trip at all");
    assert_eq!(mesh.parent(3, 0), Some(3 - parent));
    mesh.settle();
    mesh.truth();
    assert_eq!(noticed(&mesh, 0), [3]);
    let counters = mesh.nodes[3].counters();
    assert_eq!((counters.repaired_at_once, counters.lost), (1, 0));
}

/// The second trace of the design: nodes behind the break receive nothing.
#[test]
fn a_column_of_a_grid_is_repaired_in_two_round_trips() {
    // The root is at (0, 0). The only neighbors of column x = 0 are in x = 1, one hop further.
    let (width, height) = (2, 6);
    for k in 1..height - 1 {
        let mut mesh = Mesh::settled(width * height, &grid(width, height));
        let node = k * width;
        assert_eq!(mesh.parent(node, 0), Some(node - width));
        let behind = mesh.tree(node + width, 0).unwrap();
        let cable = mesh.cable(node - width, node);
        mesh.fail(cable);
        assert_eq!(mesh.standing(node, 0), Some(Standing::Searches));
        let flights = mesh.flights_until(|mesh| mesh.attached(node, 0));
        assert!(flights <= 4, "{flights} at {k}");
        mesh.settle();
        mesh.truth();
        assert_eq!(noticed(&mesh, 0), [node]);
        let after = mesh.tree(node + width, 0).unwrap();
        assert_eq!((after.label, after.parent), (behind.label, behind.parent));
    }
}

/// Each cable of a torus fails, one at a time in a settled tree. A node with a neighbor that is not
/// its child is attached again within two round trips, and no other node notices, whatever the
/// number of nodes.
#[test]
fn a_repair_is_local_whatever_the_size() {
    for (width, height) in [(3, 3), (4, 4), (6, 6)] {
        let cables = torus(width, height);
        for cable in (0..cables.len()).step_by(if width > 4 { 7 } else { 1 }) {
            let mut mesh = Mesh::settled(width * height, &cables);
            let (a, b) = cables[cable];
            let mut broken = vec![];
            for root in 0..width * height {
                for (node, other) in [(a, b), (b, a)] {
                    if mesh.parent(node, root) == Some(other) {
                        let children = mesh.tree(node, root).unwrap().children.len();
                        let alone = mesh.cables_of(node).len() == children + 1;
                        broken.push((node, root, alone));
                    }
                }
            }
            mesh.fail(cable);
            for flights in 0..=4 {
                if flights > 0 {
                    mesh.fly();
                }
                if flights == 4 {
                    for &(node, root, alone) in &broken {
                        assert!(alone || mesh.attached(node, root), "{node} to {root}");
                    }
                }
            }
            mesh.settle();
            mesh.truth();
            for &(node, root, alone) in &broken {
                if !alone {
                    let noticed = noticed(&mesh, root);
                    assert_eq!(noticed, [node], "{width}×{height}, tree {root}");
                }
            }
        }
    }
}

/// The third trace: all neighbors of the node are its children, and the alternative path begins one
/// level below it.
#[test]
fn a_route_below_the_children_is_found() {
    let [a, b, c, d, e] = [0, 1, 2, 3, 4];
    let mut mesh = Mesh::settled(5, &[(a, b), (b, d), (d, e), (e, c), (c, a)]);
    let cable = mesh.cable(a, b);
    mesh.fail(cable);
    assert_eq!(
        mesh.standing(b, a),
        Some(Standing::Lost),
        "no neighbor to query"
    );
    let flights = mesh.flights_until(|mesh| mesh.attached(b, a) && mesh.attached(d, a));
    assert!(flights <= 2 * 9, "{flights} flights");
    mesh.settle();
    mesh.truth();
    assert_eq!(mesh.nodes[b].counters().found_again, 1);
    assert_eq!(mesh.nodes[d].counters().repaired_by_search, 1);
}

/// The way out begins e levels below the break: nine round trips for each at the most.
#[test]
fn a_route_far_below_is_found_in_time_of_its_depth() {
    for levels in 1..=6usize {
        // A chain from the root, and beside it a second way from its end back to the root.
        let chain: Vec<usize> = (0..=levels + 1).collect();
        let detour: Vec<usize> = (levels + 2..2 * levels + 4).collect();
        let nodes = 2 * levels + 4;
        let mut cables: Vec<(usize, usize)> =
            chain.windows(2).map(|two| (two[0], two[1])).collect();
        cables.extend(detour.windows(2).map(|two| (two[0], two[1])));
        cables.push((0, detour[0]));
        cables.push((chain[levels + 1], detour[levels + 1]));
        let mut mesh = Mesh::settled(nodes, &cables);
        let cable = mesh.cable(0, 1);
        mesh.fail(cable);
        let all = |mesh: &Mesh| chain.iter().all(|&node| mesh.attached(node, 0));
        let flights = mesh.flights_until(all);
        assert!(
            flights as usize <= 2 * 9 * (levels + 1),
            "{flights} for {levels}"
        );
        mesh.settle();
        mesh.truth();
    }
}

#[test]
fn a_cut_off_node_reports_all_losses_and_their_end() {
    // Two triangles joined by one cable.
    let cables = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)];
    let mut mesh = Mesh::settled(6, &cables);
    mesh.fail(6);
    mesh.settle();
    mesh.truth();
    let depth = 3;
    assert!(mesh.flights <= 2 * 5 * depth, "{} flights", mesh.flights);
    for node in 0..6 {
        for root in 0..6 {
            let (lost, last) = (
                TreeEvent::Lost { root: guid(root) },
                |event: &&TreeEvent| {
                    matches!(
                        event,
                        TreeEvent::Lost { root: of } | TreeEvent::Attached { root: of, .. }
                            if *of == guid(root),
                    )
                },
            );
            let reported = mesh.events[node].iter().rev().find(last) == Some(&lost);
            assert_eq!(reported, (node < 3) != (root < 3), "{node} of {root}");
        }
    }
    mesh.mend(6);
    mesh.settle();
    mesh.truth();
    for node in 0..6 {
        for root in (0..6).filter(|root| (node < 3) != (*root < 3)) {
            let attached = |event: &TreeEvent| {
                matches!(
                    event,
                    TreeEvent::Attached { root: of, .. } if *of == guid(root),
                )
            };
            assert!(mesh.events[node].iter().any(attached), "{node} to {root}");
        }
    }
}

/// No node waits for a searching node: two that send requests to each other both find out.
#[test]
fn two_nodes_that_search_at_each_other_both_learn_of_the_loss() {
    let mut mesh = Mesh::settled(3, &[(0, 1), (0, 2), (1, 2)]);
    mesh.fail(0);
    mesh.fail(1);
    mesh.settle();
    mesh.truth();
    assert_eq!(mesh.standing(1, 0), Some(Standing::Lost));
    assert_eq!(mesh.standing(2, 0), Some(Standing::Lost));
    mesh.mend(1);
    mesh.settle();
    mesh.truth();
    assert!(mesh.attached(1, 0) && mesh.attached(2, 0));
}

#[test]
fn routes_become_shortest_again_with_ticks() {
    let mut mesh = Mesh::settled(16, &grid(4, 4));
    for cable in [0, 1, 5, 9, 14] {
        mesh.fail(cable);
        mesh.settle();
        mesh.truth();
    }
    for cable in [0, 1, 5, 9, 14] {
        mesh.mend(cable);
        mesh.settle();
        mesh.truth();
    }
    mesh.run(12);
    mesh.truth();
    assert!(mesh.is_shortest());
    let before = mesh.news;
    mesh.run(2);
    assert_eq!(mesh.news, before, "when quiescent, only digests are sent");
}
