//! Checks that a quorum of the previous view accepted each view.

use covalent_protocol::group::{Contact, Incarnation, Members, View};

use super::{Checker, Fact, Groups, Scene, Verdict, forbid};
use crate::group::{book::Membership, sent::Proposal};

/// A quorum of the voters of the previous view reported that it accepted the next view.
///
/// The checker counts quorums from the envelopes sent and knows the voters from the views. A member
/// that installs a view counts as accepting it, even if it has not reported so yet.
#[derive(Debug)]
pub struct OneChain;

impl Checker<Groups> for OneChain {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        let Fact::View { by, view } = fact else {
            return Ok(());
        };
        let Some(before) = (view.number.checked_sub(1))
            .and_then(|number| scene.book.orders.get(&(view.group, number)))
        else {
            return Ok(());
        };
        let rank = before
            .view
            .rank_of(scene.book.stays[*by].contact.incarnation);
        let joined = rank.is_none();
        // A member that is a quorum by itself reports its acceptance to no member, except by
        // welcoming joiners.
        let voters = before.view.voters;
        let alone = |rank: usize| Members::only(rank).is_quorum_of(voters);
        if rank.map_or_else(|| voters.iter().any(alone), alone) {
            return Ok(());
        }
        // A joiner learns the view from a member that decided, which was checked when it installed
        // the view.
        let id = (view.group, view.number);
        let reported = |stay: &Membership| {
            before.view.rank_of(stay.contact.incarnation).is_some() && stay.views.contains(&id)
        };
        if joined && scene.book.stays.iter().any(reported) {
            return Ok(());
        }
        let mut decided = scene.book.decided(&before.view, rank);
        forbid(
            !decided.any(|proposal| leads_to(proposal, &before.view, view)),
            || {
                format!(
                    "s{by} installed view {}{}, which no quorum of the voters {:?} of view {} \
                     reported as accepted",
                    view.number,
                    if joined { " as a joined member" } else { "" },
                    before.view.voters,
                    before.view.number
                )
            },
        )
    }
}

/// Whether a proposal makes `next` of `view`.
fn leads_to(proposal: &Proposal, view: &View, next: &View) -> bool {
    let stay = Members::from_bits(proposal.stay);
    let mut joiners: Vec<_> = proposal
        .joiners
        .iter()
        .map(|&(guid, incarnation, rkey)| Contact {
            guid,
            incarnation: Incarnation(incarnation),
            rkey,
        })
        .collect();
    joiners.sort_by_key(|contact| contact.guid);
    let members = stay.iter().filter_map(|rank| view.members.get(rank));
    let members: Vec<_> = members.copied().chain(joiners).collect();
    members[..] == next.members[..] && proposal.voters == next.voters.bits()
}
