//! The ground truth of a run: incarnations, requested messages, and the order of each view as far
//! as any member delivered it.

use std::collections::BTreeMap;

use covalent_protocol::group::{Contact, Incarnation, Members, Stop, View};

use super::{
    fact::Fact,
    keys::KeyMap,
    sent::{Proposal, SentEnvelope},
};

/// A view of a group: the group, and the view's number.
pub type ViewId = (u64, u64);

/// An incarnation: its index in [`Book::stays`].
pub type MembershipId = usize;

/// Digest of an application's deliveries: a count, and a sum that depends on the order.
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

/// One incarnation of an application.
#[derive(Debug, Clone)]
pub struct Membership {
    /// Where it runs.
    pub node: usize,
    /// Where it is reached.
    pub contact: Contact,
    /// It was not killed, and its node runs.
    pub is_alive: bool,
    /// The view that it installed last.
    pub view: Option<ViewId>,
    /// How many messages in the order of that view its application took.
    pub taken: usize,
    /// Its application has the state of that view.
    pub has_state: bool,
    /// The views that it installed.
    pub views: Vec<ViewId>,
    /// Own messages, in the order of their sequences.
    pub requested: Vec<u64>,
    /// Its stop notification: the reason, and the first own message in doubt.
    pub stopped: Option<(Stop, u64)>,
    /// It left.
    pub left: bool,
    /// Members that its application requested to exclude.
    pub suspects: Vec<MembershipId>,
    /// Members with which it founds; 0 if it only joins, or began with a view.
    pub founders: u8,
    /// The previous incarnation, about whose messages it queries.
    pub former: Option<Incarnation>,
}

impl Membership {
    /// Whether it is over for good.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        !self.is_alive
            || self.left
            || matches!(
                self.stopped,
                Some((Stop::Excluded | Stop::OtherGroup { .. }, _))
            )
    }

    /// Whether it looks for a group.
    #[must_use]
    pub const fn is_searching(&self) -> bool {
        !self.is_over() && self.view.is_none()
    }
}

/// A message.
#[derive(Debug, Clone, Copy)]
pub struct Message {
    /// The sender.
    pub by: MembershipId,
    /// Its number among the messages of that incarnation, from 1.
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
    pub sender: Incarnation,
    /// Its number among its sender's messages.
    pub sequence: u64,
    /// The place of its batch.
    pub position: u64,
}

/// The order of a view, as far as any member delivered it.
#[derive(Debug, Clone)]
pub struct Order {
    /// The view.
    pub view: View,
    /// Digest of the applications with the state at the start of the view. Set once one of them
    /// installs it.
    pub begun: Option<Digest>,
    /// Incarnations that installed it.
    pub members: Vec<MembershipId>,
    /// The messages.
    pub messages: Vec<Placed>,
    /// Number of messages that belong to the view. Known as soon as a member installs the next
    /// view.
    pub closed: Option<usize>,
}

impl Order {
    /// Returns the digest of an application that took the first `count` messages.
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
    /// All incarnations that ever began.
    pub stays: Vec<Membership>,
    /// Requested messages, by the number in their first bytes.
    pub messages: Vec<Message>,
    /// Views that any member installed.
    pub orders: BTreeMap<ViewId, Order>,
    /// The last message of each sender in any order.
    pub last: KeyMap<Incarnation, u64>,
    /// For each ballot of a view, its proposal and the ranks that reported acceptance.
    accepted: KeyMap<ViewId, BTreeMap<u64, (Proposal, Members)>>,
}

impl Book {
    /// Returns the incarnation with this identifier.
    #[must_use]
    pub fn membership_of(&self, incarnation: Incarnation) -> Option<MembershipId> {
        let mut stays = self.stays.iter();
        // If two incarnations share an identifier, take the later one.
        stays.rposition(|membership| membership.contact.incarnation == incarnation)
    }

    /// Returns the order of the view that an incarnation is in.
    #[must_use]
    pub fn order_of(&self, membership: MembershipId) -> Option<&Order> {
        self.orders.get(&self.stays[membership].view?)
    }

