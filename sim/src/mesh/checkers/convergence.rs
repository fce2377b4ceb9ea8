//! When faults stop, everything comes to its end.

use super::{MeshChecker, Verdict};
use crate::mesh::{fact::MeshFact, scene::MeshScene};

/// Within a stated number of paces of the last fault the links are as the cables allow, and trees lead to every root that is
/// connected, and what was asked for over a cable that carries has ended. Ways are shortest soon after.
#[derive(Debug)]
pub(super) struct Convergence;

impl MeshChecker for Convergence {
    fn name(&self) -> &'static str {
        "convergence"
    }

    fn see(&mut self, fact: &MeshFact<'_>, _scene: &MeshScene) -> Verdict {
        match fact {
            MeshFact::AtRest {
                unfinished: Some(what),
                paces,
                ..
            } => Err(format!(
                "no rest within {paces} paces of the last fault: {what}"
            )),
            _ => Ok(()),
        }
    }
}
