//! Discovery under the group's name: gossip, founding, requests to join.
//!
//! Each known node gets a `hello`. The reply is `known`, which lists the other known nodes, members
//! first. Knowledge thus passes from node to node. A hello to a member requests to join. A hello
//! from a member that lost its quorum queries whether the others continued without it. A node that
//! knows enough founders begins the founding view and sends it to them. Each founder that knows a
//! node that knows all therefore founds.

use alloc::vec::Vec;

use super::{
    End, Group, GroupStanding, Phase, Stop,
    contact::{Contact, Contacts, Incarnation, MEMBERS_MAX, Members, View},
    pair::Pair,
    token::Token,
    wire::{BadEnvelope, JOINERS_MAX, KNOWN_MAX, KnownContacts, OUTCOME_UNKNOWN, Terms},
};

/// Nodes that this member knows under the group's name, one contact for each node. Excludes itself
/// and the members of its view.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Book {
    entries: Vec<Entry>,
    /// Nodes without a path, sorted, including nodes with no known contact: the link layer reports
    /// a path loss once, even if a contact appears there later.
    lost: Vec<u64>,
}

/// Most remembered nodes without a path: one for each known node and each member, and as many again
/// for members that left.
const LOST_MAX: usize = KNOWN_MAX + 2 * MEMBERS_MAX;

/// Most entries that only other nodes named and that have not authenticated. Names of nonexistent
/// nodes thus leave entries for nodes that announce themselves.
const UNSEEN_MAX: usize = KNOWN_MAX / 2;

/// A contact under the group's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The contact. The incarnation is 0 until it is known.
    pub contact: Contact,
    /// Its terms, as it sent them or as others reported them.
    pub terms: Terms,
    /// Number of members with which it founds, if it sent the number itself.
    pub founders: Option<u8>,
    /// Others report that it is in a group.
    pub is_member: bool,
    /// It requested to join.
    pub wants_to_join: bool,
    /// The token to present to it. Without a token, only a challenge is sent to it.
    pub token: Token,
    challenge: Turn,
    hello: Turn,
    answer: Turn,
    /// An envelope to it is in flight.
    in_flight: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
enum Turn {
    #[default]
    Sent,
    Due,
    /// At the next tick.
    Later,
}

/// A message to a contact that is no member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToNonMember {
    Challenge,
    Hello,
    Known,
}

impl Entry {
    /// An entry of which only the contact is known.
    fn new(contact: Contact) -> Self {
        Self {
            contact,
            terms: Terms::default(),
            founders: None,
            is_member: false,
            wants_to_join: false,
            token: Token::NONE,
            challenge: Turn::Due,
            hello: Turn::Due,
            answer: Turn::Sent,
            in_flight: false,
        }
    }

    /// Whether it is of this incarnation. The incarnation of a queue found by its name is unknown.
    pub fn is_of(&self, contact: &Contact) -> bool {
        let incarnation = self.contact.incarnation;
        self.contact.rkey == contact.rkey
            && (incarnation == contact.incarnation || incarnation == Incarnation(0))
    }
}

impl Book {
    /// Allocates an empty book of full capacity.
    pub fn new() -> Self {
        Self {
            entries: Vec::with_capacity(KNOWN_MAX),
            lost: Vec::with_capacity(LOST_MAX),
        }
    }

    /// Whether no path leads to a node.
    pub fn is_lost(&self, guid: u64) -> bool {
        self.lost.binary_search(&guid).is_ok()
    }

    /// A path to a node came or went. The book never forgets a lost path to a member (`is_member`).
    pub fn on_path(&mut self, guid: u64, up: bool, is_member: impl Fn(u64) -> bool) {
        match self.lost.binary_search(&guid) {
            Ok(at) if up => {
                self.lost.remove(at);
            }
            Err(_) if !up => {
                if self.lost.len() == LOST_MAX {
                    // If the list is full, drop a node with no known contact.
                    let entries = &self.entries;
                    let is_kept = |guid: u64| {
                        is_member(guid) || entries.iter().any(|it| it.contact.guid == guid)
                    };
                    if let Some(at) = self.lost.iter().position(|guid| !is_kept(*guid)) {
                        self.lost.remove(at);
                    }
                }
                let at = self.lost.partition_point(|other| *other < guid);
                self.lost.insert(at, guid);
            }
            _ => {}
        }
    }

