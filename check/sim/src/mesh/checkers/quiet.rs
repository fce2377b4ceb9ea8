//! Checks that idle nodes send only keepalives.

use super::{Checker, Meshes, Verdict};
use crate::mesh::{content::FrameKind, fact::MeshFact, scene::MeshScene};

/// When everything is whole, routes are shortest and no node submits requests, nodes send only
/// keepalives. No node reports a second root with its GUID, or that it has no space for a root.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    idle: bool,
}

impl Checker<Meshes> for Quiet {
    fn see(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) -> Verdict {
        match fact {
            MeshFact::Idle { .. } => self.idle = true,
            MeshFact::Fault(_) | MeshFact::Requested { .. } => self.idle = false,
            MeshFact::Sent { from, content, .. }
                if self.idle && content.kind > FrameKind::Keepalive =>
            {
                return Err(format!(
                    "{} sends a frame with {:?} although everything has ended",
                    scene.shape.node_name(usize::from(scene.node_at(*from))),
                    content.kind
                ));
            }
            // Of roots that do not exist there are too many, and a second one of any GUID.
            MeshFact::Complained { .. } if scene.lied_roots_max.is_some() => {}
            MeshFact::Complained { node, event } => {
                return Err(format!(
                    "{} reports {event:?}",
                    scene.shape.node_name(usize::from(*node))
                ));
            }
            _ => {}
        }
        Ok(())
    }
}
