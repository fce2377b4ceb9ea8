//! What a search must come by, or it shows nothing about it.

use covalent_protocol::{DownReason, LinkCounters};

use crate::{
    program::Told,
    world::{Side, TRANSACTIONS_MAX, World},
};

/// Something that happens in a state, or happened on the way to it.
pub struct Sight {
    /// What.
    pub name: &'static str,
    happened: fn(&World) -> bool,
}

impl Sight {
    /// Whether it did.
    #[must_use]
    pub fn is_seen(&self, world: &World) -> bool {
        (self.happened)(world)
    }
}

/// All of them.
pub const ALL: &[Sight] = &[
    sight("an exchange committed", |world| told(world, Told::Done)),
    sight("an exchange was refused", |world| {
        told(world, Told::Dropped)
    }),
    sight("an exchange ended unknown", |world| {
        told(world, Told::Unknown)
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
    sight("a question was answered \"committed\"", |world| {
        counted(world, |counters| {
            let others = counters.reversed + counters.refused + counters.forgotten;
            counters.resolved > others && counters.committed > 0
        })
    }),
    sight("a question was answered \"refused\"", |world| {
        counted(world, |counters| {
            counters.resolved > 0 && counters.refused > 0 && counters.reversed == 0
        })
    }),
    sight("a question was answered \"undone\"", |world| {
        counted(world, |counters| counters.reversed > 0)
    }),
    sight("a neighbour passed a question on", |world| {
        counted(world, |counters| counters.relays_passed > 0)
    }),
    sight("a neighbour passed \"committed\" on", |world| {
        told(world, Told::Done) && counted(world, |counters| counters.relayed > 0)
    }),
    sight("a neighbour passed \"undone\" on", |world| {
        let passed = counted(world, |counters| counters.relayed > 0);
        passed && !world.called_undone.is_empty()
    }),
    sight("what was undone committed afresh", |world| {
        afresh(world, Told::Done)
    }),
    sight("what was undone was refused afresh", |world| {
        afresh(world, Told::Dropped)
    }),
    sight("something was reversed", |world| {
        world
            .sides
            .iter()
            .any(|side| !side.program.reversed.is_empty())
    }),
    sight("a request came after its answer was latched", |world| {
        counted(world, |counters| counters.drops.late > 0)
    }),
    sight("a record came while its link was not up", |world| {
        counted(world, |counters| counters.drops.not_up > 0)
    }),
    sight("message 2 rode on a record of another exchange", |world| {
        world.arrived.message_2_rode
    }),
    sight("message 3 rode on a record of another exchange", |world| {
        world.arrived.message_3_rode
    }),
    sight("a message of several frames arrived", |world| {
        world.arrived.second_frame
    }),
    sight("a handshake without the echo was asked for it", |world| {
        counted(world, |counters| counters.drops.unproven_init > 0)
    }),
    sight("a cable that was moved came up", |world| {
        let mut links = world.sides.iter().flat_map(|side| side.node.links());
        links.any(|link| link.peer_port.is_some_and(|port| port != link.port))
    }),
    sight("a link failed by a gap", |world| {
        failed(world, DownReason::SequenceGap)
    }),
    sight("a link failed by its carrier", |world| {
        failed(world, DownReason::CarrierLost)
    }),
    sight("a link failed because another was quicker", |world| {
        failed(world, DownReason::Outpaced)
    }),
    sight("a link failed by silence", |world| {
        failed(world, DownReason::PeerSilent)
    }),
    sight("a link failed because its peer left", |world| {
        failed(world, DownReason::PeerReinitialised)
    }),
    sight("a link failed because its peer restarted", |world| {
        failed(world, DownReason::PeerRestarted)
    }),
];

const fn sight(name: &'static str, happened: fn(&World) -> bool) -> Sight {
    Sight { name, happened }
}

fn counted(world: &World, happened: impl Fn(&LinkCounters) -> bool) -> bool {
    let mut links = world.sides.iter().flat_map(|side| side.node.links());
    links.any(|link| happened(link.counters))
}

fn failed(world: &World, reason: DownReason) -> bool {
    counted(world, |counters| counters.failures.get(reason) > 0)
}

fn told(world: &World, told: Told) -> bool {
    let mut sides = world.sides.iter();
    sides.any(|side| side.program.told.contains(&Some(told)))
}

/// A wish that the responder heard of twice at least ended so.
fn afresh(world: &World, told: Told) -> bool {
    world.wishes.iter().enumerate().any(|(number, wish)| {
        world.sides[wish.to].program.attempts[number] > 1
            && world.sides[wish.from].program.told[number] == Some(told)
    })
}