    /// All entries.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    #[cfg(feature = "arbitrary-state")]
    pub fn entries_mut(&mut self) -> &mut [Entry] {
        &mut self.entries
    }

    /// The one on this node.
    pub fn of_node(&mut self, guid: u64) -> Option<&mut Entry> {
        self.entries
            .iter_mut()
            .find(|entry| entry.contact.guid == guid)
    }

    /// The entry for this contact's node, and whether it is new. Returns `None` if the book is
    /// full.
    fn learn(&mut self, contact: Contact) -> Option<(&mut Entry, bool)> {
        let known = self
            .entries
            .iter()
            .position(|entry| entry.contact.guid == contact.guid);
        if let Some(at) = known {
            return Some((&mut self.entries[at], false));
        }
        if self.entries.len() == KNOWN_MAX {
            return None;
        }
        self.entries.push(Entry::new(contact));
        Some((self.entries.last_mut()?, true))
    }

    /// Like [`Book::learn`], for a contact that another node named.
    fn learn_named(&mut self, contact: Contact) -> Option<(&mut Entry, bool)> {
        let unseen = self.entries.iter().filter(|entry| entry.token.is_none());
        let has_room = unseen.count() < UNSEEN_MAX;
        let is_known = self.of_node(contact.guid).is_some();
        (is_known || has_room)
            .then(|| self.learn(contact))
            .flatten()
    }

    /// Adds a former member of the group, and the token to present to it.
    pub fn remember(&mut self, contact: Contact, token: Token, terms: Terms) {
        if let Some((entry, _)) = self.learn(contact) {
            (entry.contact, entry.token, entry.terms) = (contact, token, terms);
            (entry.wants_to_join, entry.founders) = (false, None);
        }
    }

    /// Removes a contact that is now in the group.
    pub fn forget(&mut self, contact: &Contact) {
        self.entries.retain(|entry| {
            entry.contact.guid != contact.guid || entry.contact.incarnation != contact.incarnation
        });
    }

    /// Processes a tick: resends unanswered messages if this member still searches for a group.
    pub fn on_tick(&mut self, is_searching: bool) {
        for entry in &mut self.entries {
            if is_searching || entry.hello == Turn::Later {
                entry.hello = Turn::Due;
            }
            if entry.answer == Turn::Later {
                entry.answer = Turn::Due;
            }
            entry.challenge = Turn::Due;
        }
    }

    /// The next message to send, and its recipient.
    pub fn next(&self, is_searching: bool) -> Option<(Contact, Token, ToNonMember)> {
        let free = |entry: &&Entry| !self.is_lost(entry.contact.guid) && !entry.in_flight;
        self.entries.iter().filter(free).find_map(|entry| {
            let outgoing =
                if entry.answer == Turn::Due && entry.contact.incarnation != Incarnation(0) {
                    ToNonMember::Known
                } else if is_searching && entry.hello == Turn::Due {
                    ToNonMember::Hello
                } else {
                    return None;
                };
            match (entry.token.is_none(), entry.challenge) {
                (false, _) => Some((entry.contact, entry.token, outgoing)),
                (true, Turn::Due) => Some((entry.contact, Token::NONE, ToNonMember::Challenge)),
                (true, _) => None,
            }
        })
    }

    /// A message is sent to the contact on a node.
    pub fn send(&mut self, guid: u64, outgoing: ToNonMember) {
        if let Some(entry) = self.of_node(guid) {
            entry.in_flight = true;
            match outgoing {
                ToNonMember::Challenge => entry.challenge = Turn::Sent,
                ToNonMember::Hello => entry.hello = Turn::Sent,
                ToNonMember::Known => entry.answer = Turn::Sent,
            }
        }
    }

    /// Stores the token that an authenticated sender granted.
    pub fn store_token(&mut self, sender: Contact, token: Token) {
        if let Some(entry) = self.of_node(sender.guid)
            && entry.is_of(&sender)
        {
            (entry.contact.incarnation, entry.token) = (sender.incarnation, token);
        }
    }

    /// A message to a contact ended.
    pub fn on_end(&mut self, guid: u64, incarnation: Incarnation, end: End) {
        let Some(entry) = self.of_node(guid) else {
            return;
        };
        entry.in_flight = false;
        match end {
            End::Done => {}
            End::NotExecuted | End::Unclear => {
                entry.hello = Turn::Later;
                if entry.founders.is_some() {
                    entry.answer = Turn::Later;
                }
            }
            End::Gone if entry.contact.incarnation == incarnation => {
                self.entries.retain(|entry| entry.contact.guid != guid);
            }
            End::Gone => {}
        }
    }
}

