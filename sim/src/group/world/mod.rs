//! Members, nodes and what may happen to them.
//!
//! | file | what |
//! |---|---|
//! | here | what there is, and time |
//! | `turn` | an application's turn: what it hears, says and is told |
//! | `way` | envelopes under way, and what the link layer says of paths |
//! | `deeds` | what is done to the world |
//! | `lead` | what a driver does that leads a world by the hand |
//! | `stranger` | an application that is no member, and forges what members say |
//! | `rest` | the faults stop and everything comes to its end |

mod deeds;
mod lead;
mod rest;
mod stranger;
mod turn;
mod way;

use std::{collections::VecDeque, rc::Rc};

use covalent_protocol::{
    Name,
    group::{Contact, Contacts, End, Group, GroupConfig, Life, Members, Ticket, View},
    verb::SEND_BYTES_MAX,
};
use fastrand::Rng;

use self::stranger::Overheard;
use super::{
    application::Application,
    book::{Book, StayId},
    fact::Fact,
    graph::Graph,
    lens::Lens,
    net::{Net, node_of},
    options::{Fault, Options},
    plan::{HOP_UNITS, Plan},
    report::{Failure, Report},
    said::Said,
    schedule::Schedule,
    witness::{Entry, Witness},
};
use crate::{node_guid, shape::BadShape};

/// The group of all worlds that begin with a view.
const GROUP: u64 = 0x67;
/// Round trips within which all come who found a group.
const FOUND_ROUND_TRIPS: u64 = 8;

/// Members and nodes.
pub struct World {
    plan: Plan,
    options: Options,
    rng: Rng,
    graph: Graph,
    schedule: Schedule<Event>,
    /// All stays, in the order of [`Book::stays`].
    members: Vec<Member>,
    /// The application that runs on each node.
    at_node: Vec<Option<StayId>>,
    net: Net,
    lens: Lens,
    /// What each node's link layer said last of the way to each other, `nodes · nodes` of it.
    told: Vec<bool>,
    /// Paths that one end holds for lost.
    lies: Vec<bool>,
    witness: Witness,
    /// Turns of all applications so far.
    turns: u64,
    /// Nobody asks any more.
    silent: bool,
    /// When an application died last, in units.
    died_at: u64,
    /// What is to be repaired when the world was calm.
    later: Vec<Repair>,
    buffer: Box<[u8; SEND_BYTES_MAX]>,
    /// Stays challenge each other. Without a stranger they know all tokens, and a seed is the world that
    /// it was before there were any.
    challenged: bool,
    overheard: Overheard,
}

/// One stay.
struct Member {
    node: usize,
    contact: Contact,
    /// `None` once it is dead.
    group: Option<Box<Group>>,
    application: Application,
    inbox: VecDeque<Input>,
    /// Bytes of the envelopes in it.
    queue_bytes: usize,
    /// Of these, of such as have a number.
    numbered_bytes: usize,
    /// Bytes of forgeries in it.
    forged_bytes: usize,
    /// It stands still.
    halted: bool,
    /// Its turn is scheduled.
    woken: bool,
    /// It dies behind so many envelopes that it says.
    doomed: Option<u32>,
}

/// Something that an application finds at its next turn.
enum Input {
    Envelope {
        from: StayId,
        bytes: Vec<u8>,
        said: Option<Rc<Said>>,
    },
    End {
        to: Contact,
        ticket: Ticket,
        how: End,
    },
    /// What a stranger of a node forged.
    Forged {
        node: usize,
        bytes: Vec<u8>,
    },
    Path {
        about: usize,
        up: bool,
    },
    Contact(Contact),
    Tick,
}

/// Something that is going to happen.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// The envelope at a place arrives.
    Arrive(usize),
    /// Its sender is told.
    Back(usize),
    /// It is an application's turn.
    Wake(StayId),
    /// A pace went by.
    Tick(StayId),
    /// An application asks.
    Ask(StayId),
    /// The link layer of a node looks at the way to another.
    Notice { at: usize, about: usize },
    /// A stranger on a node forges an envelope, and so many in all.
    Forge { node: usize, left: u8 },
    /// Something that was done is undone.
    Repair(Repair),
}

/// How something that was done is undone.
#[derive(Debug, Clone, Copy)]
enum Repair {
    Mend(usize),
    MendAll,
    Start(usize),
    /// An application starts on a node where none runs, or the one that does is over.
    Join(usize),
    GoOn(StayId),
    Eat(StayId),
    Believe {
        at: usize,
        about: usize,
    },
    /// A node is lost to all others, or found, and so many times more.
    Flap {
        node: usize,
        times: u8,
    },
}

