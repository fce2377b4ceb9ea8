//! Any graph, any failures, any order.

use fastrand::Rng;
use proptest::{collection::vec, prelude::*, sample::Index};

use crate::mesh::Mesh;

#[derive(Debug, Clone)]
enum Step {
    /// This many messages are written or received, in random order.
    Jog(u16),
    /// A link fails at one end.
    FailAt(Index, usize),
    /// The other end, or the first one too.
    Fail(Index),
    Mend(Index),
    Restart(Index),
    Tick(Index),
    /// Enough ticks to forget unreachable trees, if all neighbors know of it.
    Ticks(Index),
    Settle,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    vec(
        prop_oneof![
            6 => (1..200u16).prop_map(Step::Jog),
            3 => (any::<Index>(), 0..2usize).prop_map(|(cable, side)| Step::FailAt(cable, side)),
            2 => any::<Index>().prop_map(Step::Fail),
            4 => any::<Index>().prop_map(Step::Mend),
            1 => any::<Index>().prop_map(Step::Restart),
            2 => any::<Index>().prop_map(Step::Tick),
            1 => any::<Index>().prop_map(Step::Ticks),
            1 => Just(Step::Settle),
        ],
        1..60,
    )
}

/// Nodes, and cables between them: a tree that joins all, and some more.
fn graphs() -> impl Strategy<Value = (usize, Vec<(usize, usize)>)> {
    (2..=12usize).prop_flat_map(|nodes| {
        let joined = vec(any::<Index>(), nodes - 1);
        let more = vec((any::<Index>(), any::<Index>()), 0..nodes + 3);
        (Just(nodes), joined, more).prop_map(|(nodes, joined, more)| {
            let mut cables: Vec<(usize, usize)> = joined
                .iter()
                .enumerate()
                .map(|(at, to)| (at + 1, to.index(at + 1)))
                .collect();
            for (a, b) in more {
                let (a, b) = (a.index(nodes), b.index(nodes));
                let valence = |node| {
                    cables
                        .iter()
                        .filter(|&&(x, y)| x == node || y == node)
                        .count()
                };
                if a != b && valence(a) < 8 && valence(b) < 8 {
                    cables.push((a, b));
                }
            }
            (nodes, cables)
        })
    })
}

fn run(nodes: usize, cables: &[(usize, usize)], steps: &[Step], seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let mut mesh = Mesh::new(nodes, cables);
    for cable in 0..cables.len() {
        mesh.mend(cable);
    }
    let mut incarnation = 1;
    for step in steps {
        match step {
            Step::Jog(times) => (0..*times).for_each(|_| mesh.jog(&mut rng)),
            Step::FailAt(cable, side) => mesh.fail_at(cable.index(cables.len()), *side),
            Step::Fail(cable) => mesh.fail(cable.index(cables.len())),
            Step::Mend(cable) => mesh.mend(cable.index(cables.len())),
            Step::Restart(node) => {
                incarnation += 1;
                let node = node.index(nodes);
                let up: Vec<usize> = mesh.cables_of(node);
                mesh.restart(node, incarnation);
                for cable in up {
                    if rng.bool() {
                        mesh.mend(cable);
                    }
                }
            }
            Step::Tick(node) => mesh.tick_at(node.index(nodes)),
            Step::Ticks(node) => (0..250).for_each(|_| mesh.tick_at(node.index(nodes))),
            Step::Settle => mesh.settle(),
        }
    }
    // A failure is noticed at the other end too, sooner or later.
    for cable in 0..cables.len() {
        if !mesh.is_up(cable) {
            mesh.fail(cable);
        }
    }
    mesh.settle();
    // A second wave of a root within a tick waits for the next tick.
    mesh.run(1);
    mesh.truth();
    mesh.run(nodes * 6 + 2);
    mesh.truth();
    assert!(mesh.is_shortest());
    let before = mesh.news;
    mesh.run(2);
    assert_eq!(mesh.news, before, "when quiescent, only digests are sent");
    for cable in 0..cables.len() {
        mesh.mend(cable);
    }
    mesh.settle();
    mesh.truth();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// At every instant there is no loop and labels are in order. At rest, every node that can
    /// attach is attached, and every other node knows that it cannot.
    #[test]
    fn trees_hold_their_invariants_in_any_run(
        (nodes, cables) in graphs(),
        steps in steps(),
        seed: u64,
    ) {
        run(nodes, &cables, &steps, seed);
    }
}
