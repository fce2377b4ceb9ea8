//! A state: members, what they were told, envelopes under way.

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use covalent_protocol::{
    Name,
    group::{
        Contact, Contacts, End, Event, Group, GroupConfig, GroupStanding, Life, Members, Secret,
        Ticket, View,
    },
    verb::SEND_BYTES_MAX,
};

use super::{
    mutant::Mutant,
    said::{Kind, kind_of},
    scenario::{Budget, Scenario},
};

/// What one member was told and asked. What it hashes decides how it goes on, or whether an invariant holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Told {
    /// Views, in their order.
    pub views: Vec<View>,
    /// Messages: the view's number, the sender's life, its number and what it says.
    pub messages: Vec<(u64, u64, u64, u8)>,
    /// How many of them had been told when each view began.
    pub begun: Vec<usize>,
    /// It is stopped.
    pub stopped: bool,
    /// It is stopped for good.
    pub excluded: bool,
    /// It left.
    pub left: bool,
    /// Messages that it asked for and that were taken.
    pub asked: u64,
}

/// A member.
#[derive(Clone, Hash)]
pub struct Side {
    /// The production machine; none once it is dead.
    pub group: Option<Group>,
    /// Its application.
    pub told: Told,
}

/// An envelope under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Envelope {
    /// What its sender is told with.
    pub ticket: Ticket,
    /// What it says.
    pub bytes: Vec<u8>,
}

/// A state of the search.
#[derive(Clone)]
pub struct World {
    /// By rank in the first view. Shared with the states before and after in which nothing happens to them.
    pub sides: Vec<Arc<Side>>,
    /// From each to each other, `members · members`, in the order in which they were said.
    pub under_way: Vec<Vec<Arc<Envelope>>>,
    /// The part of each node.
    pub part: Vec<u8>,
    /// What each was told of the way to each other.
    pub told: Vec<bool>,
    /// Ways that are held for lost and are there.
    pub accused: Vec<bool>,
    /// What went wrong so far.
    pub spent: Budget,
    /// Who of [`Scenario::asks`] asked.
    pub asked: Vec<bool>,
    /// Who began, or was in the view at the start.
    pub began: Vec<bool>,
    /// Who of [`Scenario::leavers`] was asked to leave.
    pub leaves: Vec<bool>,
    /// Which of [`Scenario::suspicions`] were said.
    pub suspected: Vec<bool>,
    /// Ways, in the order in which envelopes were said on them, where that is the order in which they arrive.
    pub turn: VecDeque<usize>,
    /// By way: the first envelope, if it is held back.
    pub held: Vec<Held>,
    /// What is checked.
    pub scenario: Arc<Scenario>,
    /// Kinds of what is said, by whom, while somebody listens.
    pub heard: Option<Vec<(usize, Kind)>>,
}

/// The first envelope of a way that is held back.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Held {
    /// Nothing is held back on this way any more, or ever.
    #[default]
    Nothing,
    /// It was not said yet.
    Awaited,
    /// It is under way.
    Envelope(Arc<Envelope>),
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.sides, &self.under_way, &self.part).hash(state);
        (&self.told, &self.accused, self.spent, &self.asked).hash(state);
        (&self.began, &self.leaves, &self.suspected).hash(state);
        (&self.turn, &self.held).hash(state);
    }
}

/// As the search does, which knows a state by its hash alone.
impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        let digest = |world: &Self| {
            let mut hasher = DefaultHasher::new();
            world.hash(&mut hasher);
            hasher.finish()
        };
        digest(self) == digest(other)
    }
}

/// The key of each queue on its node.
const RKEY: u32 = 1;

/// The GUID of a member's node.
#[must_use]
pub const fn guid(member: usize) -> u64 {
    0xa + member as u64
}

/// The stay of a member.
#[must_use]
pub const fn life(member: usize) -> Life {
    Life::of(guid(member), RKEY, 1 + member as u32)
}

/// What a member's tokens are drawn from.
fn secret(guid: u64) -> Secret {
    Secret([guid as u8; 16])
}

const fn contact(member: usize, life: Life) -> Contact {
    Contact {
        guid: guid(member),
        life,
        rkey: RKEY,
    }
}

/// A member of the view at the start, or one that looks for a group.
fn group(scenario: &Scenario, member: usize) -> Option<Group> {
    let is_in_view = member < scenario.in_view;
    let config = GroupConfig {
        name: Name::new("g").unwrap_or_else(|_| unreachable!()),
        me: contact(member, life(member)),
        secret: secret(guid(member)),
        former: None,
        founders: if is_in_view { 0 } else { scenario.founders },
        members_max: scenario.members as u8,
        stateless: scenario.stateless,
    };
    if !is_in_view {
        return Some(Group::new(config));
    }
    let others = scenario.in_view - scenario.in_other;
    let (group, members) = if member < others {
        (7, 0..others)
    } else {
        (8, others..scenario.in_view)
    };
    let members: Contacts = members
        .map(|member| contact(member, life(member)))
        .collect();
    let view = View {
        group,
        number: 1,
        members,
        voters: Members::first(members.len()),
    };
    Group::with_view(config, view)
}

