//! From the decision to the next view: deliver what is left, take the rest back, begin anew.

use super::{
    Group, Phase, Stop,
    change::Trying,
    contact::{Contact, MEMBERS_MAX, Members, View},
    pair::Pair,
    rounds::messages_of,
    row::Proposal,
    token::Token,
    wire::{FATE_UNKNOWN, FATES_MAX},
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
        for (rank, member) in old.members.iter().enumerate() {
            if !proposal.stay.contains(rank) {
                let pair = self.pairs.iter().find(|pair| pair.contact == *member);
                let token = pair.map_or(Token::NONE, |pair| pair.token);
                self.book.remember(*member, token, self.config.terms());
            }
        }
        self.begin_view(view, me.unwrap_or(0), proposal.stay.len());
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
            let delivered = self.flow.delivered[rank];
            let spoke = |pair: &Pair| pair.rank == Some(rank) && pair.taken() > 0;
            let took_part = delivered > 0 || self.pairs.iter().any(spoke);
            // Who was to found or was taken in, and never spoke, may be in another group by now, where more was delivered.
            let delivered = if self.view.number > 0 && took_part {
                delivered
            } else {
                FATE_UNKNOWN
            };
            self.fates.push((member.life, delivered));
        }
    }

    /// Begins a view. Rows, batches and claims are new; pairs go on. Those from the rank `joined` on are new, to who is not new itself.
    pub(super) fn begin_view(&mut self, view: View, me: usize, joined: usize) {
        self.notices.state_void |= self.transfer.is_partly_told() && !self.has_state;
        (self.view, self.me, self.phase) = (view, me, Phase::Flowing);
        self.table.begin(view.members.len(), view.voters);
        self.rounds.clear();
        self.flow.begin();
        self.trying = Trying::default();
        self.begun = self.flow.delivered;
        let gives = self.view.voters.lowest() == Some(me) && view.number > 0;
        let wanted = if gives {
            view.everybody().without(view.voters)
        } else {
            Members::NONE
        };
        self.transfer.begin(wanted);
        for pair in &mut self.pairs {
            let member = view.rank_of(pair.contact.life).filter(|_| !pair.is_free());
            let is_it = |&rank: &usize| view.members[rank] == pair.contact;
            let stays = member.filter(is_it);
            if pair.is_ahead() {
                match (member, stays) {
                    (_, Some(_)) => pair.adopt(view.group, view.number),
                    (Some(_), None) => pair.free(),
                    (None, None) if !pair.keeps_later(view.group, view.number) => pair.free(),
                    (None, None) => {}
                }
            }
            pair.leftover |= pair.rank.is_some() && stays.is_none();
            pair.rank = stays;
            pair.begin_view();
        }
        for (rank, member) in view.members.iter().enumerate() {
            if rank != me {
                // Not every founder has heard of all others, and who has not can begin by the word of one who has.
                let is_new = rank >= joined && me < joined;
                self.meet(rank, *member, is_new || view.number == 0);
                if view.number > 0 {
                    self.book.forget(member);
                }
            }
        }
        self.sweep_pairs();
        let row = &mut self.table.row_mut(me).frontier;
        if self.has_state && !row.has_state {
            row.has_state = true;
            self.row_grew();
        }
        self.notices.view = view.number > 0;
        self.counters.views += 1;
    }

    /// Sees to it that there is a pair with a member of the view.
    fn meet(&mut self, rank: usize, member: Contact, is_new: bool) {
        let lost = self.book.is_lost(member.guid);
        let entry = self.book.of_node(member.guid);
        let token = entry.filter(|entry| entry.contact == member);
        let token = token.map_or(Token::NONE, |entry| entry.token);
        let met = self.pairs.iter().position(|pair| pair.rank == Some(rank));
        if let Some(at) = met {
            self.pairs[at].owes_welcome = is_new;
            return;
        }
        let free = self.pairs.iter().position(Pair::is_free);
        let leftover = || self.pairs.iter().position(|pair| pair.leftover);
        if let Some(at) = free.or_else(leftover) {
            let pair = &mut self.pairs[at];
            pair.begin(member, self.view.number, lost);
            pair.token = token;
            pair.rank = Some(rank);
            pair.owes_welcome = is_new;
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
