//! The events that a search must reach. Otherwise it shows nothing about them.

use covalent_protocol::{DownReason, LinkCounters};

use crate::{
    check::{Sight, sight},
    program::Reported,
    world::{Side, TRANSACTIONS_MAX, World},
};

/// All of them.
pub const ALL: &[Sight<World>] = &[
    sight("an exchange committed", |world| {
        reported(world, Reported::Done)
    }),
    sight("an exchange was refused", |world| {
        reported(world, Reported::Dropped)
    }),
    sight("an exchange ended unknown", |world| {
        reported(world, Reported::Unknown)
    }),
    sight("an exchange was in doubt", |world| {
        world.sides.iter().any(|side| side.node.in_doubt() > 0)
    }),
    sight("an exchange was kept for its name alone", |world| {
        let kept = |side: &Side| {
            let unresolved: u32 = side.node.peers().map(|peer| peer.unresolved).sum();
            unresolved > 0 && side.node.room() == TRANSACTIONS_MAX
        };
        world.sides.iter().any(|side| kept(side))
    }),
    sight("a query was answered \"committed\"", |world| {
        counted(world, |counters| {
            let others = counters.reversed + counters.refused + counters.forgotten;
            counters.resolved > others && counters.committed > 0
        })
    }),
    sight("a query was answered \"refused\"", |world| {
        counted(world, |counters| {
            counters.resolved > 0 && counters.refused > 0 && counters.reversed == 0
        })
    }),
    sight("a query was answered \"undone\"", |world| {
        counted(world, |counters| counters.reversed > 0)
    }),
    sight("a neighbor forwarded a query", |world| {
        counted(world, |counters| counters.relays_passed > 0)
    }),
    sight("a neighbor forwarded \"committed\"", |world| {
        reported(world, Reported::Done) && counted(world, |counters| counters.relayed > 0)
    }),
    sight("a neighbor forwarded \"undone\"", |world| {
        let passed = counted(world, |counters| counters.relayed > 0);
        passed && !world.called_undone.is_empty()
    }),
    sight(
        "an undone exchange was applied again and committed",
        |world| redone(world, Reported::Done),
    ),
    sight(
        "an undone exchange was applied again and refused",
        |world| redone(world, Reported::Dropped),
    ),
    sight("an exchange was reversed", |world| {
        world
            .sides
            .iter()
            .any(|side| !side.program.reversed.is_empty())
    }),
    sight("a request arrived after its reply was latched", |world| {
        counted(world, |counters| counters.drops.late > 0)
    }),
    sight("a record arrived while its link was down", |world| {
        counted(world, |counters| counters.drops.not_up > 0)
    }),
    sight(
        "message 2 was piggybacked on a record of another exchange",
        |world| world.arrived.message_2_rode,
    ),
    sight(
        "message 3 was piggybacked on a record of another exchange",
        |world| world.arrived.message_3_rode,
    ),
    sight("a message of several frames arrived", |world| {
        world.arrived.second_frame
    }),
    sight(
        "the echo was requested of a handshake without it",
        |world| counted(world, |counters| counters.drops.unproven_init > 0),
    ),
    sight("a link came up over a moved cable", |world| {
        let mut links = world.sides.iter().flat_map(|side| side.node.links());
        links.any(|link| link.peer_port.is_some_and(|port| port != link.port))
    }),
    sight("a link failed by a gap", |world| {
        failed(world, DownReason::SequenceGap)
    }),
    sight("a link failed by its carrier", |world| {
        failed(world, DownReason::CarrierLost)
    }),
    sight("a link failed because another one was faster", |world| {
        failed(world, DownReason::PeerRttExceeded)
    }),
    sight("a link failed by silence", |world| {
        failed(world, DownReason::PeerSilent)
    }),
    sight("a link failed because its peer left", |world| {
        failed(world, DownReason::PeerReinitialized)
    }),
    sight("a link failed because its peer restarted", |world| {
        failed(world, DownReason::PeerRestarted)
    }),
];

fn counted(world: &World, happened: impl Fn(&LinkCounters) -> bool) -> bool {
    let mut links = world.sides.iter().flat_map(|side| side.node.links());
    links.any(|link| happened(link.counters))
}

fn failed(world: &World, reason: DownReason) -> bool {
    counted(world, |counters| counters.failures.get(reason) > 0)
}

fn reported(world: &World, reported: Reported) -> bool {
    let mut sides = world.sides.iter();
    sides.any(|side| side.program.reported.contains(&Some(reported)))
}

/// Whether a wish of which the responder received at least two attempts ended with `reported`.
fn redone(world: &World, reported: Reported) -> bool {
    world.wishes.iter().enumerate().any(|(number, wish)| {
        world.sides[wish.to].program.attempts[number] > 1
            && world.sides[wish.from].program.reported[number] == Some(reported)
    })
}
