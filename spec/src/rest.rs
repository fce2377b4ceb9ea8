//! The fair run that every state must have: paths return, nothing more goes wrong, and everything comes to rest.

use std::sync::Arc;

use covalent_protocol::LinkState;

use crate::{scenario::Scenario, world::World};

/// Ticks after which everything must be at rest. A handshake of which every frame was lost takes one, a loss that only the ball shows
/// two, one end that holds for up what the other gave up another.
const TICKS_MAX: usize = 4;

/// Whether the fair run from `world` ends with every exchange resolved, nothing reserved and every link up.
#[must_use]
pub fn comes_to_rest(scenario: &Scenario, world: &World) -> bool {
    let mut world = world.clone();
    for cable in 0..world.cables.len() {
        world.mend(scenario, cable);
    }
    for _ in 0..TICKS_MAX {
        if !world.deliver_all(scenario) {
            return false;
        }
        if is_at_rest(scenario, &world) {
            return true;
        }
        for node in 0..scenario.nodes {
            world.input(scenario, node, |side| side.node.on_tick(&mut side.program));
        }
    }
    world.deliver_all(scenario) && is_at_rest(scenario, &world)
}

fn is_at_rest(scenario: &Scenario, world: &World) -> bool {
    let resolved = |side: &Arc<crate::world::Side>| {
        let program = &side.program;
        let told = |wish: usize| !program.submitted[wish] || program.told[wish].is_some();
        (0..world.wishes.len()).all(told)
            && program.admitted.is_empty()
            && side.node.in_doubt() == 0
    };
    let link_of = |cable: usize, node: usize| {
        let mut links = world.sides[node].node.links();
        links.find(|link| usize::from(link.port) == cable)
    };
    let up = |(cable, ends): (usize, &[usize; 2])| {
        let epochs = ends.map(|node| {
            link_of(cable, node)
                .filter(|link| link.state == LinkState::Up)
                .map(|link| link.epoch)
        });
        epochs[0].is_some() && epochs[0] == epochs[1]
    };
    world.sides.iter().all(resolved) && scenario.cables.iter().enumerate().all(up)
}
