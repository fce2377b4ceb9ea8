//! The fair run that every state must have: paths return, nothing more goes wrong, and everything
//! comes to rest.
//!
//! If a cable stays cut, the run has two parts. In the first part the other paths return, and no
//! exchange is in doubt any more. An exchange without a reported end was not executed, and waits
//! for a link. Without other paths it may be in doubt. In the second part that cable returns too.
//! In both parts a node holds only the exchanges that a caller waits for, and those that are kept
//! for their name until the peer returns.

use covalent_protocol::LinkState;

use crate::{
    scenario::Scenario,
    world::{Side, TRANSACTIONS_MAX, World},
};

/// Ticks after which everything must be at rest. A handshake whose frames are all lost takes one. A
/// loss that only the keepalive reveals takes two. One end that considers up a link that the other
/// gave up takes another.
const TICKS_MAX: usize = 4;

/// Whether the fair run from `world` ends with every exchange resolved, nothing reserved and every
/// link up.
#[must_use]
pub fn quiesces(scenario: &Scenario, world: &World) -> bool {
    let mut world = world.clone();
    let remains_cut = |world: &World, cable: usize| {
        world.cables[cable].cut != [false; 2] && scenario.for_good.contains(&cable)
    };
    let cables = 0..world.cables.len();
    let (cut, whole): (Vec<_>, Vec<_>) = cables.partition(|&cable| remains_cut(&world, cable));
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
        (true, _) => End::Reported,
        (false, false) => End::NotInDoubt,
        (false, true) => End::Alone,
    };
    if !runs_until(scenario, &mut world, |world| {
        no_caller_waits(world, first) && are_up(scenario, world, &whole)
    }) {
        return false;
    }
    for &cable in &cut {
        world.mend(scenario, cable);
    }
    cut.is_empty()
        || runs_until(scenario, &mut world, |world| {
            no_caller_waits(world, End::Reported) && are_up(scenario, world, &cut)
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

/// How far everything must have ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Every exchange has ended that a caller waits for.
    Reported,
    /// No exchange is in doubt: those without a reported end were not executed.
    NotInDoubt,
    /// No path leads to a peer: exchanges without a reported end wait for one.
    Alone,
}

/// Everything has ended, nothing is reserved, and nothing is left over.
fn no_caller_waits(world: &World, end: End) -> bool {
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

/// A node holds the exchanges that its program waits for, and those that are kept for their name
/// where no cable leads to the peer. It holds a slot for each of these that was sent, and nothing
/// else.
fn nothing_left_over(side: &Side, end: End) -> bool {
    let Side { node, program, .. } = side;
    let count = |is_so: &dyn Fn(usize) -> bool| {
        let wishes = 0..program.submitted.len();
        wishes.filter(|&wish| is_so(wish)).count() as u32
    };
    let waiting = count(&|wish| program.waits_for(wish));
    let named = count(&|wish| program.canceled[wish] && program.reported[wish].is_none());
    let queued: u32 = node.peers().map(|peer| peer.queued).sum();
    let unresolved: u32 = node.peers().map(|peer| peer.unresolved).sum();
    let open: u32 = node.links().map(|link| link.open_transactions).sum();
    let kept_max = if end == End::Reported { 0 } else { named };
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