impl World {
    /// The start of a scenario.
    #[must_use]
    pub fn new(scenario: &Scenario) -> Self {
        let members = scenario.members;
        let side = |member| {
            let begins = member < scenario.in_view;
            Arc::new(Side {
                group: group(scenario, member).filter(|_| begins),
                told: Told::default(),
            })
        };
        let ways = (0..members * members).map(|way| [way / members, way % members]);
        let held = ways.map(|way| match scenario.is_held(way) {
            true => Held::Awaited,
            false => Held::Nothing,
        });
        let part = scenario.divisions.first().filter(|_| scenario.divided);
        let mut world = Self {
            sides: (0..members).map(side).collect(),
            under_way: vec![Vec::new(); members * members],
            part: part.cloned().unwrap_or_else(|| vec![0; members]),
            told: vec![true; members * members],
            accused: vec![false; members * members],
            spent: Budget::default(),
            asked: vec![false; scenario.asks.len()],
            began: (0..members)
                .map(|member| member < scenario.in_view)
                .collect(),
            leaves: vec![false; scenario.leavers.len()],
            suspected: vec![false; scenario.suspicions.len()],
            turn: VecDeque::new(),
            held: held.collect(),
            scenario: Arc::new(scenario.clone()),
            heard: None,
        };
        for member in 0..scenario.in_view {
            world.input(member, |_| {});
        }
        world
    }

    /// Whether a member lives.
    #[must_use]
    pub fn lives(&self, member: usize) -> bool {
        self.sides[member].group.is_some()
    }

    /// Whether a member lives and is in a view.
    #[must_use]
    pub fn is_member(&self, member: usize) -> bool {
        self.lives(member) && !self.sides[member].told.views.is_empty()
    }

    /// Whether a member lives and the view that it is in has another one.
    #[must_use]
    pub fn is_with(&self, member: usize, other: usize) -> bool {
        let view = self.sides[member].told.views.last();
        self.lives(member) && view.is_some_and(|view| view.rank_of(life(other)).is_some())
    }

    /// Whether there is a way from one to another.
    #[must_use]
    pub fn is_way(&self, from: usize, to: usize) -> bool {
        let there = self.lives(to) || self.scenario.members_die_alone();
        there && self.part[from] == self.part[to]
    }

    /// Whether a link layer holds a way for there.
    #[must_use]
    pub fn stands(&self, at: usize, about: usize) -> bool {
        self.is_way(at, about) && !self.accused[at * self.sides.len() + about]
    }

    /// Something happens to a member; it says all that it has to say, and tells all that it has to tell.
    pub fn input(&mut self, member: usize, happens: impl FnOnce(&mut Group)) {
        let members = self.sides.len();
        let mutant = self.scenario.mutant;
        let side = Arc::make_mut(&mut self.sides[member]);
        let Some(group) = &mut side.group else { return };
        mutant.input(group, happens);
        // Challenges only cost time, and are not searched.
        group.acquaint(|other| secret(other.guid).token_for(guid(member), 1));
        let mut buffer = [0; SEND_BYTES_MAX];
        let mut said = Vec::new();
        loop {
            let mut idle = true;
            while let Some(parcel) = group.poll_send(&mut buffer) {
                idle = false;
                let to = (parcel.to.guid - guid(0)) as usize;
                let mut bytes = buffer[..parcel.len].to_vec();
                let ticket = parcel.ticket;
                if mutant.says(group, ticket, &mut bytes) {
                    said.push((to, Arc::new(Envelope { ticket, bytes })));
                }
            }
            for (to, envelope) in said.drain(..) {
                if let Some(heard) = &mut self.heard {
                    heard.push((member, kind_of(&envelope.bytes)));
                }
                let way = member * members + to;
                if self.held[way] == Held::Awaited {
                    self.held[way] = Held::Envelope(envelope);
                    continue;
                }
                if !self.scenario.is_slow([member, to]) {
                    self.turn.push_back(way);
                }
                self.under_way[way].push(envelope);
            }
            let mut wants = None;
            while let Some(event) = group.poll_event() {
                idle = false;
                side.told.take(&event);
                if let Event::StateWanted { to } = event {
                    wants = Some(to.life);
                    break;
                }
            }
            if let Some(to) = wants {
                // It may be wanted no more by the time that it is given.
                let _ = group.give_state(to, &[1], true);
            }
            if idle {
                break;
            }
        }
        mutant.rest(group);
        if self.scenario.members_die_alone() && (side.told.excluded || side.told.left) {
            // Its queue is given up.
            side.group = None;
        }
    }

    /// The envelope at a place under way arrives, and its sender hears that it did.
    pub fn deliver(&mut self, from: usize, to: usize, place: usize) {
        let way = from * self.sides.len() + to;
        let envelope = self.under_way[way].remove(place);
        if !self.scenario.is_slow([from, to])
            && let Some(at) = self.turn.iter().position(|&next| next == way)
        {
            self.turn.remove(at);
        }
        self.arrive(from, to, &envelope);
    }

