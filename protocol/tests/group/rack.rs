//! Members in one thread, and the verbs between them led by hand.

use std::collections::{BTreeMap, BTreeSet};

use covalent_protocol::{
    Name,
    group::{
        Contact, End, Event, Group, GroupConfig, GroupStanding, Incarnation, Members,
        MulticastError, Secret, Ticket, View,
        row::Frontier,
        wire::{Body, Envelope, Head, KnownContacts},
    },
    verb::SEND_BYTES_MAX,
};
use proptest::sample::Index;

/// An envelope that was posted and has not ended.
#[derive(Debug, Clone)]
pub struct Posted {
    pub from: usize,
    pub to: usize,
    pub bytes: Vec<u8>,
    pub ticket: Ticket,
    /// Key of the queue that it goes to.
    rkey: u32,
    /// The number of the sender's incarnation.
    incarnation_number: usize,
}

/// An event of an application, as the tests compare it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    View(Box<View>),
    Delivered {
        sender: Incarnation,
        sequence: u64,
        view: u64,
        position: u64,
        data: Vec<u8>,
    },
    Stable(u64, u64),
    /// Bytes, whether they are the last ones, and own messages in them.
    State(Vec<u8>, bool, u64),
    Other(String),
}

/// The start of a message that contains its own number.
const NUMBERED: u64 = 0x7265_626d_756e_2023;

/// Distance between the queue keys of two successive incarnations.
pub const NEXT_RKEY: u32 = 0x100;

/// Group and view, position, sender and sequence of a message.
type Place = ((u64, u64), u64, (Incarnation, u64));
/// The state of an application: the number of deliveries and a hash.
pub type State = (u64, u64);

/// The members of one group and the events of their applications.
#[derive(Debug, Clone)]
pub struct Rack {
    pub groups: Vec<Group>,
    pub reports: Vec<Vec<Report>>,
    pub in_flight: Vec<Posted>,
    pub dead: Vec<bool>,
    /// Pairs without a path.
    pub cuts: BTreeSet<(usize, usize)>,
    /// Each member's knowledge of the paths.
    seen_up: Vec<Vec<bool>>,
    /// All are members from the first view on.
    fixed: bool,
    /// Where each one is reached now.
    contacts: Vec<Contact>,
    /// Incarnations that are over.
    past: Vec<(Contact, Vec<Report>)>,
    pub states: Vec<State>,
    /// The state after a message.
    after: BTreeMap<Place, State>,
    gives: Vec<Vec<(Incarnation, Vec<u8>)>>,
    comes: Vec<Vec<u8>>,
    in_group: Vec<u64>,
    /// Only the test provides the state to members that request it.
    pub gives_by_hand: bool,
}

/// The contact of the member that is the `index`th of a rack.
pub fn contact(index: usize) -> Contact {
    let (guid, rkey) = (0x100 + index as u64, 7 + index as u32);
    Contact {
        guid,
        incarnation: Incarnation::of(guid, rkey, 0x1000 + index as u32),
        rkey,
    }
}

/// The secret from which the tokens of an incarnation are derived.
pub fn secret(contact: Contact) -> Secret {
    let [incarnation, rkey] =
        [contact.incarnation.0, u64::from(contact.rkey)].map(u64::to_le_bytes);
    Secret([incarnation, rkey].concat().try_into().unwrap())
}

pub fn config(index: usize, members_max: u8) -> GroupConfig {
    GroupConfig {
        name: Name::new("rack").unwrap(),
        me: contact(index),
        secret: secret(contact(index)),
        former: None,
        founders: 0,
        members_max,
        stateless: false,
    }
}

impl Rack {
    /// `n` members of one view, all voters.
    pub fn of(n: usize) -> Self {
        let view = View {
            group: 99,
            number: 1,
            members: (0..n).map(contact).collect(),
            voters: Members::first(n),
        };
        let member = |index| Group::with_view(config(index, n.max(2) as u8), view).unwrap();
        let mut rack = Self::with((0..n).map(member).collect(), true);
        rack.challenge();
        rack
    }

