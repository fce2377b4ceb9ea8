//! The invariants of every state.

use covalent_protocol::{ExchangeId, Mode};

use crate::{
    check::Invariant,
    program::Reported,
    rest,
    scenario::Scenario,
    world::{Slot, World, guid},
};

/// Never committed at one end and reversed, or called undone, at the other.
pub const AGREEMENT: &str = "agreement";
/// At most one end has the right to forward.
pub const ONE_COPY: &str = "one copy";
/// Executed once if reported "done", never if reported "dropped", at most once until then.
pub const EXACTLY_ONCE: &str = "exactly once";
/// In two phases nothing is executed before the initiator has message 2.
pub const ISOLATION: &str = "isolation";
/// Nothing stays reserved for an exchange whose link failed.
pub const NOTHING_RESERVED: &str = "nothing reserved";
/// Each admitted exchange is settled once, each end is reported once, and no honest end is accused
/// of a violation.
pub const BOOKS: &str = "books";
/// A fault costs each end of a link one failure at most, and without a fault there is none.
pub const NO_STORM: &str = "no storm";
/// Every fair run ends resolved.
pub const ENDS_RESOLVED: &str = "every run ends resolved";

/// All of them.
pub const ALL: &[Invariant<Scenario>] = &[
    (AGREEMENT, |_, world| agreement(world)),
    (ONE_COPY, |_, world| one_copy(world)),
    (EXACTLY_ONCE, |_, world| exactly_once(world)),
    (ISOLATION, |_, world| isolation(world)),
    (NOTHING_RESERVED, |_, world| nothing_reserved(world)),
    (BOOKS, |_, world| books(world)),
    (NO_STORM, no_storm),
    (ENDS_RESOLVED, rest::quiesces),
];

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

/// An exchange that is queued at its initiator was not executed. Of the exchanges without a
/// reported end, at least as many were not executed as are queued.
fn one_copy(world: &World) -> bool {
    (0..world.sides.len()).all(|from| {
        let side = &world.sides[from];
        let queued: u32 = side.node.peers().map(|peer| peer.queued).sum();
        let with_initiator = world.wishes.iter().enumerate().filter(|&(number, wish)| {
            let executed = world.sides[wish.to].program.executed[number] > 0;
            wish.from == from
                && side.program.submitted[number]
                && side.program.reported[number].is_none()
                && !executed
        });
        with_initiator.count() >= queued as usize
    })
}

fn exactly_once(world: &World) -> bool {
    world.wishes.iter().enumerate().all(|(number, wish)| {
        let executed = world.sides[wish.to].program.executed[number];
        match world.sides[wish.from].program.reported[number] {
            Some(Reported::Done) => executed == 1,
            Some(Reported::Dropped) => executed == 0,
            Some(Reported::Unknown) | None => executed <= 1,
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
                world.received.contains(&(slot, sequence))
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

/// A node that meets a new incarnation on one cable restarts the handshakes on the others, so that
/// nothing of an old one is trusted. The first meeting may cost a link one failure, a restart two.
fn no_storm(scenario: &Scenario, world: &World) -> bool {
    let guesses: u8 = world.sides.iter().map(|side| side.program.guesses).sum();
    let spent = &world.spent;
    let meetings = u8::from((!scenario.up || scenario.drawn) && scenario.cables.len() > 1);
    // A node that expects another peer because of a forged frame abandons the handshake in
    // progress.
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
