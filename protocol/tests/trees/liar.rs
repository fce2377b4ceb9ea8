//! A neighbor that announces roots that do not exist.

use std::collections::VecDeque;

use covalent_protocol::tree::{
    Label, Standing, TreeEvent,
    note::{CONTROL_MESSAGE_BYTES_MAX, ITEMS_MAX, Item, Writer},
};

use crate::mesh::{Mesh, config, grid, guid};

/// Roots that a node keeps, and places that it has.
const ROOTS_MAX: usize = 64;
const TREES_MAX: usize = ROOTS_MAX + ROOTS_MAX / 8;
/// Honest nodes at most: half as many as roots.
const HONEST_MAX: usize = ROOTS_MAX / 2;

/// Nodes up to which it is looked at each step that there is no loop.
const CHECKED_MAX: usize = 12;

const fn invented(number: usize) -> u64 {
    (1 << 40) + ((number as u64) << 8)
}

/// Adverts of these roots: attached if `attached`, else unreachable.
fn adverts(roots: impl Iterator<Item = u64>, attached: bool, child: bool) -> Vec<Vec<u8>> {
    let rank = if child { Label::RANK_MAX } else { 0 };
    ranked_adverts(roots, rank, attached, child)
}

/// The same, with this rank.
fn ranked_adverts(
    roots: impl Iterator<Item = u64>,
    rank: u64,
    attached: bool,
    child: bool,
) -> Vec<Vec<u8>> {
    let roots: Vec<u64> = roots.collect();
    let note = |roots: &[u64]| {
        let mut space = vec![0; CONTROL_MESSAGE_BYTES_MAX];
        let mut writer = Writer::advert(&mut space);
        for &root in roots {
            writer.item(Item {
                label: Label::new(1, rank),
                attached,
                child,
                ..Item::bound(root, Label::FURTHEST)
            });
        }
        let len = writer.finish().unwrap();
        space.truncate(len);
        space
    };
    roots.chunks(ITEMS_MAX).map(note).collect()
}

/// Honest nodes, and behind them one that lies on all its cables, which are the last.
struct Liar {
    mesh: Mesh,
    honest: usize,
    /// The first one.
    cable: usize,
}

impl Liar {
    /// The liar is cabled to node 0 and up; the others are not yet.
    fn new(honest: usize, cables: &[(usize, usize)]) -> Self {
        Self::cabled(honest, cables, 1)
    }

    /// The same, with so many cables in parallel.
    fn cabled(honest: usize, cables: &[(usize, usize)], parallel: usize) -> Self {
        let mut all = cables.to_vec();
        all.extend(vec![(0, honest); parallel]);
        let mut mesh = Mesh::new(honest + 1, &all);
        let cable = cables.len();
        mesh.is_checked = honest <= CHECKED_MAX;
        for cable in cable..all.len() {
            mesh.lies.insert((cable, 1), VecDeque::new());
            mesh.mend(cable);
        }
        Self {
            mesh,
            honest,
            cable,
        }
    }

    fn send(&mut self, messages: Vec<Vec<u8>>) {
        self.send_on(0, messages);
    }

    /// The same, on another of its cables.
    fn send_on(&mut self, parallel: usize, messages: Vec<Vec<u8>>) {
        let lies = self.mesh.lies.get_mut(&(self.cable + parallel, 1)).unwrap();
        lies.extend(messages);
    }

    /// Passes `ticks` ticks, with `lie` before each.
    fn run(&mut self, ticks: usize, mut lie: impl FnMut(usize) -> Vec<Vec<u8>>) {
        for tick in 0..ticks {
            self.send(lie(tick));
            self.mesh.settle();
            self.mesh.run(1);
            for node in 0..self.honest {
                let trees = self.mesh.nodes[node].trees().count();
                assert!(trees <= TREES_MAX, "{trees} trees at {node}");
            }
        }
    }

    /// Honest nodes that do not know the way to an honest one.
    fn locked_out(&self, nodes: usize) -> Vec<(usize, usize)> {
        let pairs = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to)));
        pairs
            .filter(|&(from, to)| !self.mesh.attached(from, to))
            .collect()
    }

    /// Times that a way between honest nodes was lost.
    fn losses(&self) -> usize {
        let is_honest = |root| (0..self.honest).any(|node| guid(node) == root);
        let lost =
            |event: &&TreeEvent| matches!(event, TreeEvent::Lost { root } if is_honest(*root));
        let events = self.mesh.events[..self.honest].iter().flatten();
        events.filter(lost).count()
    }
}

