//! Four nodes in a square, each with two lanes and one cable on each lane: every node knows every
//! other one, whatever fails.

use std::path::Path;

use covalent_api::{
    event::EventKind,
    request::{Reply, Request},
    status::{FarNodeStatus, NodeStatus},
};

use super::{
    client::{App, Client, Verbs},
    node::{Node, eventually},
    verbs::count_up,
};

/// The corners in order, and the cables between them: `ab` joins lane 0 of `a` with lane 1 of `b`,
/// and so on.
const CORNERS: [&str; 4] = ["a", "b", "c", "d"];
const CABLES: [&str; 4] = ["ab", "bc", "cd", "da"];

/// One corner, not started.
fn corner(dir: &Path, at: usize) -> Node {
    let cables = [CABLES[at], CABLES[(at + 3) % 4]];
    let mut node = Node::new(dir, CORNERS[at], &cables, "[[lane]]\n[[lane]]\n");
    node.config.port[1].lane = 1;
    node
}

fn square(dir: &Path) -> [Node; 4] {
    let nodes = [0, 1, 2, 3].map(|at| corner(dir, at).start());
    for node in &nodes {
        eventually("every node reaches every other node", || {
            reached(&node.status()).len() == 3
        });
    }
    nodes
}

/// Names and ports of the nodes that are reached.
fn reached(status: &NodeStatus) -> Vec<(String, String)> {
    let reached = |node: &&FarNodeStatus| node.standing == "reached" && node.name.is_some();
    let mut nodes: Vec<_> = (status.nodes.iter())
        .filter(reached)
        .map(|node| {
            let port = node.port.clone().expect("a way leads over a port");
            (node.name.clone().expect("it has one"), port)
        })
        .collect();
    nodes.sort();
    nodes
}

fn path_port(node: &Node, to: &str) -> Option<String> {
    let nodes = reached(&node.status());
    let found = nodes.into_iter().find(|(name, _)| name == to);
    found.map(|(_, port)| port)
}

/// The next event about a node's being reached.
fn next(subscriber: &mut Client) -> (bool, String) {
    loop {
        let Some((Reply::Event(event), _)) = subscriber.receive() else {
            panic!("an event")
        };
        match event.kind {
            EventKind::NodeReachable {
                name, hops, port, ..
            } => {
                assert!(hops > 0 && !port.is_empty());
                return (true, name);
            }
            EventKind::NodeUnreachable { name, .. } => return (false, name),
            EventKind::FabricProblem { reason, .. } => panic!("{reason}"),
            _ => {}
        }
    }
}

#[test]
fn all_nodes_know_each_other_and_a_pulled_cable_changes_only_the_path() {
    let dir = tempfile::tempdir().expect("a directory");
    let [a, b, c, d] = &square(dir.path());
    for (node, name) in [a, b, c, d].into_iter().zip(CORNERS) {
        let others: Vec<_> = CORNERS.into_iter().filter(|other| *other != name).collect();
        // Of a machine that stands still a link fails now and then, and comes up again: all is
        // judged of one status, and the way round the square is longer.
        eventually("each knows all others, by the short ways", || {
            let status = node.status();
            let known = reached(&status).into_iter().map(|(name, _)| name);
            let fabric = status.fabric.as_ref().expect("it takes part");
            // The neighbor on lane 1's cable: to lane 1, over the cable to its lane 0.
            let mut hops = status.nodes.iter().map(|node| node.hops.unwrap_or(0));
            known.eq(others.iter().copied())
                && (fabric.reached, fabric.lost) == (3, 0)
                && hops.all(|hops| (1..=4).contains(&hops))
        });
    }
    eventually("neighbors are reached over their own cables", || {
        path_port(a, "b").as_deref() == Some("ab") && path_port(a, "d").as_deref() == Some("da")
    });

    let mut subscriber = a.client();
    subscriber.done(&Request::Subscribe);
    let set = |enabled| Request::SetPort {
        port: "ab".into(),
        enabled,
    };
    a.client().done(&set(false));
    eventually("the way leads round the square", || {
        path_port(a, "b").as_deref() == Some("da") && path_port(b, "a").as_deref() == Some("bc")
    });
    a.client().done(&set(true));
    eventually("the shorter way is taken again", || {
        path_port(a, "b").as_deref() == Some("ab") && path_port(b, "a").as_deref() == Some("ab")
    });
    let fabric = a.status().fabric.expect("it takes part");
    assert!(fabric.repairs.values().sum::<u64>() > 0, "{fabric:?}");
    eventually("all others are reached", || reached(&a.status()).len() == 3);
}

