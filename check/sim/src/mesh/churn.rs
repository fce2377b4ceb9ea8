//! A run: settle, faults as the seed picks them, rest, all mended, rest.

use fastrand::Rng;

use super::{figures::MeshReport, options::MeshOptions, plan, trace::Trace, world::MeshWorld};
use crate::{
    harness::Failure,
    shape::{BadShape, Shape},
};

/// Nodes of the largest mesh in which a run waits until every route is shortest: that takes as many
/// ticks as the mesh is wide.
const SHORTENED_MAX: usize = 128;

/// The shape of a seed: a random one is another for each.
///
/// # Errors
/// Why there is none.
pub fn shape(seed: u64, options: &MeshOptions) -> Result<Shape, BadShape> {
    let mut rng = Rng::with_seed(seed);
    options.form.shape(options.nodes, options.valence, &mut rng)
}

/// Runs a seed to its end on a shape. `trace` records the events, if given.
pub fn run(
    seed: u64,
    shape: Shape,
    options: &MeshOptions,
    trace: Option<Trace>,
) -> (Result<MeshReport, Box<Failure>>, Option<Trace>) {
    let mut rng = Rng::with_seed(seed);
    let plan = plan::churn(&shape, options, &mut rng);
    let nodes = shape.nodes;
    let mut world = MeshWorld::new(shape, options, seed, trace);
    world.rest();
    world.set_load(true);
    let end = world.schedule(plan);
    world.run_until(end);
    // First with the remaining faults, then with everything whole.
    world.rest();
    world.mend_everything();
    world.rest();
    world.part_liar();
    if nodes <= SHORTENED_MAX {
        world.shorten();
    }
    world.finish()
}
