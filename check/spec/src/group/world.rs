//! A state: members, their events, envelopes in flight.

use std::{
    collections::VecDeque,
    hash::{Hash, Hasher},
    sync::Arc,
};

use covalent_protocol::{
    Name,
    group::{
        Contact, Contacts, End, Event, Group, GroupConfig, GroupStanding, Incarnation, Members,
        Secret, Ticket, View,
    },
    verb::SEND_BYTES_MAX,
};

use super::{
    mutant::Mutant,
    scenario::{Budget, Scenario},
    sent::{Kind, kind_of},
};
use crate::check::is_same;

/// The events and the multicasts of one member. Everything in its hash affects its further course,
/// or whether an invariant holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Reported {
    /// Views, in their order.
    pub views: Vec<View>,
    /// Messages: the view's number, the sender's incarnation, the message's number and its content.
    pub messages: Vec<(u64, u64, u64, u8)>,
    /// Number of delivered messages when each view began.
    pub begun: Vec<usize>,
    /// It is stopped.
    pub stopped: bool,
    /// It is stopped for good.
    pub excluded: bool,
    /// It left.
    pub left: bool,
    /// Messages that it multicast and that were accepted.
    pub requested: u64,
}

/// A member.
#[derive(Clone, Hash)]
pub struct Side {
    /// The production state machine; `None` once it is dead.
    pub group: Option<Group>,
    /// Its application.
    pub reported: Reported,
}

/// An envelope in flight.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Envelope {
    /// The ticket that notifies its sender.
    pub ticket: Ticket,
    /// Its contents.
    pub bytes: Vec<u8>,
}

/// A state of the search.
#[derive(Clone)]
pub struct World {
    /// By rank in the first view. Shared with the states before and after in which nothing happens
    /// to them.
    pub sides: Vec<Arc<Side>>,
    /// From each member to each other, `members · members`, in the order in which they were sent.
    pub in_flight: Vec<Vec<Arc<Envelope>>>,
    /// The part of each node.
    pub part: Vec<u8>,
    /// The state of the path to each other member, as reported to each member.
    pub reported: Vec<bool>,
    /// Ways that are held for lost and are there.
    pub accused: Vec<bool>,
    /// The faults so far.
    pub spent: Budget,
    /// Which of [`Scenario::multicasts`] happened.
    pub requested: Vec<bool>,
    /// Members that began, or were in the view at the start.
    pub began: Vec<bool>,
    /// Which of [`Scenario::leavers`] were requested to leave.
    pub leaves: Vec<bool>,
    /// Which of [`Scenario::suspicions`] happened.
    pub suspected: Vec<bool>,
    /// Paths in the order in which envelopes were sent on them, if envelopes arrive in that order.
    pub turn: VecDeque<usize>,
    /// By way: the first envelope, if it is held back.
    pub held: Vec<Held>,
    /// The scenario.
    pub scenario: Arc<Scenario>,
    /// Sender and kind of each envelope, while they are recorded.
    pub recorded: Option<Vec<(usize, Kind)>>,
}

/// The first envelope of a way that is held back.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Held {
    /// Nothing is held back on this way any more, or ever.
    #[default]
    Nothing,
    /// It was not sent yet.
    Awaited,
    /// It is in flight.
    Envelope(Arc<Envelope>),
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.sides, &self.in_flight, &self.part).hash(state);
        (&self.reported, &self.accused, self.spent, &self.requested).hash(state);
        (&self.began, &self.leaves, &self.suspected).hash(state);
        (&self.turn, &self.held).hash(state);
    }
}

/// As the search does, which knows a state by its hash alone.
impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        is_same(self, other)
    }
}

/// The key of each queue on its node.
const RKEY: u32 = 1;

/// The GUID of a member's node.
#[must_use]
pub const fn guid(member: usize) -> u64 {
    0xa + member as u64
}

/// Returns the incarnation of a member.
#[must_use]
pub const fn incarnation(member: usize) -> Incarnation {
    Incarnation::of(guid(member), RKEY, 1 + member as u32)
}

/// Returns the secret from which a member derives its tokens.
fn secret(guid: u64) -> Secret {
    Secret([guid as u8; 16])
}

