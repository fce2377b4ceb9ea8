//! Repair is local and soon.

use super::{Checker, Meshes, Verdict};
use crate::mesh::{fact::MeshFact, scene::MeshScene, time::ROUND_TRIP_UNITS};

/// A cable is cut in a mesh at rest, both ends detect it, and nothing else happens. A node that
/// loses its parent by that may have an attached neighbor that is not behind it. Then it is
/// attached again within two round trips of the slowest link after its detection. One more is
/// allowed for each earlier repair of the tree, and one for each hundred of its trees that failed
/// with the cable.
#[derive(Debug)]
pub(super) struct Repairs;

impl Checker<Meshes> for Repairs {
    fn see(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) -> Verdict {
        let (MeshFact::Attached { at, root }, Some(fall)) = (fact, scene.risen()) else {
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
            "{} is attached again in the tree of {} after {} round trips; the limit is {}",
            scene.shape.node_name(usize::from(scene.node_at(*at))),
            scene.shape.node_name(usize::from(*root)),
            round_trips(took_units),
            round_trips(bound_units)
        ))
    }
}