/// Cables of a row, of a ring, of a star around node 0 and of a grid.
fn shapes() -> [(usize, Vec<(usize, usize)>); 4] {
    let row = |nodes: usize| (1..nodes).map(|node| (node - 1, node));
    [
        (HONEST_MAX, row(HONEST_MAX).collect()),
        (9, row(9).chain([(8, 0)]).collect()),
        (15, (1..15).map(|node| (0, node)).collect()),
        (12, grid(4, 3)),
    ]
}

#[test]
fn invented_roots_lock_out_no_later_node() {
    for (nodes, cables) in shapes() {
        for roots in [26, 10_000] {
            let mut liar = Liar::new(nodes, &cables);
            liar.run(3, |_| adverts((0..roots).map(invented), true, false));
            // One cable after the other, so that most arrive at a full table.
            for cable in 0..cables.len() {
                liar.mesh.mend(cable);
                liar.run(2, |_| vec![]);
            }
            // A tree that waits for space is requested every 64 ticks.
            for _ in 0..10 {
                if !liar.locked_out(nodes).is_empty() {
                    liar.run(64, |_| vec![]);
                }
            }
            assert_eq!(liar.locked_out(nodes), [], "{nodes} nodes, {roots} roots");
            assert_eq!(liar.losses(), 0, "{nodes} nodes, {roots} roots");
        }
    }
}

#[test]
fn invented_roots_displace_no_node_that_is_known() {
    for (nodes, cables) in shapes() {
        let mut liar = Liar::new(nodes, &cables);
        for cable in 0..cables.len() {
            liar.mesh.mend(cable);
        }
        liar.run(2, |_| vec![]);
        liar.mesh.clear_events();
        liar.run(50, |tick| {
            let roots = 200 * tick..200 * (tick + 1);
            adverts(roots.map(invented), true, false)
        });
        assert_eq!(liar.losses(), 0, "{nodes} nodes");
        assert_eq!(liar.locked_out(nodes), []);
        assert!(liar.mesh.nodes[0].take_refused(0) > 1_000);
    }
}

/// A row and a grid that are as large as may be.
fn large() -> [(usize, Vec<(usize, usize)>); 2] {
    let row = (1..HONEST_MAX).map(|node| (node - 1, node));
    [
        (HONEST_MAX, row.collect()),
        (HONEST_MAX, grid(HONEST_MAX / 4, 4)),
    ]
}

/// Different roots on each cable take no more space than all of them on one.
#[test]
fn roots_invented_on_many_cables_lock_out_no_later_node() {
    for (nodes, cables) in large() {
        for parallel in [2, 4] {
            let mut liar = Liar::cabled(nodes, &cables, parallel);
            for number in 0..parallel {
                let roots = (200 * number..200 * (number + 1)).map(invented);
                liar.send_on(number, adverts(roots, true, false));
            }
            liar.run(3, |_| vec![]);
            for cable in 0..cables.len() {
                liar.mesh.mend(cable);
                liar.run(2, |_| vec![]);
            }
            liar.run(640, |_| vec![]);
            let case = format!("{cables:?}: {parallel}");
            assert_eq!(liar.locked_out(nodes), [], "{case}");
            assert_eq!(liar.losses(), 0, "{case}");
        }
    }
}

/// A tree that is turned away on one cable is not taken on the next.
#[test]
fn roots_that_constantly_change_cables_lock_no_node_out() {
    for (nodes, cables) in large() {
        for parallel in [2, 4] {
            let mut liar = Liar::cabled(nodes, &cables, parallel);
            for tick in 0..700 {
                let roots = || (0..ROOTS_MAX).map(invented);
                liar.send_on(tick % parallel, adverts(roots(), false, false));
                liar.send_on((tick + 1) % parallel, adverts(roots(), true, false));
                // One node arrives every other tick, at a full table.
                if tick % 2 == 0 && (1..=cables.len()).contains(&(tick / 2)) {
                    liar.mesh.mend(tick / 2 - 1);
                }
                liar.run(1, |_| vec![]);
            }
            let case = format!("{cables:?}: {parallel}");
            assert_eq!(liar.locked_out(nodes), [], "{case}");
        }
    }
}

