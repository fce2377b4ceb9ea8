//! The events that a search must reach. Otherwise it shows nothing about them.

use covalent_protocol::group::{GroupStanding, View};

use super::world::{Side, World, incarnation};
use crate::check::{Sight, sight};

/// All of them.
pub const ALL: &[Sight<World>] = &[
    sight("a message was delivered to all", |world| {
        let first = world.sides.first().map(|side| &side.reported.messages);
        first.is_some_and(|first| {
            !first.is_empty()
                && world
                    .sides
                    .iter()
                    .all(|side| side.reported.messages == *first)
        })
    }),
    sight(
        "a member died with a message that all others have",
        |world| {
            let died = |side: &&_| -> bool {
                let side: &std::sync::Arc<super::world::Side> = side;
                side.group.is_none() && !side.reported.messages.is_empty()
            };
            world.sides.iter().filter(died).count() > 0
        },
    ),
    sight("a view without the oldest began", |world| {
        views(world, |view| view.rank_of(incarnation(0)).is_none())
    }),
    sight("a second change began from a view of a change", |world| {
        views(world, |view| view.number >= 3)
    }),
    sight("the half with the oldest continued", |world| {
        world.sides.iter().any(|side| {
            let mut views = side.reported.views.windows(2);
            views.any(|two| 2 * two[1].members.len() == two[0].voters.len())
        })
    }),
    sight("a minority reported that it stopped", |world| {
        let mut sides = world.sides.iter();
        sides.any(|side| side.group.is_some() && side.reported.stopped && !side.reported.excluded)
    }),
    sight("a group admitted a member", |world| {
        let first = world.scenario.in_view;
        first > 0
            && world.sides[first..]
                .iter()
                .any(|side| !side.reported.views.is_empty())
    }),
    sight("two groups of one name were founded", |world| {
        let first = |view: &View| world.sides.iter().any(|side| is_other(side, view));
        views(world, first)
    }),
    sight("two groups admitted the same member", |world| {
        (0..world.sides.len()).any(|member| is_in_two(world, member))
    }),
    sight("a member left and knows it", |world| {
        world.sides.iter().any(|side| side.reported.left)
    }),
    sight(
        "a member that left still waits, and another one died",
        |world| {
            world.scenario.members_die_alone()
                && world.spent.deaths > 0
                && world.sides.iter().any(|side| {
                    let group = side.group.as_ref();
                    group.is_some_and(|group| group.standing() == GroupStanding::Left)
                })
        },
    ),
    sight(
        "a member is two views behind, and was admitted to the one between",
        |world| {
            let mut sides = world.sides.iter().zip(0..);
            sides.any(|(side, member)| is_two_behind(world, side, member))
        },
    ),
    sight("a live member was left out and knows it", |world| {
        let mut sides = world.sides.iter();
        sides.any(|side| side.group.is_some() && side.reported.excluded)
    }),
];

/// Whether members of two groups are in a view with this one, which is in one of them.
fn is_in_two(world: &World, member: usize) -> bool {
    let living = world.sides.iter().filter(|side| side.group.is_some());
    let now = living.filter_map(|side| side.reported.views.last());
    let mut with = now.filter(|view| view.rank_of(incarnation(member)).is_some());
    let first = with.next();
    world.is_member(member) && first.is_some_and(|first| with.any(|view| view.group != first.group))
}

fn is_two_behind(world: &World, side: &Side, member: usize) -> bool {
    let Some(own) = side.reported.views.last() else {
        return false;
    };
    let is_later = |view: &View, by| view.group == own.group && view.number == own.number + by;
    side.group.is_some()
        && !side.reported.excluded
        && views(world, |view| is_later(view, 2))
        && views(world, |view| {
            is_later(view, 1) && view.rank_of(incarnation(member)).is_some()
        })
}

fn is_other(side: &Side, view: &View) -> bool {
    let own = side.reported.views.last();
    own.is_some_and(|own| own.group != view.group)
}

fn views(world: &World, wanted: impl Fn(&View) -> bool) -> bool {
    let mut views = world.sides.iter().flat_map(|side| &side.reported.views);
    views.any(wanted)
}
