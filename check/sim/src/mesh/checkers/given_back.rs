//! Checks that reservations for paths are released.

use super::{Checker, Meshes, Verdict};
use crate::mesh::{fact::MeshFact, scene::MeshScene};

/// Everything is whole and at rest, and no node has submitted a request for as long as a path is
/// kept. Then no node has a path, a channel, a table entry for a path of others, or a record to
/// forward. Exchanges have released their words at every rest.
#[derive(Debug)]
pub(super) struct GivenBack;

impl Checker<Meshes> for GivenBack {
    fn see(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) -> Verdict {
        let (counts, is_idle) = match *fact {
            MeshFact::Idle { counts } => (counts, true),
            // The convergence checker reports what has not completed.
            MeshFact::AtRest {
                counts,
                unfinished: None,
                ..
            } => (counts, false),
            _ => return Ok(()),
        };
        for counts in counts {
            let reserved = [
                counts.paths,
                counts.channels,
                counts.transits,
                counts.waiting_records,
            ];
            if counts.held_words > 0 || (is_idle && reserved != [0; 4]) {
                return Err(format!(
                    "{} still keeps reservations for exchanges or paths: {counts:?}",
                    scene.shape.node_name(usize::from(counts.node)),
                ));
            }
        }
        Ok(())
    }
}
