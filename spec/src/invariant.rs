//! What must hold in every state.

use covalent_protocol::{ExchangeId, Mode};
use stateright::Property;

use crate::{
    program::Told,
    rest,
    scenario::Scenario,
    step::Search,
    world::{Slot, World, guid},
};

/// Never committed at one end and reversed, or called undone, at the other.
pub const AGREEMENT: &str = "agreement";
/// At most one end has the right to forward.
pub const ONE_COPY: &str = "one copy";
/// Executed once if told "done", never if told "dropped", at most once until then.
pub const EXACTLY_ONCE: &str = "exactly once";
/// In two phases nothing is executed before the initiator has message 2.
pub const ISOLATION: &str = "isolation";
/// Nothing is kept for an exchange whose link failed.
pub const NOTHING_RESERVED: &str = "nothing reserved";
/// What is admitted is settled once, what is told is told once, no honest end is taken for a liar.
pub const BOOKS: &str = "books";
/// A fault costs each end of a link one failure at most, and without a fault there is none.
pub const NO_STORM: &str = "no storm";
/// Every fair run ends resolved.
pub const ENDS_RESOLVED: &str = "every run ends resolved";

/// All of them.
#[must_use]
pub fn all() -> Vec<Property<Search>> {
    vec![
        Property::always(AGREEMENT, |search, world| {
            search.holds(0, || agreement(world))
        }),
        Property::always(ONE_COPY, |search, world| {
            search.holds(1, || one_copy(world))
        }),
        Property::always(EXACTLY_ONCE, |search, world| {
            search.holds(2, || exactly_once(world))
        }),
        Property::always(ISOLATION, |search, world| {
            search.holds(3, || isolation(world))
        }),
        Property::always(NOTHING_RESERVED, |search, world| {
            search.holds(4, || nothing_reserved(world))
        }),
        Property::always(BOOKS, |search, world| search.holds(5, || books(world))),
        Property::always(NO_STORM, |search, world| {
            search.holds(6, || no_storm(&search.scenario, world))
        }),
        Property::always(ENDS_RESOLVED, |search, world| {
            search.holds(7, || rest::comes_to_rest(&search.scenario, world))
        }),
    ]
}

fn books(world: &World) -> bool {
    world.sides.iter().all(|side| side.program.breach.is_none())
}

fn agreement(world: &World) -> bool {
    world.sides.iter().all(|side| {
        let reversed = &side.program.reversed;
        side.program
            .committed
            .iter()
            .all(|id| !reversed.contains(id) && !world.called_undone.contains(&name(id)))
    })
}

/// What is queued at its initiator was not executed: of the exchanges that were not told, as many were not executed as are queued.
fn one_copy(world: &World) -> bool {
    (0..world.sides.len()).all(|from| {
        let side = &world.sides[from];
        let queued: u32 = side.node.peers().map(|peer| peer.queued).sum();
        let with_initiator = world.wishes.iter().enumerate().filter(|&(number, wish)| {
            let executed = world.sides[wish.to].program.executed[number] > 0;
            wish.from == from
                && side.program.submitted[number]
                && side.program.told[number].is_none()
                && !executed
        });
        with_initiator.count() >= queued as usize
    })
}

fn exactly_once(world: &World) -> bool {
    world.wishes.iter().enumerate().all(|(number, wish)| {
        let executed = world.sides[wish.to].program.executed[number];
        match world.sides[wish.from].program.told[number] {
            Some(Told::Done) => executed == 1,
            Some(Told::Dropped) => executed == 0,
            Some(Told::Unknown) | None => executed <= 1,
        }
    })
}

/// An exchange as its initiator names it.
const fn name(id: &ExchangeId) -> (Slot, (u32, u32)) {
    let from = (id.peer - guid(0)) as usize;
    ((from, id.port, id.slot), (id.sequence, id.epoch))
}

fn isolation(world: &World) -> bool {
    world.wishes.iter().all(|wish| {
        wish.mode == Mode::OnePhase || {
            let program = &world.sides[wish.to].program;
            program.committed_in_two.iter().all(|id| {
                let (slot, (sequence, _)) = name(id);
                world.heard.contains(&(slot, sequence))
            })
        }
    })
}

fn nothing_reserved(world: &World) -> bool {
    world.sides.iter().all(|side| {
        side.program.admitted.iter().all(|id| {
            let mut links = side.node.links();
            let link =
                links.find(|link| (link.peer, link.peer_port) == (Some(id.peer), Some(id.port)));
            link.is_some_and(|link| link.epoch == id.epoch)
        })
    })
}

/// Who meets a new life on one cable starts the handshakes on the others anew, so that nothing of an old one is believed: the first
/// meeting may cost a link one failure, a restart two.
fn no_storm(scenario: &Scenario, world: &World) -> bool {
    let guesses: u8 = world.sides.iter().map(|side| side.program.guesses).sum();
    let spent = &world.spent;
    let meetings = u8::from((!scenario.up || scenario.drawn) && scenario.cables.len() > 1);
    // Who counts on somebody else being there gives up what is being agreed on.
    let disturbed = world.disturbed;
    let faults = disturbed
        + spent.losses
        + spent.cuts
        + meetings
        + 2 * spent.restarts
        + spent.moves
        + guesses;
    world
        .sides
        .iter()
        .all(|side| side.program.failures.iter().all(|&count| count <= faults))
}
