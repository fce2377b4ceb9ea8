//! What must hold where nothing is left to happen.

use covalent_protocol::group::{Members, View};

use super::{
    said::Kind,
    world::{World, life},
};

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
    let Some(own) = told.views.last() else {
        return seeks_in_vain(world);
    };
    if told.excluded {
        // There is a view that follows, and it is not in it.
        return newest(world).is_some_and(|newest| newest.number > own.number);
    }
    let view = newest_of(world, own);
    let joined = |rank: &usize| {
        let other = (0..world.sides.len()).find(|&other| life(other) == view.members[*rank].life);
        other.is_some_and(|other| {
            other == member
                || (world.lives(other)
                    && world.is_way(member, other)
                    && !world.sides[other].told.excluded
                    && group_of(world, other) == Some(view.group))
        }) && other.is_none_or(|other| !is_suspected(world, other))
    };
    let ranks: Members = (0..view.members.len())
        .filter(joined)
        .fold(Members::NONE, Members::with);
    if !ranks.is_quorum_of(view.voters) {
        return told.stopped;
    }
    let all = ranks == view.everybody();
    let leaves = world.scenario.leavers.iter().zip(&world.leaves);
    let stays = leaves
        .into_iter()
        .all(|(leaver, asked)| !asked || *leaver != member);
    // Of who began later it is not known what was told before.
    let whole = member >= world.scenario.in_view || has_all_messages(world, view, member);
    own == view && all && stays && !told.stopped && whole
}

/// The newest view of the group of `own` that somebody who lives is in.
fn newest_of<'a>(world: &'a World, own: &'a View) -> &'a View {
    let living = (0..world.sides.len()).filter(|&member| world.lives(member));
    let told = living.map(|member| &world.sides[member].told);
    let views = told
        .filter(|told| !told.excluded)
        .filter_map(|told| told.views.last());
    let same = views.filter(|view| view.group == own.group);
    same.max_by_key(|view| view.number).unwrap_or(own)
}

/// Whether somebody who looks for a group may find none: nobody is in one that goes on, and those who look are not enough.
fn seeks_in_vain(world: &World) -> bool {
    let living = || (0..world.sides.len()).filter(|&member| world.lives(member));
    let mut members = living().filter(|&member| world.is_member(member));
    if members.any(|member| !world.sides[member].told.stopped) {
        return false;
    }
    let is_group = living().any(|member| world.is_member(member));
    let founders = usize::from(world.scenario.founders);
    is_group || founders == 0 || living().count() < founders
}

fn group_of(world: &World, member: usize) -> Option<u64> {
    let view = world.sides[member].told.views.last();
    view.map(|view| view.group)
}

/// Whether somebody who lives, and is in a view with it, says of a member that it should go.
fn is_suspected(world: &World, member: usize) -> bool {
    let mut said = world.scenario.suspicions.iter().zip(&world.suspected);
    said.any(|(&[by, whom], said)| *said && whom == member && world.is_with(by, whom))
}

/// Whether at rest a tick leads to nothing but keepalives, and to questions of those who lost their quorum that nobody answers.
#[must_use]
pub fn is_quiet(world: &World) -> bool {
    let living = || (0..world.sides.len()).filter(|&member| world.lives(member));
    if living().any(|member| !world.is_member(member)) {
        // Who looks for a group asks, and is answered.
        return true;
    }
    let mut later = world.clone();
    later.heard = Some(Vec::new());
    later.tick();
    later.drain();
    let heard = later.heard.unwrap_or_default();
    heard.iter().all(|(by, kind)| {
        *kind == Kind::Keepalive || (*kind == Kind::Hello && world.sides[*by].told.stopped)
    })
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
                .filter(|(_, by, ..)| *by == life(sender).0);
            of_sender.count() as u64 == world.sides[sender].told.asked
        })
}
