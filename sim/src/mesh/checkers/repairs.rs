//! Repair is local and soon.

use super::{MeshChecker, Verdict};
use crate::mesh::{fact::MeshFact, scene::MeshScene, time::ROUND_TRIP_UNITS};

/// Where a node loses its parent because a cable is cut in a mesh that was at rest, both ends see it,
/// nothing else happens, and the node has a neighbour that hangs and is not behind it, it hangs again
/// within two round trips of the slowest link from what it saw. There is one more for each repair that
/// the tree had before, and one for each hundred of its trees that fell with the cable.
#[derive(Debug)]
pub(super) struct Repairs;

impl MeshChecker for Repairs {
    fn name(&self) -> &'static str {
        "repairs"
    }

    fn see(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) -> Verdict {
        let (MeshFact::Hangs { at, root }, Some(fall)) = (fact, scene.risen()) else {
            return Ok(());
        };
        let Some(bound_units) = fall.bound_units else {
            return Ok(());
        };
        let took_units = scene.now_units - fall.at_units;
        if took_units <= bound_units {
            return Ok(());
        }
        let round_trips = |units: u64| units as f64 / ROUND_TRIP_UNITS as f64;
        Err(format!(
            "{} hangs again in the tree of {} after {} round trips; {} are stated",
            scene.shape.node_name(usize::from(scene.node_at(*at))),
            scene.shape.node_name(usize::from(*root)),
            round_trips(took_units),
            round_trips(bound_units)
        ))
    }
}
