//! The end of a view: wedge, promise, propose, accept, decide.
//!
//! Each view has one decision, by single-decree Paxos among its voters: ballots are (number, rank of the leader), the value is a [`Proposal`]. A
//! promise is made at once to whom the claims name as leader, without being asked: it only says what will not be accepted. The ballot's number
//! is that of the attempt. Where somebody promised more, before it knew the same claims, the leader takes a greater number in the same attempt:
//! in a new one claims would be said anew, and whoever knows only some of them might again promise too much, for ever.

use super::{
    Group, Phase, Stop,
    contact::{Contacts, MEMBERS_MAX, Members, View},
    evidence::{Claim, left_out},
    row::{Ballot, Change, Frontier, Proposal, Row},
};

/// The try to end a view.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Trying {
    /// By rank: whom each one accused last. The own one too.
    pub claims: [Claim; MEMBERS_MAX],
    /// Who is left out, by these.
    pub suspects: Members,
    /// Who is left is no quorum.
    pub minority: bool,
    /// What was decided.
    pub decided: Option<Proposal>,
}

/// How the last view ended, for those who do not know.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Ended {
    /// That view.
    pub view: View,
    /// The own rank in it.
    pub me: usize,
    /// The own last row in it, with the proposal that was decided as the accepted one.
    pub row: Row,
    /// The claims of then.
    pub claims: [Claim; MEMBERS_MAX],
}

impl Ended {
    /// Whether a view ended before this member's eyes.
    pub fn is_known(&self) -> bool {
        !self.view.members.is_empty()
    }
}

impl Group {
    /// Receives and delivers nothing more in this view, and says so.
    pub(super) fn wedge(&mut self) {
        self.phase = Phase::Wedged;
        self.table.row_mut(self.me).frontier.wedged = true;
        let attempt = self.attempts_seen().max(1);
        self.begin_attempt(attempt);
        self.change_grew();
    }

    /// A new attempt, because something happened that may let it succeed.
    pub(super) fn try_again(&mut self) {
        self.begin_next_attempt();
        self.change_grew();
    }

    fn begin_next_attempt(&mut self) {
        let rows = self.table.rows().iter();
        let ballots = rows.map(|row| row.change.promised.max(row.change.accepted).number());
        let seen = ballots.max().unwrap_or(0).max(self.attempts_seen());
        self.begin_attempt(seen.saturating_add(1));
    }

    fn begin_attempt(&mut self, attempt: u32) {
        let members = self.unreached();
        let change = &mut self.table.row_mut(self.me).change;
        // Who was silent in the whole attempt before is heard no more.
        for claim in &mut self.trying.claims {
            if claim.attempt < change.attempt {
                *claim = Claim::default();
            }
        }
        (change.attempt, change.claims) = (attempt, members);
        self.trying.claims[self.me] = Claim { attempt, members };
    }

    /// The greatest attempt that anybody said.
    fn attempts_seen(&self) -> u32 {
        let rows = self.table.rows().iter().map(|row| row.change.attempt);
        let claims = self.trying.claims.iter().map(|claim| claim.attempt);
        rows.chain(claims).max().unwrap_or(0)
    }

    /// What a member says of the end of this view.
    pub(super) fn take_change(
        &mut self,
        rank: usize,
        (frontier, decided): (&Frontier, bool),
        change: &Change,
        (known, claims): (Members, &[Members; MEMBERS_MAX]),
    ) {
        if self.phase == Phase::Flowing {
            self.wedge();
        }
        let row = self.table.row_mut(rank);
        row.frontier.merge(frontier);
        row.change.merge(change);
        self.table.refresh();
        let me = self.me;
        for other in known.iter().filter(|&other| other != me) {
            let claim = Claim {
                attempt: change.attempt,
                members: claims[other],
            };
            let grew = self.trying.claims[other].merge(claim);
            // Who is not left out says its claims to all by itself.
            if grew && self.trying.suspects.contains(other) {
                self.change_grew();
            }
        }
        if let Some(proposal) = change.proposal.filter(|_| decided) {
            self.decide(change.accepted, proposal);
        }
    }

