//! Who is connected hangs, and who is cut off knows.

use covalent_protocol::tree::Standing;

use super::{MeshChecker, Verdict};
use crate::mesh::{NO_WAY, fact::MeshFact, scene::MeshScene};

/// At rest a node hangs in the tree of a root exactly if cables that are whole connect them. Who is cut off has told that there is no way, or
/// never heard of the root. When paces have made ways shorter, each has as many hops as the shortest one, and the node counts them so.
#[derive(Debug, Default)]
pub(super) struct Reaches {
    shortest: bool,
}

impl MeshChecker for Reaches {
    fn name(&self) -> &'static str {
        "reaches"
    }

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
                Some(view) if shortest != NO_WAY => {
                    view.standing == Standing::Hangs && (!self.shortest || view.hops == shortest)
                }
                Some(view) => view.standing == Standing::Lost,
                None => shortest == NO_WAY,
            };
            if !right {
                let truth = match shortest {
                    NO_WAY => "is cut off".to_owned(),
                    hops => format!("is {hops} hops away at least"),
                };
                return Err(format!(
                    "at rest {} {truth} from {} and stands as {view:?}",
                    name(node),
                    name(root)
                ));
            }
        }
        Ok(())
    }
}
