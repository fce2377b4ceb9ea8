//! Nothing that goes along a tree comes back.

use std::iter;

use super::{Checker, Meshes, Verdict};
use crate::mesh::{fact::MeshFact, scene::MeshScene};

/// Parents whose links are up at both ends in one epoch form no loop in the tree of any root, at
/// any instant.
#[derive(Debug)]
pub(super) struct Acyclic;

impl Checker<Meshes> for Acyclic {
    fn see(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) -> Verdict {
        let MeshFact::Attached { at, root } = *fact else {
            return Ok(());
        };
        let node = scene.node_at(at);
        let up = |node: &u16| scene.live_parent(root, *node);
        // A loop that this node only leads into was found when it was closed.
        let parents = || iter::successors(up(&node), up).take(scene.shape.nodes);
        let Some(between) = parents().position(|parent| parent == node) else {
            return Ok(());
        };
        let name = |node: u16| scene.shape.node_name(usize::from(node));
        let route = iter::once(node).chain(parents().take(between));
        let route: Vec<_> = route.map(name).collect();
        Err(format!(
            "in the tree of {} the parents of {} lead back to it",
            name(root),
            route.join(", ")
        ))
    }
}
