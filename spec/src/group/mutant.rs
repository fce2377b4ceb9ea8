//! Ways to build it wrong. Each stands around the production machine and not in it, and each must be found.

use covalent_protocol::group::{
    Contacts, End, Group, GroupStanding, Inside, MEMBERS_MAX, Members, Ticket, View,
    row::{Ballot, Proposal},
};

use super::said::{
    Kind, group_of, is_end, is_ordered, kind_of, leave_group_out, life_of, make_keepalive,
    speaks_as_member, view_of,
};

/// What is built wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// Nothing.
    None,
    /// What one of those who stay holds is delivered, and not what all of them hold.
    TakesMaxTrim,
    /// A member reports that it holds what another one holds.
    AcksBeforeHeld,
    /// A leader lets each member say again what was delivered in the view that ends.
    ResendsDelivered,
    /// A leader makes a proposal of its own, whatever was accepted before.
    ForgetsAccepted,
    /// Half of the voters are a quorum without the oldest too.
    AnyMajority,
    /// Who left asks after nobody to whom it owes the end of the view.
    LeftIsSilent,
    /// Who left takes no envelope: of one that comes only the acknowledgment counts.
    LeftTakesNothing,
    /// Who has no quorum does not hear that there is another group of its name.
    DeafToOtherGroups,
    /// Whoever joins is told of a view before those who stay are told that it was decided.
    WelcomesFirst,
    /// Who has no quorum asks nobody outside of its view.
    AsksNobody,
    /// That no path leads to a node where no member is, is forgotten.
    ForgetsPaths,
    /// A member does not learn from the end of a later view that it was left behind.
    WaitsForItsEnd,
    /// Founders do not name the group that they are about to found to those who are not in it.
    FoundsNameless,
    /// Who is taken in by two groups does not answer the one that it is not in, if it found its queue only.
    AnswersKnownStays,
}

impl Mutant {
    /// Gives a machine an input.
    pub fn input(self, group: &mut Group, happens: impl FnOnce(&mut Group)) {
        let mut before = Ballot::NONE;
        group.tamper(|inside| before = accepted(inside));
        happens(group);
        group.tamper(|inside| match self {
            Self::TakesMaxTrim if accepted(inside) != before => take_max(inside),
            Self::ResendsDelivered if accepted(inside) != before => trim_nothing(inside),
            Self::AcksBeforeHeld => ack_before_held(inside),
            Self::ForgetsAccepted if accepted(inside) != before => forget_accepted(inside),
            _ => {}
        });
    }

    /// An envelope arrives at a machine. Gives whether it is given to it.
    pub fn hears(self, group: &Group, bytes: &mut Vec<u8>) -> bool {
        let standing = group.standing();
        match self {
            Self::LeftTakesNothing if standing == GroupStanding::Left && is_ordered(bytes) => {
                make_keepalive(bytes);
                true
            }
            Self::WaitsForItsEnd => {
                let of_later =
                    |view: &View| group_of(bytes) == view.group && view_of(bytes) > view.number;
                !(is_end(bytes) && group.view().is_some_and(of_later))
            }
            Self::AnswersKnownStays if speaks_as_member(bytes) => {
                let life = life_of(bytes);
                let is_stranger =
                    |view: &View| view.group != group_of(bytes) && view.rank_of(life).is_none();
                group.knows(life) || !group.view().is_some_and(is_stranger)
            }
            Self::DeafToOtherGroups if standing == GroupStanding::Minority => {
                let of_other = |view: &View| view.group != group_of(bytes);
                kind_of(bytes) != Kind::Known || !group.view().is_some_and(of_other)
            }
            _ => true,
        }
    }

    /// A link layer says something of a node. Gives whether the machine is told.
    pub fn heeds_path(self, group: &Group, guid: u64) -> bool {
        let has_member = |view: &View| view.members.iter().any(|member| member.guid == guid);
        self != Self::ForgetsPaths || group.view().is_some_and(has_member)
    }

    /// A machine says an envelope. Gives whether it goes out.
    pub fn says(self, group: &mut Group, ticket: Ticket, bytes: &mut [u8]) -> bool {
        match self {
            Self::FoundsNameless if view_of(bytes) == 0 => leave_group_out(bytes),
            Self::WelcomesFirst if is_end(bytes) => group.on_end(ticket, End::Done),
            Self::AsksNobody
                if kind_of(bytes) == Kind::Hello && group.standing() == GroupStanding::Minority =>
            {
                group.on_end(ticket, End::Done);
                return false;
            }
            _ => {}
        }
        true
    }

    /// A machine has said and told all that it had.
    pub fn rest(self, group: &mut Group) {
        if self == Self::AnyMajority {
            group.tamper(|inside| {
                let voters = inside.view.voters;
                let oldest = voters.lowest().filter(|oldest| *oldest != inside.me);
                if let Some(oldest) = oldest.filter(|_| voters.len().is_multiple_of(2)) {
                    inside.view.voters = voters.without(Members::only(oldest));
                }
            });
        }
    }
}

/// The ballot that a member accepted last.
fn accepted(inside: &Inside<'_>) -> Ballot {
    let own = inside.rows.get(inside.me);
    own.map_or(Ballot::NONE, |row| row.change.accepted)
}

/// Changes what a member just proposed.
fn take_max(inside: &mut Inside<'_>) {
    let me = inside.me;
    let change = inside.rows[me].change;
    let Some(mut proposal) = change.proposal.filter(|_| change.accepted.leader() == me) else {
        return;
    };
    for sender in 0..inside.rows.len() {
        let stay = proposal.stay.iter();
        let held = stay.map(|rank| inside.rows[rank].frontier.received[sender]);
        proposal.trim[sender] = held.max().unwrap_or(0);
    }
    inside.rows[me].change.proposal = Some(proposal);
}

/// Changes what a member just proposed.
fn trim_nothing(inside: &mut Inside<'_>) {
    let change = &mut inside.rows[inside.me].change;
    if let Some(proposal) = change.proposal.as_mut()
        && change.accepted.leader() == inside.me
    {
        proposal.trim = [0; MEMBERS_MAX];
    }
}

/// Puts into a member's row what it knows that others hold.
fn ack_before_held(inside: &mut Inside<'_>) {
    for sender in 0..inside.rows.len() {
        let held = inside.rows.iter().map(|row| row.frontier.received[sender]);
        let most = held.max().unwrap_or(0);
        inside.rows[inside.me].frontier.received[sender] = most;
    }
}

/// Proposes what those who promised make of it now, where a member was to propose what was accepted before.
fn forget_accepted(inside: &mut Inside<'_>) {
    let ballot = accepted(inside);
    if ballot.leader() != inside.me {
        return;
    }
    let promised = |rank: &usize| inside.rows[*rank].change.promised == ballot;
    let left: Vec<usize> = (0..inside.rows.len()).filter(promised).collect();
    let mut fresh = Proposal {
        stay: Members::NONE,
        voters: Members::NONE,
        joiners: Contacts::default(),
        trim: [0; MEMBERS_MAX],
    };
    for (place, rank) in left.iter().enumerate() {
        fresh.stay = fresh.stay.with(*rank);
        if inside.rows[*rank].frontier.has_state {
            fresh.voters = fresh.voters.with(place);
        }
    }
    for (sender, trim) in fresh.trim[..inside.rows.len()].iter_mut().enumerate() {
        let held = left
            .iter()
            .map(|rank| inside.rows[*rank].frontier.received[sender]);
        *trim = held.min().unwrap_or(0);
    }
    inside.rows[inside.me].change.proposal = Some(fresh);
}