    /// The envelope that was held back arrives.
    pub fn release(&mut self, from: usize, to: usize) {
        let way = from * self.sides.len() + to;
        if let Held::Envelope(envelope) = std::mem::take(&mut self.held[way]) {
            self.arrive(from, to, &envelope);
        }
    }

    fn arrive(&mut self, from: usize, to: usize, envelope: &Envelope) {
        if !self.lives(to) {
            return self.input(from, |group| group.on_end(envelope.ticket, End::Gone));
        }
        let mutant = self.scenario.mutant;
        let mut bytes = envelope.bytes.clone();
        self.input(to, |group| {
            if mutant.hears(group, &mut bytes) {
                // What is wrong with it is counted, and shows in what must hold.
                let _ = group.on_envelope(guid(from), &bytes);
            }
        });
        self.input(from, |group| group.on_end(envelope.ticket, End::Done));
    }

    /// A member that was in no view at the start begins, and looks for others.
    pub fn begin(&mut self, member: usize) {
        self.began[member] = true;
        let group = group(&self.scenario, member);
        Arc::make_mut(&mut self.sides[member]).group = group;
        for about in (0..self.sides.len()).filter(|&about| about != member) {
            let up = self.stands(member, about);
            self.told[member * self.sides.len() + about] = up;
            if !up {
                self.input(member, |group| group.on_path(guid(about), false));
            }
        }
        let found = self.found(member);
        self.input(member, |group| {
            found.iter().for_each(|found| group.on_contact(*found));
        });
    }

    /// Queues under the group's name that a member finds if it looks.
    fn found(&self, member: usize) -> Vec<Contact> {
        let others = (0..self.sides.len()).filter(|&other| other != member);
        others
            .filter(|&other| self.lives(other) && self.is_way(member, other))
            .map(|other| contact(other, Life(0)))
            .collect()
    }

    /// A tick of everybody.
    pub fn tick(&mut self) {
        for member in 0..self.sides.len() {
            let found = self.found(member);
            let mutant = self.scenario.mutant;
            self.input(member, |group| {
                if group.looks() {
                    found.iter().for_each(|found| group.on_contact(*found));
                }
                if mutant != Mutant::LeftIsSilent || group.standing() != GroupStanding::Left {
                    group.on_tick();
                }
            });
        }
    }

    /// The way whose envelope arrives next, where they arrive in the order in which they were said.
    #[must_use]
    pub fn next_way(&self) -> Option<usize> {
        let members = self.sides.len();
        let arrives = |way: &&usize| self.part[*way / members] == self.part[*way % members];
        self.turn.iter().find(arrives).copied()
    }

    /// Everything that is under way in order arrives.
    pub fn drain(&mut self) {
        while let Some(way) = self.next_way() {
            self.deliver(way / self.sides.len(), way % self.sides.len(), 0);
        }
    }

    /// A link layer says what stands.
    pub fn tell(&mut self, at: usize, about: usize) {
        let up = self.stands(at, about);
        let place = at * self.sides.len() + about;
        self.told[place] = up;
        let mutant = self.scenario.mutant;
        self.input(at, |group| {
            if mutant.heeds_path(group, guid(about)) {
                group.on_path(guid(about), up);
            }
        });
    }

    /// A member dies. `mute`: what it said and has not arrived is lost.
    pub fn die(&mut self, member: usize, mute: bool) {
        Arc::make_mut(&mut self.sides[member]).group = None;
        let members = self.sides.len();
        if mute {
            for way in member * members..(member + 1) * members {
                self.under_way[way].clear();
                self.held[way] = Held::Nothing;
            }
            self.turn.retain(|way| way / members != member);
        }
        if self.scenario.members_die_alone() {
            return;
        }
        // Nobody takes what is said to it.
        for from in 0..self.sides.len() {
            self.under_way[from * self.told.len().isqrt() + member].clear();
        }
    }
}

impl Told {
    fn take(&mut self, event: &Event<'_>) {
        match event {
            Event::View(view) => {
                self.views.push(**view);
                self.begun.push(self.messages.len());
                self.stopped = false;
            }
            Event::Delivered {
                sender,
                sequence,
                view,
                data,
                ..
            } => {
                let word = data.first().copied().unwrap_or(0);
                self.messages.push((*view, sender.life.0, *sequence, word));
            }
            Event::Left => self.left = true,
            Event::Stopped { why, .. } => {
                self.stopped = true;
                self.excluded = !matches!(why, covalent_protocol::group::Stop::Minority { .. });
            }
            _ => {}
        }
    }

    /// The messages of a view.
    pub fn of_view(&self, number: u64) -> impl Iterator<Item = &(u64, u64, u64, u8)> {
        self.messages
            .iter()
            .filter(move |(view, ..)| *view == number)
    }
}
