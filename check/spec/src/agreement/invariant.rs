//! The invariants of every state.

use super::{
    rest,
    scenario::Scenario,
    world::{Breach, World},
};
use crate::check::Invariant;

/// Every lane holds the configuration that control recorded as agreed.
pub const SAME_EPOCH: &str = "same revision";
/// A revision of an incarnation has one digest, and revisions increase.
pub const ONE_MEANING: &str = "one meaning";
/// While no exchange is open the lanes hold the configuration that the daemon reports.
pub const WHOLE_OR_NOT: &str = "whole or not";
/// No lane commits an offer that believed a configuration that the lane does not hold.
pub const NO_STALE_TAKING: &str = "no stale taking";
/// An exchange ends without control.
pub const NO_WAIT_FOR_THE_DEAD: &str = "exchanges end without control";
/// After the reply "taken" the configuration is held. After "refused" it is not.
pub const REPORTED_TRUTHFULLY: &str = "truthful replies";
/// From every state all reach the same configuration, and after a death the agreed one.
pub const ENDS_AGREED: &str = "every run ends agreed";

/// All of them.
pub const ALL: &[Invariant<Scenario>] = &[
    (SAME_EPOCH, |_, world| same_epoch(world)),
    (ONE_MEANING, |_, world| !world.breaches.has(Breach::Meaning)),
    (WHOLE_OR_NOT, |_, world| whole_or_not(world)),
    (NO_STALE_TAKING, |_, world| {
        !world.breaches.has(Breach::Stale)
    }),
    (NO_WAIT_FOR_THE_DEAD, rest::exchanges_end),
    (REPORTED_TRUTHFULLY, |_, world| {
        !world.breaches.has(Breach::Untrue)
    }),
    (ENDS_AGREED, rest::ends_agreed),
];

/// A second client may have agreed on something else since.
fn same_epoch(world: &World) -> bool {
    let proposer = world.control.as_ref().map(|control| &control.proposer);
    let settled = proposer.filter(|proposer| proposer.is_agreed());
    let held = settled.and_then(|proposer| proposer.agreed());
    let connected = world.is_partner_alive() && world.spent.untrusted_users == 0;
    held.is_none_or(|held| !connected || world.lanes_hold(&held))
}

fn whole_or_not(world: &World) -> bool {
    world.dataplane.as_ref().is_none_or(|dataplane| {
        dataplane.acceptor.is_open() || dataplane.lanes == dataplane.acceptor.held()
    })
}
