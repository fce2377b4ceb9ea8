//! Members, nodes and their faults.
//!
//! | file | contents |
//! |---|---|
//! | here | state of a world, and time |
//! | `turn` | an application's turn: input, sent envelopes, events |
//! | `delivery` | envelopes in flight, and path reports of the link layer |
//! | `deeds` | actions on the world |
//! | `lead` | operations for a driver that controls a world |
//! | `untrusted` | an untrusted user that is no member and forges envelopes of members |
//! | `rest` | the faults stop and everything completes |

mod deeds;
mod delivery;
mod lead;
mod rest;
mod turn;
mod untrusted;

use std::{collections::VecDeque, rc::Rc};

use covalent_protocol::{
    Name,
    group::{Contact, Contacts, End, Group, GroupConfig, Incarnation, Members, Ticket, View},
    verb::SEND_BYTES_MAX,
};
use fastrand::Rng;

use self::untrusted::Overheard;
use super::{
    application::Application,
    book::{Book, MembershipId},
    fact::{Fact, Subject},
    graph::Graph,
    lens::Lens,
    net::{Net, node_of},
    options::{Fault, Options},
    plan::{HOP_UNITS, Plan},
    report::Report,
    sent::SentEnvelope,
    witness::Witness,
};
use crate::{
    harness::{Entry, EventQueue, Failure, Simulator},
    node_guid,
    shape::BadShape,
};

/// The group of all worlds that begin with a view.
const GROUP: u64 = 0x67;
/// Round trips within which all founders start.
const FOUND_ROUND_TRIPS: u64 = 8;

/// Members and nodes.
pub struct World {
    plan: Plan,
    options: Options,
    rng: Rng,
    graph: Graph,
    queue: EventQueue<Event>,
    /// All incarnations, in the order of [`Book::stays`].
    members: Vec<Member>,
    /// The application that runs on each node.
    at_node: Vec<Option<MembershipId>>,
    net: Net,
    lens: Lens,
    /// Last path report of each node's link layer about each other node, `nodes · nodes` of them.
    reported: Vec<bool>,
    /// Paths that one end holds for lost.
    lies: Vec<bool>,
    witness: Witness,
    /// Turns of all applications so far.
    turns: u64,
    /// Applications request nothing any more.
    silent: bool,
    /// When an application died last, in units.
    died_at: u64,
    /// Repairs to make after the world was calm.
    later: Vec<Repair>,
    buffer: Box<[u8; SEND_BYTES_MAX]>,
    /// Incarnations challenge each other. In a world without a forger they know all tokens, so its
    /// seed still makes the same world as before forgers existed.
    challenged: bool,
    overheard: Overheard,
}

/// One incarnation.
struct Member {
    node: usize,
    contact: Contact,
    /// `None` after its death.
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
    /// Envelopes that it sends before it dies.
    doomed: Option<u32>,
}

