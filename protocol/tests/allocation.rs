//! A node allocates nothing after startup, whatever is requested of it and whatever the outcomes of
//! its exchanges.
#![allow(clippy::unwrap_used)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use covalent_protocol::{
    ExchangeId, Execution, FRAME_BYTES_MAX, FabricConfig, Host, LinkEvent, MAX_PAYLOAD_BYTES, Mode,
    Name, Node, NodeConfig, Outcome, Refusal, Reply,
    group::{Contact, End, Event, Group, GroupConfig, Incarnation, Secret},
    region::{Engine, Registration, Rights, Words},
    tree::{NeighborSet, Trees, TreesConfig, note::CONTROL_MESSAGE_BYTES_MAX},
    verb::{MultiCommit, Request, SEND_BYTES_MAX, Verb, Word},
};

/// The system's allocator, with a count for each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call forwards the caller's own arguments to the system allocator, so its guarantees
// are those of `System`. The count is a thread-local without a destructor and does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `System` with this layout, as the caller guarantees.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Default)]
struct Sink {
    executed: u64,
    completed: u64,
}

impl Host for Sink {
    fn admit(&mut self, _id: &ExchangeId, _mode: Mode, payload: &[u8]) -> Result<(), Refusal> {
        if payload[0] == 5 {
            Err(Refusal::NoResources)
        } else {
            Ok(())
        }
    }

    fn execute(&mut self, _id: &ExchangeId, payload: &[u8], reply: &mut Reply) -> Execution {
        self.executed += 1;
        assert!(reply.set(payload));
        Execution::DurableAt(self.executed)
    }

    fn reverse(&mut self, _id: &ExchangeId, _payload: &[u8]) {}

    fn complete(&mut self, _token: u64, _outcome: Outcome<'_>) {
        self.completed += 1;
    }

    fn in_doubt(&mut self, _token: u64, _id: &ExchangeId) {}

    fn link_event(&mut self, _event: LinkEvent) {}
}

struct Pair {
    nodes: [Node; 2],
    hosts: [Sink; 2],
    buffer: [u8; FRAME_BYTES_MAX],
}

impl Pair {
    fn deliver_all(&mut self) {
        loop {
            let mut moved = false;
            for from in [0, 1] {
                while let Some(len) = self.nodes[from].poll_transmit(0, &mut self.buffer) {
                    let frame = &self.buffer[..len];
                    self.nodes[1 - from].on_frame(0, frame, &mut self.hosts[1 - from]);
                    moved = true;
                }
            }
            // The disk is as slow as can be.
            for (node, host) in self.nodes.iter_mut().zip(&self.hosts) {
                if !moved {
                    node.on_durable(host.executed);
                }
            }
            if !moved && !self.nodes.iter().any(|node| node.has_work(0)) {
                return;
            }
        }
    }

    fn round(&mut self, fails: bool) {
        for token in 0..100 {
            let mode = [Mode::OnePhase, Mode::TwoPhase][token as usize % 2];
            let payload = [token as u8; MAX_PAYLOAD_BYTES];
            let payload = &payload[..MAX_PAYLOAD_BYTES - (99 - token as usize) * 41];
            for from in [0, 1] {
                let peer = 2 - from as u64;
                self.nodes[from].submit(peer, mode, payload, token).unwrap();
            }
        }
        if fails {
            while self.nodes[0].poll_transmit(0, &mut self.buffer).is_some() {}
            for (node, host) in self.nodes.iter_mut().zip(&mut self.hosts) {
                node.on_carrier(0, false, host);
                node.on_carrier(0, true, host);
            }
        }
        self.deliver_all();
        for (node, host) in self.nodes.iter_mut().zip(&mut self.hosts) {
            node.on_tick(host);
        }
        self.deliver_all();
    }
}

