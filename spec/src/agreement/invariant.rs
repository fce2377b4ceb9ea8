//! The invariants of every state.

use stateright::Property;

use super::{
    rest,
    step::Search,
    world::{Breach, World},
};

/// Every lane holds the configuration that control recorded as agreed.
pub const SAME_EPOCH: &str = "same revision";
/// A revision of an incarnation has one digest, and epochs increase.
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
#[must_use]
pub fn all() -> Vec<Property<Search>> {
    vec![
        Property::always(SAME_EPOCH, |search: &Search, world: &World| {
            search.holds(0, || same_epoch(world))
        }),
        Property::always(ONE_MEANING, |search: &Search, world: &World| {
            search.holds(1, || !world.breaches.has(Breach::Meaning))
        }),
        Property::always(WHOLE_OR_NOT, |search: &Search, world: &World| {
            search.holds(2, || whole_or_not(world))
        }),
        Property::always(NO_STALE_TAKING, |search: &Search, world: &World| {
            search.holds(3, || !world.breaches.has(Breach::Stale))
        }),
        Property::always(NO_WAIT_FOR_THE_DEAD, |search: &Search, world: &World| {
            search.holds(4, || rest::exchanges_end(&search.scenario, world))
        }),
        Property::always(REPORTED_TRUTHFULLY, |search: &Search, world: &World| {
            search.holds(5, || !world.breaches.has(Breach::Untrue))
        }),
        Property::always(ENDS_AGREED, |search: &Search, world: &World| {
            search.holds(6, || rest::ends_agreed(&search.scenario, world))
        }),
    ]
}

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
