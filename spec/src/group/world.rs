//! A state: members, what they were told, envelopes under way.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use covalent_protocol::{
    Name,
    group::{
        Contact, Contacts, End, Event, Group, GroupConfig, Life, Members, Secret, Ticket, View,
    },
    verb::SEND_BYTES_MAX,
};

use super::{
    mutant::Mutant,
    scenario::{Budget, Scenario},
};

/// What one member was told and asked. What it hashes decides how it goes on, or whether an invariant holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Told {
    /// Views, in their order.
    pub views: Vec<View>,
    /// Messages: the view's number, the sender's life and its number.
    pub messages: Vec<(u64, u64, u64)>,
    /// How many of them had been told when each view began.
    pub begun: Vec<usize>,
    /// It is stopped.
    pub stopped: bool,
    /// It is stopped for good.
    pub excluded: bool,
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
    /// What is built wrong.
    pub mutant: Mutant,
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.sides, &self.under_way, &self.part).hash(state);
        (&self.told, &self.accused, self.spent, &self.asked).hash(state);
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

/// The GUID of a member's node.
#[must_use]
pub const fn guid(member: usize) -> u64 {
    0xa + member as u64
}

/// The stay of a member.
#[must_use]
pub const fn life(member: usize) -> Life {
    Life(1 + member as u64)
}

/// What a member's tokens are drawn from.
fn secret(guid: u64) -> Secret {
    Secret([guid as u8; 16])
}

fn group(scenario: &Scenario, member: usize) -> Option<Group> {
    let members: Contacts = (0..scenario.members)
        .map(|member| Contact {
            guid: guid(member),
            life: life(member),
            rkey: 1,
        })
        .collect();
    let config = GroupConfig {
        name: Name::new("g").unwrap_or_else(|_| unreachable!()),
        me: members[member],
        secret: secret(guid(member)),
        former: None,
        founders: 0,
        members_max: scenario.members as u8,
        stateless: false,
    };
    let view = View {
        group: 7,
        number: 1,
        members,
        voters: Members::first(scenario.members),
    };
    Group::with_view(config, view)
}

impl World {
    /// The start of a scenario.
    #[must_use]
    pub fn new(scenario: &Scenario) -> Self {
        let members = scenario.members;
        let side = |member| {
            Arc::new(Side {
                group: group(scenario, member),
                told: Told::default(),
            })
        };
        let mut world = Self {
            sides: (0..members).map(side).collect(),
            under_way: vec![Vec::new(); members * members],
            part: vec![0; members],
            told: vec![true; members * members],
            accused: vec![false; members * members],
            spent: Budget::default(),
            asked: vec![false; scenario.asks.len()],
            mutant: scenario.mutant,
        };
        for member in 0..members {
            world.input(member, |_| {});
        }
        world
    }

    /// Whether a member lives.
    #[must_use]
    pub fn lives(&self, member: usize) -> bool {
        self.sides[member].group.is_some()
    }

    /// Whether there is a way from one to another.
    #[must_use]
    pub fn is_way(&self, from: usize, to: usize) -> bool {
        self.lives(to) && self.part[from] == self.part[to]
    }

    /// Whether a link layer holds a way for there.
    #[must_use]
    pub fn stands(&self, at: usize, about: usize) -> bool {
        self.is_way(at, about) && !self.accused[at * self.sides.len() + about]
    }

    /// Something happens to a member; it says all that it has to say, and tells all that it has to tell.
    pub fn input(&mut self, member: usize, happens: impl FnOnce(&mut Group)) {
        let side = Arc::make_mut(&mut self.sides[member]);
        let Some(group) = &mut side.group else { return };
        self.mutant.input(group, happens);
        // Challenges only cost time, and are not searched.
        group.acquaint(|other| secret(other.guid).token_for(guid(member), 1));
        let mut buffer = [0; SEND_BYTES_MAX];
        loop {
            let mut idle = true;
            while let Some(parcel) = group.poll_send(&mut buffer) {
                idle = false;
                let to = (parcel.to.guid - guid(0)) as usize;
                let bytes = buffer[..parcel.len].to_vec();
                let ticket = parcel.ticket;
                let envelope = Arc::new(Envelope { ticket, bytes });
                self.under_way[member * self.told.len().isqrt() + to].push(envelope);
            }
            while let Some(event) = group.poll_event() {
                idle = false;
                side.told.take(&event);
            }
            if idle {
                return self.mutant.rest(group);
            }
        }
    }

    /// The envelope at a place under way arrives, and its sender hears that it did.
    pub fn deliver(&mut self, from: usize, to: usize, place: usize) {
        let envelope = self.under_way[from * self.sides.len() + to].remove(place);
        self.input(to, |group| {
            // What is wrong with it is counted, and shows in what must hold.
            let _ = group.on_envelope(guid(from), &envelope.bytes);
        });
        self.input(from, |group| group.on_end(envelope.ticket, End::Done));
    }

    /// A link layer says what stands.
    pub fn tell(&mut self, at: usize, about: usize) {
        let up = self.stands(at, about);
        let place = at * self.sides.len() + about;
        self.told[place] = up;
        self.input(at, |group| group.on_path(guid(about), up));
    }

    /// A member dies with its node.
    pub fn die(&mut self, member: usize) {
        Arc::make_mut(&mut self.sides[member]).group = None;
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
                ..
            } => self.messages.push((*view, sender.life.0, *sequence)),
            Event::Stopped { why, .. } => {
                self.stopped = true;
                self.excluded = !matches!(why, covalent_protocol::group::Stop::Minority { .. });
            }
            _ => {}
        }
    }

    /// The messages of a view.
    pub fn of_view(&self, number: u64) -> impl Iterator<Item = &(u64, u64, u64)> {
        self.messages
            .iter()
            .filter(move |(view, ..)| *view == number)
    }
}
