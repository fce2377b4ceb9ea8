//! Everybody has one parent, and the parent knows.

use covalent_protocol::tree::Standing;

use super::{MeshChecker, Verdict};
use crate::mesh::{
    fact::{MeshFact, View},
    scene::{MeshScene, Way},
};

/// A node hangs exactly if it has a parent, over a link that is up at its end, and the one that it told of. At rest what a root says
/// to everybody, passed on by each to its children, and taken from the parent alone, comes to each node that is connected once.
#[derive(Debug)]
pub(super) struct OneParent;

impl MeshChecker for OneParent {
    fn name(&self) -> &'static str {
        "one-parent"
    }

    fn see(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) -> Verdict {
        let MeshFact::Tree {
            root,
            views,
            at_rest,
        } = *fact
        else {
            return Ok(());
        };
        let name = |node: u16| scene.shape.node_name(usize::from(node));
        for (node, view) in (0..).zip(views) {
            let Some(view) = view.filter(|_| node != root) else {
                continue;
            };
            let told = match (view.parent, scene.way(root, node)) {
                (Some(cable), Way::Over(told)) => cable == told && is_up(cable, node, scene),
                (None, Way::Unknown | Way::Fallen | Way::Lost) => true,
                (None, Way::Over(_)) | (Some(_), _) => false,
            };
            let hangs = view.standing == Standing::Hangs;
            if !told || hangs != view.parent.is_some() {
                return Err(format!(
                    "in the tree of {} {} stands as {view:?} and told {:?}",
                    name(root),
                    name(node),
                    scene.way(root, node)
                ));
            }
        }
        if at_rest && scene.is_on(usize::from(root)) {
            passes_once(root, views, scene)?;
        }
        Ok(())
    }
}

fn is_up(cable: u16, node: u16, scene: &MeshScene) -> bool {
    let ends = scene.shape.cables[usize::from(cable)];
    let epochs = scene.link(usize::from(cable));
    let mut both = ends.iter().zip(epochs);
    both.any(|(end, epoch)| *end == node && epoch.is_some())
}

/// Passes a word of the root on, and counts who hears it.
fn passes_once(root: u16, views: &[Option<View>], scene: &MeshScene) -> Verdict {
    let mut heard = vec![0_u32; scene.shape.nodes];
    heard[usize::from(root)] = 1;
    let mut next = vec![root];
    while let Some(node) = next.pop() {
        let Some(view) = &views[usize::from(node)] else {
            continue;
        };
        for (port, spot) in scene.ports(node).iter().enumerate() {
            if view.children & 1 << port == 0 {
                continue;
            }
            let child = scene.other(spot.cable, node);
            let takes = |view: &View| view.parent == Some(spot.cable);
            if views[usize::from(child)].as_ref().is_some_and(takes) {
                heard[usize::from(child)] += 1;
                if heard[usize::from(child)] == 1 {
                    next.push(child);
                }
            } else {
                return Err(format!(
                    "at rest {} passes words of {} on to {}, which hangs on another",
                    scene.shape.node_name(usize::from(node)),
                    scene.shape.node_name(usize::from(root)),
                    scene.shape.node_name(usize::from(child))
                ));
            }
        }
    }
    let hops = scene.truth().hops_to(usize::from(root));
    for (node, (heard, hops)) in heard.iter().zip(hops).enumerate() {
        if *heard != u32::from(hops != crate::mesh::NO_WAY) {
            return Err(format!(
                "a word of {} comes to {} {heard} times",
                scene.shape.node_name(usize::from(root)),
                scene.shape.node_name(node)
            ));
        }
    }
    Ok(())
}
