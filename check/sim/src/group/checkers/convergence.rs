//! Checks that everything completes after the last fault.

use std::collections::BTreeSet;

use covalent_protocol::group::Members;

use super::{Checker, Fact, Groups, Scene, Verdict};
use crate::group::book::{Book, Membership, MembershipId, Order};

/// After the last fault, all running members that belong together are in one view. Every message is
/// delivered. Every searching application is in a group.
#[derive(Debug)]
pub struct Convergence;

impl Checker<Groups> for Convergence {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Over => unfinished(scene).map_or(Ok(()), Err),
            _ => Ok(()),
        }
    }
}

/// Returns what has not completed.
///
/// The newest view of each group that a running member installed decides. If a quorum of its voters
/// runs, all its active members must be in one view with no other member. None of them is stopped,
/// and every message is delivered. Other running incarnations must know that they are excluded.
///
/// If no quorum runs, the members must have reported that they stopped. A group with a quorum
/// admits every searching application. Without such a group, enough founders found one.
#[must_use]
pub fn unfinished(scene: &Scene<'_>) -> Option<String> {
    let book = scene.book;
    let newest = book.newest_of_each();
    let mut continues = false;
    for order in &newest {
        let (ranks, living) = wanted(book, order);
        let left = if ranks.is_quorum_of(order.view.voters) {
            continues = true;
            of_a_quorum(book, order, ranks)
        } else {
            of_a_minority(book, order, ranks, &living)
        };
        if left.is_some() {
            return left;
        }
    }
    let mut searching =
        (book.stays.iter().enumerate()).filter(|(_, membership)| membership.is_searching());
    if continues {
        return searching
            .next()
            .map(|(number, _)| format!("s{number} looks for a group and was not taken in"));
    }
    let founders = searching.filter(|(_, membership)| newest.is_empty() && membership.founders > 0);
    let founders: Vec<_> = founders.collect();
    let (number, first) = founders.first()?;
    (founders.len() >= usize::from(first.founders)).then(|| {
        format!(
            "{} live founders of a group of {}, s{number} among them, and there is no group",
            founders.len(),
            first.founders
        )
    })
}

/// Returns the running members of a view that no other member requested to exclude, and all running
/// members.
fn wanted(book: &Book, order: &Order) -> (Members, Vec<MembershipId>) {
    let member = |rank: usize| {
        let membership = book.membership_of(order.view.members[rank].incarnation)?;
        (!book.stays[membership].is_over()).then_some((rank, membership))
    };
    let living: Vec<_> = (0..order.view.members.len()).filter_map(member).collect();
    let unwanted: Vec<MembershipId> = living
        .iter()
        .flat_map(|(_, membership)| book.stays[*membership].suspects.iter().copied())
        .collect();
    let wanted = living
        .iter()
        .filter(|(_, membership)| !unwanted.contains(membership));
    let ranks = wanted.fold(Members::NONE, |set, (rank, _)| set.with(*rank));
    (
        ranks,
        living
            .into_iter()
            .map(|(_, membership)| membership)
            .collect(),
    )
}

fn of_a_minority(
    book: &Book,
    order: &Order,
    ranks: Members,
    living: &[MembershipId],
) -> Option<String> {
    // A member that was admitted but is in another group, or in none yet, knows nothing of this
    // one.
    let is_in = |membership: &Membership| {
        membership
            .view
            .is_some_and(|(group, _)| group == order.view.group)
    };
    let continues = |membership: &Membership| is_in(membership) && membership.stopped.is_none();
    let member = living
        .iter()
        .find(|membership| continues(&book.stays[**membership]))?;
    Some(format!(
        "of view {} only {ranks:?} are alive, which is no quorum, and s{member} did not report \
         that it stopped",
        order.view.number
    ))
}

fn of_a_quorum(book: &Book, order: &Order, ranks: Members) -> Option<String> {
    let view = &order.view;
    let id = (view.group, view.number);
    if ranks != view.all_members() {
        return Some(format!(
            "the newest view is {}, and of its {} members {ranks:?} are alive",
            view.number,
            view.members.len()
        ));
    }
    let members: BTreeSet<usize> = (view.members.iter())
        .filter_map(|member| book.membership_of(member.incarnation))
        .collect();
    for (number, membership) in book.stays.iter().enumerate() {
        let elsewhere = membership.view.is_none_or(|(group, _)| group != view.group);
        if membership.is_over() || (elsewhere && !members.contains(&number)) {
            continue;
        }
        if !members.contains(&number) {
            return Some(format!(
                "s{number} is not in view {} and does not know it; it is in {:?}, stopped: {:?}",
                view.number, membership.view, membership.stopped
            ));
        }
        if membership.view != Some(id) || membership.stopped.is_some() {
            return Some(format!(
                "s{number} belongs to view {} and is in {:?}, stopped: {:?}",
                view.number, membership.view, membership.stopped
            ));
        }
        if membership.taken < order.messages.len() || !membership.has_state {
            return Some(format!(
                "s{number} took {} of the {} messages of view {}; has the state: {}",
                membership.taken,
                order.messages.len(),
                view.number,
                membership.has_state
            ));
        }
        let reported = book
            .last
            .get(&membership.contact.incarnation)
            .copied()
            .unwrap_or(0);
        if reported < membership.requested.len() as u64 {
            return Some(format!(
                "of {} messages of s{number} {reported} are delivered",
                membership.requested.len()
            ));
        }
    }
    None
}
