//! The fair run that every state must have: paths return, nothing more goes wrong, and everything comes to rest.
//!
//! Where a cable stays cut it has two parts. In the first the other paths return, and nobody is in doubt any more: what was not told
//! was not executed, and waits for a link. In the second that cable returns too.

use covalent_protocol::LinkState;

use crate::{scenario::Scenario, world::World};

/// Ticks after which everything must be at rest. A handshake of which every frame was lost takes one, a loss that only the ball shows
/// two, one end that holds for up what the other gave up another.
const TICKS_MAX: usize = 4;

/// Whether the fair run from `world` ends with every exchange resolved, nothing reserved and every link up.
#[must_use]
pub fn comes_to_rest(scenario: &Scenario, world: &World) -> bool {
    let mut world = world.clone();
    let stays_cut = |world: &World, cable: usize| {
        world.cables[cable].cut != [false; 2] && scenario.for_good.contains(&cable)
    };
    let cables = 0..world.cables.len();
    let (cut, whole): (Vec<_>, Vec<_>) = cables.partition(|&cable| stays_cut(&world, cable));
    for &cable in &whole {
        world.mend(scenario, cable);
    }
    for &cable in &cut {
        for end in [0, 1] {
            if !world.cables[cable].noticed[end] {
                world.notice(scenario, cable, end);
            }
        }
    }
    if !runs_until(scenario, &mut world, |world| {
        nobody_waits(world, cut.is_empty()) && are_up(scenario, world, &whole)
    }) {
        return false;
    }
    for &cable in &cut {
        world.mend(scenario, cable);
    }
    cut.is_empty()
        || runs_until(scenario, &mut world, |world| {
            nobody_waits(world, true) && are_up(scenario, world, &cut)
        })
}

fn runs_until(scenario: &Scenario, world: &mut World, rests: impl Fn(&World) -> bool) -> bool {
    for _ in 0..TICKS_MAX {
        if !world.deliver_all(scenario) {
            return false;
        }
        if rests(world) {
            return true;
        }
        for node in 0..scenario.nodes {
            world.input(scenario, node, |side| side.node.on_tick(&mut side.program));
        }
    }
    world.deliver_all(scenario) && rests(world)
}

/// Nobody is in doubt, and nothing is reserved. If `all_told`, every exchange has ended; else what did not was not executed.
fn nobody_waits(world: &World, all_told: bool) -> bool {
    world.sides.iter().all(|side| {
        let program = &side.program;
        let is_known = |wish: usize| {
            let executed = world.sides[world.wishes[wish].to].program.executed[wish] > 0;
            !program.submitted[wish] || program.told[wish].is_some() || (!all_told && !executed)
        };
        (0..world.wishes.len()).all(is_known)
            && program.admitted.is_empty()
            && side.node.in_doubt() == 0
    })
}

fn are_up(scenario: &Scenario, world: &World, cables: &[usize]) -> bool {
    let link_of = |cable: usize, node: usize| {
        let mut links = world.sides[node].node.links();
        links.find(|link| usize::from(link.port) == cable)
    };
    cables.iter().all(|&cable| {
        let epochs = scenario.cables[cable].map(|node| {
            link_of(cable, node)
                .filter(|link| link.state == LinkState::Up)
                .map(|link| link.epoch)
        });
        epochs[0].is_some() && epochs[0] == epochs[1]
    })
}
