//! The state that a member publishes about itself in one view. Fields only grow, so rows may arrive
//! twice and in any order.

use super::{
    contact::{Contacts, MEMBERS_MAX, Members},
    wire::JOINERS_MAX,
};

/// One member's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Row {
    /// How far it is while the view flows.
    pub frontier: Frontier,
    /// Its state of the end of the view.
    pub change: Change,
}

/// How far a member is in a view. Every envelope to another member bears the sender's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Frontier {
    /// All its batches of the rounds below this one are sent.
    pub rounds: u64,
    /// Positions that its application has taken.
    pub delivered: u64,
    /// By rank of the sender: it holds that sender's batches of the rounds below this one. Final
    /// once it is wedged.
    pub received: [u64; MEMBERS_MAX],
    /// It requests to leave.
    pub leaving: bool,
    /// It has the application's state.
    pub has_state: bool,
    /// It receives and delivers nothing more in this view.
    pub wedged: bool,
}

/// A member's state of the end of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Change {
    /// How often it was tried to end the view.
    pub attempt: u32,
    /// The members that it accuses in this attempt.
    pub claims: Members,
    /// It accepts no proposal of a lesser ballot.
    pub promised: Ballot,
    /// The ballot of the proposal that it accepted last.
    pub accepted: Ballot,
    /// That proposal. A ballot has one.
    pub proposal: Option<Proposal>,
}

/// A right to propose the next view: a number, at least that of the attempt, and the leader's rank.
/// The default is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Ballot(
    /// `number << 8 | rank`.
    pub u64,
);

/// A next view, and the messages of this view that are delivered before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Proposal {
    /// Ranks in this view of the members that stay.
    pub survivors: Members,
    /// Ranks in the next view of its voters.
    pub voters: Members,
    /// The joining members, in the order of their nodes' GUIDs.
    pub joiners: Contacts<JOINERS_MAX>,
    /// By rank in this view: rounds of each sender that are delivered. 0 beyond the view's members.
    pub trim: [u64; MEMBERS_MAX],
}

impl Row {
    /// Takes the greater of each field. `true` if anything grew.
    pub fn merge(&mut self, other: &Self) -> bool {
        let grew = self.frontier.merge(&other.frontier);
        self.change.merge(&other.change) || grew
    }
}

impl Frontier {
    /// Takes the greater of each field. `true` if anything grew.
    pub fn merge(&mut self, other: &Self) -> bool {
        let before = *self;
        self.rounds = self.rounds.max(other.rounds);
        self.delivered = self.delivered.max(other.delivered);
        for (own, &others) in self.received.iter_mut().zip(&other.received) {
            *own = (*own).max(others);
        }
        self.leaving |= other.leaving;
        self.has_state |= other.has_state;
        self.wedged |= other.wedged;
        *self != before
    }
}

impl Change {
    /// Takes the greater of each field. Claims of the greater attempt win; claims of one attempt
    /// are united. Returns `true` if anything grew.
    pub fn merge(&mut self, other: &Self) -> bool {
        let before = (self.attempt, self.claims, self.promised, self.accepted);
        if other.attempt > self.attempt {
            (self.attempt, self.claims) = (other.attempt, other.claims);
        } else if other.attempt == self.attempt {
            self.claims = self.claims.union(other.claims);
        }
        self.promised = self.promised.max(other.promised);
        if other.accepted > self.accepted {
            (self.accepted, self.proposal) = (other.accepted, other.proposal);
        }
        (self.attempt, self.claims, self.promised, self.accepted) != before
    }
}

impl Ballot {
    /// No ballot.
    pub const NONE: Self = Self(0);

    /// The ballot `number`, from 1, of the leader of rank `rank`.
    #[must_use]
    pub const fn new(number: u32, rank: usize) -> Self {
        Self((number as u64) << 8 | (rank as u64 & 0xff))
    }

    /// The number; 0 for none.
    #[must_use]
    pub const fn number(self) -> u32 {
        (self.0 >> 8) as u32
    }

    /// The leader's rank.
    #[must_use]
    pub const fn leader(self) -> usize {
        (self.0 & 0xff) as usize
    }
}