/// Runs a seed to its end.
///
/// # Errors
/// What was broken, with the seed.
///
/// # Panics
/// If there is no such shape: [`World::new`] says so beforehand.
pub fn run(seed: u64, options: &Options) -> Result<Report, Box<Failure>> {
    World::new(seed, options, false)
        .unwrap_or_else(|error| panic!("{error}"))
        .run(seed)
        .0
}

impl World {
    /// The world of a seed, before anything happens. `record` keeps a trace.
    ///
    /// # Errors
    /// There is no such shape.
    pub fn new(seed: u64, options: &Options, record: bool) -> Result<Self, BadShape> {
        let mut rng = Rng::with_seed(seed);
        let plan = Plan::new(&mut rng, options)?;
        let founders = plan.founders;
        let mut world = Self::with_plan(plan, options.clone(), rng, record);
        if founders == 0 {
            world.begin_with_a_view();
        } else {
            world.begin_by_founding();
        }
        Ok(world)
    }

    /// A world in which nothing happens but what its driver does. It begins with a view of all nodes.
    #[must_use]
    pub fn led(plan: Plan, seed: u64) -> Self {
        let mut world = Self::with_plan(plan, Options::default(), Rng::with_seed(seed), false);
        world.begin_with_a_view();
        world
    }

    fn with_plan(plan: Plan, options: Options, rng: Rng, record: bool) -> Self {
        let nodes = plan.shape.nodes;
        Self {
            graph: Graph::new(nodes, plan.cables()),
            challenged: plan.faults.has(Fault::Forge),
            overheard: Overheard::new(),
            plan,
            rng,
            schedule: Schedule::default(),
            members: Vec::new(),
            at_node: vec![None; nodes],
            net: Net::default(),
            lens: Lens::new(options.mutant),
            options,
            told: vec![true; nodes * nodes],
            lies: vec![false; nodes * nodes],
            witness: Witness::new(record),
            turns: 0,
            silent: false,
            died_at: 0,
            later: Vec::new(),
            buffer: Box::new([0; SEND_BYTES_MAX]),
        }
    }

    /// What the seed decided.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What is known.
    #[must_use]
    pub const fn book(&self) -> &Book {
        &self.witness.book
    }

    /// What happened so far, in figures.
    #[must_use]
    pub const fn report(&self) -> &Report {
        &self.witness.report
    }

    /// Time, in units.
    #[must_use]
    pub const fn now(&self) -> u64 {
        self.witness.now
    }

    /// Units of the longest round trip that there is without late envelopes: there and back over the most cables, and a turn at each end.
    #[must_use]
    pub fn round_trip_units(&self) -> u64 {
        2 * (HOP_UNITS * u64::from(self.graph.diameter()) + self.plan.lag_units)
    }

    /// Everybody is in a view from the start.
    fn begin_with_a_view(&mut self) {
        let contacts: Contacts = (0..self.graph.nodes())
            .map(|node| contact(node, node))
            .collect();
        let view = View {
            group: GROUP,
            number: 1,
            members: contacts,
            voters: Members::first(contacts.len()),
        };
        for node in 0..self.graph.nodes() {
            let config = config(contacts[node], contacts.len());
            if let Some(group) = Group::with_view(config, view) {
                self.begin(config, group);
            }
        }
    }

    /// Everybody comes at its own time.
    fn begin_by_founding(&mut self) {
        for node in 0..self.graph.nodes() {
            let at = self
                .rng
                .u64(0..=FOUND_ROUND_TRIPS * self.round_trip_units());
            self.schedule.put(at, Event::Repair(Repair::Join(node)));
        }
    }

    /// An application begins a stay.
    fn begin(&mut self, config: GroupConfig, group: Group) {
        let stay = self.members.len();
        let contact = config.me;
        let node = node_of(&contact);
        self.members.push(Member {
            node,
            contact,
            group: Some(Box::new(group)),
            application: Application::default(),
            inbox: VecDeque::new(),
            queue_bytes: 0,
            numbered_bytes: 0,
            forged_bytes: 0,
            halted: false,
            woken: false,
            doomed: None,
        });
        self.at_node[node] = Some(stay);
        let began = Fact::Began {
            node,
            contact: &contact,
            founders: config.founders,
            former: config.former,
        };
        self.witness.see(&began, &self.graph);
        for about in 0..self.graph.nodes() {
            if !self.told[node * self.graph.nodes() + about] {
                let lost = Input::Path { about, up: false };
                self.members[stay].inbox.push_back(lost);
            }
        }
        self.look_up(stay);
        let pace = self.pace_units();
        let first = self.now() + self.rng.u64(1..=pace);
        self.schedule.put(first, Event::Tick(stay));
        self.wake(stay);
        if self.plan.messages_max > 0 {
            let at = self.now() + self.ask_units();
            self.schedule.put(at, Event::Ask(stay));
        }
    }

