//! The fair run that every state must have: paths return, nothing more goes wrong, and everything comes to rest.
//!
//! Where a cable stays cut it has two parts. In the first the other paths return, and nobody is in doubt any more: what was not told
//! was not executed, and waits for a link. Where there are no other paths it may be in doubt. In the second that cable returns too. In both a node holds
//! nothing but what somebody waits for, and what is kept for its name until its peer returns.

use covalent_protocol::LinkState;

use crate::{
    scenario::Scenario,
    world::{Side, TRANSACTIONS_MAX, World},
};

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
    let first = match (cut.is_empty(), whole.is_empty()) {
        (true, _) => End::Told,
        (false, false) => End::NotInDoubt,
        (false, true) => End::Alone,
    };
    if !runs_until(scenario, &mut world, |world| {
        nobody_waits(world, first) && are_up(scenario, world, &whole)
    }) {
        return false;
    }
    for &cable in &cut {
        world.mend(scenario, cable);
    }
    cut.is_empty()
        || runs_until(scenario, &mut world, |world| {
            nobody_waits(world, End::Told) && are_up(scenario, world, &cut)
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

/// How far everything must have come to its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Every exchange has ended that somebody waits for.
    Told,
    /// Nobody is in doubt: what was not told was not executed.
    NotInDoubt,
    /// No way leads to a peer: what was not told waits for one.
    Alone,
}

/// Everything has come to its end, nothing is reserved, and nothing is left over.
fn nobody_waits(world: &World, end: End) -> bool {
    world.sides.iter().all(|side| {
        let program = &side.program;
        let is_known = |wish: usize| {
            let executed = world.sides[world.wishes[wish].to].program.executed[wish] > 0;
            !program.waits_for(wish) || (end == End::NotInDoubt && !executed) || end == End::Alone
        };
        (0..world.wishes.len()).all(is_known)
            && program.admitted.is_empty()
            && (side.node.in_doubt() == 0 || end == End::Alone)
            && nothing_left_over(side, end)
    })
}

/// A node holds what its program waits for, what is kept for its name where no cable leads to the peer, a slot for each of these that was sent, and
/// nothing else.
fn nothing_left_over(side: &Side, end: End) -> bool {
    let Side { node, program, .. } = side;
    let count = |is_so: &dyn Fn(usize) -> bool| {
        let wishes = 0..program.submitted.len();
        wishes.filter(|&wish| is_so(wish)).count() as u32
    };
    let waiting = count(&|wish| program.waits_for(wish));
    let named = count(&|wish| program.cancelled[wish] && program.told[wish].is_none());
    let queued: u32 = node.peers().map(|peer| peer.queued).sum();
    let unresolved: u32 = node.peers().map(|peer| peer.unresolved).sum();
    let open: u32 = node.links().map(|link| link.open_transactions).sum();
    let kept_max = if end == End::Told { 0 } else { named };
    let kept = (queued + unresolved).checked_sub(waiting);
    open == unresolved
        && node.room() + waiting == TRANSACTIONS_MAX
        && kept.is_some_and(|kept| kept <= kept_max)
}

fn are_up(scenario: &Scenario, world: &World, cables: &[usize]) -> bool {
    let link_of = |cable: usize, node: usize| {
        let mut links = world.sides[node].node.links();
        links.find(|link| usize::from(link.port) == cable)
    };
    cables.iter().all(|&cable| {
        [0, 1].into_iter().all(|end| {
            let epochs = [(cable, end), world.far(cable, end)].map(|(cable, end)| {
                link_of(cable, scenario.cables[cable][end])
                    .filter(|link| link.state == LinkState::Up)
                    .map(|link| link.epoch)
            });
            epochs[0].is_some() && epochs[0] == epochs[1]
        })
    })
}
