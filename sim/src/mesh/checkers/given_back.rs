//! What was reserved for paths is given back.

use super::{MeshChecker, Verdict};
use crate::mesh::{fact::MeshFact, scene::MeshScene};

/// When everything is whole and has come to rest, and nobody has asked for anything for as long as a path is kept, no node has a path, a channel,
/// a place for a path of others, or a record to pass on. Words that exchanges held are let go of at every rest.
#[derive(Debug)]
pub(super) struct GivenBack;

impl MeshChecker for GivenBack {
    fn name(&self) -> &'static str {
        "given-back"
    }

    fn see(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) -> Verdict {
        let (counts, is_idle) = match *fact {
            MeshFact::Idle { counts } => (counts, true),
            // What has not come to its end is said by convergence.
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
                    "{} still keeps what was reserved for exchanges or paths: {counts:?}",
                    scene.shape.node_name(usize::from(counts.node)),
                ));
            }
        }
        Ok(())
    }
}
