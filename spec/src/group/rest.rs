//! What must hold where nothing is left to happen.

use covalent_protocol::group::{Members, View};

use super::world::{World, life};

/// Whether everybody came to an end: of the newest view of those who live, a quorum that is joined is in a view of its own with every message told,
/// and all others know that they are out of it.
#[must_use]
pub fn has_ended(world: &World) -> bool {
    (0..world.sides.len())
        .filter(|&member| world.lives(member))
        .all(|member| ended(world, member))
}

fn ended(world: &World, member: usize) -> bool {
    let told = &world.sides[member].told;
    let Some(view) = told.views.last() else {
        return false;
    };
    if told.excluded {
        // There is a view that follows, and it is not in it.
        return newest(world).is_some_and(|newest| newest.number > view.number);
    }
    let joined = |rank: &usize| {
        let other = (0..world.sides.len()).find(|&other| life(other) == view.members[*rank].life);
        other.is_some_and(|other| {
            other == member
                || (world.lives(other)
                    && world.is_way(member, other)
                    && !world.sides[other].told.excluded)
        })
    };
    let ranks: Members = (0..view.members.len())
        .filter(joined)
        .fold(Members::NONE, Members::with);
    if !ranks.is_quorum_of(view.voters) {
        return told.stopped;
    }
    let all = ranks == view.everybody();
    all && !told.stopped && has_all_messages(world, view, member)
}

fn newest(world: &World) -> Option<&View> {
    let views = world.sides.iter().filter_map(|side| side.told.views.last());
    views.max_by_key(|view| view.number)
}

/// Whether a member was told what all members of its view asked for.
fn has_all_messages(world: &World, view: &View, member: usize) -> bool {
    let told = &world.sides[member].told;
    (0..world.sides.len())
        .filter(|&sender| view.rank_of(life(sender)).is_some())
        .all(|sender| {
            let of_sender = told
                .messages
                .iter()
                .filter(|(_, by, _)| *by == life(sender).0);
            of_sender.count() as u64 == world.sides[sender].told.asked
        })
}
