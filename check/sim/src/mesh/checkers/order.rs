//! Checks that labels are in order.

use covalent_protocol::tree::Label;

use super::{Checker, Meshes, Verdict};
use crate::mesh::{fact::MeshFact, scene::MeshScene};

/// A node's label only comes nearer while the node runs and knows the root. The label of its parent
/// is nearer, if the link to it is up at both ends in one epoch.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Last label and its incarnation, by root and node.
    last: Vec<Option<(u32, Label)>>,
}

impl Checker<Meshes> for Order {
    fn see(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) -> Verdict {
        let MeshFact::Tree { root, views, .. } = *fact else {
            return Ok(());
        };
        let nodes = scene.shape.nodes;
        self.last.resize(nodes * nodes, None);
        let name = |node: u16| scene.shape.node_name(usize::from(node));
        let labels = &mut self.last[usize::from(root) * nodes..][..nodes];
        for (node, (view, last)) in (0..).zip(views.iter().zip(labels)) {
            let Some(view) = view else {
                *last = None;
                continue;
            };
            let incarnation = scene.incarnation(node);
            // A node without space may forget a tree and learn it again between two looks.
            if let Some((earlier, label)) = *last
                && scene.lied_roots_max.is_none()
                && earlier == incarnation
                && label.is_nearer(view.label)
            {
                return Err(format!(
                    "in the tree of {} the label of {} went from {label:?} to {:?}",
                    name(root),
                    name(node),
                    view.label
                ));
            }
            *last = Some((incarnation, view.label));
            let Some(cable) = view.parent else { continue };
            let parent = scene.other(cable, node);
            let [a, b] = scene.link(usize::from(cable));
            if a.is_some()
                && a == b
                && let Some(parent_view) = &views[usize::from(parent)]
                && !parent_view.label.is_nearer(view.label)
            {
                return Err(format!(
                    "in the tree of {} {} at {:?} is attached to {} at {:?}",
                    name(root),
                    name(node),
                    view.label,
                    name(parent),
                    parent_view.label
                ));
            }
        }
        Ok(())
    }
}
