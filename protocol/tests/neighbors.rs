//! One cable that leads to one neighbor after another. None of them takes anything from the later
//! ones.
#![allow(clippy::unwrap_used)]

mod support;

use covalent_protocol::{FRAME_BYTES_MAX, LinkState, Mode, Name, Node, NodeConfig};
use support::{Ending, Journal, Side};

const SLOTS: u64 = 4;

fn side(guid: u64) -> Side {
    let mut node = Node::new(NodeConfig {
        slots: SLOTS as u8,
        transactions_max: 100,
        ..NodeConfig::new(guid, 1000 + guid, Name::new("node").unwrap())
    });
    node.add_link(0, [2, 0, 0, 0, 0, guid as u8]).unwrap();
    Side {
        node,
        host: Journal::default(),
    }
}

fn carrier(side: &mut Side, up: bool) {
    side.node.on_carrier(0, up, &mut side.host);
}

/// Everything that `from` has to send arrives at `to`.
fn forward(from: &mut Side, to: &mut Side) -> bool {
    let mut buffer = [0; FRAME_BYTES_MAX];
    let mut moved = false;
    while let Some(len) = from.node.poll_transmit(0, &mut buffer) {
        to.node.on_frame(0, &buffer[..len], &mut to.host);
        moved = true;
    }
    moved
}

/// Everything that a side has to send is lost.
fn lose(from: &mut Side) {
    let mut buffer = [0; FRAME_BYTES_MAX];
    while from.node.poll_transmit(0, &mut buffer).is_some() {}
}

/// Connects two sides and exchanges frames until both are at rest.
fn meet(a: &mut Side, b: &mut Side) {
    carrier(a, true);
    carrier(b, true);
    for _ in 0..20 {
        a.node.on_tick(&mut a.host);
        b.node.on_tick(&mut b.host);
        for _ in 0..100 {
            if !(forward(a, b) | forward(b, a)) {
                break;
            }
        }
    }
}

fn part(a: &mut Side, b: &mut Side) {
    carrier(a, false);
    carrier(b, false);
}

fn is_up(side: &Side) -> bool {
    side.node.links().all(|link| link.state == LinkState::Up)
}

/// More exchanges than there are slots work in both directions.
fn assert_works(a: &mut Side, b: &mut Side, guids: [u64; 2]) {
    assert!(is_up(a) && is_up(b), "{:?}", a.host.events);
    let before = [&*a, &*b].map(|side| side.host.completed.len());
    for token in 0..2 * SLOTS {
        a.node
            .submit(guids[1], Mode::TwoPhase, b"works", 1000 + token)
            .unwrap();
        b.node
            .submit(guids[0], Mode::OnePhase, b"works", 1000 + token)
            .unwrap();
    }
    meet(a, b);
    for (side, before) in [&*a, &*b].into_iter().zip(before) {
        assert_eq!(side.host.completed.len() as u64, before as u64 + 2 * SLOTS);
    }
}

/// Every slot is open to a neighbor that is replaced by another machine. The new one gets every
/// slot. When the old one returns, each outcome is found.
#[test]
fn a_neighbor_that_is_gone_keeps_no_slot() {
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        for arrives in [false, true] {
            let (mut a, mut old, mut new) = (side(1), side(2), side(3));
            meet(&mut a, &mut old);
            for token in 0..SLOTS {
                a.node.submit(2, mode, &[token as u8], token).unwrap();
            }
            if arrives {
                forward(&mut a, &mut old);
                lose(&mut old);
            } else {
                lose(&mut a);
            }
            part(&mut a, &mut old);
            assert_eq!(a.host.in_doubt, [0, 1, 2, 3]);
            meet(&mut a, &mut new);
            assert_works(&mut a, &mut new, [1, 3]);
            assert_eq!(a.node.in_doubt(), SLOTS, "nothing is guessed meanwhile");

            part(&mut a, &mut new);
            meet(&mut a, &mut old);
            assert_works(&mut a, &mut old, [1, 2]);
            assert_eq!((a.node.in_doubt(), a.node.room()), (0, 100));
            let once = |token: u64| {
                let executed = old.host.executed.iter();
                let count = executed
                    .filter(|(_, payload)| payload == &[token as u8])
                    .count();
                let ends = a.host.completed.iter();
                let ends: Vec<_> = ends
                    .filter(|(of, _)| *of == token)
                    .map(|(_, end)| end)
                    .collect();
                count == 1 && ends == [&Ending::Committed(vec![!(token as u8)])]
            };
            assert!((0..SLOTS).all(once), "{mode:?} {:?}", a.host.completed);
        }
    }
}

/// An open slot is not reused for the same peer before its exchange was queried, but it is for
/// others.
#[test]
fn an_unresolved_exchange_is_not_overwritten_at_its_responder() {
    let (mut a, mut old, mut new) = (side(1), side(2), side(3));
    meet(&mut a, &mut old);
    for token in 0..SLOTS {
        a.node.submit(2, Mode::OnePhase, b"first", token).unwrap();
    }
    forward(&mut a, &mut old);
    lose(&mut old);
    // More of them wait for the same slots when the peer returns.
    for token in 0..SLOTS {
        a.node
            .submit(2, Mode::OnePhase, b"second", 10 + token)
            .unwrap();
    }
    part(&mut a, &mut old);
    meet(&mut a, &mut new);
    part(&mut a, &mut new);
    meet(&mut a, &mut old);
    let committed = |(_, end): &(u64, Ending)| matches!(end, Ending::Committed(_));
    assert_eq!(
        a.host.completed.iter().filter(|end| committed(end)).count() as u64,
        2 * SLOTS
    );
    assert_eq!(old.host.executed.len() as u64, 2 * SLOTS);
}

