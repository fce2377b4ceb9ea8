//! A view is what a quorum of the one before said.

use covalent_protocol::group::{Contact, Life, Members, View};

use super::{Checker, Fact, Scene, Verdict, forbid};
use crate::group::{book::Stay, said::Proposal};

/// Each view is the one that a quorum of the voters of the one before said that it accepted.
///
/// Quorums are counted here from what was said, and who voted is known from the views. Whoever installs a view accepted it too, though it may
/// not have said so yet.
#[derive(Debug)]
pub struct OneChain;

impl Checker for OneChain {
    fn name(&self) -> &'static str {
        "one-chain"
    }

    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        let Fact::View { by, view } = fact else {
            return Ok(());
        };
        let Some(before) = (view.number.checked_sub(1))
            .and_then(|number| scene.book.orders.get(&(view.group, number)))
        else {
            return Ok(());
        };
        let rank = before.view.rank_of(scene.book.stays[*by].contact.life);
        let joined = rank.is_none();
        // Who is a quorum by itself says it to nobody, but that it welcomes those whom it takes in.
        let voters = before.view.voters;
        let alone = |rank: usize| Members::only(rank).is_quorum_of(voters);
        if rank.map_or_else(|| voters.iter().any(alone), alone) {
            return Ok(());
        }
        // Somebody who joined was told by one who decided, and was judged when it installed the view.
        let id = (view.group, view.number);
        let told = |stay: &Stay| {
            before.view.rank_of(stay.contact.life).is_some() && stay.views.contains(&id)
        };
        if joined && scene.book.stays.iter().any(told) {
            return Ok(());
        }
        let mut decided = scene.book.decided(&before.view, rank);
        forbid(
            !decided.any(|proposal| leads_to(proposal, &before.view, view)),
            || {
                format!(
                    "s{by} installed view {}{}, which no quorum of the voters {:?} of view {} said that it accepted",
                    view.number,
                    if joined { " as one who joined" } else { "" },
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
        .map(|&(guid, life, rkey)| Contact {
            guid,
            life: Life(life),
            rkey,
        })
        .collect();
    joiners.sort_by_key(|contact| contact.guid);
    let members = stay.iter().filter_map(|rank| view.members.get(rank));
    let members: Vec<_> = members.copied().chain(joiners).collect();
    members[..] == next.members[..] && proposal.voters == next.voters.bits()
}