/// Something that an application finds at its next turn.
enum Input {
    Envelope {
        from: MembershipId,
        bytes: Vec<u8>,
        sent: Option<Rc<SentEnvelope>>,
    },
    End {
        to: Contact,
        ticket: Ticket,
        how: End,
    },
    /// An envelope that an untrusted user of a node forged.
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
    /// The sender is notified.
    Back(usize),
    /// It is an application's turn.
    Wake(MembershipId),
    /// A tick of an application.
    Tick(MembershipId),
    /// An application requests messages.
    Request(MembershipId),
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
    GoOn(MembershipId),
    Eat(MembershipId),
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
/// Returns the broken invariant with the seed.
pub fn run(seed: u64, options: &Options) -> Result<Report, Box<Failure>> {
    options.run(seed)
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

    /// A world in which only its driver acts. It begins with a view of all nodes.
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
            queue: EventQueue::default(),
            members: Vec::new(),
            at_node: vec![None; nodes],
            net: Net::default(),
            lens: Lens::new(options.mutant),
            options,
            reported: vec![true; nodes * nodes],
            lies: vec![false; nodes * nodes],
            witness: Witness::new(record),
            turns: 0,
            silent: false,
            died_at: 0,
            later: Vec::new(),
            buffer: Box::new([0; SEND_BYTES_MAX]),
        }
    }

    /// Returns the plan of the seed.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the ground truth so far.
    #[must_use]
    pub const fn book(&self) -> &Book {
        &self.witness.book
    }

    /// Returns the figures so far.
    #[must_use]
    pub const fn report(&self) -> &Report {
        &self.witness.report
    }

    /// Time, in units.
    #[must_use]
    pub const fn now(&self) -> u64 {
        self.witness.now
    }

    /// Units of the longest round trip without late envelopes: both directions over the most
    /// cables, and a turn at each end.
    #[must_use]
    pub fn round_trip_units(&self) -> u64 {
        2 * (HOP_UNITS * u64::from(self.graph.diameter()) + self.plan.lag_units)
    }

    /// Begins with all nodes in one view.
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

    /// Starts each application at its own time.
    fn begin_by_founding(&mut self) {
        for node in 0..self.graph.nodes() {
            let at = self
                .rng
                .u64(0..=FOUND_ROUND_TRIPS * self.round_trip_units());
            self.queue.add(at, Event::Repair(Repair::Join(node)));
        }
    }

    /// Begins an incarnation of an application.
    fn begin(&mut self, config: GroupConfig, group: Group) {
        let membership = self.members.len();
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
        self.at_node[node] = Some(membership);
        let began = Fact::Began {
            node,
            contact: &contact,
            founders: config.founders,
            former: config.former,
        };
        self.witness.see(&began, &self.graph);
        for about in 0..self.graph.nodes() {
            if !self.reported[node * self.graph.nodes() + about] {
                let lost = Input::Path { about, up: false };
                self.members[membership].inbox.push_back(lost);
            }
        }
        self.look_up(membership);
        let interval = self.tick_units();
        let first = self.now() + self.rng.u64(1..=interval);
        self.queue.add(first, Event::Tick(membership));
        self.wake(membership);
        if self.plan.messages_max > 0 {
            let at = self.now() + self.request_units();
            self.queue.add(at, Event::Request(membership));
        }
    }

    /// Units of a tick interval.
    fn tick_units(&self) -> u64 {
        self.plan.tick_round_trips * self.round_trip_units()
    }

    /// Draws the units until an application's next request.
    fn request_units(&mut self) -> u64 {
        let most = self.plan.request_eighths * self.round_trip_units() / 8;
        self.rng.u64(1..=most.max(1))
    }

    /// Executes the plan, then stops the faults and lets everything complete. Returns the result
    /// under the name of `seed`, and the trace if it was recorded.
    pub fn run(mut self, seed: u64) -> (Result<Report, Box<Failure>>, Vec<Entry<Subject>>) {
        self.do_deeds();
        if self.witness.violation().is_none() {
            self.rest();
        }
        let result = match self.witness.violation().cloned() {
            None => Ok(*self.report()),
            Some(violation) => Err(Box::new(Failure {
                seed,
                replay: self.options.command(seed),
                when: format!("at {} units", violation.when),
                violation,
            })),
        };
        (result, self.witness.into_trace())
    }

    /// Executes all events that are due until `until`, or until an invariant is broken.
    pub fn run_until(&mut self, until: u64) {
        while self.witness.violation().is_none() {
            let Some((at, event)) = self.queue.next(until) else {
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
            Event::Wake(membership) => self.turn(membership),
            Event::Tick(membership) => self.tick(membership),
            Event::Request(membership) => self.request_messages(membership),
            Event::Notice { at, about } => self.notice(at, about),
            Event::Forge { node, left } => self.forge(node, left),
            Event::Repair(repair) => self.repair(repair),
        }
    }

    fn tick(&mut self, membership: MembershipId) {
        if self.members[membership].group.is_none() {
            return;
        }
        if !self.members[membership].halted {
            self.look_up(membership);
            self.give(membership, Input::Tick);
        }
        let next = self.now() + self.tick_units();
        self.queue.add(next, Event::Tick(membership));
    }

    /// An application without a view, or without a quorum in its view, searches all nodes that it
    /// reaches for members.
    fn look_up(&mut self, membership: MembershipId) {
        let at = self.members[membership].node;
        let group = self.members[membership].group.as_deref();
        if !group.is_some_and(Group::is_discovering) {
            return;
        }
        for node in 0..self.graph.nodes() {
            if node != at
                && self.graph.hops(at, node).is_some()
                && let Some(other) = self.at_node[node]
            {
                let contact = Contact {
                    incarnation: Incarnation(0),
                    ..self.members[other].contact
                };
                self.members[membership]
                    .inbox
                    .push_back(Input::Contact(contact));
            }
        }
    }

    /// An application finds something at its next turn.
    fn give(&mut self, membership: MembershipId, input: Input) {
        let member = &mut self.members[membership];
        if member.group.is_none() {
            return;
        }
        if let Input::Envelope { bytes, sent, .. } = &input {
            member.queue_bytes += bytes.len();
            member.numbered_bytes += numbered_bytes(bytes, sent.as_deref());
            let bytes = member.numbered_bytes;
            let fact = Fact::Queued {
                at: membership,
                bytes,
            };
            self.witness.see(&fact, &self.graph);
        }
        if let Input::Forged { bytes, .. } = &input {
            self.members[membership].forged_bytes += bytes.len();
        }
        self.members[membership].inbox.push_back(input);
        self.wake(membership);
    }

    /// Schedules an application's turn.
    fn wake(&mut self, membership: MembershipId) {
        let member = &mut self.members[membership];
        if member.group.is_some() && !member.halted && !member.woken {
            member.woken = true;
            let at = self.witness.now + self.rng.u64(0..=self.plan.lag_units);
            self.queue.add(at, Event::Wake(membership));
        }
    }
}

/// Bytes of an envelope, if it has a number.
fn numbered_bytes(bytes: &[u8], sent: Option<&SentEnvelope>) -> usize {
    let is_numbered = sent.is_some_and(|sent| sent.number > 0);
    if is_numbered { bytes.len() } else { 0 }
}

/// Returns the contact of an incarnation on a node.
const fn contact(node: usize, membership: MembershipId) -> Contact {
    let (guid, rkey) = (node_guid(node), membership as u32 + 1);
    Contact {
        guid,
        incarnation: Incarnation::of(guid, rkey, rkey),
        rkey,
    }
}

fn config(me: Contact, members_max: usize) -> GroupConfig {
    GroupConfig {
        name: Name::new("group").unwrap_or_else(|_| unreachable!("it is one")),
        me,
        secret: untrusted::secret(me.rkey),
        former: None,
        founders: 0,
        members_max: u8::try_from(members_max.max(2)).unwrap_or(u8::MAX),
        stateless: false,
    }
}
