//! The invariants of every state.

use super::{scenario::Scenario, world::World};
use crate::check::Invariant;

/// Parents over links that are up at both ends form no loop.
pub const ACYCLIC: &str = "no loop of parents";
/// A label comes only nearer, and a parent's is nearer than the node's own.
pub const ORDER: &str = "labels in order";
/// If nothing is left to happen, every node that is connected with the root is attached, and every
/// other node knows that it is not.
pub const ENDS: &str = "every run ends with all connected nodes in the tree";
/// If nothing is left to happen, a node keeps a neighbor as its child exactly if that neighbor is
/// attached to it.
pub const ONE_PARENT: &str = "every run ends with each node known to its parent alone";

/// All of them. From a table that holds anything only how runs end is promised.
pub const ALL: &[Invariant<Scenario>] = &[
    (ACYCLIC, |scenario, world| {
        scenario.garbage.is_some() || is_acyclic(scenario, world)
    }),
    (ORDER, |scenario, world| {
        scenario.garbage.is_some() || is_in_order(scenario, world)
    }),
    (ENDS, |scenario, world| {
        !scenario.consequences(world).is_empty() || has_ended(scenario, world)
    }),
    (ONE_PARENT, |scenario, world| {
        !scenario.consequences(world).is_empty() || is_known_to_parent(scenario, world)
    }),
];

fn is_acyclic(scenario: &Scenario, world: &World) -> bool {
    let nodes = world.nodes.len();
    (0..nodes).all(|node| {
        let mut at = node;
        // A chain of parents that ends in fewer steps than there are nodes has no loop.
        (0..nodes).any(|_| match world.live_parent(scenario, at) {
            Some(parent) => {
                at = parent;
                false
            }
            None => true,
        })
    })
}

fn is_in_order(scenario: &Scenario, world: &World) -> bool {
    let nearer = |node: usize| {
        let parent = world.live_parent(scenario, node);
        let labels = parent.and_then(|parent| Some((world.view(parent)?, world.view(node)?)));
        labels.is_none_or(|(parent, own)| parent.label.is_nearer(own.label))
    };
    !world.went_backward && (0..world.nodes.len()).all(nearer)
}

fn has_ended(scenario: &Scenario, world: &World) -> bool {
    let mut connected = vec![false; world.nodes.len()];
    connected[0] = true;
    for _ in 0..world.nodes.len() {
        for (cable, &[a, b]) in scenario.cables.iter().enumerate() {
            if world.is_whole(cable) && (connected[a] || connected[b]) {
                (connected[a], connected[b]) = (true, true);
            }
        }
    }
    let leads_home = |node: usize| {
        let mut at = node;
        for _ in 0..world.nodes.len() {
            match world.live_parent(scenario, at) {
                Some(parent) => at = parent,
                None => return at == 0,
            }
        }
        false
    };
    (0..world.nodes.len()).all(|node| {
        if connected[node] {
            world.attached(node) && leads_home(node)
        } else {
            use covalent_protocol::tree::Standing;
            let view = world.view(node);
            view.is_none_or(|view| view.standing == Standing::Lost)
        }
    })
}

fn is_known_to_parent(scenario: &Scenario, world: &World) -> bool {
    (0..world.nodes.len()).all(|node| {
        let kept = world.live_children(scenario, node);
        let attached_children = (0..world.nodes.len())
            .filter(|&other| world.live_parent(scenario, other) == Some(node));
        kept.into_iter().eq(attached_children)
    })
}