/// A root that another neighbor knows too does not give way to the adverts of one neighbor on all
/// its cables.
#[test]
fn roots_that_one_neighbor_announces_on_many_cables_count_once() {
    const FAR: usize = 2;
    // The others arrive at a full table.
    let mut cables = vec![(0, 1), (1, FAR)];
    cables.extend((FAR + 1..9).map(|leaf| (0, leaf)));
    let mut liar = Liar::cabled(9, &cables, 4);
    liar.mesh.is_checked = false;
    liar.mesh.mend(0);
    liar.mesh.mend(1);
    liar.run(2, |_| vec![]);
    let wave = liar.mesh.nodes[0].tree(guid(FAR)).unwrap().label.wave();
    let nearer = Item {
        label: Label::new(wave, 0),
        incarnation: 1,
        attached: true,
        hops: 0,
        ..Item::bound(guid(FAR), Label::FURTHEST)
    };
    let mut space = vec![0; CONTROL_MESSAGE_BYTES_MAX];
    let mut writer = Writer::advert(&mut space);
    writer.item(nearer);
    let len = writer.finish().unwrap();
    liar.send(vec![space[..len].to_vec()]);
    liar.run(2, |_| vec![]);
    let parent = liar.mesh.nodes[0].tree(guid(FAR)).unwrap().parent;
    assert_eq!(parent, Some(0), "the liar's first neighbor index");
    liar.mesh.clear_events();
    for tick in 0..100 {
        for number in 0..4 {
            liar.send_on(number, adverts((0..200).map(invented), true, false));
        }
        if (10..10 + cables.len() - 2).contains(&tick) {
            liar.mesh.mend(tick - 8);
        }
        liar.run(1, |_| vec![]);
    }
    assert!((3..9).all(|leaf| liar.mesh.attached(0, leaf)));
    assert_eq!(liar.losses(), 0);
}

/// None gives way to adverts on many cables.
#[test]
fn roots_invented_on_many_cables_displace_no_node_that_is_known() {
    for (nodes, cables) in large() {
        for parallel in [2, 4] {
            let mut liar = Liar::cabled(nodes, &cables, parallel);
            for cable in 0..cables.len() {
                liar.mesh.mend(cable);
            }
            liar.run(2, |_| vec![]);
            liar.mesh.clear_events();
            for tick in 0..100 {
                for number in 0..parallel {
                    let first = 50 * (tick * parallel + number);
                    let fresh = adverts((first..first + 50).map(invented), true, false);
                    liar.send_on(number, fresh);
                }
                liar.run(1, |_| vec![]);
            }
            let case = format!("{cables:?}: {parallel}");
            assert_eq!(liar.losses(), 0, "{case}");
            assert_eq!(liar.locked_out(nodes), [], "{case}");
        }
    }
}

/// Unreachable roots, and roots to which the liar uses this node's path, count as its space too.
#[test]
fn roots_that_constantly_come_and_go_lock_no_node_out() {
    for pinned in [false, true] {
        let (nodes, cables) = (8, grid(4, 2));
        let mut liar = Liar::new(nodes, &cables);
        let mut churn = |tick: usize| {
            let roots = || (150 * tick..150 * (tick + 1)).map(invented);
            let mut messages = adverts(roots(), true, false);
            messages.extend(adverts(roots(), pinned, pinned));
            messages
        };
        liar.run(20, &mut churn);
        for cable in 0..cables.len() {
            liar.mesh.mend(cable);
            liar.run(2, &mut churn);
        }
        liar.run(150, &mut churn);
        assert_eq!(liar.locked_out(nodes), [], "pinned: {pinned}");
    }
}

/// A liar that revokes the path to half of its roots, by its adverts at that time.
fn roots_taken_back(by: impl Fn(std::ops::Range<usize>) -> Vec<Vec<u8>>) {
    // Node 1 alone is there when the liar fills the table, and all others come behind it.
    let cables: Vec<_> = (1..HONEST_MAX).map(|node| (node - 1, node)).collect();
    let mut liar = Liar::new(HONEST_MAX, &cables);
    liar.mesh.fail(liar.cable);
    // Node 1 therefore has the lower neighbor index.
    liar.mesh.mend(0);
    liar.mesh.settle();
    liar.mesh.mend(liar.cable);
    liar.run(3, |_| {
        adverts((0..ROOTS_MAX - 2).map(invented), true, false)
    });
    assert_eq!(liar.mesh.nodes[0].trees().count(), ROOTS_MAX);
    liar.run(2, |_| by(0..ROOTS_MAX / 2));
    assert_eq!(liar.mesh.nodes[0].trees().count(), ROOTS_MAX);
    for cable in 1..cables.len() {
        liar.mesh.mend(cable);
        liar.run(2, |_| vec![]);
    }
    liar.run(640, |_| vec![]);
    assert_eq!(liar.locked_out(HONEST_MAX), []);
}