    /// Does all that follows from what is known of a view that is to end.
    pub(super) fn pursue_change(&mut self) {
        let before = (self.table.row(self.me).change, self.trying.suspects);
        // Each turn but the last one takes this member to a greater attempt or ballot. Two are enough if the others say nothing in between.
        for _ in 0..4 {
            let change = self.table.row(self.me).change;
            self.take_step();
            if self.phase != Phase::Wedged || self.table.row(self.me).change == change {
                break;
            }
        }
        if self.phase != Phase::Wedged {
            return;
        }
        if (self.table.row(self.me).change, self.trying.suspects) != before {
            self.change_grew();
        }
        // Who is left out by the word of others hears of the decision only from those whom it reaches.
        let left = self.view.everybody().without(self.trying.suspects);
        let left = left.without(self.unreached());
        let minority = !left.is_quorum_of(self.view.voters);
        if self.view.number == 0 && !self.may_return().is_quorum_of(self.view.voters) {
            let group = 0;
            self.stop(Stop::OtherGroup { group, members: 0 });
            return;
        }
        if minority != self.trying.minority {
            self.trying.minority = minority;
            // Nothing of a group that is still to be founded was told, and so nothing is stopped.
            let stops = minority && self.view.number > 0;
            self.notices.stopped = stops.then_some(Stop::Minority {
                reached: left,
                voters: self.view.voters,
            });
        }
    }

    fn take_step(&mut self) {
        let (me, n) = (self.me, self.view.members.len());
        let seen = self.attempts_seen();
        if seen > self.table.row(me).change.attempt {
            self.begin_attempt(seen);
        }
        let unreached = self.unreached();
        let change = &mut self.table.row_mut(me).change;
        change.claims = change.claims.union(unreached);
        let (attempt, members) = (change.attempt, change.claims);
        self.trying.claims[me] = Claim { attempt, members };
        self.trying.suspects = left_out(&self.trying.claims, attempt, n);

        self.accept();
        let left = self.view.everybody().without(self.trying.suspects);
        let reached = left.without(unreached);
        if members != unreached && !reached.is_quorum_of(self.view.voters) {
            // Somebody was accused who is reached again. Once for each of them: the claims of the new attempt are what is true now.
            self.begin_next_attempt();
            return;
        }
        if let Some(leader) = left.and(self.view.voters).lowest() {
            let ballot = self.ballot_of(leader, left);
            let change = &mut self.table.row_mut(me).change;
            change.promised = change.promised.max(ballot);
            if leader == me {
                self.propose(ballot, left);
            }
        }
        self.find_decision();
    }

    /// The ballot of whom the claims name as leader, where `left` are left: that of the attempt, or the greater one that
    /// it took because one of these promised more.
    fn ballot_of(&self, leader: usize, left: Members) -> Ballot {
        let first = Ballot::new(self.table.row(self.me).change.attempt, leader);
        let taken = self.table.row(leader).change.promised;
        let ballot = if taken.leader() == leader {
            first.max(taken)
        } else {
            first
        };
        let promised = left.with(self.me).iter();
        let promised = promised.map(|rank| self.table.row(rank).change.promised);
        let most = promised.max().unwrap_or(Ballot::NONE);
        if leader == self.me && ballot < most {
            return Ballot::new(most.number().saturating_add(1), leader);
        }
        ballot
    }

    /// Accepts what a leader proposed, unless more was promised.
    fn accept(&mut self) {
        let rows = self.table.rows().iter().enumerate();
        let proposed = rows.filter_map(|(rank, row)| {
            let ballot = row.change.accepted;
            let own = ballot != Ballot::NONE && ballot.leader() == rank;
            Some((ballot, row.change.proposal.filter(|_| own)?))
        });
        let greatest = proposed.max_by_key(|(ballot, _)| *ballot);
        let change = &mut self.table.row_mut(self.me).change;
        if let Some((ballot, proposal)) = greatest
            && ballot >= change.promised
            && ballot > change.accepted
        {
            change.promised = ballot;
            (change.accepted, change.proposal) = (ballot, Some(proposal));
        }
    }

