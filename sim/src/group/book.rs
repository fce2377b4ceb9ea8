//! What is known to be true: who stayed, what was asked, and the order of each view as far as anybody was told it.

use std::collections::BTreeMap;

use covalent_protocol::group::{Contact, Life, Members, Stop, View};

use super::{
    fact::Fact,
    keys::KeyMap,
    said::{Proposal, Said},
};

/// A view of a group: the group, and the view's number.
pub type ViewId = (u64, u64);

/// A stay: its place in [`Book::stays`].
pub type StayId = usize;

/// What an application makes of what it is told: a count, and a sum that depends on the order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digest {
    /// Messages.
    pub count: u64,
    /// Mixed from them in their order.
    pub mix: u64,
}

impl Digest {
    /// Takes a message in.
    pub const fn take(&mut self, message: u64) {
        self.count += 1;
        self.mix = (self.mix.rotate_left(7) ^ message).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// One stay of an application.
#[derive(Debug, Clone)]
pub struct Stay {
    /// Where it runs.
    pub node: usize,
    /// Where it is reached.
    pub contact: Contact,
    /// It was not killed, and its node runs.
    pub lives: bool,
    /// The view that it installed last.
    pub view: Option<ViewId>,
    /// How many messages in the order of that view its application took.
    pub taken: usize,
    /// Its application has the state of that view.
    pub has_state: bool,
    /// The views that it installed.
    pub views: Vec<ViewId>,
    /// Own messages, in the order of their sequences.
    pub asked: Vec<u64>,
    /// It said that it is stopped: why, and from which own message on it is in doubt.
    pub stopped: Option<(Stop, u64)>,
    /// It left.
    pub left: bool,
    /// Of whom its application said that they should go.
    pub suspects: Vec<StayId>,
    /// Members with which it founds; 0 if it only joins, or began with a view.
    pub founders: u8,
    /// The stay before it, of whose messages it asks.
    pub former: Option<Life>,
}

impl Stay {
    /// Whether it is over for good.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        !self.lives
            || self.left
            || matches!(
                self.stopped,
                Some((Stop::Excluded | Stop::OtherGroup { .. }, _))
            )
    }

    /// Whether it looks for a group.
    #[must_use]
    pub const fn seeks(&self) -> bool {
        !self.is_over() && self.view.is_none()
    }
}

/// A message.
#[derive(Debug, Clone, Copy)]
pub struct Message {
    /// Whose.
    pub by: StayId,
    /// Its number among those of the stay, from 1.
    pub sequence: u64,
    /// Its length.
    pub bytes: usize,
}

/// A message at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Which.
    pub message: u64,
    /// Its sender.
    pub sender: Life,
    /// Its number among those of its sender.
    pub sequence: u64,
    /// The place of its batch.
    pub position: u64,
}

/// The order of a view, as far as somebody was told it.
#[derive(Debug, Clone)]
pub struct Order {
    /// The view.
    pub view: View,
    /// What applications with the state had when it began, once one of them installed it.
    pub begun: Option<Digest>,
    /// Who installed it.
    pub members: Vec<StayId>,
    /// The messages.
    pub messages: Vec<Placed>,
    /// How many of them belong to the view: known as soon as somebody installed the next.
    pub closed: Option<usize>,
}

impl Order {
    /// What an application has that took the first `count` messages.
    #[must_use]
    pub fn digest(&self, count: usize) -> Digest {
        let mut digest = self.begun.unwrap_or_default();
        for placed in self.messages.iter().take(count) {
            digest.take(placed.message);
        }
        digest
    }

    /// How many messages lie in positions below `position`.
    #[must_use]
    pub fn below(&self, position: u64) -> usize {
        self.messages
            .partition_point(|placed| placed.position < position)
    }
}

/// Everything that is known.
#[derive(Debug, Default)]
pub struct Book {
    /// Everybody who ever began.
    pub stays: Vec<Stay>,
    /// What was asked, by the number that is in its first bytes.
    pub messages: Vec<Message>,
    /// The views that anybody installed.
    pub orders: BTreeMap<ViewId, Order>,
    /// The last message of each sender in any order.
    pub last: KeyMap<Life, u64>,
    /// Who said in a view that it accepted the proposal of a ballot.
    accepted: KeyMap<ViewId, BTreeMap<u64, (Proposal, Members)>>,
}

impl Book {
    /// The stay of a life.
    #[must_use]
    pub fn stay_of(&self, life: Life) -> Option<StayId> {
        let mut stays = self.stays.iter();
        // Of one that began again under its old life the later one.
        stays.rposition(|stay| stay.contact.life == life)
    }

    /// The order of the view that a stay is in.
    #[must_use]
    pub fn order_of(&self, stay: StayId) -> Option<&Order> {
        self.orders.get(&self.stays[stay].view?)
    }

    /// How many messages of a stay belong to the views before the one that it installed last.
    #[must_use]
    pub fn delivered_before(&self, stay: StayId) -> u64 {
        let Some((group, number)) = self.stays[stay].view else {
            return 0;
        };
        let own = self.stays[stay].contact.life;
        let before = self.orders.range((group, 0)..(group, number));
        let counts = before.map(|(_, order)| {
            let closed = order.closed.unwrap_or(order.messages.len());
            let messages = order.messages.iter().take(closed);
            messages.filter(|placed| placed.sender == own).count() as u64
        });
        counts.sum()
    }

