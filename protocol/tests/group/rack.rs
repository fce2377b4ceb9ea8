//! Members in one thread, and the verbs between them led by hand.

use std::collections::{BTreeMap, BTreeSet};

use covalent_protocol::{
    Name,
    group::{
        Contact, End, Event, Group, GroupConfig, GroupStanding, Life, Members, MulticastError,
        Secret, Ticket, View,
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
    /// Which stay of the sender said it.
    stay: usize,
}

/// What an application was told, as the tests compare it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    View(Box<View>),
    Delivered {
        sender: Life,
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

/// Begins a message that tells its own number.
const NUMBERED: u64 = 0x7265_626d_756e_2023;

/// From the key of a stay's queue to that of the next one's.
pub const NEXT_RKEY: u32 = 0x100;

/// Group and view, position, sender and sequence of a message.
type Place = ((u64, u64), u64, (Life, u64));
/// What an application makes of the deliveries: their number and a hash.
pub type State = (u64, u64);

/// Members of one group and what their applications were told.
#[derive(Debug, Clone)]
pub struct Rack {
    pub groups: Vec<Group>,
    pub told: Vec<Vec<Told>>,
    pub under_way: Vec<Posted>,
    pub dead: Vec<bool>,
    /// Pairs without a path.
    pub cuts: BTreeSet<(usize, usize)>,
    /// What each one knows of that.
    seen_up: Vec<Vec<bool>>,
    /// All are members from the first view on.
    fixed: bool,
    /// Where each one is reached now.
    contacts: Vec<Contact>,
    /// Stays that are over.
    past: Vec<(Contact, Vec<Told>)>,
    pub states: Vec<State>,
    /// The state after a message.
    after: BTreeMap<Place, State>,
    gives: Vec<Vec<(Life, Vec<u8>)>>,
    comes: Vec<Vec<u8>>,
    in_group: Vec<u64>,
    /// Who wants the state gets it from the test alone.
    pub gives_by_hand: bool,
}

/// The contact of the member that is the `index`th of a rack.
pub fn contact(index: usize) -> Contact {
    let (guid, rkey) = (0x100 + index as u64, 7 + index as u32);
    Contact {
        guid,
        life: Life::of(guid, rkey, 0x1000 + index as u32),
        rkey,
    }
}

/// What a stay's tokens are drawn from.
pub fn secret(contact: Contact) -> Secret {
    let [life, rkey] = [contact.life.0, u64::from(contact.rkey)].map(u64::to_le_bytes);
    Secret([life, rkey].concat().try_into().unwrap())
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

    /// `n` that seek, of which `founders` are enough to found.
    pub fn founding(n: usize, founders: u8) -> Self {
        let seeker = |index| {
            Group::new(GroupConfig {
                founders,
                ..config(index, n.max(2) as u8)
            })
        };
        Self::with((0..n).map(seeker).collect(), false)
    }

    /// All learn what they are to show to each other, and say nothing else.
    fn challenge(&mut self) {
        self.gather();
        while !self.under_way.is_empty() {
            self.deliver_all();
            self.gather();
        }
    }

    fn with(groups: Vec<Group>, fixed: bool) -> Self {
        let n = groups.len();
        Self {
            groups,
            told: vec![Vec::new(); n],
            under_way: Vec::new(),
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

    /// Takes what all members have to say.
    pub fn gather(&mut self) {
        for from in 0..self.groups.len() {
            self.gather_of(from);
        }
    }

    pub fn gather_of(&mut self, from: usize) {
        if self.dead[from] {
            return;
        }
        let mut buffer = [0; SEND_BYTES_MAX];
        loop {
            let news = self.groups[from].has_news();
            let parcel = self.groups[from].poll_send(&mut buffer);
            assert_eq!(news, parcel.is_some(), "has_news tells what poll_send does");
            let Some(parcel) = parcel else { break };
            let to = (parcel.to.guid - 0x100) as usize;
            self.under_way.push(Posted {
                from,
                to,
                bytes: buffer[..parcel.len].to_vec(),
                ticket: parcel.ticket,
                rkey: parcel.to.rkey,
                stay: self.stay(from),
            });
        }
    }

    /// The envelope at `at` reaches its queue, and is taken; of one who is dead there is none.
    pub fn deliver(&mut self, at: usize) {
        let posted = self.under_way.remove(at);
        let end = self.reach(&posted);
        self.end(&posted, end);
    }

    /// Which stay of a member this is.
    fn stay(&self, index: usize) -> usize {
        (self.life(index).0 as u32 >> 16) as usize
    }

    fn reach(&mut self, posted: &Posted) -> End {
        let to = posted.to;
        // As the library keeps a stay's queue.
        let over = match self.groups[to].standing() {
            GroupStanding::Stopped => !self.groups[to].has_news(),
            GroupStanding::Left => self.told[to].contains(&Told::Other("Left".to_owned())),
            _ => false,
        };
        if self.dead[to] || over || self.contacts[to].rkey != posted.rkey {
            return End::Gone;
        }
        let heard = self.groups[to].on_envelope(contact(posted.from).guid, &posted.bytes);
        assert!(
            !self.fixed || heard.is_ok(),
            "{heard:?}, {} to {to}",
            posted.from
        );
        End::Done
    }

    fn end(&mut self, posted: &Posted, end: End) {
        if posted.stay == self.stay(posted.from) {
            self.groups[posted.from].on_end(posted.ticket, end);
        }
    }

    /// All that is under way arrives: half a round trip.
    pub fn deliver_all(&mut self) {
        let mut kept = Vec::new();
        for posted in core::mem::take(&mut self.under_way) {
            if self.is_cut(posted.from, posted.to) {
                kept.push(posted);
            } else {
                self.under_way.push(posted);
                self.deliver(0);
            }
        }
        self.under_way = kept;
    }

    /// Takes the events of one application.
    pub fn take_events(&mut self, index: usize) {
        if self.dead[index] {
            return;
        }
        while let Some(event) = self.groups[index].poll_event() {
            let told = match event {
                Event::View(view) => {
                    self.in_group[index] = view.group;
                    Told::View(Box::new(*view))
                }
                Event::StateWanted { to } if !self.gives_by_hand => {
                    let (count, hash) = self.states[index];
                    let bytes = [count.to_le_bytes(), hash.to_le_bytes()].concat();
                    self.gives[index].retain(|(before, _)| *before != to.life);
                    self.gives[index].push((to.life, bytes));
                    Told::Other("StateWanted".into())
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
                    Told::State(data.to_vec(), last, delivered_to)
                }
                Event::StateVoid => {
                    self.comes[index].clear();
                    Told::Other("StateVoid".into())
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
                    let hash = data.iter().fold(hash ^ sender.life.0, |hash, byte| {
                        hash.wrapping_mul(31).wrapping_add(u64::from(*byte))
                    });
                    self.states[index] = (count + 1, hash);
                    if !self.gives_by_hand {
                        let place = (
                            (self.in_group[index], view),
                            position,
                            (sender.life, sequence),
                        );
                        let after = self.after.entry(place).or_insert((count + 1, hash));
                        assert_eq!(*after, (count + 1, hash), "the state at {index}");
                    }
                    Told::Delivered {
                        sender: sender.life,
                        sequence,
                        view,
                        position,
                        data: data.to_vec(),
                    }
                }
                Event::Stable { view, position } => Told::Stable(view, position),
                other => Told::Other(format!("{other:?}")),
            };
            self.told[index].push(told);
        }
        self.give(index);
    }

    /// Gives state to who wants it, eight bytes at a time, as far as there is room.
    fn give(&mut self, index: usize) {
        let group = &mut self.groups[index];
        self.gives[index].retain_mut(|(to, bytes)| {
            loop {
                let piece = bytes.len().min(8);
                let last = bytes.is_empty();
                match group.give_state(*to, &bytes[..piece], last) {
                    Ok(()) if last => return false,
                    Ok(()) => drop(bytes.drain(..piece)),
                    Err(error) => return error == MulticastError::Full,
                }
            }
        });
    }

    /// Begins a new stay of a member, with a queue of its own.
    pub fn restart(&mut self, index: usize, former: Option<Life>) {
        let n = self.groups.len() as u8;
        self.restart_with(index, former, 0, n.max(2));
    }

    pub fn restart_with(
        &mut self,
        index: usize,
        former: Option<Life>,
        founders: u8,
        members_max: u8,
    ) {
        let before = self.contacts[index];
        let random = before.life.0 as u32 + (1 << 16);
        let life = Life::of(before.guid, before.rkey + NEXT_RKEY, random);
        self.restart_as(index, life, |config| GroupConfig {
            former,
            founders,
            members_max,
            ..config
        });
    }

    /// Begins a new stay of a member that claims to be `life`.
    pub fn restart_as(
        &mut self,
        index: usize,
        life: Life,
        adjust: impl FnOnce(GroupConfig) -> GroupConfig,
    ) {
        let before = self.contacts[index];
        let me = Contact {
            life,
            rkey: before.rkey + NEXT_RKEY,
            ..before
        };
        self.past
            .push((before, core::mem::take(&mut self.told[index])));
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

    /// One finds the queue of another one by its name, and knows no life yet.
    pub fn meet(&mut self, one: usize, other: usize) {
        let life = Life(0);
        let found = Contact {
            life,
            ..self.contacts[other]
        };
        self.groups[one].on_contact(found);
    }

    /// Everybody finds everybody.
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

    /// A `known` of the stay `sender` to the member `to`, by which that one was excluded or not.
    pub fn known_of(&self, sender: Contact, to: usize, excluded: bool) -> Vec<u8> {
        let view = self.groups[to].view().unwrap();
        let head = Head {
            from: None,
            number: None,
            group: view.group,
            view: view.number,
            life: sender.life,
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

    /// Until nothing is under way and nobody has anything to say. Returns how many envelopes that took.
    pub fn rest(&mut self) -> usize {
        let mut envelopes = 0;
        for _ in 0..5_000 {
            for index in 0..self.groups.len() {
                self.take_events(index);
            }
            self.gather();
            let open = self.deliverable().len();
            if open == 0 {
                return envelopes;
            }
            envelopes += open;
            self.deliver_all();
        }
        panic!("they never come to rest");
    }

    /// Multicasts the number that the message will have, if there is room. It is compared when it is delivered.
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

    pub fn life(&self, index: usize) -> Life {
        self.contacts[index].life
    }

    /// What was delivered to an application: senders, sequences, bytes.
    pub fn delivered(&self, index: usize) -> Vec<(Life, u64, Vec<u8>)> {
        let of = |told: &Told| match told {
            Told::Delivered {
                sender,
                sequence,
                data,
                ..
            } => Some((*sender, *sequence, data.clone())),
            _ => None,
        };
        self.told[index].iter().filter_map(of).collect()
    }
}

impl Rack {
    /// A member dies. What it has posted may still arrive.
    pub fn kill(&mut self, index: usize) {
        self.dead[index] = true;
    }

    /// The path between two members breaks, or comes back; each one sees it when it [`Rack::notice`]s.
    pub fn cut(&mut self, one: usize, other: usize) {
        self.cuts.insert((one.min(other), one.max(other)));
    }

    pub fn mend(&mut self, one: usize, other: usize) {
        self.cuts.remove(&(one.min(other), one.max(other)));
    }

    fn is_cut(&self, one: usize, other: usize) -> bool {
        self.cuts.contains(&(one.min(other), one.max(other)))
    }

    /// A member is told how its paths are.
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
        let open = |at: &usize| !self.is_cut(self.under_way[*at].from, self.under_way[*at].to);
        (0..self.under_way.len()).filter(open).collect()
    }

    /// Some envelopes arrive, one after the other, each drawn of those that can.
    pub fn arrive(&mut self, which: &[Index]) {
        self.gather();
        for at in which {
            let open = self.deliverable();
            if !open.is_empty() {
                self.deliver(open[at.index(open.len())]);
            }
        }
    }

    /// One of the envelopes that can arrives, and its sender is told that nobody knows.
    pub fn arrive_unclear(&mut self, which: Index) {
        self.gather();
        let open = self.deliverable();
        if !open.is_empty() {
            let posted = self.under_way.remove(open[which.index(open.len())]);
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

    /// Views that an application was told of.
    pub fn views(&self, index: usize) -> Vec<View> {
        let view = |told: &Told| match told {
            Told::View(view) => Some(**view),
            _ => None,
        };
        self.told[index].iter().filter_map(view).collect()
    }

    /// What nobody may ever see: two views of one number, two orders, a message twice, and one that was delivered and did not stay with all.
    pub fn assert_sound(&self) {
        let mut views: BTreeMap<(u64, u64), View> = BTreeMap::new();
        let mut longest: BTreeMap<(u64, u64), Vec<&Told>> = BTreeMap::new();
        let mut all: Vec<BTreeMap<(u64, u64), Vec<&Told>>> = Vec::new();
        let now = self.contacts.iter().copied().zip(&self.told);
        let stays = self.past.iter().map(|(contact, told)| (*contact, told));
        for (index, (contact, told)) in now.chain(stays).enumerate() {
            let mut of_view: BTreeMap<(u64, u64), Vec<&Told>> = BTreeMap::new();
            let mut last = 0;
            let mut group = 0;
            let mut sequences: BTreeMap<Life, u64> = BTreeMap::new();
            let mut has_state = false;
            let mut without = BTreeSet::new();
            for event in told {
                match event {
                    Told::View(view) => {
                        assert!(view.number > last, "views go on at {index}");
                        (group, last) = (view.group, view.number);
                        assert!(view.rank_of(contact.life).is_some());
                        let first = views.entry((group, last)).or_insert(**view);
                        assert_eq!(first, &**view, "one view of each number");
                        of_view.entry((group, last)).or_default();
                        has_state |= view.voters.contains(view.rank_of(contact.life).unwrap());
                        if !has_state {
                            without.insert((group, last));
                        }
                    }
                    Told::Other(event) if event == "StateVoid" => {
                        has_state = false;
                        without.insert((group, last));
                    }
                    Told::State(_, true, _) => {
                        has_state = true;
                        without.remove(&(group, last));
                    }
                    Told::Delivered {
                        sender,
                        sequence,
                        view,
                        ..
                    } => {
                        assert_eq!(*view, last, "in the view that was told, at {index}");
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
            // Who had no state in a view passed over what was delivered in it.
            of_view.retain(|view, _| !without.contains(view));
            all.push(of_view);
        }
        for (index, of_view) in all.iter().enumerate() {
            for (view, delivered) in of_view {
                if of_view.contains_key(&(view.0, view.1 + 1)) {
                    assert_eq!(
                        delivered.len(),
                        longest[view].len(),
                        "who goes on has all that anybody had of view {view:?}: {index}"
                    );
                }
            }
        }
    }

    /// With all paths there and nothing to do: who can go on does, together and with all that it has said.
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
            .filter(|&index| view.rank_of(self.life(index)).is_some())
            .collect();
        let here = members
            .iter()
            .filter_map(|&index| view.rank_of(self.life(index)))
            .fold(Members::NONE, Members::with);
        if !here.is_quorum_of(view.voters) {
            return;
        }
        for &index in &members {
            let group = &self.groups[index];
            assert_eq!(group.standing(), GroupStanding::Member, "{index}");
            assert_eq!(group.view(), Some(&view), "{index}");
            assert_eq!(group.pending_bytes(), 0, "all is said, {index}");
        }
        assert_eq!(here, view.everybody(), "nobody is in it who is dead");
        for index in (0..n).filter(alive) {
            assert_ne!(
                self.groups[index].standing(),
                GroupStanding::Seeking,
                "{index}"
            );
        }
        let last = |index: &usize| {
            let of_view = |told: &&Told| matches!(told, Told::Delivered { view: of, .. } if *of == view.number);
            self.told[*index].iter().filter(of_view).count()
        };
        for index in &members {
            assert_eq!(last(index), last(&members[0]), "all is delivered to all");
        }
        for &index in &members {
            let life = self.life(index);
            let has_state = view
                .rank_of(life)
                .is_some_and(|rank| view.voters.contains(rank));
            let own = |told: &Told| match told {
                Told::Delivered {
                    sender, sequence, ..
                } if *sender == life => Some(*sequence),
                Told::State(_, _, own) => Some(*own),
                _ => None,
            };
            let last = self.told[index].iter().filter_map(own).max().unwrap_or(0);
            let asked = self.groups[index].counters().multicasts;
            assert!(
                !has_state || last >= asked,
                "{index} hears of {last} of its {asked}"
            );
        }
    }
}
