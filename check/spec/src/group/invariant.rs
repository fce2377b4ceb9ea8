//! The invariants of every state.

use std::collections::BTreeSet;

use covalent_protocol::group::View;

use super::{
    rest,
    scenario::Scenario,
    world::{Reported, World},
};
use crate::check::Invariant;

/// Views of one number are equal, and each member is in its own.
pub const ONE_VIEW: &str = "one view of a number";
/// Of two members' messages of a view one is the beginning of the other's.
pub const TOTAL_ORDER: &str = "total order";
/// Every member that continued from a view delivered all messages that any member delivered in it,
/// and no others.
pub const ALL_OR_NONE: &str = "all or none";
/// Each message at most once, and of each sender without a gap.
pub const EXACTLY_ONCE: &str = "messages once";
/// If nothing is left to happen except faults, members with a quorum are in one view with all
/// messages delivered. The others report that they have no quorum.
pub const ENDS: &str = "every run ends in a view or stopped";

/// If nothing is left to happen except ticks, members send only keepalives. No member replies to
/// one that lost its quorum.
pub const QUIET: &str = "an idle group is quiet";

/// All of them.
pub const ALL: &[Invariant<Scenario>] = &[
    (ONE_VIEW, |_, world| one_view(world)),
    (TOTAL_ORDER, |_, world| total_order(world)),
    (ALL_OR_NONE, |_, world| all_or_none(world)),
    (EXACTLY_ONCE, |_, world| exactly_once(world)),
    (ENDS, |scenario, world| {
        !scenario.is_at_rest(world) || rest::has_ended(world)
    }),
    (QUIET, |scenario, world| {
        !scenario.members_die_alone() || !scenario.is_at_rest(world) || rest::is_quiet(world)
    }),
];

fn reported(world: &World) -> impl Iterator<Item = &Reported> {
    world.sides.iter().map(|side| &side.reported)
}

/// Each two of them, both ways.
fn each_two(world: &World) -> impl Iterator<Item = (&Reported, &Reported)> {
    reported(world).flat_map(|a| reported(world).map(move |b| (a, b)))
}

fn one_view(world: &World) -> bool {
    let rising = |reported: &Reported| {
        let numbers: Vec<u64> = reported.views.iter().map(|view| view.number).collect();
        numbers.is_sorted_by(|a, b| a < b)
    };
    reported(world).all(rising)
        && each_two(world).all(|(a, b)| {
            let same = |view: &View| {
                let mut others = b.views.iter();
                others.find(|other| (other.group, other.number) == (view.group, view.number))
            };
            a.views
                .iter()
                .all(|view| same(view).is_none_or(|other| other == view))
        })
        && (0..world.sides.len()).all(|member| {
            let views = &world.sides[member].reported.views;
            views
                .iter()
                .all(|view| view.rank_of(super::world::incarnation(member)).is_some())
        })
}

fn total_order(world: &World) -> bool {
    each_two(world).all(|(a, b)| {
        a.views.iter().all(|view| {
            let both = a.of_view(view.number).zip(b.of_view(view.number));
            both.into_iter().all(|(a, b)| a == b)
        })
    })
}

fn all_or_none(world: &World) -> bool {
    each_two(world).all(|(a, b)| {
        // `b` went on from every view but its last.
        let continued = b.views.iter().take(b.views.len().saturating_sub(1));
        continued
            .into_iter()
            .all(|view| a.of_view(view.number).count() <= b.of_view(view.number).count())
    })
}

fn exactly_once(world: &World) -> bool {
    reported(world).all(|reported| {
        (0..world.sides.len()).all(|sender| {
            let incarnation = super::world::incarnation(sender).0;
            let messages = reported
                .messages
                .iter()
                .filter(|(_, by, ..)| *by == incarnation);
            let mut words = BTreeSet::new();
            messages.zip(1..).all(|((_, _, sequence, word), expected)| {
                *sequence == expected && words.insert(word)
            })
        })
    })
}