#[test]
fn nothing_is_allocated_by_exchanges_and_failures() {
    let mut pair = Pair {
        nodes: [1, 2].map(|guid| {
            let name = Name::new("node").unwrap();
            let mut node = Node::new(NodeConfig::new(guid, guid, name));
            node.add_link(0, [2, 0, 0, 0, 0, guid as u8]).unwrap();
            node
        }),
        hosts: Default::default(),
        buffer: [0; FRAME_BYTES_MAX],
    };
    for (node, host) in pair.nodes.iter_mut().zip(&mut pair.hosts) {
        node.on_carrier(0, true, host);
    }
    pair.deliver_all();
    pair.round(false);
    let after_warm_up = ALLOCATIONS.with(Cell::get);
    assert!(after_warm_up > 0, "the allocator counts");
    for round in 0..10 {
        pair.round(round % 3 == 2);
    }
    assert_eq!(ALLOCATIONS.with(Cell::get), after_warm_up);
    for host in &pair.hosts {
        assert_eq!((host.completed, host.executed), (1100, 1089));
    }
}

/// Three nodes in a triangle, of which each is cut off in turn.
#[test]
fn nothing_is_allocated_by_trees() {
    let mut trees = [1, 2, 3].map(|node: u64| {
        let mut trees = Trees::new(&TreesConfig {
            guid: node << 8,
            incarnation: 1,
            name: Name::new("node").unwrap(),
            roots: true,
            roots_max: 3,
        });
        trees.add_neighbor().unwrap();
        trees.add_neighbor().unwrap();
        trees
    });
    // The neighbor index of node `other` at node `of`.
    let neighbor = |of: usize, other: usize| ((other + 2 - of) % 3) as u8;
    let mut space = [0; CONTROL_MESSAGE_BYTES_MAX];
    let mut events = 0;
    let mut round = |trees: &mut [Trees; 3]| {
        for cut in 0..3 {
            for other in (0..3).filter(|other| *other != cut) {
                trees[cut].on_down(neighbor(cut, other), &mut |_| events += 1);
                trees[other].on_down(neighbor(other, cut), &mut |_| events += 1);
            }
            for back in [false, true] {
                for other in (0..3).filter(|other| back && *other != cut) {
                    trees[cut].on_up(neighbor(cut, other), &mut |_| events += 1);
                    trees[other].on_up(neighbor(other, cut), &mut |_| events += 1);
                }
                for _ in 0..20 {
                    for from in 0..3 {
                        for to in (0..3).filter(|to| *to != from) {
                            while let Some(len) =
                                trees[from].take_control_message(neighbor(from, to), &mut space)
                            {
                                trees[to]
                                    .on_control_message(
                                        neighbor(to, from),
                                        &space[..len],
                                        &mut |_| events += 1,
                                    )
                                    .unwrap();
                            }
                        }
                    }
                }
                for trees in &mut *trees {
                    trees.on_tick(NeighborSet::NONE, &mut |_| events += 1);
                }
            }
        }
    };
    let before = ALLOCATIONS.with(Cell::get);
    assert!(before > 0, "the allocator counts");
    for _ in 0..100 {
        round(&mut trees);
    }
    assert_eq!(ALLOCATIONS.with(Cell::get), before);
    assert!(events > 1000, "{events}");
}

#[test]
fn nothing_is_allocated_by_verbs() {
    let mut engine = Engine::new();
    let registration = Registration {
        owner: 1,
        name: "bank".into(),
        rkey: 1,
        rights: Rights::ALL,
        memory: Words::new(512),
    };
    engine.register(registration).unwrap();
    let queue = Registration {
        owner: 1,
        name: "queue".into(),
        rkey: 2,
        rights: Rights::SEND,
        memory: Words::new(1 << 20),
    };
    engine.register(queue).unwrap();
    let words: Vec<_> = (0..64)
        .map(|at| Word {
            offset: 8 * at,
            expected: 0,
            new: 1,
        })
        .collect();
    let verbs = [
        Verb::FetchAdd { delta: 1 },
        Verb::Write { data: &[7; 512] },
        Verb::Read { len: 512 },
        Verb::MultiCommit(MultiCommit::new(&words).unwrap()),
        Verb::Send { data: &[7; 1000] },
    ];
    let requests = verbs.map(|verb| {
        let rkey = if matches!(verb, Verb::Send { .. }) {
            2
        } else {
            1
        };
        let request = Request {
            rkey,
            offset: 0,
            verb,
        };
        let mut bytes = vec![0; request.encoded_bytes()];
        request.encode(&mut bytes).unwrap();
        bytes
    });
    let mut reply = Reply::new();
    let before = ALLOCATIONS.with(Cell::get);
    for sequence in 0..1000 {
        let id = ExchangeId {
            peer: 1,
            port: 0,
            epoch: 1,
            slot: 0,
            sequence,
        };
        for request in &requests {
            engine.run(request, &mut reply).unwrap();
            engine.admit(&id, Mode::OnePhase, request).unwrap();
            engine.execute(&id, request, &mut reply);
            engine.admit(&id, Mode::TwoPhase, request).unwrap();
            let _ = engine.run(request, &mut reply);
            if sequence % 2 == 0 {
                engine.execute(&id, request, &mut reply);
            } else {
                engine.reverse(&id, request);
            }
        }
    }
    assert_eq!(ALLOCATIONS.with(Cell::get), before);
    assert!(before > 0, "the allocator counts");
    assert_eq!(engine.reserved_words(), 0);
}

