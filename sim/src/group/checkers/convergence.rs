//! When faults are over, everything comes to its end.

use std::collections::BTreeSet;

use covalent_protocol::group::{Members, Stop};

use super::{Checker, Fact, Scene, Verdict};
use crate::group::book::Stay;

/// When faults are over, all who live and belong together are in one view, and every message is delivered.
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

/// Whether a stay is over for good.
const fn is_over(stay: &Stay) -> bool {
    !stay.lives
        || stay.left
        || matches!(
            stay.stopped,
            Some((Stop::Excluded | Stop::OtherGroup { .. }, _))
        )
}

/// What has not come to its end.
///
/// The newest view of those who live decides. If a quorum of its voters lives, then all of its members who live and are not over must be in one
/// view without anybody else, stopped by nothing, with every message delivered, and others who live must know that they are out. If none
/// does, they must say that they stopped.
#[must_use]
pub fn unfinished(scene: &Scene<'_>) -> Option<String> {
    let book = scene.book;
    let order = book.newest()?;
    let view = &order.view;
    let id = (view.group, view.number);
    let member = |rank: usize| {
        let stay = book.stay_of(view.members[rank].life)?;
        (!is_over(&book.stays[stay])).then_some(stay)
    };
    let living: Vec<usize> = (0..view.members.len())
        .filter(|rank| member(*rank).is_some())
        .collect();
    let unwanted: Vec<usize> = living
        .iter()
        .filter_map(|rank| member(*rank))
        .flat_map(|stay| book.stays[stay].suspects.iter().copied())
        .collect();
    let wanted = living
        .iter()
        .filter(|rank| member(**rank).is_some_and(|stay| !unwanted.contains(&stay)));
    let ranks = wanted.copied().fold(Members::NONE, Members::with);
    if !ranks.is_quorum_of(view.voters) {
        return living.iter().find_map(|rank| {
            let member = book.stay_of(view.members[*rank].life)?;
            book.stays[member].stopped.is_none().then(|| {
                format!(
                    "of view {} only {ranks:?} live, which is no quorum, and s{member} did not say that it stopped",
                    view.number
                )
            })
        });
    }
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
        if is_over(stay) {
            continue;
        }
        if !members.contains(&number) {
            // Who missed two views is told by nobody: it would have to ask.
            if stay.view.is_none_or(|(_, last)| last + 1 < view.number) {
                continue;
            }
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
