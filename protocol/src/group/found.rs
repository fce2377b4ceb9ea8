//! Who is there under the group's name: gossip, founding, asking to join.
//!
//! Whoever is known gets a `hello`; a `hello` is answered by `known`, which names who else is known, members first. So knowledge passes from
//! node to node. A hello to a member asks to be taken in, or, from a member that lost its quorum, whether others went on without it. Who knows enough founders begins the view that founds and tells it to them, so that each
//! of them founds who knows one that knows all.

use alloc::vec::Vec;

use super::{
    End, Group, GroupStanding, Phase, Stop,
    contact::{Contact, Contacts, Life, MEMBERS_MAX, Members, View},
    pair::Pair,
    token::Token,
    wire::{BadEnvelope, FATE_UNKNOWN, JOINERS_MAX, KNOWN_MAX, KnownContacts, Terms},
};

/// Whom this member knows under the group's name, itself and the members of its view left out: one for each node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Book {
    entries: Vec<Entry>,
    /// Nodes to which no path leads, in their order, also such as nobody is known on: a link layer
    /// says it once, whoever comes there later.
    lost: Vec<u64>,
}

/// Nodes without a path that are remembered: there is room for those of all who are known and of all
/// members, and as many again of members who went.
const LOST_MAX: usize = KNOWN_MAX + 2 * MEMBERS_MAX;

/// Most who have not shown yet that they are there, of whom others are believed that they are: who
/// names nodes that do not exist leaves room for those that make themselves known.
const UNSEEN_MAX: usize = KNOWN_MAX / 2;

/// Somebody under the group's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Where. The life is 0 until it is known.
    pub contact: Contact,
    /// As it says; as others say.
    pub terms: Terms,
    /// Members with which it founds, if it has said so itself.
    pub founders: Option<u8>,
    /// Others say that it is in a group.
    pub is_member: bool,
    /// It asked to be taken in.
    pub asks: bool,
    /// What is shown to it. Without a token it is sent nothing but a challenge.
    pub token: Token,
    challenge: Turn,
    hello: Turn,
    answer: Turn,
    /// Something said to it has not ended.
    under_way: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
enum Turn {
    #[default]
    Said,
    Due,
    /// At the next tick.
    Later,
}

/// What a stranger is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToStranger {
    Challenge,
    Hello,
    Known,
}

impl Entry {
    /// Somebody of whom nothing else is known.
    fn new(contact: Contact) -> Self {
        Self {
            contact,
            terms: Terms::default(),
            founders: None,
            is_member: false,
            asks: false,
            token: Token::NONE,
            challenge: Turn::Due,
            hello: Turn::Due,
            answer: Turn::Said,
            under_way: false,
        }
    }

    /// Whether it is of this stay. The life of a queue that was found by its name is not known.
    pub fn is_of(&self, contact: &Contact) -> bool {
        let life = self.contact.life;
        self.contact.rkey == contact.rkey && (life == contact.life || life == Life(0))
    }
}

impl Book {
    /// One with room for all that it may hold.
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

