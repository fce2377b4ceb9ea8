//! Labels are in order.

use covalent_protocol::tree::Label;

use super::{MeshChecker, Verdict};
use crate::mesh::{fact::MeshFact, scene::MeshScene};

/// A label comes only nearer while a node lives and knows the root, and that of a parent, over a link that is up at both ends in one
/// epoch, is nearer than the node's own.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The label that was seen last, and in which life, by root and node.
    last: Vec<Option<(u32, Label)>>,
}

impl MeshChecker for Order {
    fn name(&self) -> &'static str {
        "order"
    }

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
            let life = scene.life(node);
            // For want of room a node may forget a tree and learn it anew between two looks.
            if let Some((earlier, label)) = *last
                && scene.lied_roots_max.is_none()
                && earlier == life
                && label.is_nearer(view.label)
            {
                return Err(format!(
                    "in the tree of {} the label of {} went from {label:?} to {:?}",
                    name(root),
                    name(node),
                    view.label
                ));
            }
            *last = Some((life, view.label));
            let Some(cable) = view.parent else { continue };
            let parent = scene.other(cable, node);
            let [a, b] = scene.link(usize::from(cable));
            if a.is_some()
                && a == b
                && let Some(parent_view) = &views[usize::from(parent)]
                && !parent_view.label.is_nearer(view.label)
            {
                return Err(format!(
                    "in the tree of {} {} at {:?} hangs on {} at {:?}",
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