impl Group {
    /// A queue under the group's name was found on a node; its incarnation is 0 if unknown. This
    /// member announces itself to it. Ignores a contact with the incarnation of another queue.
    pub fn on_contact(&mut self, contact: Contact) {
        if contact.incarnation != Incarnation(0) && !contact.owns_incarnation() {
            return;
        }
        if contact.guid == self.config.me.guid || self.is_member(contact) || self.is_mate(contact) {
            return;
        }
        if let Some((entry, false)) = self.book.learn(contact)
            && entry.contact.rkey != contact.rkey
        {
            // The queue that was there is not any more.
            *entry = Entry::new(contact);
        }
    }

    fn is_member(&self, contact: Contact) -> bool {
        self.view.rank_of(contact.incarnation).is_some()
    }

    /// Whether a queue is that of a member of the view, if the contact has no incarnation.
    fn is_mate(&self, contact: Contact) -> bool {
        let is_it = |member: &Contact| (member.guid, member.rkey) == (contact.guid, contact.rkey);
        self.view.number > 0 && self.view.members.iter().any(is_it)
    }

    /// Whether it searches for others under the group's name: it has no group, or is in a view that
    /// lost its quorum. The others may have continued without it for so long that no remaining node
    /// knows it. It then learns of that only by a query. The members that it reaches need no query:
    /// they report a decision, and if they are a quorum they know it. Meanwhile the driver reports
    /// queues under the name with [`Group::on_contact`].
    #[must_use]
    pub fn is_discovering(&self) -> bool {
        self.is_searching()
            || (self.standing() == GroupStanding::Minority && !self.reaches_quorum())
    }

    /// Whether it looks for a group: it has none, or one that is still to be founded.
    pub(super) const fn is_searching(&self) -> bool {
        match self.phase {
            Phase::Searching => true,
            Phase::Flowing | Phase::Wedged | Phase::Ending => self.view.number == 0,
            Phase::Stopped | Phase::Left => false,
        }
    }

    /// A node announces itself.
    ///
    /// `lost`: it is in a view of its own that lost its quorum, and queries whether the others
    /// continued. Do not admit it with that incarnation.
    pub(super) fn take_hello(
        &mut self,
        (contact, token): (Contact, Token),
        terms: Terms,
        founders: u8,
        lost: bool,
    ) {
        if contact.guid == self.config.me.guid || self.is_member(contact) {
            return;
        }
        let in_view = self.view.number > 0;
        if !in_view {
            // A restarted founder does not found with its old incarnation. The old queue gets a
            // keepalive, because another application of the node may have sent this hello.
            let before =
                |pair: &&mut Pair| pair.rank.is_some() && pair.contact.guid == contact.guid;
            if let Some(pair) = self.pairs.iter_mut().find(before) {
                pair.keepalive_is_due = true;
            }
        }
        let excluded = self.is_excluded(contact.incarnation);
        let fits = terms == self.config.terms() && !excluded && !lost;
        let is_discovering = self.is_discovering();
        let Some((entry, _)) = self.book.learn(contact) else {
            return;
        };
        if entry.contact != contact {
            // The node itself reports this contact: the previous one is gone.
            entry.contact = contact;
            entry.in_flight = false;
            if is_discovering {
                entry.hello = Turn::Due;
            }
        }
        entry.token = token;
        entry.terms = terms;
        entry.founders = (!lost).then_some(founders);
        entry.is_member = false;
        entry.wants_to_join = in_view && fits;
        entry.answer = Turn::Due;
        self.settle();
    }

    /// A sender lists the nodes that it knows.
    pub(super) fn take_known(
        &mut self,
        (group, view): (u64, u64),
        (members, excluded): (u8, bool),
        contacts: KnownContacts<'_>,
    ) {
        let me = self.config.me;
        let members = usize::from(members);
        let named = contacts
            .iter()
            .take(members)
            .any(|(one, _)| one.incarnation == me.incarnation);
        let other = members > 0 && group != self.view.group;
        if excluded && (self.phase == Phase::Searching || !other) {
            self.stop(Stop::Excluded);
            return;
        }
        if self.phase == Phase::Searching {
            for (at, (contact, terms)) in contacts.iter().enumerate() {
                if contact.guid == me.guid {
                    continue;
                }
                let Some((entry, is_new)) = self.book.learn_named(contact) else {
                    continue;
                };
                if is_new || (entry.contact.incarnation == Incarnation(0) && entry.is_of(&contact))
                {
                    (entry.contact, entry.terms) = (contact, terms);
                }
                if entry.contact.incarnation == contact.incarnation {
                    entry.is_member |= at < members;
                }
            }
            self.settle();
        } else if other && (self.view.number == 0 || self.is_over_for_good()) {
            let members = members as u8;
            self.stop(Stop::OtherGroup { group, members });
        } else if !other && view > self.view.number && members > 0 && !named {
            self.stop(Stop::Excluded);
        }
    }