    /// The last view of a stay's group that somebody who lives installed.
    #[must_use]
    pub fn newest(&self) -> Option<&Order> {
        let living = self.stays.iter().filter(|stay| stay.lives);
        let newest = living.filter_map(|stay| stay.view).max_by_key(|id| id.1)?;
        self.orders.get(&newest)
    }

    /// The last view of each group that somebody who lives installed, the lowest group first.
    #[must_use]
    pub fn newest_of_each(&self) -> Vec<&Order> {
        let living = self.stays.iter().filter(|stay| stay.lives);
        let mut newest = BTreeMap::new();
        for (group, number) in living.filter_map(|stay| stay.view) {
            let last = newest.entry(group).or_insert(number);
            *last = number.max(*last);
        }
        let orders = newest.into_iter();
        orders.filter_map(|id| self.orders.get(&id)).collect()
    }

    /// What a quorum of the voters of `view` said that it accepted, if `also` did too without having said so.
    pub fn decided<'a>(
        &'a self,
        view: &View,
        also: Option<usize>,
    ) -> impl Iterator<Item = &'a Proposal> + use<'a> {
        let voters = view.voters;
        let ballots = self.accepted.get(&(view.group, view.number));
        let ballots = ballots.into_iter().flat_map(|ballots| ballots.values());
        ballots
            .filter(move |(_, ranks)| {
                let ranks = also.map_or(*ranks, |rank| ranks.with(rank));
                ranks.is_quorum_of(voters)
            })
            .map(|(proposal, _)| proposal)
    }

    /// Enters a fact that the checkers have seen.
    pub(super) fn enter(&mut self, fact: &Fact<'_>) {
        match fact {
            Fact::Began {
                node,
                contact,
                founders,
                former,
            } => self.stays.push(Stay {
                node: *node,
                contact: **contact,
                lives: true,
                view: None,
                taken: 0,
                has_state: false,
                views: Vec::new(),
                asked: Vec::new(),
                stopped: None,
                left: false,
                suspects: Vec::new(),
                founders: *founders,
                former: *former,
            }),
            Fact::Asked {
                by,
                message,
                sequence,
                bytes,
            } => {
                self.messages.push(Message {
                    by: *by,
                    sequence: *sequence,
                    bytes: *bytes,
                });
                self.stays[*by].asked.push(*message);
            }
            Fact::Said { said, .. } => self.note_accepted(said),
            Fact::View { by, view } => self.install(*by, view),
            Fact::Delivered { by, placed, .. } => {
                let stay = &mut self.stays[*by];
                if let Some(order) = stay.view.and_then(|id| self.orders.get_mut(&id)) {
                    if stay.taken == order.messages.len() {
                        order.messages.push(**placed);
                        self.last.insert(placed.sender, placed.sequence);
                    }
                    stay.taken += 1;
                }
            }
            Fact::State { by, last: true, .. } => self.stays[*by].has_state = true,
            Fact::StateVoid { by } => self.stays[*by].has_state = false,
            Fact::Stopped {
                by,
                why,
                undelivered,
            } => {
                self.stays[*by].stopped = Some((*why, *undelivered));
            }
            Fact::Left { by } => self.stays[*by].left = true,
            Fact::Suspected { by, whom } => self.stays[*by].suspects.push(*whom),
            Fact::Died { stay } => self.stays[*stay].lives = false,
            _ => {}
        }
    }

    fn note_accepted(&mut self, said: &Said) {
        let Some(change) = &said.row.change else {
            return;
        };
        let Some(proposal) = &change.proposal else {
            return;
        };
        let ballots = self.accepted.entry((said.group, said.view)).or_default();
        let (_, ranks) = ballots
            .entry(change.accepted)
            .or_insert_with(|| (proposal.clone(), Members::NONE));
        *ranks = ranks.with(usize::from(said.from));
    }

    fn install(&mut self, by: StayId, view: &View) {
        let id = (view.group, view.number);
        let before = self.stays[by].view.filter(|before| before.0 == view.group);
        let (was, had_state) = (before, self.stays[by].has_state);
        let taken = self.stays[by].taken;
        // Whoever had the state of the view before knows where that ended.
        if let Some(order) = was.and_then(|was| self.orders.get_mut(&was))
            && had_state
        {
            order.closed.get_or_insert(taken);
        }
        let begun = was
            .filter(|_| had_state)
            .and_then(|was| self.orders.get(&was))
            .map(|order| order.digest(taken));
        let order = self.orders.entry(id).or_insert_with(|| Order {
            view: *view,
            begun: None,
            members: Vec::new(),
            messages: Vec::new(),
            closed: None,
        });
        let stay = &mut self.stays[by];
        let votes = view
            .rank_of(stay.contact.life)
            .is_some_and(|rank| view.voters.contains(rank));
        // Who founded the group has no view before and a vote, and nothing was before.
        let founded = was.is_none() && votes && view.number == 1;
        stay.has_state |= founded;
        if order.begun.is_none() {
            order.begun = begun.or(founded.then(Digest::default));
        }
        order.members.push(by);
        stay.view = Some(id);
        stay.views.push(id);
        stay.taken = 0;
        stay.stopped = None;
    }
}