    /// Units of a pace.
    fn pace_units(&self) -> u64 {
        self.plan.pace_round_trips * self.round_trip_units()
    }

    /// Units until an application asks again.
    fn ask_units(&mut self) -> u64 {
        let most = self.plan.ask_eighths * self.round_trip_units() / 8;
        self.rng.u64(1..=most.max(1))
    }

    /// Lets everything happen that the plan says, then stops the faults and lets everything come to its end. Gives what came of it under the
    /// name of `seed`, and the trace if it was recorded.
    pub fn run(mut self, seed: u64) -> (Result<Report, Box<Failure>>, Vec<Entry>) {
        self.do_deeds();
        if self.witness.violation().is_none() {
            self.rest();
        }
        let report = *self.report();
        let violation = self.witness.violation().cloned();
        let trace = self.witness.into_trace();
        let result = match violation {
            None => Ok(report),
            Some(violation) => Err(Box::new(Failure {
                seed,
                options: self.options,
                violation,
                trace: trace.clone(),
            })),
        };
        (result, trace)
    }

    /// Lets everything happen that is due until `until`, or until something is broken.
    pub fn run_until(&mut self, until: u64) {
        while self.witness.violation().is_none() {
            let Some((at, event)) = self.schedule.take(until) else {
                break;
            };
            self.witness.now = at;
            self.happen(event);
        }
        self.witness.now = until.max(self.now());
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive(place) => self.arrive(place),
            Event::Back(place) => self.back(place),
            Event::Wake(stay) => self.turn(stay),
            Event::Tick(stay) => self.tick(stay),
            Event::Ask(stay) => self.ask(stay),
            Event::Notice { at, about } => self.notice(at, about),
            Event::Forge { node, left } => self.forge(node, left),
            Event::Repair(repair) => self.repair(repair),
        }
    }

    fn tick(&mut self, stay: StayId) {
        if self.members[stay].group.is_none() {
            return;
        }
        if !self.members[stay].halted {
            self.look_up(stay);
            self.give(stay, Input::Tick);
        }
        let next = self.now() + self.pace_units();
        self.schedule.put(next, Event::Tick(stay));
    }

    /// Who is in no view, or in one without a quorum, looks at all nodes that it reaches for members.
    fn look_up(&mut self, stay: StayId) {
        let at = self.members[stay].node;
        let group = self.members[stay].group.as_deref();
        if !group.is_some_and(Group::looks) {
            return;
        }
        for node in 0..self.graph.nodes() {
            if node != at
                && self.graph.hops(at, node).is_some()
                && let Some(other) = self.at_node[node]
            {
                let contact = Contact {
                    life: Life(0),
                    ..self.members[other].contact
                };
                self.members[stay].inbox.push_back(Input::Contact(contact));
            }
        }
    }

    /// An application finds something at its next turn.
    fn give(&mut self, stay: StayId, input: Input) {
        let member = &mut self.members[stay];
        if member.group.is_none() {
            return;
        }
        if let Input::Envelope { bytes, said, .. } = &input {
            member.queue_bytes += bytes.len();
            member.numbered_bytes += numbered_bytes(bytes, said.as_deref());
            let bytes = member.numbered_bytes;
            let fact = Fact::Queued { at: stay, bytes };
            self.witness.see(&fact, &self.graph);
        }
        if let Input::Forged { bytes, .. } = &input {
            self.members[stay].forged_bytes += bytes.len();
        }
        self.members[stay].inbox.push_back(input);
        self.wake(stay);
    }

    /// Schedules an application's turn.
    fn wake(&mut self, stay: StayId) {
        let member = &mut self.members[stay];
        if member.group.is_some() && !member.halted && !member.woken {
            member.woken = true;
            let at = self.witness.now + self.rng.u64(0..=self.plan.lag_units);
            self.schedule.put(at, Event::Wake(stay));
        }
    }
}

/// Bytes of an envelope, if it has a number.
fn numbered_bytes(bytes: &[u8], said: Option<&Said>) -> usize {
    let is_numbered = said.is_some_and(|said| said.number > 0);
    if is_numbered { bytes.len() } else { 0 }
}

/// Where a stay on a node is reached.
const fn contact(node: usize, stay: StayId) -> Contact {
    let (guid, rkey) = (node_guid(node), stay as u32 + 1);
    Contact {
        guid,
        life: Life::of(guid, rkey, rkey),
        rkey,
    }
}

fn config(me: Contact, members_max: usize) -> GroupConfig {
    GroupConfig {
        name: Name::new("group").unwrap_or_else(|_| unreachable!("it is one")),
        me,
        secret: stranger::secret(me.rkey),
        former: None,
        founders: 0,
        members_max: u8::try_from(members_max.max(2)).unwrap_or(u8::MAX),
        stateless: false,
    }
}
