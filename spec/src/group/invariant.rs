//! What must hold in every state.

use std::collections::BTreeSet;

use covalent_protocol::group::View;
use stateright::Property;

use super::{
    rest,
    step::Search,
    world::{Told, World},
};

/// Views of one number are equal, and each member is in its own.
pub const ONE_VIEW: &str = "one view of a number";
/// Of two members' messages of a view one is the beginning of the other's.
pub const TOTAL_ORDER: &str = "total order";
/// What anybody was told in a view is told to all who went on from it, and to these nothing more.
pub const ALL_OR_NONE: &str = "all or none";
/// Each message at most once, and of each sender without a gap.
pub const EXACTLY_ONCE: &str = "messages once";
/// Where nothing is left to happen but what goes wrong, members with a quorum are in one view with
/// all messages delivered, and others report that they have none.
pub const ENDS: &str = "every run ends in a view or stopped";

/// Where nothing is left to happen but ticks, members say keepalives only, and nobody answers who lost its quorum.
pub const QUIET: &str = "an idle group is quiet";

/// All of them.
#[must_use]
pub fn all() -> Vec<Property<Search>> {
    vec![
        Property::always(ONE_VIEW, |search, world| {
            search.holds(0, || one_view(world))
        }),
        Property::always(TOTAL_ORDER, |search, world| {
            search.holds(1, || total_order(world))
        }),
        Property::always(ALL_OR_NONE, |search, world| {
            search.holds(2, || all_or_none(world))
        }),
        Property::always(EXACTLY_ONCE, |search, world| {
            search.holds(3, || exactly_once(world))
        }),
        Property::always(ENDS, |search, world| {
            search.holds(4, || !search.is_at_rest(world) || rest::has_ended(world))
        }),
        Property::always(QUIET, |search, world| {
            search.holds(5, || {
                !search.scenario.members_die_alone()
                    || !search.is_at_rest(world)
                    || rest::is_quiet(world)
            })
        }),
    ]
}

fn told(world: &World) -> impl Iterator<Item = &Told> {
    world.sides.iter().map(|side| &side.told)
}

/// Each two of them, both ways.
fn each_two(world: &World) -> impl Iterator<Item = (&Told, &Told)> {
    told(world).flat_map(|a| told(world).map(move |b| (a, b)))
}

fn one_view(world: &World) -> bool {
    let rising = |told: &Told| {
        let numbers: Vec<u64> = told.views.iter().map(|view| view.number).collect();
        numbers.is_sorted_by(|a, b| a < b)
    };
    told(world).all(rising)
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
            let views = &world.sides[member].told.views;
            views
                .iter()
                .all(|view| view.rank_of(super::world::life(member)).is_some())
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
        let went_on = b.views.iter().take(b.views.len().saturating_sub(1));
        went_on
            .into_iter()
            .all(|view| a.of_view(view.number).count() <= b.of_view(view.number).count())
    })
}

fn exactly_once(world: &World) -> bool {
    told(world).all(|told| {
        (0..world.sides.len()).all(|sender| {
            let life = super::world::life(sender).0;
            let messages = told.messages.iter().filter(|(_, by, ..)| *by == life);
            let mut words = BTreeSet::new();
            messages.zip(1..).all(|((_, _, sequence, word), expected)| {
                *sequence == expected && words.insert(word)
            })
        })
    })
}
