//! When faults are over, everything comes to its end.

use std::collections::BTreeSet;

use covalent_protocol::group::Members;

use super::{Checker, Fact, Scene, Verdict};
use crate::group::book::{Book, Order, Stay, StayId};

/// When faults are over, all who live and belong together are in one view, every message is delivered, and whoever looks for a group is in one.
#[derive(Debug)]
pub struct Convergence;

impl Checker for Convergence {
    fn name(&self) -> &'static str {
        "convergence"
    }

    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Over => unfinished(scene).map_or(Ok(()), Err),
            _ => Ok(()),
        }
    }
}

/// What has not come to its end.
///
/// The newest view of each group decides, of those who live. If a quorum of its voters lives, then all of its members who live and are not over
/// must be in one view without anybody else, stopped by nothing, with every message delivered, and others who live must know that they are out.
/// If none does, they must say that they stopped. Whoever looks for a group is taken in by one that has a quorum; where there is none, those who
/// are enough to found one do.
#[must_use]
pub fn unfinished(scene: &Scene<'_>) -> Option<String> {
    let book = scene.book;
    let newest = book.newest_of_each();
    let mut goes_on = false;
    for order in &newest {
        let (ranks, living) = wanted(book, order);
        let left = if ranks.is_quorum_of(order.view.voters) {
            goes_on = true;
            of_a_quorum(book, order, ranks)
        } else {
            of_a_minority(book, order, ranks, &living)
        };
        if left.is_some() {
            return left;
        }
    }
    let mut seeking = (book.stays.iter().enumerate()).filter(|(_, stay)| stay.seeks());
    if goes_on {
        return seeking
            .next()
            .map(|(number, _)| format!("s{number} looks for a group and was not taken in"));
    }
    let founders = seeking.filter(|(_, stay)| newest.is_empty() && stay.founders > 0);
    let founders: Vec<_> = founders.collect();
    let (number, first) = founders.first()?;
    (founders.len() >= usize::from(first.founders)).then(|| {
        format!(
            "{} live who would found a group of {}, s{number} among them, and there is none",
            founders.len(),
            first.founders
        )
    })
}

/// Of the members of a view those who live and whom no other one wants to go, and all who live.
fn wanted(book: &Book, order: &Order) -> (Members, Vec<StayId>) {
    let member = |rank: usize| {
        let stay = book.stay_of(order.view.members[rank].life)?;
        (!book.stays[stay].is_over()).then_some((rank, stay))
    };
    let living: Vec<_> = (0..order.view.members.len()).filter_map(member).collect();
    let unwanted: Vec<StayId> = living
        .iter()
        .flat_map(|(_, stay)| book.stays[*stay].suspects.iter().copied())
        .collect();
    let wanted = living.iter().filter(|(_, stay)| !unwanted.contains(stay));
    let ranks = wanted.fold(Members::NONE, |set, (rank, _)| set.with(*rank));
    (ranks, living.into_iter().map(|(_, stay)| stay).collect())
}

fn of_a_minority(book: &Book, order: &Order, ranks: Members, living: &[StayId]) -> Option<String> {
    // Who was taken in and is in another group, or in none yet, knows nothing of this one.
    let is_in = |stay: &Stay| {
        stay.view
            .is_some_and(|(group, _)| group == order.view.group)
    };
    let goes_on = |stay: &Stay| is_in(stay) && stay.stopped.is_none();
    let member = living.iter().find(|stay| goes_on(&book.stays[**stay]))?;
    Some(format!(
        "of view {} only {ranks:?} live, which is no quorum, and s{member} did not say that it stopped",
        order.view.number
    ))
}

fn of_a_quorum(book: &Book, order: &Order, ranks: Members) -> Option<String> {
    let view = &order.view;
    let id = (view.group, view.number);
    if ranks != view.everybody() {
        return Some(format!(
            "the newest view is {}, and of its {} members {ranks:?} live",
            view.number,
            view.members.len()
        ));
    }
    let members: BTreeSet<usize> = (view.members.iter())
        .filter_map(|member| book.stay_of(member.life))
        .collect();
    for (number, stay) in book.stays.iter().enumerate() {
        let elsewhere = stay.view.is_none_or(|(group, _)| group != view.group);
        if stay.is_over() || (elsewhere && !members.contains(&number)) {
            continue;
        }
        if !members.contains(&number) {
            return Some(format!(
                "s{number} is not in view {} and does not know it; it is in {:?}, stopped: {:?}",
                view.number, stay.view, stay.stopped
            ));
        }
        if stay.view != Some(id) || stay.stopped.is_some() {
            return Some(format!(
                "s{number} belongs to view {} and is in {:?}, stopped: {:?}",
                view.number, stay.view, stay.stopped
            ));
        }
        if stay.taken < order.messages.len() || !stay.has_state {
            return Some(format!(
                "s{number} took {} of the {} messages of view {}; has the state: {}",
                stay.taken,
                order.messages.len(),
                view.number,
                stay.has_state
            ));
        }
        let told = book.last.get(&stay.contact.life).copied().unwrap_or(0);
        if told < stay.asked.len() as u64 {
            return Some(format!(
                "of {} messages of s{number} {told} are delivered",
                stay.asked.len()
            ));
        }
    }
    None
}