const fn contact(member: usize, incarnation: Incarnation) -> Contact {
    Contact {
        guid: guid(member),
        incarnation,
        rkey: RKEY,
    }
}

/// A member of the view at the start, or one that looks for a group.
fn group(scenario: &Scenario, member: usize) -> Option<Group> {
    let is_in_view = member < scenario.in_view;
    let config = GroupConfig {
        name: Name::new("g").unwrap_or_else(|_| unreachable!()),
        me: contact(member, incarnation(member)),
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
        .map(|member| contact(member, incarnation(member)))
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
                reported: Reported::default(),
            })
        };
        let paths = (0..members * members).map(|path| [path / members, path % members]);
        let held = paths.map(|path| match scenario.is_held(path) {
            true => Held::Awaited,
            false => Held::Nothing,
        });
        let part = scenario.divisions.first().filter(|_| scenario.divided);
        let mut world = Self {
            sides: (0..members).map(side).collect(),
            in_flight: vec![Vec::new(); members * members],
            part: part.cloned().unwrap_or_else(|| vec![0; members]),
            reported: vec![true; members * members],
            accused: vec![false; members * members],
            spent: Budget::default(),
            requested: vec![false; scenario.multicasts.len()],
            began: (0..members)
                .map(|member| member < scenario.in_view)
                .collect(),
            leaves: vec![false; scenario.leavers.len()],
            suspected: vec![false; scenario.suspicions.len()],
            turn: VecDeque::new(),
            held: held.collect(),
            scenario: Arc::new(scenario.clone()),
            recorded: None,
        };
        for member in 0..scenario.in_view {
            world.input(member, |_| {});
        }
        world
    }

    /// Whether a member is alive.
    #[must_use]
    pub fn is_alive(&self, member: usize) -> bool {
        self.sides[member].group.is_some()
    }

    /// Whether a member is alive and in a view.
    #[must_use]
    pub fn is_member(&self, member: usize) -> bool {
        self.is_alive(member) && !self.sides[member].reported.views.is_empty()
    }

    /// Whether a member is alive and its view contains another one.
    #[must_use]
    pub fn is_with(&self, member: usize, other: usize) -> bool {
        let view = self.sides[member].reported.views.last();
        self.is_alive(member) && view.is_some_and(|view| view.rank_of(incarnation(other)).is_some())
    }

    /// Whether there is a way from one to another.
    #[must_use]
    pub fn is_path(&self, from: usize, to: usize) -> bool {
        let there = self.is_alive(to) || self.scenario.members_die_alone();
        there && self.part[from] == self.part[to]
    }

    /// Whether a link layer holds a way for there.
    #[must_use]
    pub fn stands(&self, at: usize, about: usize) -> bool {
        self.is_path(at, about) && !self.accused[at * self.sides.len() + about]
    }

    /// A member receives an input. It then sends all its envelopes and reports all its events.
    pub fn input(&mut self, member: usize, happens: impl FnOnce(&mut Group)) {
        let members = self.sides.len();
        let mutant = self.scenario.mutant;
        let side = Arc::make_mut(&mut self.sides[member]);
        let Some(group) = &mut side.group else { return };
        mutant.input(group, happens);
        // Challenges only cost time, and are not searched.
        group.acquaint(|other| secret(other.guid).token_for(guid(member), 1));
        let mut buffer = [0; SEND_BYTES_MAX];
        let mut sent = Vec::new();
        loop {
            let mut idle = true;
            while let Some(parcel) = group.poll_send(&mut buffer) {
                idle = false;
                let to = (parcel.to.guid - guid(0)) as usize;
                let mut bytes = buffer[..parcel.len].to_vec();
                let ticket = parcel.ticket;
                if mutant.sends(group, ticket, &mut bytes) {
                    sent.push((to, Arc::new(Envelope { ticket, bytes })));
                }
            }
            for (to, envelope) in sent.drain(..) {
                if let Some(recorded) = &mut self.recorded {
                    recorded.push((member, kind_of(&envelope.bytes)));
                }
                let path = member * members + to;
                if self.held[path] == Held::Awaited {
                    self.held[path] = Held::Envelope(envelope);
                    continue;
                }
                if !self.scenario.is_slow([member, to]) {
                    self.turn.push_back(path);
                }
                self.in_flight[path].push(envelope);
            }
            let mut wants = None;
            while let Some(event) = group.poll_event() {
                idle = false;
                side.reported.take(&event);
                if let Event::StateWanted { to } = event {
                    wants = Some(to.incarnation);
                    break;
                }
            }
            if let Some(to) = wants {
                // The joiner may no longer need the state by then.
                let _ = group.send_snapshot(to, &[1], true);
            }
            if idle {
                break;
            }
        }
        mutant.rest(group);
        if self.scenario.members_die_alone() && (side.reported.excluded || side.reported.left) {
            // Its queue is given up.
            side.group = None;
        }
    }

    /// The envelope at position `place` in flight arrives, and its sender is notified.
    pub fn deliver(&mut self, from: usize, to: usize, place: usize) {
        let path = from * self.sides.len() + to;
        let envelope = self.in_flight[path].remove(place);
        if !self.scenario.is_slow([from, to])
            && let Some(at) = self.turn.iter().position(|&next| next == path)
        {
            self.turn.remove(at);
        }
        self.arrive(from, to, &envelope);
    }

    /// The envelope that was held back arrives.
    pub fn release(&mut self, from: usize, to: usize) {
        let path = from * self.sides.len() + to;
        if let Held::Envelope(envelope) = std::mem::take(&mut self.held[path]) {
            self.arrive(from, to, &envelope);
        }
    }

    fn arrive(&mut self, from: usize, to: usize, envelope: &Envelope) {
        if !self.is_alive(to) {
            return self.input(from, |group| group.on_end(envelope.ticket, End::Gone));
        }
        let mutant = self.scenario.mutant;
        let mut bytes = envelope.bytes.clone();
        self.input(to, |group| {
            if mutant.receives(group, &mut bytes) {
                // Errors are counted, and show in the invariants.
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
            self.reported[member * self.sides.len() + about] = up;
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
            .filter(|&other| self.is_alive(other) && self.is_path(member, other))
            .map(|other| contact(other, Incarnation(0)))
            .collect()
    }

    /// A tick of all members.
    pub fn tick(&mut self) {
        for member in 0..self.sides.len() {
            let found = self.found(member);
            let mutant = self.scenario.mutant;
            self.input(member, |group| {
                if group.is_discovering() {
                    found.iter().for_each(|found| group.on_contact(*found));
                }
                if mutant != Mutant::LeftIsSilent || group.standing() != GroupStanding::Left {
                    group.on_tick();
                }
            });
        }
    }

    /// Returns the path whose envelope arrives next, if envelopes arrive in the order in which they
    /// were sent.
    #[must_use]
    pub fn next_path(&self) -> Option<usize> {
        let members = self.sides.len();
        let arrives = |path: &&usize| self.part[*path / members] == self.part[*path % members];
        self.turn.iter().find(arrives).copied()
    }

    /// Delivers all envelopes that are in flight in order.
    pub fn drain(&mut self) {
        while let Some(path) = self.next_path() {
            self.deliver(path / self.sides.len(), path % self.sides.len(), 0);
        }
    }

    /// A link layer reports the state of a path.
    pub fn report_path(&mut self, at: usize, about: usize) {
        let up = self.stands(at, about);
        let place = at * self.sides.len() + about;
        self.reported[place] = up;
        let mutant = self.scenario.mutant;
        self.input(at, |group| {
            if mutant.heeds_path(group, guid(about)) {
                group.on_path(guid(about), up);
            }
        });
    }

    /// A member dies. `mute`: its envelopes in flight are lost.
    pub fn die(&mut self, member: usize, mute: bool) {
        Arc::make_mut(&mut self.sides[member]).group = None;
        let members = self.sides.len();
        if mute {
            for path in member * members..(member + 1) * members {
                self.in_flight[path].clear();
                self.held[path] = Held::Nothing;
            }
            self.turn.retain(|path| path / members != member);
        }
        if self.scenario.members_die_alone() {
            return;
        }
        // Envelopes to it are lost.
        for from in 0..self.sides.len() {
            self.in_flight[from * self.reported.len().isqrt() + member].clear();
        }
    }
}

impl Reported {
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
                self.messages
                    .push((*view, sender.incarnation.0, *sequence, word));
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