    /// Number of an incarnation's messages that belong to views before the one that it installed
    /// last.
    #[must_use]
    pub fn delivered_before(&self, membership: MembershipId) -> u64 {
        let Some((group, number)) = self.stays[membership].view else {
            return 0;
        };
        let own = self.stays[membership].contact.incarnation;
        let before = self.orders.range((group, 0)..(group, number));
        let counts = before.map(|(_, order)| {
            let closed = order.closed.unwrap_or(order.messages.len());
            let messages = order.messages.iter().take(closed);
            messages.filter(|placed| placed.sender == own).count() as u64
        });
        counts.sum()
    }

    /// Returns the view with the highest number that a running incarnation is in.
    #[must_use]
    pub fn newest(&self) -> Option<&Order> {
        let living = self.stays.iter().filter(|membership| membership.is_alive);
        let newest = living
            .filter_map(|membership| membership.view)
            .max_by_key(|id| id.1)?;
        self.orders.get(&newest)
    }

    /// Returns the last view of each group that a running incarnation is in, the lowest group
    /// first.
    #[must_use]
    pub fn newest_of_each(&self) -> Vec<&Order> {
        let living = self.stays.iter().filter(|membership| membership.is_alive);
        let mut newest = BTreeMap::new();
        for (group, number) in living.filter_map(|membership| membership.view) {
            let last = newest.entry(group).or_insert(number);
            *last = number.max(*last);
        }
        let orders = newest.into_iter();
        orders.filter_map(|id| self.orders.get(&id)).collect()
    }

    /// Returns the proposals that a quorum of the voters of `view` reported as accepted. `also`
    /// counts as accepting, even if it has not reported so.
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
            } => self.stays.push(Membership {
                node: *node,
                contact: **contact,
                is_alive: true,
                view: None,
                taken: 0,
                has_state: false,
                views: Vec::new(),
                requested: Vec::new(),
                stopped: None,
                left: false,
                suspects: Vec::new(),
                founders: *founders,
                former: *former,
            }),
            Fact::Requested {
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
                self.stays[*by].requested.push(*message);
            }
            Fact::SentEnvelope { sent, .. } => self.record_accepted(sent),
            Fact::View { by, view } => self.install(*by, view),
            Fact::Delivered { by, placed, .. } => {
                let membership = &mut self.stays[*by];
                if let Some(order) = membership.view.and_then(|id| self.orders.get_mut(&id)) {
                    if membership.taken == order.messages.len() {
                        order.messages.push(**placed);
                        self.last.insert(placed.sender, placed.sequence);
                    }
                    membership.taken += 1;
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
            Fact::Suspected { by, target } => self.stays[*by].suspects.push(*target),
            Fact::Died { membership } => self.stays[*membership].is_alive = false,
            _ => {}
        }
    }

    fn record_accepted(&mut self, sent: &SentEnvelope) {
        let Some(change) = &sent.row.change else {
            return;
        };
        let Some(proposal) = &change.proposal else {
            return;
        };
        let ballots = self.accepted.entry((sent.group, sent.view)).or_default();
        let (_, ranks) = ballots
            .entry(change.accepted)
            .or_insert_with(|| (proposal.clone(), Members::NONE));
        *ranks = ranks.with(usize::from(sent.from));
    }

    fn install(&mut self, by: MembershipId, view: &View) {
        let id = (view.group, view.number);
        let before = self.stays[by].view.filter(|before| before.0 == view.group);
        let (was, had_state) = (before, self.stays[by].has_state);
        let taken = self.stays[by].taken;
        // A member that had the state of the previous view knows where that view ended.
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
        let membership = &mut self.stays[by];
        let votes = view
            .rank_of(membership.contact.incarnation)
            .is_some_and(|rank| view.voters.contains(rank));
        // A founder has a vote but no previous view, and no message precedes the group.
        let founded = was.is_none() && votes && view.number == 1;
        membership.has_state |= founded;
        if order.begun.is_none() {
            order.begun = begun.or(founded.then(Digest::default));
        }
        order.members.push(by);
        membership.view = Some(id);
        membership.views.push(id);
        membership.taken = 0;
        membership.stopped = None;
    }
}
