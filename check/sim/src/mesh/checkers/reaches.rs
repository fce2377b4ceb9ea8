//! Checks that connected nodes are attached, and that other nodes know that they are cut off.

use covalent_protocol::tree::Standing;

use super::{Checker, Meshes, Verdict};
use crate::mesh::{fact::MeshFact, scene::MeshScene, truth::UNREACHABLE};

/// At rest, a node is attached in the tree of a root if and only if whole cables connect them. A
/// node that is cut off has reported the root unreachable, or never learned of it. When ticks have
/// shortened the routes, each node has as many hops as the shortest route, and counts them so.
#[derive(Debug, Default)]
pub(super) struct Reaches {
    shortest: bool,
}

impl Checker<Meshes> for Reaches {
    fn see(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) -> Verdict {
        let (root, views) = match *fact {
            MeshFact::Tree {
                root,
                views,
                at_rest: true,
            } => (root, views),
            MeshFact::Idle { .. } => {
                self.shortest = true;
                return Ok(());
            }
            MeshFact::Fault(_) => {
                self.shortest = false;
                return Ok(());
            }
            _ => return Ok(()),
        };
        let name = |node: u16| scene.shape.node_name(usize::from(node));
        let truth = scene.truth().hops_to(usize::from(root));
        for (node, (view, shortest)) in (0..).zip(views.iter().zip(truth)) {
            let right = match view {
                Some(view) if shortest != UNREACHABLE => {
                    view.standing == Standing::Attached && (!self.shortest || view.hops == shortest)
                }
                Some(view) => view.standing == Standing::Lost,
                None => shortest == UNREACHABLE,
            };
            if !right {
                let truth = match shortest {
                    UNREACHABLE => "is cut off".to_owned(),
                    hops => format!("is {hops} hops away at least"),
                };
                return Err(format!(
                    "at rest {} {truth} from {} and is {view:?}",
                    name(node),
                    name(root)
                ));
            }
        }
        Ok(())
    }
}
