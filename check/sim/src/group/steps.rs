//! Every step of a view change: one member dies, and another dies behind each envelope that it
//! sends from then on.

use super::{
    plan::{HOP_UNITS, Plan},
    world::World,
};
use crate::shape::Shape;

/// Messages that each member requests before the change.
const MESSAGES: usize = 2;

/// One way to die during a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// Members.
    pub members: usize,
    /// Member that dies first.
    pub first: usize,
    /// Member that dies during the change that follows.
    pub second: usize,
    /// Behind so many envelopes.
    pub envelopes: u32,
    /// Seed of the durations.
    pub seed: u64,
}

/// Runs a case to its end. Returns whether the second member died. If not, it had no more envelopes
/// to send.
///
/// # Errors
/// Returns the broken invariant.
pub fn walk(case: &Case) -> Result<bool, String> {
    let mut plan = Plan::led(Shape::full(case.members));
    plan.hop_units = [1, HOP_UNITS];
    plan.tick_round_trips = 10;
    let mut world = World::led(plan, case.seed);
    let round_trip = world.round_trip_units();
    world.run_until(4 * round_trip);
    for membership in 0..case.members {
        for _ in 0..MESSAGES {
            world.request_now(membership, 40);
        }
    }
    world.run_until(world.now() + round_trip / 4);
    world.crash(case.first);
    world.doom(case.second, case.envelopes);
    world.run_until(world.now() + 8 * round_trip);
    let died = !world.is_alive(case.second);
    world
        .conclude()
        .map_err(|violation| format!("{case:?}: {}: {}", violation.checker, violation.what))?;
    Ok(died)
}