    /// `n` members that search, of which `founders` are enough to found.
    pub fn founding(n: usize, founders: u8) -> Self {
        let seeker = |index| {
            Group::new(GroupConfig {
                founders,
                ..config(index, n.max(2) as u8)
            })
        };
        Self::with((0..n).map(seeker).collect(), false)
    }

    /// All members obtain each other's tokens, and send nothing else.
    fn challenge(&mut self) {
        self.collect_posted();
        while !self.in_flight.is_empty() {
            self.deliver_all();
            self.collect_posted();
        }
    }

    fn with(groups: Vec<Group>, fixed: bool) -> Self {
        let n = groups.len();
        Self {
            groups,
            reports: vec![Vec::new(); n],
            in_flight: Vec::new(),
            dead: vec![false; n],
            cuts: BTreeSet::new(),
            seen_up: vec![vec![true; n]; n],
            fixed,
            contacts: (0..n).map(contact).collect(),
            past: Vec::new(),
            states: vec![(0, 0); n],
            after: BTreeMap::new(),
            gives: vec![Vec::new(); n],
            comes: vec![Vec::new(); n],
            in_group: vec![0; n],
            gives_by_hand: false,
        }
    }

    /// Collects the outgoing envelopes of all members.
    pub fn collect_posted(&mut self) {
        for from in 0..self.groups.len() {
            self.collect_posted_from(from);
        }
    }

    pub fn collect_posted_from(&mut self, from: usize) {
        if self.dead[from] {
            return;
        }
        let mut buffer = [0; SEND_BYTES_MAX];
        loop {
            let news = self.groups[from].has_news();
            let parcel = self.groups[from].poll_send(&mut buffer);
            assert_eq!(news, parcel.is_some(), "has_news agrees with poll_send");
            let Some(parcel) = parcel else { break };
            let to = (parcel.to.guid - 0x100) as usize;
            self.in_flight.push(Posted {
                from,
                to,
                bytes: buffer[..parcel.len].to_vec(),
                ticket: parcel.ticket,
                rkey: parcel.to.rkey,
                incarnation_number: self.incarnation_number(from),
            });
        }
    }

    /// The envelope at `at` reaches its queue and is taken. A stopped member has no queue.
    pub fn deliver(&mut self, at: usize) {
        let posted = self.in_flight.remove(at);
        let end = self.reach(&posted);
        self.end(&posted, end);
    }

    /// The number of a member's incarnation.
    fn incarnation_number(&self, index: usize) -> usize {
        (self.incarnation(index).0 as u32 >> 16) as usize
    }

    fn reach(&mut self, posted: &Posted) -> End {
        let to = posted.to;
        // As the library keeps the queue of an incarnation.
        let over = match self.groups[to].standing() {
            GroupStanding::Stopped => !self.groups[to].has_news(),
            GroupStanding::Left => self.reports[to].contains(&Report::Other("Left".to_owned())),
            _ => false,
        };
        if self.dead[to] || over || self.contacts[to].rkey != posted.rkey {
            return End::Gone;
        }
        let result = self.groups[to].on_envelope(contact(posted.from).guid, &posted.bytes);
        assert!(
            !self.fixed || result.is_ok(),
            "{result:?}, {} to {to}",
            posted.from
        );
        End::Done
    }

    fn end(&mut self, posted: &Posted, end: End) {
        if posted.incarnation_number == self.incarnation_number(posted.from) {
            self.groups[posted.from].on_end(posted.ticket, end);
        }
    }

    /// Delivers everything in flight: half a round trip.
    pub fn deliver_all(&mut self) {
        let mut kept = Vec::new();
        for posted in core::mem::take(&mut self.in_flight) {
            if self.is_cut(posted.from, posted.to) {
                kept.push(posted);
            } else {
                self.in_flight.push(posted);
                self.deliver(0);
            }
        }
        self.in_flight = kept;
    }