    /// A node that is no member sent a member's envelope: it receives the list of known nodes.
    pub(super) fn answer_non_member(&mut self, sender: Contact) {
        if let Some(entry) = self.book.of_node(sender.guid)
            && entry.is_of(&sender)
        {
            // The queue was found by its name, and this is the first word from there.
            entry.contact.incarnation = sender.incarnation;
            entry.answer = Turn::Due;
        }
    }

    pub(super) fn is_excluded(&self, incarnation: Incarnation) -> bool {
        self.outcomes
            .iter()
            .any(|(outcome, _)| *outcome == incarnation)
    }

    /// Begins the founding view once enough founders are known. If there are more, those with the
    /// lowest GUIDs found.
    pub(super) fn try_to_found(&mut self) -> bool {
        let founders = self.config.founders;
        if self.phase != Phase::Searching || founders == 0 {
            return false;
        }
        let terms = self.config.terms();
        // Sort all before excluding any: two founders that know the same ones choose the same.
        let mut found = [Contact::default(); 1 + KNOWN_MAX];
        let mut count = 1;
        found[0] = self.config.me;
        for entry in self.book.entries() {
            if entry.is_member {
                return false;
            }
            let fits = entry.founders == Some(founders)
                && entry.terms == terms
                && !self.book.is_lost(entry.contact.guid);
            if fits {
                found[count] = entry.contact;
                count += 1;
            }
        }
        found[..count].sort_unstable_by_key(|contact| contact.guid);
        let wanted = usize::from(founders);
        let mut members = Contacts::<MEMBERS_MAX>::default();
        for one in &found[..count] {
            let is_taken = members
                .iter()
                .any(|member| member.incarnation == one.incarnation);
            if members.len() < wanted && !is_taken {
                members.push(*one);
            }
        }
        if members.len() < wanted {
            return false;
        }
        let Some(me) = members
            .iter()
            .position(|contact| *contact == self.config.me)
        else {
            return false;
        };
        let view = View {
            group: id_of(self.config.name.as_str(), &members),
            number: 0,
            members,
            voters: Members::first(wanted),
        };
        self.has_state = true;
        self.begin_view(view, me, wanted);
        self.wedge();
        true
    }

    /// Contacts that requested to join and fit in a view of the `staying` members.
    pub(super) fn joiners(&self, staying: &[Contact]) -> Contacts<JOINERS_MAX> {
        let room = usize::from(self.config.members_max).saturating_sub(staying.len());
        let mut joiners = [Contact::default(); JOINERS_MAX];
        let mut count = 0;
        let wants_to_join = self
            .book
            .entries()
            .iter()
            .filter(|entry| entry.wants_to_join && !self.book.is_lost(entry.contact.guid));
        for entry in wants_to_join {
            // An incarnation belongs to one member, even if another contact claims it.
            let Contact {
                guid, incarnation, ..
            } = entry.contact;
            let is_taken = |one: &Contact| one.guid == guid || one.incarnation == incarnation;
            let mut others = staying.iter().chain(&joiners[..count]);
            if !others.any(is_taken) && count < room.min(JOINERS_MAX) {
                joiners[count] = entry.contact;
                count += 1;
            }
        }
        joiners[..count].sort_unstable_by_key(|contact| contact.guid);
        joiners[..count].iter().copied().collect()
    }