/// A node with one cable meets one neighbor after another. There is always space for the next one,
/// and the neighbor with an exchange in doubt is not evicted.
#[test]
fn idle_neighbors_make_room_for_the_next() {
    let (mut a, mut first) = (side(1), side(2));
    meet(&mut a, &mut first);
    a.node.submit(2, Mode::TwoPhase, b"doubt", 7).unwrap();
    lose(&mut a);
    part(&mut a, &mut first);
    for guid in 3..12 {
        let mut next = side(guid);
        meet(&mut a, &mut next);
        assert_works(&mut a, &mut next, [1, guid]);
        part(&mut a, &mut next);
        assert!(a.node.peers().count() <= 3);
    }
    assert_eq!(a.node.in_doubt(), 1);
    assert_eq!(
        a.node
            .links()
            .map(|link| link.counters.drops.no_room)
            .sum::<u64>(),
        0
    );
    meet(&mut a, &mut first);
    assert_eq!(first.host.executed.len(), 1);
    assert!(matches!(
        a.host.completed.last(),
        Some((7, Ending::Committed(_)))
    ));
}

/// The exchanges of a displaced neighbor are no longer known, and its query gets that reply.
#[test]
fn a_displaced_neighbor_is_answered_that_nothing_is_known() {
    let (mut a, mut first) = (side(1), side(2));
    meet(&mut a, &mut first);
    first
        .node
        .submit(1, Mode::OnePhase, b"executed", 7)
        .unwrap();
    forward(&mut first, &mut a);
    lose(&mut a);
    part(&mut a, &mut first);
    for guid in 3..8 {
        let mut next = side(guid);
        meet(&mut a, &mut next);
        part(&mut a, &mut next);
    }
    assert!(a.node.peers().all(|peer| peer.guid != 2));
    meet(&mut a, &mut first);
    assert_eq!(first.host.completed, [(7, Ending::PeerRestarted)]);
    assert_eq!(a.host.executed.len(), 1, "and not once more");
    assert_works(&mut a, &mut first, [1, 2]);
}

/// Two nodes behind one neighbor: `a` has a link to each of them. Each claims its own identity.
struct Fork {
    a: Side,
    ends: [Side; 2],
}

impl Fork {
    fn new(ends: [Side; 2]) -> Self {
        let mut a = side(1);
        a.node.add_link(1, [2, 0, 0, 0, 1, 1]).unwrap();
        Self { a, ends }
    }

    /// Delivers all messages on cable `at` in one direction.
    fn forward(&mut self, at: u16, towards_a: bool) -> bool {
        let mut buffer = [0; FRAME_BYTES_MAX];
        let mut moved = false;
        let end = &mut self.ends[usize::from(at)];
        let (from, from_port, to, to_port) = if towards_a {
            (end, 0, &mut self.a, at)
        } else {
            (&mut self.a, at, end, 0)
        };
        while let Some(len) = from.node.poll_transmit(from_port, &mut buffer) {
            to.node.on_frame(to_port, &buffer[..len], &mut to.host);
            moved = true;
        }
        moved
    }

    fn carrier(&mut self, at: u16, up: bool) {
        let end = &mut self.ends[usize::from(at)];
        self.a.node.on_carrier(at, up, &mut self.a.host);
        end.node.on_carrier(0, up, &mut end.host);
    }

    /// All nodes with a carrier exchange frames until they are at rest.
    fn talk(&mut self) {
        for _ in 0..20 {
            for side in std::iter::once(&mut self.a).chain(&mut self.ends) {
                side.node.on_tick(&mut side.host);
            }
            for _ in 0..100 {
                let mut moved = false;
                for at in 0..2 {
                    moved |= self.forward(at, false);
                    moved |= self.forward(at, true);
                }
                if !moved {
                    break;
                }
            }
        }
    }

    /// The first end executes a verb, and its link fails before the result is reported.
    fn cut_behind_an_execution(&mut self, target: u64) {
        for at in 0..2 {
            self.carrier(at, true);
        }
        self.talk();
        self.a
            .node
            .submit(target, Mode::OnePhase, b"once", 7)
            .unwrap();
        self.forward(0, false);
        self.forward(1, false);
        assert_eq!(self.executions(), [1, 0], "it went over the first link");
        let mut buffer = [0; FRAME_BYTES_MAX];
        while self.ends[0].node.poll_transmit(0, &mut buffer).is_some() {}
        self.carrier(0, false);
        self.talk();
    }

    fn executions(&self) -> [usize; 2] {
        self.ends.each_ref().map(|end| end.host.executed.len())
    }
}

/// Why every lane has an address of its own: two nodes with one GUID and one incarnation are taken
/// for one, and cannot be distinguished. The queried one never saw the exchange that the other
/// executed, so it is executed once more.
#[test]
fn two_nodes_with_one_identity_can_have_a_verb_executed_twice() {
    let mut fork = Fork::new([side(2), side(2)]);
    fork.cut_behind_an_execution(2);
    assert_eq!(fork.executions(), [1, 1], "this must not happen");
    assert!(matches!(
        fork.a.host.completed[..],
        [(7, Ending::Committed(_))]
    ));
}

/// With one address each, only the lane that executed it is queried.
#[test]
fn only_the_lane_that_executed_is_queried() {
    let mut fork = Fork::new([side(2), side(3)]);
    fork.cut_behind_an_execution(2);
    assert_eq!(fork.executions(), [1, 0]);
    assert_eq!(fork.a.host.completed, []);
    assert_eq!(fork.a.host.in_doubt, [7], "nothing is guessed");
    fork.carrier(0, true);
    fork.talk();
    assert_eq!(fork.executions(), [1, 0]);
    assert!(matches!(
        fork.a.host.completed[..],
        [(7, Ending::Committed(_))]
    ));
}