/// A node that requests another path from the liar, which never answers, keeps the tree, and so do
/// its children. The tree counts against the liar and not against them.
#[test]
fn searched_roots_count_for_the_neighbor_that_announced_them() {
    roots_taken_back(|roots| {
        ranked_adverts(roots.map(invented), 9 * Label::HOP_RANKS, true, false)
    });
}

/// An unreachable root is not forgotten while a neighbor advertises that it is attached to this
/// node.
#[test]
fn lost_roots_that_a_neighbor_keeps_from_being_forgotten_are_its_share() {
    roots_taken_back(|roots| adverts(roots.map(invented), true, true));
}

/// Labels therefore stay in order: a node attached to this node has a label further than its own.
#[test]
fn a_lost_root_is_forgotten_only_when_no_neighbor_is_attached() {
    // More than those after which a lost tree is forgotten.
    const TICKS: usize = 260;
    let mut liar = Liar::new(1, &[]);
    let root = || std::iter::once(invented(0));
    liar.run(1, |_| adverts(root(), true, false));
    let before = liar.mesh.nodes[0].tree(invented(0)).unwrap();
    assert_eq!(before.standing, Standing::Attached);
    liar.run(1, |_| adverts(root(), true, true));
    liar.run(TICKS, |_| vec![]);
    let lost = liar.mesh.nodes[0].tree(invented(0)).unwrap();
    assert_eq!((lost.standing, lost.label), (Standing::Lost, before.label));
    liar.run(1, |_| adverts(root(), false, false));
    liar.run(TICKS, |_| vec![]);
    assert_eq!(liar.mesh.nodes[0].standing(invented(0)), None);
}

/// The only neighbor may announce the whole fabric.
#[test]
fn a_fabric_of_the_configured_size_meets_no_quota() {
    let cables: Vec<_> = (1..ROOTS_MAX).map(|node| (node - 1, node)).collect();
    let mut mesh = Mesh::settled(ROOTS_MAX, &cables);
    mesh.fail(ROOTS_MAX / 2);
    mesh.settle();
    mesh.run(3);
    mesh.mend(ROOTS_MAX / 2);
    mesh.settle();
    // Longer than a node waits for the farthest root before it turns it away.
    mesh.run(2 * ROOTS_MAX + 3);
    mesh.truth();
    for node in &mut mesh.nodes {
        assert_eq!(node.take_refused(0) + node.take_refused(1), 0);
    }
}

/// A tree that was turned away returns when there is space.
#[test]
fn an_evicted_root_is_taken_in_when_there_is_room_again() {
    // A star of ten around node 0, and behind node 1 more nodes than fit.
    let arms = 10;
    let mut cables: Vec<_> = (1..=arms).map(|arm| (0, arm)).collect();
    let first = arms + 1;
    let nodes = first + ROOTS_MAX - 6;
    cables.extend((first..nodes).map(|node| {
        if node == first {
            (1, node)
        } else {
            (node - 1, node)
        }
    }));
    let mut mesh = Mesh::new(nodes, &cables);
    mesh.is_checked = false;
    for cable in (arms..cables.len()).chain(0..arms) {
        mesh.mend(cable);
        mesh.settle();
    }
    mesh.run(2 * ROOTS_MAX + 20);
    for arm in 1..=arms {
        assert!(mesh.attached(0, arm), "{arm}");
    }
    let unknown = |mesh: &Mesh| (0..nodes).filter(|&node| !mesh.attached(0, node)).count();
    assert!(
        (1..=nodes - ROOTS_MAX + 1).contains(&unknown(&mesh)),
        "{}",
        unknown(&mesh)
    );
    // Those at the far end are cut off for good, and forgotten.
    mesh.fail(cables.len() - 20);
    mesh.run(40);
    let near = |node: usize| node + 20 < nodes;
    let missing: Vec<_> = (0..nodes)
        .filter(|&node| near(node) && mesh.standing(0, node) != Some(Standing::Attached))
        .collect();
    assert_eq!(missing, []);
    assert_eq!(usize::from(config(0, 1).roots_max), ROOTS_MAX);
}
