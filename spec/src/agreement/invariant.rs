//! What must hold in every state.

use stateright::Property;

use super::{
    dataplane::Lane,
    rest,
    step::Search,
    world::{Breach, World},
};

/// What control noted as agreed, every lane holds.
pub const SAME_EPOCH: &str = "same epoch";
/// An epoch of a life has one digest, and epochs grow.
pub const ONE_MEANING: &str = "one meaning";
/// While no exchange is open all lanes hold and apply the same.
pub const WHOLE_OR_NOT: &str = "whole or not";
/// After a refusal every lane holds and applies what it did before.
pub const REFUSED_MEANS_UNCHANGED: &str = "refused means unchanged";
/// No lane settles an offer that believed what it did not hold.
pub const NO_STALE_TAKING: &str = "no stale taking";
/// An exchange ends without control.
pub const NOBODY_WAITS: &str = "nobody waits for the dead";
/// Who is told "taken" finds it held, who is told "refused" does not.
pub const TOLD_TRUTHFULLY: &str = "told truthfully";
/// From every state all come to hold the same, and after a death what was agreed.
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
        Property::always(REFUSED_MEANS_UNCHANGED, |search: &Search, world: &World| {
            search.holds(3, || !world.breaches.has(Breach::Trace))
        }),
        Property::always(NO_STALE_TAKING, |search: &Search, world: &World| {
            search.holds(4, || !world.breaches.has(Breach::Stale))
        }),
        Property::always(NOBODY_WAITS, |search: &Search, world: &World| {
            search.holds(5, || rest::exchanges_end(&search.scenario, world))
        }),
        Property::always(TOLD_TRUTHFULLY, |search: &Search, world: &World| {
            search.holds(6, || !world.breaches.has(Breach::Untrue))
        }),
        Property::always(ENDS_AGREED, |search: &Search, world: &World| {
            search.holds(7, || rest::ends_agreed(&search.scenario, world))
        }),
    ]
}

/// A second client may have agreed on something else since.
fn same_epoch(world: &World) -> bool {
    let offerer = world.control.as_ref().map(|control| &control.offerer);
    let noted = offerer.filter(|offerer| offerer.is_agreed());
    let held = noted.and_then(|offerer| offerer.agreed());
    let connected = world.partner_lives() && world.spent.strangers == 0;
    held.is_none_or(|held| !connected || world.lanes_hold(&held))
}

fn whole_or_not(world: &World) -> bool {
    world.dataplane.as_ref().is_none_or(|dataplane| {
        let held = dataplane.joint.held();
        let as_held = |lane: &Lane| lane.slot.held() == held && lane.applies_what_it_holds();
        dataplane.joint.phase().is_some() || dataplane.lanes.iter().all(as_held)
    })
}