    /// Proposes, once, when all who are left have promised and their rows are final.
    fn propose(&mut self, ballot: Ballot, left: Members) {
        let own = self.table.row(self.me).change;
        let ready = |row: &Row| row.frontier.wedged && row.change.promised == ballot;
        let voters = left.and(self.view.voters);
        if own.accepted == ballot
            || !left.iter().all(|rank| ready(self.table.row(rank)))
            || !voters.is_quorum_of(self.view.voters)
        {
            return;
        }
        let accepted = voters.iter().map(|rank| self.table.row(rank).change);
        let earlier = accepted.max_by_key(|change| change.accepted);
        let proposal = earlier
            .and_then(|change| change.proposal)
            .unwrap_or_else(|| self.fresh_proposal(left));
        let change = &mut self.table.row_mut(self.me).change;
        (change.accepted, change.proposal) = (ballot, Some(proposal));
    }

    fn fresh_proposal(&self, left: Members) -> Proposal {
        let leaving = self.table.ranks(|row| row.frontier.leaving);
        let stay = left.without(leaving);
        // Where nobody stays, what all who take part in this hold is delivered.
        let counted = if stay.is_empty() { left } else { stay };
        let mut trim = [0; MEMBERS_MAX];
        for (sender, trim) in trim[..self.view.members.len()].iter_mut().enumerate() {
            let received = |rank: usize| self.table.row(rank).frontier.received[sender];
            *trim = counted.iter().map(received).min().unwrap_or(0);
        }
        let contact = |rank: usize| self.view.members.get(rank).copied();
        let staying: Contacts = stay.iter().filter_map(contact).collect();
        // Nobody comes before there is a group, or when the last one has gone.
        let joiners = if self.view.number == 0 || stay.is_empty() {
            Contacts::default()
        } else {
            self.joiners(&staying)
        };
        let mut voters = Members::NONE;
        for (rank, old) in stay.iter().enumerate() {
            if self.table.row(old).frontier.has_state {
                voters = voters.with(rank);
            }
        }
        if self.config.stateless {
            voters = Members::first(staying.len() + joiners.len());
        }
        Proposal {
            stay,
            voters,
            joiners,
            trim,
        }
    }

    /// Counts who accepted what.
    fn find_decision(&mut self) {
        for rank in self.view.voters.iter() {
            let change = self.table.row(rank).change;
            let ballot = change.accepted;
            let Some(proposal) = change.proposal else {
                continue;
            };
            let same = self.table.ranks(|row| row.change.accepted == ballot);
            if same.is_quorum_of(self.view.voters) {
                self.decide(ballot, proposal);
                return;
            }
        }
    }

    fn decide(&mut self, ballot: Ballot, proposal: Proposal) {
        if self.phase != Phase::Wedged {
            return;
        }
        let row = self.table.row_mut(self.me);
        if row.change.accepted <= ballot {
            (row.change.accepted, row.change.proposal) = (ballot, Some(proposal));
        }
        self.ended = Ended {
            view: self.view,
            me: self.me,
            row: *row,
            claims: self.trying.claims,
        };
        self.trying.decided = Some(proposal);
        self.phase = Phase::Ending;
        if matches!(self.notices.stopped, Some(Stop::Minority { .. })) {
            self.notices.stopped = None;
        }
        for pair in &mut self.pairs {
            if pair.leftover {
                // Of the view before this one. Who still does not know is answered when it asks.
                pair.free();
            }
            pair.owes_end = pair.rank.is_some() && !pair.gone;
        }
    }

    /// What is said of the end of the view grew.
    pub(super) fn change_grew(&mut self) {
        for pair in &mut self.pairs {
            pair.change_is_news |= pair.rank.is_some();
        }
    }
}
