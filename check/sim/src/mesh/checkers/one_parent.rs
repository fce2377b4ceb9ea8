//! Checks that each node has one parent, which knows its child.

use covalent_protocol::tree::Standing;

use super::{Checker, Meshes, Verdict};
use crate::mesh::{
    fact::{MeshFact, View},
    scene::{MeshScene, Route},
    truth::UNREACHABLE,
};

/// A node is attached if and only if it has a parent, over a link that is up at its end, and it has
/// reported that parent. At rest, a message from a root to all nodes reaches each connected node
/// once. Each node forwards it to its children and accepts it only from its parent.
#[derive(Debug)]
pub(super) struct OneParent;

impl Checker<Meshes> for OneParent {
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
            let reported = match (view.parent, scene.route(root, node)) {
                (Some(cable), Route::Over(reported)) => {
                    cable == reported && is_up(cable, node, scene)
                }
                (None, Route::Unknown | Route::Fallen | Route::Lost) => true,
                (None, Route::Over(_)) | (Some(_), _) => false,
            };
            let is_attached = view.standing == Standing::Attached;
            if !reported || is_attached != view.parent.is_some() {
                return Err(format!(
                    "in the tree of {} {} is {view:?} and advertised {:?}",
                    name(root),
                    name(node),
                    scene.route(root, node)
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

/// Forwards a message of the root and counts its receivers.
fn passes_once(root: u16, views: &[Option<View>], scene: &MeshScene) -> Verdict {
    let mut received = vec![0_u32; scene.shape.nodes];
    received[usize::from(root)] = 1;
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
                received[usize::from(child)] += 1;
                if received[usize::from(child)] == 1 {
                    next.push(child);
                }
            } else {
                return Err(format!(
                    "at rest {} forwards messages of {} to {}, which is attached to another node",
                    scene.shape.node_name(usize::from(node)),
                    scene.shape.node_name(usize::from(root)),
                    scene.shape.node_name(usize::from(child))
                ));
            }
        }
    }
    let hops = scene.truth().hops_to(usize::from(root));
    for (node, (received, hops)) in received.iter().zip(hops).enumerate() {
        if *received != u32::from(hops != UNREACHABLE) {
            return Err(format!(
                "a message of {} reaches {} {received} times",
                scene.shape.node_name(usize::from(root)),
                scene.shape.node_name(node)
            ));
        }
    }
    Ok(())
}
