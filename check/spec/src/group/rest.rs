//! The invariants of states in which nothing is left to happen.

use covalent_protocol::group::{Members, View};

use super::{
    sent::Kind,
    world::{World, incarnation},
};

/// Whether every member came to its end. A connected quorum of the newest view of the live members
/// is in a view of its own with all messages delivered. All others know that they are out of it.
#[must_use]
pub fn has_ended(world: &World) -> bool {
    (0..world.sides.len())
        .filter(|&member| world.is_alive(member))
        .all(|member| ended(world, member))
}

fn ended(world: &World, member: usize) -> bool {
    let reported = &world.sides[member].reported;
    let Some(own) = reported.views.last() else {
        return search_may_fail(world);
    };
    if reported.excluded {
        // There is a view that follows, and it is not in it.
        return newest(world).is_some_and(|newest| newest.number > own.number);
    }
    let view = newest_of(world, own);
    let joined = |rank: &usize| {
        let other = (0..world.sides.len())
            .find(|&other| incarnation(other) == view.members[*rank].incarnation);
        other.is_some_and(|other| {
            other == member
                || (world.is_alive(other)
                    && world.is_path(member, other)
                    && !world.sides[other].reported.excluded
                    && group_of(world, other) == Some(view.group))
        }) && other.is_none_or(|other| !is_suspected(world, other))
    };
    let ranks: Members = (0..view.members.len())
        .filter(joined)
        .fold(Members::NONE, Members::with);
    if !ranks.is_quorum_of(view.voters) {
        return reported.stopped;
    }
    let all = ranks == view.all_members();
    let leaves = world.scenario.leavers.iter().zip(&world.leaves);
    let remains = leaves
        .into_iter()
        .all(|(leaver, requested)| !requested || *leaver != member);
    // For a member that began later, the messages delivered before are unknown.
    let whole = member >= world.scenario.in_view || has_all_messages(world, view, member);
    own == view && all && remains && !reported.stopped && whole
}

/// Returns the newest view of the group of `own` that a live member is in.
fn newest_of<'a>(world: &'a World, own: &'a View) -> &'a View {
    let living = (0..world.sides.len()).filter(|&member| world.is_alive(member));
    let reported = living.map(|member| &world.sides[member].reported);
    let views = reported
        .filter(|reported| !reported.excluded)
        .filter_map(|reported| reported.views.last());
    let same = views.filter(|view| view.group == own.group);
    same.max_by_key(|view| view.number).unwrap_or(own)
}

/// Whether a searching member may find no group: no member is in a group that continues, and the
/// searching members are too few to found one.
fn search_may_fail(world: &World) -> bool {
    let living = || (0..world.sides.len()).filter(|&member| world.is_alive(member));
    let mut members = living().filter(|&member| world.is_member(member));
    if members.any(|member| !world.sides[member].reported.stopped) {
        return false;
    }
    let is_group = living().any(|member| world.is_member(member));
    let founders = usize::from(world.scenario.founders);
    is_group || founders == 0 || living().count() < founders
}

fn group_of(world: &World, member: usize) -> Option<u64> {
    let view = world.sides[member].reported.views.last();
    view.map(|view| view.group)
}

/// Whether a live member in the same view suspects this member.
fn is_suspected(world: &World, member: usize) -> bool {
    let mut sent = world.scenario.suspicions.iter().zip(&world.suspected);
    sent.any(|(&[by, target], sent)| *sent && target == member && world.is_with(by, target))
}

/// Whether a tick at rest causes only keepalives, and queries without a reply of members that lost
/// their quorum.
#[must_use]
pub fn is_quiet(world: &World) -> bool {
    let living = || (0..world.sides.len()).filter(|&member| world.is_alive(member));
    if living().any(|member| !world.is_member(member)) {
        // A searching member sends queries and gets replies.
        return true;
    }
    let mut later = world.clone();
    later.recorded = Some(Vec::new());
    later.tick();
    later.drain();
    let recorded = later.recorded.unwrap_or_default();
    recorded.iter().all(|(by, kind)| {
        *kind == Kind::Keepalive || (*kind == Kind::Hello && world.sides[*by].reported.stopped)
    })
}

fn newest(world: &World) -> Option<&View> {
    let views = world
        .sides
        .iter()
        .filter_map(|side| side.reported.views.last());
    views.max_by_key(|view| view.number)
}

/// Whether a member delivered all messages that the members of its view multicast.
fn has_all_messages(world: &World, view: &View, member: usize) -> bool {
    let reported = &world.sides[member].reported;
    (0..world.sides.len())
        .filter(|&sender| view.rank_of(incarnation(sender)).is_some())
        .all(|sender| {
            let of_sender = reported
                .messages
                .iter()
                .filter(|(_, by, ..)| *by == incarnation(sender).0);
            of_sender.count() as u64 == world.sides[sender].reported.requested
        })
}
