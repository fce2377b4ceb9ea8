//! Checks that everything completes after the last fault.

use super::{Checker, Meshes, Verdict};
use crate::mesh::{fact::MeshFact, scene::MeshScene};

/// Within a stated number of ticks after the last fault, the links match the cables and trees lead
/// to every connected root. Requests over a working cable have ended. Routes are shortest soon
/// after.
#[derive(Debug)]
pub(super) struct Convergence;

impl Checker<Meshes> for Convergence {
    fn see(&mut self, fact: &MeshFact<'_>, _scene: &MeshScene) -> Verdict {
        match fact {
            MeshFact::AtRest {
                unfinished: Some(what),
                ticks,
                ..
            } => Err(format!(
                "no rest within {ticks} ticks of the last fault: {what}"
            )),
            _ => Ok(()),
        }
    }
}