    /// A path to a node came or went. Of members, whom `is_member` tells, it is never forgotten.
    pub fn on_path(&mut self, guid: u64, up: bool, is_member: impl Fn(u64) -> bool) {
        match self.lost.binary_search(&guid) {
            Ok(at) if up => {
                self.lost.remove(at);
            }
            Err(_) if !up => {
                if self.lost.len() == LOST_MAX {
                    // Of more than there is room for, those go on which nobody is known.
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

    /// All who are in it.
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

    /// The one on this contact's node, and whether it is new. `None` if there is no room.
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

    /// As [`Book::learn`], of somebody whom another one names.
    fn learn_named(&mut self, contact: Contact) -> Option<(&mut Entry, bool)> {
        let unseen = self.entries.iter().filter(|entry| entry.token.is_none());
        let has_room = unseen.count() < UNSEEN_MAX;
        let is_known = self.of_node(contact.guid).is_some();
        (is_known || has_room)
            .then(|| self.learn(contact))
            .flatten()
    }

    /// Puts in who was in the group, and what is shown to it.
    pub fn remember(&mut self, contact: Contact, token: Token, terms: Terms) {
        if let Some((entry, _)) = self.learn(contact) {
            (entry.contact, entry.token, entry.terms) = (contact, token, terms);
            (entry.asks, entry.founders) = (false, None);
        }
    }

    /// Takes out who is in the group now.
    pub fn forget(&mut self, contact: &Contact) {
        self.entries.retain(|entry| {
            entry.contact.guid != contact.guid || entry.contact.life != contact.life
        });
    }

    /// A tick: what was not answered is said again, if somebody still seeks.
    pub fn on_tick(&mut self, seeks: bool) {
        for entry in &mut self.entries {
            if seeks || entry.hello == Turn::Later {
                entry.hello = Turn::Due;
            }
            if entry.answer == Turn::Later {
                entry.answer = Turn::Due;
            }
            entry.challenge = Turn::Due;
        }
    }

    /// Who is told something next.
    pub fn next(&self, seeks: bool) -> Option<(Contact, Token, ToStranger)> {
        let free = |entry: &&Entry| !self.is_lost(entry.contact.guid) && !entry.under_way;
        self.entries.iter().filter(free).find_map(|entry| {
            let said = if entry.answer == Turn::Due && entry.contact.life != Life(0) {
                ToStranger::Known
            } else if seeks && entry.hello == Turn::Due {
                ToStranger::Hello
            } else {
                return None;
            };
            match (entry.token.is_none(), entry.challenge) {
                (false, _) => Some((entry.contact, entry.token, said)),
                (true, Turn::Due) => Some((entry.contact, Token::NONE, ToStranger::Challenge)),
                (true, _) => None,
            }
        })
    }

    /// Somebody is told something.
    pub fn say(&mut self, guid: u64, said: ToStranger) {
        if let Some(entry) = self.of_node(guid) {
            entry.under_way = true;
            match said {
                ToStranger::Challenge => entry.challenge = Turn::Said,
                ToStranger::Hello => entry.hello = Turn::Said,
                ToStranger::Known => entry.answer = Turn::Said,
            }
        }
    }

    /// Stores the token that a sender granted, whose identity is proven.
    pub fn note_token(&mut self, sender: Contact, token: Token) {
        if let Some(entry) = self.of_node(sender.guid)
            && entry.is_of(&sender)
        {
            (entry.contact.life, entry.token) = (sender.life, token);
        }
    }

    /// What somebody was told ended.
    pub fn on_end(&mut self, guid: u64, life: Life, end: End) {
        let Some(entry) = self.of_node(guid) else {
            return;
        };
        entry.under_way = false;
        match end {
            End::Done => {}
            End::NotExecuted | End::Unclear => {
                entry.hello = Turn::Later;
                if entry.founders.is_some() {
                    entry.answer = Turn::Later;
                }
            }
            End::Gone if entry.contact.life == life => {
                self.entries.retain(|entry| entry.contact.guid != guid);
            }
            End::Gone => {}
        }
    }
}

impl Group {
    /// Somebody under the group's name was found: its queue's key on a node, with life 0 if that is not known. It gets to know of this one.
    /// One with the life of another queue is ignored.
    pub fn on_contact(&mut self, contact: Contact) {
        if contact.life != Life(0) && !contact.owns_life() {
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
        self.view.rank_of(contact.life).is_some()
    }

    /// Whether a queue is that of a member of the view, whose life is not told with it.
    fn is_mate(&self, contact: Contact) -> bool {
        let is_it = |member: &Contact| (member.guid, member.rkey) == (contact.guid, contact.rkey);
        self.view.number > 0 && self.view.members.iter().any(is_it)
    }

    /// Whether it looks for others under the group's name: it has no group, or is in a view that lost its quorum. The others
    /// may have gone on without it, for so long that nobody is left there who knows it: then it learns of that only by
    /// asking. Those whom it reaches need not be asked: they report a decision, and if they are a quorum they know it.
    /// The driver reports queues under the name meanwhile: [`Group::on_contact`].
    #[must_use]
    pub fn looks(&self) -> bool {
        self.seeks() || (self.standing() == GroupStanding::Minority && !self.reaches_who_decides())
    }

    /// Whether it looks for a group: it has none, or one that is still to be founded.
    pub(super) const fn seeks(&self) -> bool {
        match self.phase {
            Phase::Seeking => true,
            Phase::Flowing | Phase::Wedged | Phase::Ending => self.view.number == 0,
            Phase::Stopped | Phase::Left => false,
        }
    }

    /// Somebody makes itself known.
    ///
    /// `lost`: it is in a view of its own, which lost its quorum, and asks whether the others went on. It is not to be taken in under that life.
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
            // A founder that begins anew does not found under its old life. The old queue is asked, because
            // another application of the node may have sent this hello.
            let before =
                |pair: &&mut Pair| pair.rank.is_some() && pair.contact.guid == contact.guid;
            if let Some(pair) = self.pairs.iter_mut().find(before) {
                pair.ball_is_due = true;
            }
        }
        let excluded = self.is_excluded(contact.life);
        let fits = terms == self.config.terms() && !excluded && !lost;
        let looks = self.looks();
        let Some((entry, _)) = self.book.learn(contact) else {
            return;
        };
        if entry.contact != contact {
            // The node itself says so: what was there before is not any more.
            entry.contact = contact;
            entry.under_way = false;
            if looks {
                entry.hello = Turn::Due;
            }
        }
        entry.token = token;
        entry.terms = terms;
        entry.founders = (!lost).then_some(founders);
        entry.is_member = false;
        entry.asks = in_view && fits;
        entry.answer = Turn::Due;
        self.settle();
    }

    /// Somebody says whom it knows.
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
            .any(|(one, _)| one.life == me.life);
        let other = members > 0 && group != self.view.group;
        if excluded && (self.phase == Phase::Seeking || !other) {
            self.stop(Stop::Excluded);
            return;
        }
        if self.phase == Phase::Seeking {
            for (at, (contact, terms)) in contacts.iter().enumerate() {
                if contact.guid == me.guid {
                    continue;
                }
                let Some((entry, is_new)) = self.book.learn_named(contact) else {
                    continue;
                };
                if is_new || (entry.contact.life == Life(0) && entry.is_of(&contact)) {
                    (entry.contact, entry.terms) = (contact, terms);
                }
                if entry.contact.life == contact.life {
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

    /// A life that is no member says something as if it were one: it is told whom it talks to.
    pub(super) fn answer_stranger(&mut self, sender: Contact) {
        if let Some(entry) = self.book.of_node(sender.guid)
            && entry.is_of(&sender)
        {
            // The queue was found by its name, and this is the first word from there.
            entry.contact.life = sender.life;
            entry.answer = Turn::Due;
        }
    }

    pub(super) fn is_excluded(&self, life: Life) -> bool {
        self.fates.iter().any(|(fate, _)| *fate == life)
    }

    /// Begins the view that founds, once enough are known who would: of more, those on the lowest GUIDs.
    pub(super) fn try_to_found(&mut self) -> bool {
        let founders = self.config.founders;
        if self.phase != Phase::Seeking || founders == 0 {
            return false;
        }
        let terms = self.config.terms();
        // All are sorted before any is left out: two founders that know the same ones choose the same.
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
            let is_taken = members.iter().any(|member| member.life == one.life);
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

    /// Contacts that asked and can be taken into a view in which `taken` stay.
    pub(super) fn joiners(&self, staying: &[Contact]) -> Contacts<JOINERS_MAX> {
        let room = usize::from(self.config.members_max).saturating_sub(staying.len());
        let mut joiners = [Contact::default(); JOINERS_MAX];
        let mut count = 0;
        let asks = self
            .book
            .entries()
            .iter()
            .filter(|entry| entry.asks && !self.book.is_lost(entry.contact.guid));
        for entry in asks {
            // A life is that of one member, whoever claims it as well.
            let Contact { guid, life, .. } = entry.contact;
            let is_taken = |one: &Contact| one.guid == guid || one.life == life;
            let mut others = staying.iter().chain(&joiners[..count]);
            if !others.any(is_taken) && count < room.min(JOINERS_MAX) {
                joiners[count] = entry.contact;
                count += 1;
            }
        }
        joiners[..count].sort_unstable_by_key(|contact| contact.guid);
        joiners[..count].iter().copied().collect()
    }

    /// Writes whom this member knows into `room`: the members of its view first, and how many these are; then itself if it is in none.
    pub(super) fn list_known(&self, room: &mut [(Contact, Terms); KNOWN_MAX]) -> (usize, u8) {
        let terms = self.config.terms();
        let in_view = self.view.number > 0;
        let members: &[Contact] = if in_view {
            &self.view.members
        } else {
            core::slice::from_ref(&self.config.me)
        };
        let others = self.book.entries().iter();
        let others = others.filter(|entry| entry.contact.life != Life(0));
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

/// Names a group: its name and who founded it. Lives are random numbers, so any mixing will do; this is FNV-1a.
fn id_of(name: &str, members: &[Contact]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let mut hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| mix(hash, &byte));
    for member in members {
        for word in [member.guid, member.life.0, u64::from(member.rkey)] {
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
        fates: impl Iterator<Item = (Life, u64)>,
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
        self.fates.clear();
        self.fates.extend(fates);
        let former = self.config.former;
        let fate = self.fates.iter().find(|(life, _)| Some(*life) == former);
        let known = fate.filter(|(_, delivered)| *delivered != FATE_UNKNOWN);
        self.notices.fate = known.map(|(_, delivered)| *delivered);
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
        let (rkey, life) = (1, Life::of(guid, 1, 7));
        Contact { guid, life, rkey }
    }

    #[test]
    fn nodes_that_somebody_names_leave_room_for_those_that_make_themselves_known() {
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