/// Members of a group in one thread. The node of each one's index and 1 is its own.
struct Rack {
    groups: [Group; 3],
    dead: Option<usize>,
    delivered: u64,
}

impl Rack {
    fn seeker(index: u64, incarnation: u32, founders: u8) -> Group {
        Group::new(GroupConfig {
            name: Name::new("group").unwrap(),
            me: Contact {
                guid: index,
                incarnation: Incarnation::of(index, 1, incarnation),
                rkey: 1,
            },
            secret: Secret([incarnation as u8; 16]),
            former: None,
            founders,
            members_max: 3,
            stateless: false,
        })
    }

    fn turn(&mut self, turn: usize, buffer: &mut [u8; SEND_BYTES_MAX]) {
        for from in 0..3 {
            if self.dead == Some(from) {
                continue;
            }
            while self.groups[from].multicast(&[7; 500]).is_ok() {}
            while let Some(parcel) = self.groups[from].poll_send(buffer) {
                let to = usize::try_from(parcel.to.guid).unwrap() - 1;
                let end = if self.dead == Some(to) {
                    End::Gone
                } else {
                    let guid = 1 + from as u64;
                    let _ = self.groups[to].on_envelope(guid, &buffer[..parcel.len]);
                    End::Done
                };
                self.groups[from].on_end(parcel.ticket, end);
            }
            // Now and then an application takes nothing for some time.
            let mut wants = None;
            while turn % 50 > 10 * from
                && let Some(event) = self.groups[from].poll_event()
            {
                match event {
                    Event::StateWanted { to } => wants = Some(to.incarnation),
                    Event::Delivered { .. } => self.delivered += 1,
                    _ => {}
                }
            }
            if let Some(to) = wants {
                self.groups[from]
                    .send_snapshot(to, &[1; 100], true)
                    .unwrap();
            }
            self.groups[from].on_tick();
        }
    }

    /// Returns the number of allocations in `turns` turns.
    fn allocates(&mut self, turns: usize) -> u64 {
        let mut buffer = [0; SEND_BYTES_MAX];
        let before = ALLOCATIONS.with(Cell::get);
        for turn in 0..turns {
            self.turn(turn, &mut buffer);
        }
        ALLOCATIONS.with(Cell::get) - before
    }
}

#[test]
fn members_of_a_group_allocate_nothing_once_they_are_made() {
    let mut rack = Rack {
        groups: [1, 2, 3].map(|index| Rack::seeker(index.into(), index, 3)),
        dead: None,
        delivered: 0,
    };
    let queue = |index: u64| Contact {
        guid: index,
        incarnation: Incarnation(0),
        rkey: 1,
    };
    for (one, other) in [(0, 2), (1, 3), (2, 1)] {
        rack.groups[one].on_contact(queue(other));
    }
    assert_eq!(rack.allocates(300), 0);
    assert!(rack.delivered > 10_000, "{}", rack.delivered);
    let members = |group: &Group| group.view().unwrap().members.len();
    assert_eq!(members(&rack.groups[0]), 3);
    // One member stops, and returns.
    rack.dead = Some(1);
    assert_eq!(rack.allocates(100), 0);
    assert_eq!(members(&rack.groups[0]), 2);
    rack.dead = None;
    rack.groups[1] = Rack::seeker(2, 12, 0);
    rack.groups[1].on_contact(queue(1));
    assert_eq!(rack.allocates(300), 0);
    assert_eq!(members(&rack.groups[1]), 3);
    assert_eq!(rack.groups[1].view().unwrap().voters.len(), 3);
}

