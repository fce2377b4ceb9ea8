//! Every step of a change: somebody goes, and somebody else dies behind each envelope that it says from then on.

use super::{
    plan::{HOP_UNITS, Plan},
    world::World,
};
use crate::shape::Shape;

/// Messages that each asks for before.
const MESSAGES: usize = 2;

/// One way to die in a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// Members.
    pub members: usize,
    /// Who dies first.
    pub first: usize,
    /// Who dies in the change that follows.
    pub second: usize,
    /// Behind so many envelopes.
    pub envelopes: u32,
    /// What is drawn: how long everything takes.
    pub seed: u64,
}

/// Takes a case to its end. Gives whether the second one died in it: else it had no more to say.
///
/// # Errors
/// What was broken.
pub fn walk(case: &Case) -> Result<bool, String> {
    let mut plan = Plan::led(Shape::full(case.members));
    plan.hop_units = [1, HOP_UNITS];
    plan.pace_round_trips = 10;
    let mut world = World::led(plan, case.seed);
    let round_trip = world.round_trip_units();
    world.run_until(4 * round_trip);
    for stay in 0..case.members {
        for _ in 0..MESSAGES {
            world.ask_for(stay, 40);
        }
    }
    world.run_until(world.now() + round_trip / 4);
    world.crash(case.first);
    world.doom(case.second, case.envelopes);
    world.run_until(world.now() + 8 * round_trip);
    let died = !world.lives(case.second);
    world
        .conclude()
        .map_err(|violation| format!("{case:?}: {}: {}", violation.checker, violation.what))?;
    Ok(died)
}
