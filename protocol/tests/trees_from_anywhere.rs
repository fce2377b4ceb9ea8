//! From arbitrary tables and messages in flight: within four ticks all connected nodes are
//! attached, without a loop.
//!
//! `COVALENT_TREES_SEED` runs one start.
#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]

#[path = "trees/mesh.rs"]
#[allow(dead_code, reason = "shared with the other tests of trees")]
mod mesh;
mod rack;

use std::time::{Duration, Instant};

use covalent_protocol::tree::{
    Label, Standing,
    note::{CONTROL_MESSAGE_BYTES_MAX, Digest, Item, Writer, write_resync},
};
use fastrand::Rng;
use mesh::{Mesh, guid};
use rack::Rack;

const STARTS: u64 = 20_000;
/// Never fewer.
const STARTS_MIN: u64 = 50;
/// As many as that where more would take longer.
const TIME: Duration = Duration::from_secs(3);

/// A control message that a node could send, about existing or invented roots.
fn note(rng: &mut Rng, nodes: usize) -> Vec<u8> {
    let mut space = [0; CONTROL_MESSAGE_BYTES_MAX];
    let root = |rng: &mut Rng| match rng.usize(..nodes + 1) {
        at if at < nodes => guid(at),
        _ => 0x0dea_d000,
    };
    let label = |rng: &mut Rng| {
        let wave = if rng.bool() {
            rng.u64(..5)
        } else {
            rng.u64(..1 << 46)
        };
        Label::new(wave, rng.u64(..10) * Label::HOP_RANKS)
    };
    let len = match rng.u8(..5) {
        0 => {
            let mut writer = Writer::denied(&mut space);
            writer.root(root(rng));
            writer.finish()
        }
        1 => {
            let mut writer = Writer::search(&mut space);
            writer.item(Item::bound(root(rng), label(rng)));
            writer.finish()
        }
        2 => Digest {
            answers: rng.u8(..3),
            items: rng.u32(..4),
            sum: rng.u64(..),
        }
        .write(&mut space),
        3 => write_resync(rng.u8(1..), &mut space),
        _ => {
            let mut writer = Writer::advert(&mut space);
            for _ in 0..rng.usize(1..4) {
                let attached = rng.bool();
                writer.item(Item {
                    hops: if attached { rng.u16(..9) } else { 0 },
                    incarnation: rng.u16(..3),
                    attached,
                    child: attached && rng.bool(),
                    ..Item::bound(root(rng), label(rng))
                });
            }
            writer.finish()
        }
    };
    space[..len.unwrap()].to_vec()
}

/// Starts from arbitrary state. Returns the ticks after which all nodes were attached and stayed
/// so.
fn find_back(seed: u64) -> u32 {
    let mut rng = Rng::with_seed(seed);
    let nodes = rng.usize(3..=12);
    let mut cables: Vec<(usize, usize)> = (1..nodes).map(|at| (at, rng.usize(..at))).collect();
    for _ in 0..rng.usize(..nodes) {
        let (a, b) = (rng.usize(..nodes), rng.usize(..nodes));
        if a != b {
            cables.push((a, b));
        }
    }
    let mut mesh = Mesh::settled(nodes, &cables);
    mesh.is_checked = false;
    // All of them, or one.
    let one = rng.bool().then(|| rng.usize(..nodes));
    for node in 0..nodes {
        if one.is_none_or(|one| one == node) {
            mesh.nodes[node].scramble(rng.u64(..));
        }
    }
    for cable in &mut mesh.cables {
        for in_flight in &mut cable.in_flight {
            for _ in 0..rng.usize(..3) {
                in_flight.push_back(note(&mut rng, nodes));
            }
        }
    }
    for _ in 0..rng.usize(..500) {
        mesh.jog(&mut rng);
    }
    mesh.run(2);
    // From here on there is no loop at any instant.
    mesh.is_checked = true;
    mesh.forget_nearest();
    let mut ticks = 2;
    while mesh.find_fault().is_some() && ticks < 4 {
        mesh.run(1);
        ticks += 1;
    }
    if let Some(fault) = mesh.find_fault() {
        panic!("seed {seed}, after {ticks} ticks: {fault}");
    }
    mesh.run(2);
    // Shortest paths take ticks for each hop.
    mesh.is_checked = false;
    mesh.run(nodes * 6);
    if let Some(fault) = mesh.find_fault() {
        panic!("seed {seed}, later: {fault}");
    }
    assert!(mesh.is_shortest(), "seed {seed}");
    for node in 0..nodes {
        let ghost = |tree: &covalent_protocol::tree::TreeView| {
            (0..nodes).all(|at| guid(at) != tree.root) && tree.standing != Standing::Lost
        };
        assert!(
            !mesh.nodes[node].trees().any(|tree| ghost(&tree)),
            "seed {seed}"
        );
    }
    ticks
}

#[test]
fn trees_find_back_from_arbitrary_tables() {
    if let Ok(seed) = std::env::var("COVALENT_TREES_SEED") {
        find_back(seed.parse().unwrap());
        return;
    }
    let start = Instant::now();
    let mut costs = vec![];
    for seed in 0..STARTS {
        if seed >= STARTS_MIN && start.elapsed() > TIME {
            break;
        }
        costs.push(find_back(seed));
    }
    costs.sort_unstable();
    let at = |part: f64| costs[((costs.len() - 1) as f64 * part) as usize];
    #[expect(clippy::print_stdout, reason = "the promise names these figures")]
    {
        println!(
            "{} starts: ticks until all are permanently attached, two at least: p50 {}, p99 {}, \
             max {}",
            costs.len(),
            at(0.5),
            at(0.99),
            at(1.0)
        );
    }
}

/// Whole nodes, links and all: first the links find back, then the trees.
#[test]
fn whole_nodes_find_back_from_arbitrary_registers() {
    let start = Instant::now();
    let mut seeds = 0;
    while seeds < 20 || (seeds < 500 && start.elapsed() < TIME / 3) {
        let mut rng = Rng::with_seed(seeds);
        let mut rack = Rack::up(5, &[(0, 1), (1, 2), (2, 3), (3, 0), (3, 4)]);
        let common = [0, 1, u32::MAX, rng.u32(..)][rng.usize(..4)];
        rack.is_sound = false;
        for (node, host) in rack.nodes.iter_mut().zip(&mut rack.hosts) {
            node.scramble(rng.u64(..), common, host);
        }
        // Silence reveals the last link that is up at one end only. That takes four ticks.
        for _ in 0..24 {
            rack.tick();
        }
        rack.settle();
        for from in 0..5 {
            for to in (0..5).filter(|to| *to != from) {
                let route = rack.route(from, to);
                assert_eq!(route.last(), Some(&to), "seed {seeds}: from {from}");
            }
        }
        seeds += 1;
    }
}