#[test]
fn a_dead_node_is_reported_by_name_and_readmitted_on_return() {
    let dir = tempfile::tempdir().expect("a directory");
    let [a, b, mut c, d] = square(dir.path());
    let mut subscribers = [&a, &b, &d].map(|node| {
        let mut client = node.client();
        client.done(&Request::Subscribe);
        client
    });
    c.daemon.take().expect("it runs").stop();
    for subscriber in &mut subscribers {
        while next(subscriber) != (false, "c".to_owned()) {}
    }
    for node in [&a, &b, &d] {
        eventually("it is shown as lost, or forgotten", || {
            let status = node.status();
            let fabric = status.fabric.as_ref().expect("it takes part");
            fabric.reached == 2
                && status
                    .nodes
                    .iter()
                    .all(|node| node.name.as_deref() != Some("c") || node.standing == "lost")
        });
    }
    let c = c.start();
    // A machine that stands still for a while may have others lost and found meanwhile.
    for subscriber in &mut subscribers {
        while next(subscriber) != (true, "c".to_owned()) {}
    }
    eventually("it knows all others again", || {
        reached(&c.status()).len() == 3
    });
}

/// Two hops and the cables between lanes: over `b` or over `d`, of which one always is whole.
#[test]
fn verbs_reach_the_far_corner_exactly_once_despite_failures() {
    const VERBS: u64 = 1_200;
    let dir = tempfile::tempdir().expect("a directory");
    let [a, b, c, d] = square(dir.path());
    let mut owner = App::attach(&c.config.socket_path());
    let (rkey, memory) = owner.register("far", 64);
    let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
    let mut middle = Some(b);
    let set = |node: &Node, port: &str, enabled| {
        let port = port.to_owned();
        node.client().done(&Request::SetPort { port, enabled });
    };
    let mut steps = 0;
    let (done, _) = count_up(&mut verbs, c.guid(), rkey, VERBS, |done| {
        if steps == 5 || done < (steps + 1) * VERBS / 6 {
            return;
        }
        steps += 1;
        match steps {
            1 => set(&a, "ab", false),
            2 => {
                set(&a, "ab", true);
                set(&d, "da", false);
            }
            3 => set(&d, "da", true),
            // With everything that it passed on.
            4 => {
                let mut node = middle.take().expect("it is there");
                node.daemon.take().expect("it runs").stop();
                middle = Some(node);
            }
            _ => {
                middle = middle.take().map(Node::start);
                eventually("it knows the way again", || {
                    middle
                        .as_ref()
                        .is_some_and(|node| reached(&node.status()).len() == 3)
                });
                set(&d, "cd", false);
            }
        }
    });
    assert_eq!((steps, done), (5, VERBS));
    assert_eq!(memory.load(0), Some(VERBS));
    let there = c.status();
    assert_eq!(there.verbs.executed["fetch_add"], VERBS);
    let fabric = |node: &Node| node.status().fabric.expect("it takes part");
    let here = a.status();
    assert_eq!((here.verbs.completed, here.verbs.in_doubt), (VERBS, 0));
    assert!(fabric(&a).paths["opened"] > 1, "{:?}", fabric(&a).paths);
    assert!(fabric(&c).paths["accepted"] > 1, "{:?}", fabric(&c).paths);
    for between in [middle.as_ref().expect("it is there"), &d] {
        assert!(fabric(between).passed_records > 0);
    }
    assert!(here.paths.iter().any(|path| path.far.bits() == c.guid()));
}

#[test]
fn a_node_without_fabric_knows_no_node_and_joins_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let lanes = "[fabric]\nenabled = false\n[[lane]]\n[[lane]]\n";
    let outside = Node::new(dir.path(), "a", &["ab"], lanes).start();
    let inside = Node::new(dir.path(), "b", &["ab"], "").start();
    eventually("the link is up", || {
        inside.status().links.iter().all(|link| link.state == "up")
    });
    let status = outside.status();
    assert_eq!((status.fabric, status.nodes), (None, Vec::new()));
    assert_eq!(status.ports.len(), 1, "lanes are not joined");
    let status = inside.status();
    let fabric = status.fabric.expect("it takes part");
    assert_eq!((fabric.reached, fabric.lost), (0, 0));
}
