//! Nothing that goes along a tree comes back.

use super::{MeshChecker, Verdict};
use crate::mesh::{fact::MeshFact, scene::MeshScene};

/// Parents whose links are up at both ends in one epoch form no loop in the tree of any root, at any instant.
#[derive(Debug)]
pub(super) struct Acyclic;

impl MeshChecker for Acyclic {
    fn name(&self) -> &'static str {
        "acyclic"
    }

    fn see(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) -> Verdict {
        let MeshFact::Hangs { at, root } = *fact else {
            return Ok(());
        };
        let node = scene.node_at(at);
        let mut way = vec![node];
        while let Some(parent) = scene.live_parent(root, way[way.len() - 1]) {
            if parent == node {
                let name = |node: &u16| scene.shape.node_name(usize::from(*node));
                let way: Vec<_> = way.iter().map(name).collect();
                return Err(format!(
                    "in the tree of {} the parents of {} lead back to it",
                    name(&root),
                    way.join(", ")
                ));
            }
            way.push(parent);
            // A loop that this node only leads into was found when it was closed.
            if way.len() > scene.shape.nodes {
                break;
            }
        }
        Ok(())
    }
}
