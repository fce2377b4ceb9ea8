//! From the decision to the next view: deliver what is left, take the rest back, begin anew.

use super::{
    Group, Phase, Stop,
    contact::{Contact, MEMBERS_MAX, View},
    pair::Pair,
    rounds::messages_of,
    row::Proposal,
    wire::FATES_MAX,
};

impl Group {
    /// Goes on to the next view, if all was delivered that comes before it, and the application knows of this one.
    pub(super) fn install(&mut self) -> bool {
        let Some(proposal) = self.trying.decided else {
            return false;
        };
        if self.notices.view {
            return false;
        }
        if !proposal.stay.contains(self.me) {
            self.end_stay();
            return true;
        }
        if self.has_state && self.has_more(&proposal) {
            return false;
        }
        self.skip_rest(&proposal);
        self.take_back(proposal.trim[self.me]);
        let old = self.view;
        let me = proposal.stay.iter().position(|rank| rank == self.me);
        let view = next_view(&old, &proposal);
        self.note_fates(&proposal);
        let mut delivered = [0; MEMBERS_MAX];
        for (rank, old) in proposal.stay.iter().enumerate() {
            delivered[rank] = self.flow.delivered[old];
        }
        self.flow.delivered = delivered;
        self.begin_view(view, me.unwrap_or(0));
        true
    }

    /// It is not in the next view.
    fn end_stay(&mut self) {
        self.trying.decided = None;
        if self.table.row(self.me).frontier.leaving {
            self.phase = Phase::Left;
            self.notices.left = true;
        } else {
            self.stop(Stop::Excluded);
        }
    }

    /// Out of the group for good.
    pub(super) fn stop(&mut self, why: Stop) {
        self.phase = Phase::Stopped;
        self.notices.stopped = Some(why);
    }

    /// Counts the messages that are delivered in this view, but not here, because the state is not here.
    fn skip_rest(&mut self, proposal: &Proposal) {
        if self.has_state {
            return;
        }
        for rank in 0..self.view.members.len() {
            for round in 0..proposal.trim[rank] {
                self.flow.delivered[rank] += messages_of(self.rounds.batch(rank, round));
            }
        }
    }

    /// Takes own batches back that are not delivered in this view: their messages come first in the next one, under the same numbers.
    fn take_back(&mut self, trim: u64) {
        let own = self.table.row(self.me).frontier.rounds;
        for round in (trim..own).rev() {
            let batch = self.rounds.batch(self.me, round);
            self.pending.put_back(batch);
        }
    }

    fn note_fates(&mut self, proposal: &Proposal) {
        for (rank, member) in self.view.members.iter().enumerate() {
            if proposal.stay.contains(rank) {
                continue;
            }
            if self.fates.len() == FATES_MAX {
                self.fates.remove(0);
            }
            self.fates.push((member.life, self.flow.delivered[rank]));
        }
    }

    /// Begins a view. `table`, batches and claims are new; pairs go on.
    pub(super) fn begin_view(&mut self, view: View, me: usize) {
        (self.view, self.me, self.phase) = (view, me, Phase::Flowing);
        self.table.begin(view.members.len(), view.voters);
        self.rounds.clear();
        self.flow.begin();
        self.trying = super::change::Trying::default();
        for pair in &mut self.pairs {
            let stays = view.rank_of(pair.contact.life).filter(|_| !pair.is_free());
            pair.leftover |= pair.rank.is_some() && stays.is_none();
            pair.rank = stays;
            pair.begin_view();
        }
        for (rank, member) in view.members.iter().enumerate() {
            if rank != me {
                self.meet(rank, *member);
            }
        }
        self.sweep_pairs();
        let row = &mut self.table.row_mut(me).frontier;
        if self.has_state && !row.has_state {
            row.has_state = true;
            self.row_grew();
        }
        self.notices.view = true;
        self.counters.views += 1;
    }

    /// Sees to it that there is a pair with a member of the view.
    fn meet(&mut self, rank: usize, member: Contact) {
        if self.pairs.iter().any(|pair| pair.rank == Some(rank)) {
            return;
        }
        let free = self.pairs.iter().position(Pair::is_free);
        let leftover = || self.pairs.iter().position(|pair| pair.leftover);
        if let Some(at) = free.or_else(leftover) {
            let pair = &mut self.pairs[at];
            pair.begin(member, self.view.number, false);
            pair.rank = Some(rank);
        }
    }

    /// Frees the pairs of those who did not stay and have nothing more to hear.
    pub(super) fn sweep_pairs(&mut self) {
        for pair in &mut self.pairs {
            if pair.leftover && (pair.gone || (pair.has_all() && !pair.owes_end)) {
                pair.free();
            }
        }
    }
}

/// The view that a proposal makes of another one.
fn next_view(old: &View, proposal: &Proposal) -> View {
    let stay = proposal.stay.iter();
    let stay = stay.filter_map(|rank| old.members.get(rank).copied());
    View {
        group: old.group,
        number: old.number + 1,
        members: stay.chain(proposal.joiners.iter().copied()).collect(),
        voters: proposal.voters,
    }
}
