//! The fair runs that every state must have: nothing more goes wrong, and every possible step is
//! taken.

use covalent_protocol::agreement::proposer::Why;

use super::{dataplane::Dataplane, scenario::Scenario, step::Step, world::World};

/// Steps after which all must be done. The longest run of one exchange has some ten.
const STEPS_MAX: usize = 100;

/// Whether the daemon completes the exchange in flight, although no client reads or sends anything.
#[must_use]
pub fn exchanges_end(scenario: &Scenario, world: &World) -> bool {
    let mut world = world.clone();
    for _ in 0..STEPS_MAX {
        let Some(step) = work(&world) else { break };
        world.step(scenario, step);
    }
    let at_rest = |it: Dataplane| !it.acceptor.is_open() && it.job.is_none();
    world.dataplane.is_none_or(at_rest)
}

/// Whether control and all lanes reach the same configuration: one of the expected ones, if the
/// dataplane died and control did not.
#[must_use]
pub fn ends_agreed(scenario: &Scenario, world: &World) -> bool {
    let may_be = may_be(world);
    let mut world = world.clone();
    for _ in 0..STEPS_MAX {
        let Some(step) = next(&world) else { break };
        world.step(scenario, step);
    }
    let (Some(control), Some(dataplane)) = (&world.control, &world.dataplane) else {
        return false;
    };
    let Some(agreed) = control.proposer.agreed() else {
        return false;
    };
    let strange = world.spent.untrusted_users > 0;
    control.proposer.is_agreed()
        && (strange || dataplane.lanes == agreed)
        && (strange || may_be.is_none_or(|digests| digests.contains(&agreed.digest)))
}

/// Returns the digests of which one must be in force at the end. `None`: any, because control knows
/// none, or because the dataplane shut down gracefully.
fn may_be(world: &World) -> Option<Vec<u64>> {
    let proposer = &world.control.as_ref()?.proposer;
    let agreed = proposer.agreed()?;
    if world.spent.leaves > 0 {
        return None;
    }
    let mut digests = vec![agreed.digest];
    if let Some((proposal, why)) = proposer.unanswered() {
        digests.push(proposal.wants);
        if why == Why::Reinstate {
            // It may have been refused already.
            digests.push(proposal.believes.digest);
        }
    }
    Some(digests)
}

/// The next thing that the dataplane does by itself.
fn work(world: &World) -> Option<Step> {
    world.dataplane.as_ref()?.job.map(|_| Step::JobGoesOn)
}

/// The next thing that happens if nothing goes wrong.
fn next(world: &World) -> Option<Step> {
    let Some(control) = &world.control else {
        return Some(Step::StartControl);
    };
    if world.dataplane.is_none() {
        return Some(Step::StartDataplane);
    }
    if let Some(step) = work(world) {
        return Some(step);
    }
    for (number, connection) in world.connections.iter().enumerate() {
        if connection.dataplane_end && (!connection.up.is_empty() || !connection.client_end) {
            return Some(Step::DataplaneReceives(number));
        }
        if connection.client_end && (!connection.down.is_empty() || !connection.dataplane_end) {
            return Some(Step::ClientReceives(number));
        }
    }
    control.connection.is_none().then_some(Step::Connect)
}
