//! The invariants of every state.

use stateright::Property;

use super::{step::Search, world::World};

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
#[must_use]
pub fn all() -> Vec<Property<Search>> {
    vec![
        Property::always(ACYCLIC, |search, world| {
            search.holds(0, || {
                search.scenario.garbage.is_some() || is_acyclic(search, world)
            })
        }),
        Property::always(ORDER, |search, world| {
            search.holds(1, || {
                search.scenario.garbage.is_some() || is_in_order(search, world)
            })
        }),
        Property::always(ENDS, |search, world| {
            search.holds(2, || {
                !search.consequences(world).is_empty() || has_ended(search, world)
            })
        }),
        Property::always(ONE_PARENT, |search, world| {
            search.holds(3, || {
                !search.consequences(world).is_empty() || is_known_to_parent(search, world)
            })
        }),
    ]
}

fn is_acyclic(search: &Search, world: &World) -> bool {
    let nodes = world.nodes.len();
    (0..nodes).all(|node| {
        let mut at = node;
        // A chain of parents that ends in fewer steps than there are nodes has no loop.
        (0..nodes).any(|_| match world.live_parent(&search.scenario, at) {
            Some(parent) => {
                at = parent;
                false
            }
            None => true,
        })
    })
}

fn is_in_order(search: &Search, world: &World) -> bool {
    let nearer = |node: usize| {
        let parent = world.live_parent(&search.scenario, node);
        let labels = parent.and_then(|parent| Some((world.view(parent)?, world.view(node)?)));
        labels.is_none_or(|(parent, own)| parent.label.is_nearer(own.label))
    };
    !world.went_backward && (0..world.nodes.len()).all(nearer)
}

fn has_ended(search: &Search, world: &World) -> bool {
    let mut connected = vec![false; world.nodes.len()];
    connected[0] = true;
    for _ in 0..world.nodes.len() {
        for (cable, &[a, b]) in search.scenario.cables.iter().enumerate() {
            if world.is_whole(cable) && (connected[a] || connected[b]) {
                (connected[a], connected[b]) = (true, true);
            }
        }
    }
    let leads_home = |node: usize| {
        let mut at = node;
        for _ in 0..world.nodes.len() {
            match world.live_parent(&search.scenario, at) {
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

fn is_known_to_parent(search: &Search, world: &World) -> bool {
    (0..world.nodes.len()).all(|node| {
        let kept = world.live_children(&search.scenario, node);
        let attached_children = (0..world.nodes.len())
            .filter(|&other| world.live_parent(&search.scenario, other) == Some(node));
        kept.into_iter().eq(attached_children)
    })
}
