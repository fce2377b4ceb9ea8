//! The fair runs that every state must have: nothing more goes wrong, and every possible step is
//! taken.

use covalent_protocol::agreement::proposer::Why;

use super::{scenario::Scenario, step::Step, world::World};

/// Steps after which all must be done. The longest run of one exchange has some forty.
const STEPS_MAX: usize = 400;

/// Whether opener, lanes and host thread complete the exchange in flight, although no client reads
/// or sends anything.
#[must_use]
pub fn exchanges_end(scenario: &Scenario, world: &World) -> bool {
    let mut world = world.clone();
    for _ in 0..STEPS_MAX {
        let Some(step) = work(&world) else { break };
        world.step(scenario, step);
    }
    world.dataplane.is_none_or(|dataplane| {
        let mut lanes = dataplane.lanes.iter();
        dataplane.joint.phase().is_none() && lanes.all(|lane| lane.slot.is_at_rest())
    })
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
    let mut lanes = dataplane.lanes.iter();
    control.proposer.is_agreed()
        && (strange || lanes.all(|lane| lane.slot.held() == agreed))
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
    let dataplane = world.dataplane.as_ref()?;
    if dataplane.job.is_some() {
        return Some(Step::OpenerEnds {
            detaches_ports: false,
        });
    }
    let lanes = || dataplane.lanes.iter();
    let works = lanes().position(|lane| lane.has_work());
    let reads = || lanes().position(|lane| !lane.answers.is_empty());
    works
        .map(Step::LaneWorks)
        .or_else(|| reads().map(Step::HostReads))
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
