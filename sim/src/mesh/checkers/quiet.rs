//! Who has nothing to say says nothing.

use super::{MeshChecker, Verdict};
use crate::mesh::{content::FrameKind, fact::MeshFact, scene::MeshScene};

/// When everything is whole, ways are shortest and nobody asks for anything, nothing is sent but balls. No node tells of a second root with its
/// GUID or of no room for one.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    idle: bool,
}

impl MeshChecker for Quiet {
    fn name(&self) -> &'static str {
        "quiet"
    }

    fn see(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) -> Verdict {
        match fact {
            MeshFact::Idle { .. } => self.idle = true,
            MeshFact::Fault(_) | MeshFact::Asked { .. } => self.idle = false,
            MeshFact::Sent { from, content, .. } if self.idle && content.kind > FrameKind::Ball => {
                return Err(format!(
                    "{} sends a frame with {:?} though everything has come to its end",
                    scene.shape.node_name(usize::from(scene.node_at(*from))),
                    content.kind
                ));
            }
            // Of roots that do not exist there are too many, and a second one of any GUID.
            MeshFact::Complained { .. } if scene.lied_roots_max.is_some() => {}
            MeshFact::Complained { node, event } => {
                return Err(format!(
                    "{} tells {event:?}",
                    scene.shape.node_name(usize::from(*node))
                ));
            }
            _ => {}
        }
        Ok(())
    }
}