/// Three nodes in a line, whose ends communicate over a path.
struct Line {
    nodes: [Node; 3],
    hosts: [Sink; 3],
    buffer: [u8; FRAME_BYTES_MAX],
}

impl Line {
    /// Node and port of both ends of each cable.
    const CABLES: [[(usize, u16); 2]; 2] = [[(0, 0), (1, 0)], [(1, 1), (2, 0)]];

    fn deliver_all(&mut self) {
        loop {
            let mut moved = false;
            for [a, b] in Self::CABLES {
                for (from, to) in [(a, b), (b, a)] {
                    while let Some(len) = self.nodes[from.0].poll_transmit(from.1, &mut self.buffer)
                    {
                        let frame = &self.buffer[..len];
                        self.nodes[to.0].on_frame(to.1, frame, &mut self.hosts[to.0]);
                        moved = true;
                    }
                }
            }
            for (node, host) in self.nodes.iter_mut().zip(&self.hosts) {
                if !moved {
                    node.on_durable(host.executed);
                }
            }
            if !moved
                && !Self::CABLES
                    .as_flattened()
                    .iter()
                    .any(|end| self.nodes[end.0].has_work(end.1))
            {
                return;
            }
        }
    }

    fn carrier(&mut self, cable: usize, up: bool) {
        for (at, port) in Self::CABLES[cable] {
            self.nodes[at].on_carrier(port, up, &mut self.hosts[at]);
        }
    }

    /// Exchanges in both directions during which a cable fails, then enough ticks to release the
    /// path.
    fn round(&mut self, fails: usize) {
        for token in 0..30 {
            let mode = [Mode::OnePhase, Mode::TwoPhase][token as usize % 2];
            let payload = [token as u8 + 6; MAX_PAYLOAD_BYTES];
            for (from, to) in [(0, 3 << 8), (2, 1 << 8)] {
                let payload = &payload[..1 + token as usize * 140];
                self.nodes[from].submit(to, mode, payload, token).unwrap();
            }
        }
        for _ in 0..3 {
            for (from, port) in [(0, 0), (2, 0), (1, 0), (1, 1)] {
                if let Some(len) = self.nodes[from].poll_transmit(port, &mut self.buffer) {
                    let cable = Self::CABLES
                        .iter()
                        .flatten()
                        .position(|end| *end == (from, port));
                    let (at, port) = Self::CABLES.as_flattened()[cable.unwrap() ^ 1];
                    self.nodes[at].on_frame(port, &self.buffer[..len], &mut self.hosts[at]);
                }
            }
        }
        self.carrier(fails, false);
        self.carrier(fails, true);
        self.deliver_all();
        for _ in 0..60 {
            for (node, host) in self.nodes.iter_mut().zip(&mut self.hosts) {
                node.on_tick(host);
            }
            self.deliver_all();
        }
    }
}

#[test]
fn nothing_is_allocated_by_paths() {
    let mut line = Line {
        nodes: [1, 2, 3].map(|number| {
            let name = Name::new("node").unwrap();
            let mut node = Node::new(NodeConfig {
                fabric: Some(FabricConfig {
                    paths: 3,
                    transits: 3,
                    ..FabricConfig::default()
                }),
                ..NodeConfig::new(number << 8, number, name)
            });
            for port in 0..2 {
                node.add_link(port, [2, 0, 0, 0, number as u8, port as u8])
                    .unwrap();
            }
            node
        }),
        hosts: Default::default(),
        buffer: [0; FRAME_BYTES_MAX],
    };
    for cable in 0..2 {
        line.carrier(cable, true);
    }
    line.deliver_all();
    line.round(0);
    let after_warm_up = ALLOCATIONS.with(Cell::get);
    for round in 0..6 {
        line.round(round % 2);
        let allocations = ALLOCATIONS.with(Cell::get) - after_warm_up;
        assert_eq!(allocations, 0, "in round {round}");
    }
    for at in [0, 2] {
        assert_eq!(line.hosts[at].completed, 7 * 30);
        assert_eq!(line.nodes[at].channels(), 0);
    }
    assert!(line.nodes[1].channel_counters().joined >= 7);
}