    /// Takes the events of one application.
    pub fn take_events(&mut self, index: usize) {
        if self.dead[index] {
            return;
        }
        while let Some(event) = self.groups[index].poll_event() {
            let reports = match event {
                Event::View(view) => {
                    self.in_group[index] = view.group;
                    Report::View(Box::new(*view))
                }
                Event::StateWanted { to } if !self.gives_by_hand => {
                    let (count, hash) = self.states[index];
                    let bytes = [count.to_le_bytes(), hash.to_le_bytes()].concat();
                    self.gives[index].retain(|(before, _)| *before != to.incarnation);
                    self.gives[index].push((to.incarnation, bytes));
                    Report::Other("StateWanted".into())
                }
                Event::State {
                    data,
                    last,
                    delivered_to,
                } => {
                    self.comes[index].extend(data);
                    let came = &self.comes[index];
                    if let (true, Some(count), Some(hash)) =
                        (last, came.first_chunk(), came.last_chunk())
                        && came.len() == 16
                    {
                        self.states[index] =
                            (u64::from_le_bytes(*count), u64::from_le_bytes(*hash));
                    }
                    Report::State(data.to_vec(), last, delivered_to)
                }
                Event::StateVoid => {
                    self.comes[index].clear();
                    Report::Other("StateVoid".into())
                }
                Event::Delivered {
                    sender,
                    sequence,
                    view,
                    position,
                    data,
                } => {
                    if let Some(rest) = data.strip_prefix(&NUMBERED.to_le_bytes()) {
                        assert_eq!(
                            rest[..8],
                            sequence.to_le_bytes(),
                            "of {sender:?} at {index}"
                        );
                    }
                    let (count, hash) = self.states[index];
                    let hash = data.iter().fold(hash ^ sender.incarnation.0, |hash, byte| {
                        hash.wrapping_mul(31).wrapping_add(u64::from(*byte))
                    });
                    self.states[index] = (count + 1, hash);
                    if !self.gives_by_hand {
                        let place = (
                            (self.in_group[index], view),
                            position,
                            (sender.incarnation, sequence),
                        );
                        let after = self.after.entry(place).or_insert((count + 1, hash));
                        assert_eq!(*after, (count + 1, hash), "the state at {index}");
                    }
                    Report::Delivered {
                        sender: sender.incarnation,
                        sequence,
                        view,
                        position,
                        data: data.to_vec(),
                    }
                }
                Event::Stable { view, position } => Report::Stable(view, position),
                other => Report::Other(format!("{other:?}")),
            };
            self.reports[index].push(reports);
        }
        self.give(index);
    }

    /// Provides the state to members that request it, eight bytes at a time, as far as there is
    /// space.
    fn give(&mut self, index: usize) {
        let group = &mut self.groups[index];
        self.gives[index].retain_mut(|(to, bytes)| {
            loop {
                let piece = bytes.len().min(8);
                let last = bytes.is_empty();
                match group.send_snapshot(*to, &bytes[..piece], last) {
                    Ok(()) if last => return false,
                    Ok(()) => drop(bytes.drain(..piece)),
                    Err(error) => return error == MulticastError::Full,
                }
            }
        });
    }

    /// Starts a new incarnation of a member, with a queue of its own.
    pub fn restart(&mut self, index: usize, former: Option<Incarnation>) {
        let n = self.groups.len() as u8;
        self.restart_with(index, former, 0, n.max(2));
    }

    pub fn restart_with(
        &mut self,
        index: usize,
        former: Option<Incarnation>,
        founders: u8,
        members_max: u8,
    ) {
        let before = self.contacts[index];
        let random = before.incarnation.0 as u32 + (1 << 16);
        let incarnation = Incarnation::of(before.guid, before.rkey + NEXT_RKEY, random);
        self.restart_as(index, incarnation, |config| GroupConfig {
            former,
            founders,
            members_max,
            ..config
        });
    }

