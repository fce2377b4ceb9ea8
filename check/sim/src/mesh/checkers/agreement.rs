//! Both ends of a cable agree.

use super::{Checker, Meshes, Verdict};
use crate::mesh::{fact::MeshFact, scene::MeshScene};

/// At rest, a link is up at both ends of a cable, in one epoch, if the cable carries frames in both
/// directions between running nodes. Else it is up at neither end.
#[derive(Debug)]
pub(super) struct Agreement;

impl Checker<Meshes> for Agreement {
    fn see(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) -> Verdict {
        // The convergence checker reports what has not completed.
        let MeshFact::AtRest {
            unfinished: None, ..
        } = fact
        else {
            return Ok(());
        };
        for (cable, ends) in scene.shape.cables.iter().enumerate() {
            let link = scene.link(cable);
            let agreed = match link {
                _ if scene.is_lossy(cable) => continue,
                [Some(a), Some(b)] => scene.carries(cable) && a == b,
                [None, None] => !scene.carries(cable),
                _ => false,
            };
            if !agreed {
                let [a, b] = ends.map(|node| scene.shape.node_name(usize::from(node)));
                let carries = if scene.carries(cable) {
                    "carries"
                } else {
                    "does not carry"
                };
                return Err(format!(
                    "the cable {a}-{b} {carries}, and its ends hold the epochs {link:?}"
                ));
            }
        }
        Ok(())
    }
}
