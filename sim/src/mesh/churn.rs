//! A run: settle, faults as the seed picks them, rest, all mended, rest.

use std::{ops::ControlFlow, ops::Range};

use fastrand::Rng;

use super::{
    failure::MeshFailure, figures::MeshReport, options::MeshOptions, plan, trace::Trace,
    world::MeshWorld,
};
use crate::{
    seeds::on_every_core,
    shape::{BadShape, Shape},
};

/// Most nodes of a mesh in which a run waits until every way is a shortest one: it takes as many paces as the mesh is wide.
const SHORTENED_MAX: usize = 128;

/// The shape of a seed: a random one is another for each.
///
/// # Errors
/// Why there is none.
pub fn shape(seed: u64, options: &MeshOptions) -> Result<Shape, BadShape> {
    let mut rng = Rng::with_seed(seed);
    options.form.shape(options.nodes, options.valence, &mut rng)
}

/// Runs a seed to its end on a shape. With a `trace`, what happens is kept in it.
pub fn run(
    seed: u64,
    shape: Shape,
    options: &MeshOptions,
    trace: Option<Trace>,
) -> (Result<MeshReport, Box<MeshFailure>>, Option<Trace>) {
    let mut rng = Rng::with_seed(seed);
    let plan = plan::churn(&shape, options, &mut rng);
    let nodes = shape.nodes;
    let mut world = MeshWorld::new(shape, options, seed, trace);
    world.rest();
    world.set_load(true);
    let end = world.schedule(plan);
    world.run_until(end);
    // With what stands, and then with everything whole.
    world.rest();
    world.mend_everything();
    world.rest();
    world.part_liar();
    if nodes <= SHORTENED_MAX {
        world.shorten();
    }
    world.finish()
}

/// Runs every seed, each on its own shape, and gives what they did together. `progress` is called after each with the number of those
/// done, and may break off: then those done are what counts.
///
/// # Errors
/// The lowest seed that failed.
pub fn run_seeds(
    seeds: Range<u64>,
    options: &MeshOptions,
    progress: impl Fn(u64) -> ControlFlow<()> + Sync,
) -> Result<MeshReport, Box<MeshFailure>> {
    let one = |seed| {
        let shape = shape(seed, options).unwrap_or_else(|error| unreachable!("{error}"));
        run(seed, shape, options, None).0
    };
    on_every_core(
        seeds,
        one,
        MeshReport::add,
        |failure| failure.seed,
        progress,
    )
}