    /// Starts a new incarnation of a member that claims to be `incarnation`.
    pub fn restart_as(
        &mut self,
        index: usize,
        incarnation: Incarnation,
        adjust: impl FnOnce(GroupConfig) -> GroupConfig,
    ) {
        let before = self.contacts[index];
        let me = Contact {
            incarnation,
            rkey: before.rkey + NEXT_RKEY,
            ..before
        };
        self.past
            .push((before, core::mem::take(&mut self.reports[index])));
        let n = self.groups.len() as u8;
        self.groups[index] = Group::new(adjust(GroupConfig {
            me,
            secret: secret(me),
            ..config(index, n.max(2))
        }));
        self.contacts[index] = me;
        self.dead[index] = false;
        self.seen_up[index].fill(true);
        self.states[index] = (0, 0);
        self.gives[index].clear();
        self.comes[index].clear();
    }

    /// One member finds the queue of another one by its name, without knowledge of its incarnation.
    pub fn meet(&mut self, one: usize, other: usize) {
        let incarnation = Incarnation(0);
        let found = Contact {
            incarnation,
            ..self.contacts[other]
        };
        self.groups[one].on_contact(found);
    }

    /// All members find each other.
    pub fn introduce(&mut self) {
        let all: Vec<usize> = (0..self.groups.len()).collect();
        self.introduce_some(&all);
    }

    pub fn introduce_some(&mut self, some: &[usize]) {
        for &one in some {
            for &other in some.iter().filter(|&&other| other != one) {
                self.meet(one, other);
            }
        }
    }

    /// A `known` envelope of the incarnation `sender` to the member `to`, which reports whether
    /// `to` was excluded.
    pub fn known_of(&self, sender: Contact, to: usize, excluded: bool) -> Vec<u8> {
        let view = self.groups[to].view().unwrap();
        let head = Head {
            from: None,
            number: None,
            group: view.group,
            view: view.number,
            incarnation: sender.incarnation,
            rkey: sender.rkey,
            token: secret(self.contacts[to]).token_for(sender.guid, sender.rkey),
            grant: secret(sender).token_for(contact(to).guid, self.contacts[to].rkey),
            taken: 0,
            members: 0,
            decided: false,
            frontier: Frontier::default(),
        };
        let body = Body::Known {
            members: 0,
            excluded,
            contacts: KnownContacts::new(&[]),
        };
        let mut buffer = [0; SEND_BYTES_MAX];
        let len = Envelope { head, body }.encode(&mut buffer);
        buffer[..len].to_vec()
    }

    /// Runs until nothing is in flight and no member has anything to send. Returns the number of
    /// envelopes.
    pub fn rest(&mut self) -> usize {
        let mut envelopes = 0;
        for _ in 0..5_000 {
            for index in 0..self.groups.len() {
                self.take_events(index);
            }
            self.collect_posted();
            let open = self.deliverable().len();
            if open == 0 {
                return envelopes;
            }
            envelopes += open;
            self.deliver_all();
        }
        panic!("they never become quiescent");
    }

    /// Multicasts the number that the message will have, if there is space. The delivery compares
    /// it.
    pub fn multicast(&mut self, index: usize) -> bool {
        let number = self.groups[index].counters().multicasts + 1;
        let data = [
            NUMBERED.to_le_bytes(),
            number.to_le_bytes(),
            [0; 8],
            [index as u8; 8],
        ]
        .concat();
        self.groups[index].multicast(&data).is_ok()
    }

    pub fn contact(&self, index: usize) -> Contact {
        self.contacts[index]
    }

    pub fn incarnation(&self, index: usize) -> Incarnation {
        self.contacts[index].incarnation
    }

    /// The deliveries to an application: senders, sequences, bytes.
    pub fn delivered(&self, index: usize) -> Vec<(Incarnation, u64, Vec<u8>)> {
        let of = |reports: &Report| match reports {
            Report::Delivered {
                sender,
                sequence,
                data,
                ..
            } => Some((*sender, *sequence, data.clone())),
            _ => None,
        };
        self.reports[index].iter().filter_map(of).collect()
    }
}

impl Rack {
    /// A member stops. Its posted envelopes may still arrive.
    pub fn kill(&mut self, index: usize) {
        self.dead[index] = true;
    }