    /// Writes the contacts that this member knows into `room`: first the members of its view, whose
    /// number it also returns. If it is in no view, its own contact comes first.
    pub(super) fn list_known(&self, room: &mut [(Contact, Terms); KNOWN_MAX]) -> (usize, u8) {
        let terms = self.config.terms();
        let in_view = self.view.number > 0;
        let members: &[Contact] = if in_view {
            &self.view.members
        } else {
            core::slice::from_ref(&self.config.me)
        };
        let others = self.book.entries().iter();
        let others = others.filter(|entry| entry.contact.incarnation != Incarnation(0));
        let listed = members
            .iter()
            .map(|member| (*member, terms))
            .chain(others.map(|entry| (entry.contact, entry.terms)));
        let mut count = 0;
        for (place, known) in room.iter_mut().zip(listed) {
            *place = known;
            count += 1;
        }
        (count, if in_view { members.len() as u8 } else { 0 })
    }
}

/// Identifies a group by its name and its founders. Incarnations are random numbers, so any mixing
/// function suffices; this is FNV-1a.
fn id_of(name: &str, members: &[Contact]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let mut hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| mix(hash, &byte));
    for member in members {
        for word in [member.guid, member.incarnation.0, u64::from(member.rkey)] {
            hash = word.to_le_bytes().iter().fold(hash, mix);
        }
    }
    // 0 is no group.
    hash.max(1)
}

impl Group {
    /// A view that this member was taken into, or founds with.
    pub(super) fn join(
        &mut self,
        view: View,
        sequences: [u64; MEMBERS_MAX],
        outcomes: impl Iterator<Item = (Incarnation, u64)>,
    ) -> Result<(), BadEnvelope> {
        let me = view.members.iter().position(|one| *one == self.config.me);
        let me = me.ok_or(BadEnvelope::Violation)?;
        let founds = view.number == 0;
        if view.members.len() > usize::from(self.config.members_max)
            || (founds && self.config.founders == 0)
        {
            return Err(BadEnvelope::Violation);
        }
        self.has_state |= founds;
        self.outcomes.clear();
        self.outcomes.extend(outcomes);
        let former = self.config.former;
        let outcome = self
            .outcomes
            .iter()
            .find(|(incarnation, _)| Some(*incarnation) == former);
        let known = outcome.filter(|(_, delivered)| *delivered != OUTCOME_UNKNOWN);
        self.notices.outcome = known.map(|(_, delivered)| *delivered);
        self.flow.delivered = sequences;
        let n = view.members.len();
        self.begin_view(view, me, n);
        if founds {
            self.wedge();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Name,
        group::{GroupConfig, token::Secret},
    };

    #[test]
    fn nodes_without_a_path_are_bounded_and_those_of_members_and_the_known_are_kept() {
        const MEMBER: u64 = KNOWN_MAX as u64;
        let is_member = |guid| guid == MEMBER;
        let mut book = Book::new();
        for guid in 0..KNOWN_MAX as u64 {
            let contact = Contact {
                guid,
                ..Contact::default()
            };
            assert!(book.learn(contact).is_some());
            book.on_path(guid, false, is_member);
        }
        for guid in MEMBER..2 * LOST_MAX as u64 {
            book.on_path(guid, false, is_member);
            assert!(book.is_lost(guid));
        }
        assert_eq!(book.lost.len(), LOST_MAX);
        assert!((0..=MEMBER).all(|guid| book.is_lost(guid)));
        book.on_path(3, true, is_member);
        book.on_path(3, true, is_member);
        assert!(!book.is_lost(3));
        assert_eq!(book.lost.len(), LOST_MAX - 1);
    }

    fn contact(guid: u64) -> Contact {
        let (rkey, incarnation) = (1, Incarnation::of(guid, 1, 7));
        Contact {
            guid,
            incarnation,
            rkey,
        }
    }

    #[test]
    fn nodes_known_by_hearsay_leave_room_for_those_that_introduce_themselves() {
        let mut group = Group::new(GroupConfig {
            name: Name::new("rack").expect("a name"),
            me: contact(1),
            secret: Secret([1; 16]),
            former: None,
            founders: 0,
            members_max: 8,
            stateless: false,
        });
        let named: Vec<_> = (1000..1000 + KNOWN_MAX as u64)
            .map(|guid| (contact(guid), Terms::default()))
            .collect();
        for _ in 0..2 {
            group.take_known((9, 3), (2, false), KnownContacts::new(&named));
            assert_eq!(group.book.entries().len(), UNSEEN_MAX);
        }
        for guid in 2..2 + (KNOWN_MAX - UNSEEN_MAX) as u64 {
            group.on_contact(contact(guid));
            assert!(group.book.of_node(guid).is_some(), "{guid}");
        }
        group.on_contact(contact(500));
        assert_eq!(group.book.entries().len(), KNOWN_MAX);
    }
}
