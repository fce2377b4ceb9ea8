//! Deliberate defects. Each surrounds the production state machine and does not change it. The
//! search must find each.

use covalent_protocol::group::{
    Contacts, End, Group, GroupStanding, Inside, MEMBERS_MAX, Members, Ticket, View,
    row::{Ballot, Proposal},
};

use super::sent::{
    Kind, group_of, incarnation_of, is_end, is_from_member, is_ordered, kind_of, leave_group_out,
    make_keepalive, view_of,
};

/// The deliberate defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// Nothing.
    None,
    /// Members deliver the messages that one of the staying members holds, not only those that all
    /// of them hold.
    TakesMaxTrim,
    /// A member reports that it holds the messages that another one holds.
    AcksBeforeHeld,
    /// A leader lets each member resend the messages that were delivered in the ending view.
    ResendsDelivered,
    /// A leader makes a proposal of its own, whatever was accepted before.
    ForgetsAccepted,
    /// Half of the voters are a quorum without the oldest too.
    AnyMajority,
    /// A member that left does not query the members to which it owes the end of the view.
    LeftIsSilent,
    /// A member that left accepts no envelope: only the acknowledgment in it counts.
    LeftTakesNothing,
    /// A member without a quorum does not notice another group of its name.
    DeafToOtherGroups,
    /// A joiner learns of a view before the staying members learn that it was decided.
    WelcomesFirst,
    /// A member without a quorum queries no node outside its view.
    QueriesNone,
    /// That no path leads to a node where no member is, is forgotten.
    ForgetsPaths,
    /// A member does not learn from the end of a later view that it was left behind.
    WaitsForItsEnd,
    /// Founders do not name the group that they are about to found to nodes that are not in it.
    FoundsNameless,
    /// A member that two groups admit does not reply to the group that it is not in, if it found
    /// only that group's queue.
    RepliesToKnownMembers,
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
    pub fn receives(self, group: &Group, bytes: &mut Vec<u8>) -> bool {
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
            Self::RepliesToKnownMembers if is_from_member(bytes) => {
                let incarnation = incarnation_of(bytes);
                let is_non_member = |view: &View| {
                    view.group != group_of(bytes) && view.rank_of(incarnation).is_none()
                };
                group.knows(incarnation) || !group.view().is_some_and(is_non_member)
            }
            Self::DeafToOtherGroups if standing == GroupStanding::Minority => {
                let of_other = |view: &View| view.group != group_of(bytes);
                kind_of(bytes) != Kind::Known || !group.view().is_some_and(of_other)
            }
            _ => true,
        }
    }

    /// A link layer reports the state of a path. Returns whether the state machine receives the
    /// report.
    pub fn heeds_path(self, group: &Group, guid: u64) -> bool {
        let has_member = |view: &View| view.members.iter().any(|member| member.guid == guid);
        self != Self::ForgetsPaths || group.view().is_some_and(has_member)
    }

    /// A state machine sends an envelope. Returns whether it goes out.
    pub fn sends(self, group: &mut Group, ticket: Ticket, bytes: &mut [u8]) -> bool {
        match self {
            Self::FoundsNameless if view_of(bytes) == 0 => leave_group_out(bytes),
            Self::WelcomesFirst if is_end(bytes) => group.on_end(ticket, End::Done),
            Self::QueriesNone
                if kind_of(bytes) == Kind::Hello && group.standing() == GroupStanding::Minority =>
            {
                group.on_end(ticket, End::Done);
                return false;
            }
            _ => {}
        }
        true
    }

    /// A state machine has sent its envelopes and reported its events.
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

/// Raises the trim of a member's new proposal to the maximum that the staying members hold.
fn take_max(inside: &mut Inside<'_>) {
    let me = inside.me;
    let change = inside.rows[me].change;
    let Some(mut proposal) = change.proposal.filter(|_| change.accepted.leader() == me) else {
        return;
    };
    for sender in 0..inside.rows.len() {
        let survivors = proposal.survivors.iter();
        let held = survivors.map(|rank| inside.rows[rank].frontier.received[sender]);
        proposal.trim[sender] = held.max().unwrap_or(0);
    }
    inside.rows[me].change.proposal = Some(proposal);
}

/// Sets the trim of a member's new proposal to 0.
fn trim_nothing(inside: &mut Inside<'_>) {
    let change = &mut inside.rows[inside.me].change;
    if let Some(proposal) = change.proposal.as_mut()
        && change.accepted.leader() == inside.me
    {
        proposal.trim = [0; MEMBERS_MAX];
    }
}

/// Sets a member's row to what it knows that others hold.
fn ack_before_held(inside: &mut Inside<'_>) {
    for sender in 0..inside.rows.len() {
        let held = inside.rows.iter().map(|row| row.frontier.received[sender]);
        let most = held.max().unwrap_or(0);
        inside.rows[inside.me].frontier.received[sender] = most;
    }
}

/// Replaces an accepted proposal, which the leader had to repeat, by a new one from the rows of the
/// members that promised.
fn forget_accepted(inside: &mut Inside<'_>) {
    let ballot = accepted(inside);
    if ballot.leader() != inside.me {
        return;
    }
    let promised = |rank: &usize| inside.rows[*rank].change.promised == ballot;
    let left: Vec<usize> = (0..inside.rows.len()).filter(promised).collect();
    let mut fresh = Proposal {
        survivors: Members::NONE,
        voters: Members::NONE,
        joiners: Contacts::default(),
        trim: [0; MEMBERS_MAX],
    };
    for (place, rank) in left.iter().enumerate() {
        fresh.survivors = fresh.survivors.with(*rank);
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
