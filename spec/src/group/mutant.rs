//! Ways to build it wrong. Each stands around the production machine and not in it, and each must be found.

use covalent_protocol::group::{
    Contacts, Group, Inside, MEMBERS_MAX, Members,
    row::{Ballot, Proposal},
};

/// What is built wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// Nothing.
    None,
    /// What one of those who stay holds is delivered, and not what all of them hold.
    TakesMaxTrim,
    /// A leader makes a proposal of its own, whatever was accepted before.
    ForgetsAccepted,
    /// Half of the voters are a quorum without the oldest too.
    AnyMajority,
}

impl Mutant {
    /// Gives a machine an input.
    pub fn input(self, group: &mut Group, happens: impl FnOnce(&mut Group)) {
        let mut before = Ballot::NONE;
        group.tamper(|inside| before = accepted(inside));
        happens(group);
        group.tamper(|inside| match self {
            Self::TakesMaxTrim if accepted(inside) != before => take_max(inside),
            Self::ForgetsAccepted if accepted(inside) != before => forget_accepted(inside),
            _ => {}
        });
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