    /// The path between two members breaks, or returns. Each one sees it in [`Rack::notice`].
    pub fn cut(&mut self, one: usize, other: usize) {
        self.cuts.insert((one.min(other), one.max(other)));
    }

    pub fn mend(&mut self, one: usize, other: usize) {
        self.cuts.remove(&(one.min(other), one.max(other)));
    }

    fn is_cut(&self, one: usize, other: usize) -> bool {
        self.cuts.contains(&(one.min(other), one.max(other)))
    }

    /// Reports the state of its paths to a member.
    pub fn notice(&mut self, index: usize) {
        for other in (0..self.groups.len()).filter(|&other| other != index) {
            let up = !self.is_cut(index, other);
            if self.seen_up[index][other] != up {
                self.seen_up[index][other] = up;
                self.groups[index].on_path(contact(other).guid, up);
            }
        }
    }

    /// Places of the envelopes that can arrive.
    pub fn deliverable(&self) -> Vec<usize> {
        let open = |at: &usize| !self.is_cut(self.in_flight[*at].from, self.in_flight[*at].to);
        (0..self.in_flight.len()).filter(open).collect()
    }

    /// Some envelopes arrive, one after the other, each drawn of those that can.
    pub fn arrive(&mut self, which: &[Index]) {
        self.collect_posted();
        for at in which {
            let open = self.deliverable();
            if !open.is_empty() {
                self.deliver(open[at.index(open.len())]);
            }
        }
    }

    /// One of the deliverable envelopes arrives, and its sender gets an unclear outcome.
    pub fn arrive_unclear(&mut self, which: Index) {
        self.collect_posted();
        let open = self.deliverable();
        if !open.is_empty() {
            let posted = self.in_flight.remove(open[which.index(open.len())]);
            self.reach(&posted);
            self.end(&posted, End::Unclear);
        }
    }

    /// Until all that follows has happened, ticks and all.
    pub fn settle(&mut self) {
        for _ in 0..40 {
            self.rest();
            for index in 0..self.groups.len() {
                if !self.dead[index] {
                    self.groups[index].on_tick();
                }
            }
        }
        self.rest();
    }

    /// The views that an application received.
    pub fn views(&self, index: usize) -> Vec<View> {
        let view = |reports: &Report| match reports {
            Report::View(view) => Some(**view),
            _ => None,
        };
        self.reports[index].iter().filter_map(view).collect()
    }

    /// Checks what must never happen: two views with one number, two orders, a duplicate message,
    /// and a delivered message that is missing at a remaining member.
    pub fn assert_sound(&self) {
        let mut views: BTreeMap<(u64, u64), View> = BTreeMap::new();
        let mut longest: BTreeMap<(u64, u64), Vec<&Report>> = BTreeMap::new();
        let mut all: Vec<BTreeMap<(u64, u64), Vec<&Report>>> = Vec::new();
        let now = self.contacts.iter().copied().zip(&self.reports);
        let ended = self
            .past
            .iter()
            .map(|(contact, reports)| (*contact, reports));
        for (index, (contact, reports)) in now.chain(ended).enumerate() {
            let mut of_view: BTreeMap<(u64, u64), Vec<&Report>> = BTreeMap::new();
            let mut last = 0;
            let mut group = 0;
            let mut sequences: BTreeMap<Incarnation, u64> = BTreeMap::new();
            let mut has_state = false;
            let mut without = BTreeSet::new();
            for event in reports {
                match event {
                    Report::View(view) => {
                        assert!(view.number > last, "views go on at {index}");
                        (group, last) = (view.group, view.number);
                        assert!(view.rank_of(contact.incarnation).is_some());
                        let first = views.entry((group, last)).or_insert(**view);
                        assert_eq!(first, &**view, "one view of each number");
                        of_view.entry((group, last)).or_default();
                        has_state |= view
                            .voters
                            .contains(view.rank_of(contact.incarnation).unwrap());
                        if !has_state {
                            without.insert((group, last));
                        }
                    }
                    Report::Other(event) if event == "StateVoid" => {
                        has_state = false;
                        without.insert((group, last));
                    }
                    Report::State(_, true, _) => {
                        has_state = true;
                        without.remove(&(group, last));
                    }
                    Report::Delivered {
                        sender,
                        sequence,
                        view,
                        ..
                    } => {
                        assert_eq!(*view, last, "in the reported view, at {index}");
                        if let Some(before) = sequences.insert(*sender, *sequence) {
                            assert_eq!(*sequence, before + 1, "of {sender:?} at {index}");
                        } else {
                            assert!(*sequence == 1 || !self.fixed, "the first one of {sender:?}");
                        }
                        of_view.entry((group, last)).or_default().push(event);
                    }
                    _ => {}
                }
            }
            for (view, delivered) in &of_view {
                let longest = longest.entry(*view).or_default();
                let shared = delivered.len().min(longest.len());
                assert_eq!(delivered[..shared], longest[..shared], "one order, {index}");
                if delivered.len() > longest.len() {
                    longest.clone_from(delivered);
                }
            }
            // A member without state in a view skipped the deliveries of that view.
            of_view.retain(|view, _| !without.contains(view));
            all.push(of_view);
        }
        for (index, of_view) in all.iter().enumerate() {
            for (view, delivered) in of_view {
                if of_view.contains_key(&(view.0, view.1 + 1)) {
                    assert_eq!(
                        delivered.len(),
                        longest[view].len(),
                        "a continuing member has all messages of view {view:?}: {index}"
                    );
                }
            }
        }
    }

