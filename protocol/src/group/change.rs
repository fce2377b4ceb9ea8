//! The end of a view: wedge, promise, propose, accept, decide.
//!
//! Each view has one decision, by single-decree Paxos among its voters. A ballot is (number, rank
//! of the leader), the value is a [`Proposal`]. A member promises to the leader that the claims
//! select without a request, because a promise only states which ballots it will not accept. The
//! ballot's number is that of the attempt.
//!
//! A member may have promised a greater ballot before it knew the same claims. Then the leader
//! takes a greater number within the same attempt. In a new attempt, claims would be sent again,
//! and a member that knows only some of them could promise a greater ballot again, forever.

use super::{
    Group, Phase, Stop,
    contact::{Contacts, MEMBERS_MAX, Members, View},
    evidence::{Claim, left_out},
    row::{Ballot, Change, Frontier, Proposal, Row},
};

/// The try to end a view.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Trying {
    /// By rank: the latest accusations of each member, including this one.
    pub claims: [Claim; MEMBERS_MAX],
    /// Members that these claims exclude.
    pub suspects: Members,
    /// The remaining members are no quorum.
    pub minority: bool,
    /// The decided proposal.
    pub decided: Option<Proposal>,
}

/// How the last view ended, for members that do not know.
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
    /// Stops receiving and delivering in this view, and announces it.
    pub(super) fn wedge(&mut self) {
        self.phase = Phase::Wedged;
        self.table.row_mut(self.me).frontier.wedged = true;
        let attempt = self.attempts_seen().max(1);
        self.begin_attempt(attempt);
        self.change_grew();
    }

    /// Starts a new attempt because an event occurred that may let it succeed.
    pub(super) fn retry(&mut self) {
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
        // Ignore claims of members that sent nothing in the whole previous attempt.
        for claim in &mut self.trying.claims {
            if claim.attempt < change.attempt {
                *claim = Claim::default();
            }
        }
        (change.attempt, change.claims) = (attempt, members);
        self.trying.claims[self.me] = Claim { attempt, members };
    }

    /// The greatest attempt that any member sent.
    fn attempts_seen(&self) -> u32 {
        let rows = self.table.rows().iter().map(|row| row.change.attempt);
        let claims = self.trying.claims.iter().map(|claim| claim.attempt);
        rows.chain(claims).max().unwrap_or(0)
    }

    /// Processes a member's message about the end of this view.
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
            // A member that is not excluded sends its claims to all members itself.
            if grew && self.trying.suspects.contains(other) {
                self.change_grew();
            }
        }
        if let Some(proposal) = change.proposal.filter(|_| decided) {
            self.decide(change.accepted, proposal);
        }
    }

    /// Takes all steps that follow from the known state of a view that must end.
    pub(super) fn pursue_change(&mut self) {
        let before = (self.table.row(self.me).change, self.trying.suspects);
        // Each iteration but the last raises this member's attempt or ballot. Two are enough if the
        // others send nothing meanwhile.
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
        // A member excluded by others' claims learns the decision only from members that it
        // reaches.
        let left = self.view.all_members().without(self.trying.suspects);
        let left = left.without(self.unreached());
        let minority = !left.is_quorum_of(self.view.voters);
        if self.view.number == 0 && !self.may_return().is_quorum_of(self.view.voters) {
            let group = 0;
            self.stop(Stop::OtherGroup { group, members: 0 });
            return;
        }
        if minority != self.trying.minority {
            self.trying.minority = minority;
            // The application has received no event of a group that is still being founded, so
            // nothing stops.
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
        let left = self.view.all_members().without(self.trying.suspects);
        let reached = left.without(unreached);
        if members != unreached && !reached.is_quorum_of(self.view.voters) {
            // An accused member is reached again. Once per member: the claims of the new attempt
            // are current.
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

    /// The ballot of the leader that the claims select, where `left` is the set of remaining
    /// members. It is the ballot of the attempt, or a greater one that the leader took because a
    /// member promised more.
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

    /// Accepts a leader's proposal unless a greater ballot was promised.
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

    /// Proposes once all remaining members have promised and their rows are final.
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
        let survivors = left.without(leaving);
        // If no member stays, all messages that every participant holds are delivered.
        let counted = if survivors.is_empty() {
            left
        } else {
            survivors
        };
        let mut trim = [0; MEMBERS_MAX];
        for (sender, trim) in trim[..self.view.members.len()].iter_mut().enumerate() {
            let received = |rank: usize| self.table.row(rank).frontier.received[sender];
            *trim = counted.iter().map(received).min().unwrap_or(0);
        }
        let contact = |rank: usize| self.view.members.get(rank).copied();
        let staying: Contacts = survivors.iter().filter_map(contact).collect();
        // No member joins before the group exists, or after the last member has left.
        let joiners = if self.view.number == 0 || survivors.is_empty() {
            Contacts::default()
        } else {
            self.joiners(&staying)
        };
        let mut voters = Members::NONE;
        for (rank, old) in survivors.iter().enumerate() {
            if self.table.row(old).frontier.has_state {
                voters = voters.with(rank);
            }
        }
        if self.config.stateless {
            voters = Members::first(staying.len() + joiners.len());
        }
        Proposal {
            survivors,
            voters,
            joiners,
            trim,
        }
    }

    /// Counts the accepted ballots.
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
                // A pair of the previous view. A member that still lacks the decision gets a reply
                // to its query.
                pair.free();
            }
            pair.owes_end = pair.rank.is_some() && !pair.gone;
        }
    }

    /// Queues the changed state of the end of the view for all members.
    pub(super) fn change_grew(&mut self) {
        for pair in &mut self.pairs {
            pair.change_is_news |= pair.rank.is_some();
        }
    }
}
