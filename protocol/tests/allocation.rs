//! A node that is warm allocates nothing, whatever it is asked for and however its exchanges end.
#![allow(clippy::unwrap_used)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use covalent_protocol::{
    ExchangeId, Execution, FRAME_BYTES_MAX, Host, LinkEvent, MAX_PAYLOAD_BYTES, Mode, Name, Node,
    NodeConfig, Outcome, Refusal, Reply,
    group::{Contact, End, Group, GroupConfig, Life, Members, View},
    region::{Engine, Registration, Rights, Words},
    tree::{Berths, Trees, TreesConfig, note::NOTE_BYTES_MAX},
    verb::{MultiCommit, Request, SEND_BYTES_MAX, Verb, Word},
};

/// The system's allocator, with a count for each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator with the caller's own arguments, so its guarantees are
// those of `System`; the count is a thread-local without a destructor and allocates nothing itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `System` with this layout, as the caller promises.
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
    fn carry_everything(&mut self) {
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
        self.carry_everything();
        for (node, host) in self.nodes.iter_mut().zip(&mut self.hosts) {
            node.on_tick(host);
        }
        self.carry_everything();
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
    pair.carry_everything();
    pair.round(false);
    let warm = ALLOCATIONS.with(Cell::get);
    assert!(warm > 0, "the allocator counts");
    for round in 0..10 {
        pair.round(round % 3 == 2);
    }
    assert_eq!(ALLOCATIONS.with(Cell::get), warm);
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
            life: 1,
            name: Name::new("node").unwrap(),
            roots: true,
            roots_max: 3,
        });
        trees.add_berth().unwrap();
        trees.add_berth().unwrap();
        trees
    });
    // The berth of each node at which each other one is.
    let berth = |of: usize, other: usize| ((other + 2 - of) % 3) as u8;
    let mut space = [0; NOTE_BYTES_MAX];
    let mut events = 0;
    let mut round = |trees: &mut [Trees; 3]| {
        for cut in 0..3 {
            for other in (0..3).filter(|other| *other != cut) {
                trees[cut].on_down(berth(cut, other), &mut |_| events += 1);
                trees[other].on_down(berth(other, cut), &mut |_| events += 1);
            }
            for back in [false, true] {
                for other in (0..3).filter(|other| back && *other != cut) {
                    trees[cut].on_up(berth(cut, other), &mut |_| events += 1);
                    trees[other].on_up(berth(other, cut), &mut |_| events += 1);
                }
                for _ in 0..20 {
                    for from in 0..3 {
                        for to in (0..3).filter(|to| *to != from) {
                            while let Some(len) = trees[from].take_note(berth(from, to), &mut space)
                            {
                                trees[to]
                                    .on_note(berth(to, from), &space[..len], &mut |_| events += 1)
                                    .unwrap();
                            }
                        }
                    }
                }
                for trees in &mut *trees {
                    trees.on_tick(Berths::NONE, &mut |_| events += 1);
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

#[test]
fn members_of_a_group_allocate_nothing_once_they_are_made() {
    let contact = |index: u64| Contact {
        guid: index,
        life: Life(index),
        rkey: 1,
    };
    let view = View {
        group: 1,
        number: 1,
        members: (1..=3).map(contact).collect(),
        voters: Members::first(3),
    };
    let mut groups = [1, 2, 3].map(|index| {
        let config = GroupConfig {
            name: Name::new("group").unwrap(),
            me: contact(index),
            former: None,
            founders: 0,
            members_max: 3,
            stateless: false,
        };
        Group::with_view(config, view).unwrap()
    });
    let mut buffer = [0; SEND_BYTES_MAX];
    let mut delivered = 0;
    let before = ALLOCATIONS.with(Cell::get);
    for turn in 0..300 {
        for from in 0..groups.len() {
            while groups[from].multicast(&[7; 500]).is_ok() {}
            while let Some(parcel) = groups[from].poll_send(&mut buffer) {
                let to = usize::try_from(parcel.to.guid).unwrap() - 1;
                let guid = 1 + from as u64;
                groups[to].on_envelope(guid, &buffer[..parcel.len]).unwrap();
                groups[from].on_end(parcel.ticket, End::Done);
            }
            // Now and then an application takes nothing for some time.
            while turn % 50 > 10 * from && groups[from].poll_event().is_some() {
                delivered += 1;
            }
            groups[from].on_tick();
        }
    }
    assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0);
    assert!(delivered > 10_000, "{delivered}");
}
