//! From the decision to the next view: delivers the rest, takes back undelivered batches, and
//! begins the view.

use super::{
    Group, Phase, Stop,
    change::Trying,
    contact::{Contact, MEMBERS_MAX, Members, View},
    pair::Pair,
    rounds::messages_of,
    row::Proposal,
    token::Token,
    wire::{OUTCOME_UNKNOWN, OUTCOMES_MAX},
};

impl Group {
    /// Begins the next view if all earlier messages were delivered and the application received the
    /// event of this view.
    pub(super) fn install(&mut self) -> bool {
        let Some(proposal) = self.trying.decided else {
            return false;
        };
        if self.notices.view {
            return false;
        }
        if !proposal.survivors.contains(self.me) {
            self.end_membership();
            return true;
        }
        if self.has_state && self.has_more(&proposal) {
            return false;
        }
        self.skip_rest(&proposal);
        self.take_back(proposal.trim[self.me]);
        let old = self.view;
        let me = proposal.survivors.iter().position(|rank| rank == self.me);
        let view = next_view(&old, &proposal);
        self.record_outcomes(&proposal);
        let mut delivered = [0; MEMBERS_MAX];
        for (rank, old) in proposal.survivors.iter().enumerate() {
            delivered[rank] = self.flow.delivered[old];
        }
        self.flow.delivered = delivered;
        for (rank, member) in old.members.iter().enumerate() {
            if !proposal.survivors.contains(rank) {
                let pair = self.pairs.iter().find(|pair| pair.contact == *member);
                let token = pair.map_or(Token::NONE, |pair| pair.token);
                self.book.remember(*member, token, self.config.terms());
            }
        }
        self.begin_view(view, me.unwrap_or(0), proposal.survivors.len());
        true
    }

    /// It is not in the next view.
    fn end_membership(&mut self) {
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

    /// Counts messages that are delivered in this view but not by this member, which lacks the
    /// state.
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

    /// Takes back own batches that this view does not deliver. Their messages come first in the
    /// next view, under the same numbers.
    fn take_back(&mut self, trim: u64) {
        let own = self.table.row(self.me).frontier.rounds;
        for round in (trim..own).rev() {
            let batch = self.rounds.batch(self.me, round);
            self.pending.put_back(batch);
        }
    }

    fn record_outcomes(&mut self, proposal: &Proposal) {
        for (rank, member) in self.view.members.iter().enumerate() {
            if proposal.survivors.contains(rank) {
                continue;
            }
            if self.outcomes.len() == OUTCOMES_MAX {
                self.outcomes.remove(0);
            }
            let delivered = self.flow.delivered[rank];
            let spoke = |pair: &Pair| pair.rank == Some(rank) && pair.taken() > 0;
            let took_part = delivered > 0 || self.pairs.iter().any(spoke);
            // A founder or joiner that never sent as a member may be in another group by now, where
            // more was delivered.
            let delivered = if self.view.number > 0 && took_part {
                delivered
            } else {
                OUTCOME_UNKNOWN
            };
            self.outcomes.push((member.incarnation, delivered));
        }
    }

    /// Begins a view. Rows, batches and claims are new; pairs continue. Members from rank `joined`
    /// on are new to a member that is not new itself.
    pub(super) fn begin_view(&mut self, view: View, me: usize, joined: usize) {
        self.notices.state_void |= self.transfer.is_partly_reported() && !self.has_state;
        (self.view, self.me, self.phase) = (view, me, Phase::Flowing);
        self.table.begin(view.members.len(), view.voters);
        self.rounds.clear();
        self.flow.begin();
        self.trying = Trying::default();
        self.begun = self.flow.delivered;
        let gives = self.view.voters.lowest() == Some(me) && view.number > 0;
        let wanted = if gives {
            view.all_members().without(view.voters)
        } else {
            Members::NONE
        };
        self.transfer.begin(wanted);
        for pair in &mut self.pairs {
            let member = view
                .rank_of(pair.contact.incarnation)
                .filter(|_| !pair.is_free());
            let is_it = |&rank: &usize| view.members[rank] == pair.contact;
            let kept_rank = member.filter(is_it);
            if pair.is_ahead() {
                match (member, kept_rank) {
                    (_, Some(_)) => pair.adopt(view.group, view.number),
                    (Some(_), None) => pair.free(),
                    (None, None) if !pair.keeps_later(view.group, view.number) => pair.free(),
                    (None, None) => {}
                }
            }
            pair.leftover |= pair.rank.is_some() && kept_rank.is_none();
            pair.rank = kept_rank;
            pair.begin_view();
        }
        for (rank, member) in view.members.iter().enumerate() {
            if rank != me {
                // Not every founder knows all others. One that does not may begin on the message of
                // one that does.
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

    /// Frees the pairs of former members that need no further envelopes.
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
    let survivors = proposal.survivors.iter();
    let survivors = survivors.filter_map(|rank| old.members.get(rank).copied());
    View {
        group: old.group,
        number: old.number + 1,
        members: survivors.chain(proposal.joiners.iter().copied()).collect(),
        voters: proposal.voters,
    }
}
