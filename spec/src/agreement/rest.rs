//! The fair runs that every state must have: nothing more goes wrong, and what can be done is done.

use covalent_protocol::agreement::offerer::Why;

use super::{scenario::Scenario, step::Step, world::World};

/// Steps after which all must be done. The longest run of one exchange has some forty.
const STEPS_MAX: usize = 400;

/// Whether opener, lanes and host thread bring what is under way to an end, though nobody reads or sends anything.
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

/// Whether control and all lanes come to hold the same; and what that is, if the dataplane died and control did not.
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
    let Some(agreed) = control.offerer.agreed() else {
        return false;
    };
    let strange = world.spent.strangers > 0;
    let mut lanes = dataplane.lanes.iter();
    control.offerer.is_agreed()
        && (strange || lanes.all(|lane| lane.slot.held() == agreed))
        && (strange || may_be.is_none_or(|digests| digests.contains(&agreed.digest)))
}

/// The digests of which one must be in force in the end; `None`: any, for control knows of none, or the dataplane took leave.
fn may_be(world: &World) -> Option<Vec<u64>> {
    let offerer = &world.control.as_ref()?.offerer;
    let agreed = offerer.agreed()?;
    if world.spent.leaves > 0 {
        return None;
    }
    let mut digests = vec![agreed.digest];
    if let Some((offer, why)) = offerer.unanswered() {
        digests.push(offer.wants);
        if why == Why::Reinstate {
            // It may have been refused already.
            digests.push(offer.believes.digest);
        }
    }
    Some(digests)
}

/// The next thing that the dataplane does by itself.
fn work(world: &World) -> Option<Step> {
    let dataplane = world.dataplane.as_ref()?;
    if dataplane.job.is_some() {
        return Some(Step::OpenerEnds { vacates: false });
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
            return Some(Step::DataplaneHears(number));
        }
        if connection.client_end && (!connection.down.is_empty() || !connection.dataplane_end) {
            return Some(Step::ClientHears(number));
        }
    }
    control.connection.is_none().then_some(Step::Connect)
}