    /// With all paths up and no work left, the members that can continue do so, together and with
    /// all messages that they sent.
    pub fn assert_converged(&self) {
        let n = self.groups.len();
        let alive = |index: &usize| !self.dead[*index];
        let number = |index: &usize| self.groups[*index].view().map_or(0, |view| view.number);
        let Some(latest) = (0..n).filter(alive).max_by_key(number) else {
            return;
        };
        let Some(view) = self.groups[latest].view().copied() else {
            return;
        };
        let still = |index: &usize| {
            alive(index)
                && !matches!(
                    self.groups[*index].standing(),
                    GroupStanding::Stopped | GroupStanding::Left
                )
        };
        let members: Vec<usize> = (0..n)
            .filter(still)
            .filter(|&index| view.rank_of(self.incarnation(index)).is_some())
            .collect();
        let here = members
            .iter()
            .filter_map(|&index| view.rank_of(self.incarnation(index)))
            .fold(Members::NONE, Members::with);
        if !here.is_quorum_of(view.voters) {
            return;
        }
        for &index in &members {
            let group = &self.groups[index];
            assert_eq!(group.standing(), GroupStanding::Member, "{index}");
            assert_eq!(group.view(), Some(&view), "{index}");
            assert_eq!(group.pending_bytes(), 0, "all is sent, {index}");
        }
        assert_eq!(here, view.all_members(), "no dead member is in it");
        for index in (0..n).filter(alive) {
            assert_ne!(
                self.groups[index].standing(),
                GroupStanding::Searching,
                "{index}"
            );
        }
        let last = |index: &usize| {
            let of_view = |reports: &&Report| {
                matches!(
                    reports,
                    Report::Delivered { view: of, .. } if *of == view.number,
                )
            };
            self.reports[*index].iter().filter(of_view).count()
        };
        for index in &members {
            assert_eq!(last(index), last(&members[0]), "all is delivered to all");
        }
        for &index in &members {
            let incarnation = self.incarnation(index);
            let has_state = view
                .rank_of(incarnation)
                .is_some_and(|rank| view.voters.contains(rank));
            let own = |reports: &Report| match reports {
                Report::Delivered {
                    sender, sequence, ..
                } if *sender == incarnation => Some(*sequence),
                Report::State(_, _, own) => Some(*own),
                _ => None,
            };
            let last = self.reports[index]
                .iter()
                .filter_map(own)
                .max()
                .unwrap_or(0);
            let multicasts_made = self.groups[index].counters().multicasts;
            assert!(
                !has_state || last >= multicasts_made,
                "{index} receives {last} of its {multicasts_made}"
            );
        }
    }
}
