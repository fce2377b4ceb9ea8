//! Two nodes on a bench, with cables that the test holds in its hands.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses its own part of the bench"
)]

use std::collections::VecDeque;

use covalent_protocol::{
    DEFAULT_ETHERTYPE, DownReason, ExchangeId, Execution, FRAME_BYTES_MAX, Host, LinkEvent,
    LinkRefusal, LinkState, LinkView, Mode, Name, Node, NodeConfig, Outcome, Refusal, Reply,
    wire::{frame, message::Message, record::Header, slice::Kind},
};

/// The two sides of a bench, and the GUIDs of their nodes.
pub const A: usize = 0;
pub const B: usize = 1;
pub const GUIDS: [u64; 2] = [0xa, 0xb];

/// How an exchange ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    Committed(Vec<u8>),
    Refused(Refusal),
    PeerRestarted,
}

/// A program that keeps a journal.
#[derive(Debug, Default)]
pub struct Journal {
    /// The executed payloads, with the peer that submitted each.
    pub executed: Vec<(u64, Vec<u8>)>,
    /// The payloads reversed here, with the peer that had submitted each.
    pub reversed: Vec<(u64, Vec<u8>)>,
    /// Exchanges that were admitted and neither executed nor reversed.
    pub admitted: Vec<ExchangeId>,
    /// The ended exchanges, by token.
    pub completed: Vec<(u64, Ending)>,
    pub in_doubt: Vec<u64>,
    pub events: Vec<LinkEvent>,
    /// Nodes that were reported as reached or lost.
    pub paths: Vec<(u64, bool)>,
    /// The refusal for all requests, if any.
    pub refuse: Option<Refusal>,
    /// Whether an executed exchange must be on disk before it is reported, and the number of
    /// exchanges executed so.
    pub durable: bool,
    pub last_lsn: u64,
    /// Bytes of each reply.
    pub reply_bytes: Option<usize>,
}

impl Host for Journal {
    fn admit(&mut self, id: &ExchangeId, _mode: Mode, _payload: &[u8]) -> Result<(), Refusal> {
        if let Some(refusal) = self.refuse {
            return Err(refusal);
        }
        assert!(!self.admitted.contains(id), "{id:?} is admitted twice");
        self.admitted.push(*id);
        Ok(())
    }

    fn execute(&mut self, id: &ExchangeId, payload: &[u8], reply: &mut Reply) -> Execution {
        self.settle(id);
        assert_eq!(reply.as_bytes(), [0u8; 0], "the reply is empty at the call");
        self.executed.push((id.peer, payload.to_vec()));
        assert!(reply.set(&self.reply_to(payload)));
        if self.durable {
            self.last_lsn += 1;
            Execution::DurableAt(self.last_lsn)
        } else {
            Execution::Done
        }
    }

    fn reverse(&mut self, id: &ExchangeId, payload: &[u8]) {
        self.settle(id);
        self.reversed.push((id.peer, payload.to_vec()));
    }

    fn complete(&mut self, token: u64, outcome: Outcome<'_>) {
        self.completed.push((
            token,
            match outcome {
                Outcome::Committed(reply) => Ending::Committed(reply.to_vec()),
                Outcome::Refused(refusal) => Ending::Refused(refusal),
                Outcome::PeerRestarted => Ending::PeerRestarted,
            },
        ));
    }

    fn in_doubt(&mut self, token: u64, _id: &ExchangeId) {
        self.in_doubt.push(token);
    }

    fn path(&mut self, guid: u64, up: bool) {
        self.paths.push((guid, up));
    }

    fn link_event(&mut self, event: LinkEvent) {
        self.events.push(event);
    }
}

impl Journal {
    /// An admitted exchange is executed or reversed, once.
    fn settle(&mut self, id: &ExchangeId) {
        let at = self.admitted.iter().position(|admitted| admitted == id);
        self.admitted
            .swap_remove(at.unwrap_or_else(|| panic!("{id:?} was not admitted, or settled")));
    }

    /// The reply to a payload: its bytes, inverted and repeated to the requested length.
    pub fn reply_to(&self, payload: &[u8]) -> Vec<u8> {
        payload
            .iter()
            .cycle()
            .take(self.reply_bytes.unwrap_or(payload.len()))
            .map(|byte| !byte)
            .collect()
    }

    pub fn downs(&self) -> Vec<DownReason> {
        self.events
            .iter()
            .filter_map(|event| match event {
                LinkEvent::Down { reason, .. } => Some(*reason),
                _ => None,
            })
            .collect()
    }

    /// The reported refusals, in order; `None` for one that was over.
    pub fn refusals(&self) -> Vec<Option<LinkRefusal>> {
        self.events
            .iter()
            .filter_map(|event| match event {
                LinkEvent::Refused { why, .. } => Some(Some(*why)),
                LinkEvent::RefusalOver { .. } => Some(None),
                _ => None,
            })
            .collect()
    }
}

/// A node and its program.
pub struct Side {
    pub node: Node,
    pub host: Journal,
}

/// Two nodes and the frames in flight on each cable, by receiving side.
pub struct Bench {
    pub sides: [Side; 2],
    pub cables: Vec<[VecDeque<Vec<u8>>; 2]>,
    /// Cables that lose everything.
    pub cut: Vec<bool>,
    next_incarnation: u64,
    slots: u8,
    first_sequence: u32,
}

pub fn config(side: usize, incarnation: u64, slots: u8) -> NodeConfig {
    let name = Name::new(["a", "b"][side]).unwrap();
    NodeConfig {
        slots,
        keepalive_misses_max: 4,
        transactions_max: 300,
        ..NodeConfig::new(GUIDS[side], incarnation, name)
    }
}

impl Bench {
    /// `cables` cables without a carrier, 4 slots.
    pub fn new(cables: usize) -> Self {
        Self::with_slots(cables, 4)
    }

    pub fn with_slots(cables: usize, slots: u8) -> Self {
        Self::counting_from(cables, slots, 0)
    }

    /// The counters that wrap start at `first_sequence`.
    pub fn counting_from(cables: usize, slots: u8, first_sequence: u32) -> Self {
        let side = |side| Side {
            node: node(side, 100 + side as u64, cables, slots, first_sequence),
            host: Journal::default(),
        };
        Self {
            sides: [side(A), side(B)],
            cables: (0..cables)
                .map(|_| [VecDeque::new(), VecDeque::new()])
                .collect(),
            cut: vec![false; cables],
            next_incarnation: 200,
            slots,
            first_sequence,
        }
    }

    /// One cable that is up between two nodes with messages of up to `message_bytes_max` bytes.
    pub fn with_message_bytes(message_bytes_max: u16) -> Self {
        let mut bench = Self::new(1);
        for side in [A, B] {
            let mut node = Node::new(NodeConfig {
                message_bytes_max,
                ..config(side, 100 + side as u64, 4)
            });
            node.add_link(0, [2, 0, 0, 0, side as u8, 0]).unwrap();
            bench.sides[side].node = node;
        }
        bench.carrier(0, true);
        bench.settle();
        bench.assert_up();
        bench
    }

    /// All links up.
    pub fn up(cables: usize) -> Self {
        Self::up_with_slots(cables, 4)
    }

    pub fn up_with_slots(cables: usize, slots: u8) -> Self {
        let mut bench = Self::with_slots(cables, slots);
        for cable in 0..cables {
            bench.carrier(cable, true);
        }
        bench.settle();
        bench.assert_up();
        bench
    }

    pub fn assert_up(&self) {
        for side in &self.sides {
            assert!(
                side.node.links().all(|link| link.state == LinkState::Up),
                "{:?}",
                side.host.events
            );
        }
    }

    pub fn link(&self, side: usize, cable: usize) -> LinkView<'_> {
        self.sides[side].node.links().nth(cable).unwrap()
    }

    pub fn carrier(&mut self, cable: usize, up: bool) {
        for side in [A, B] {
            self.carrier_at(side, cable, up);
        }
    }

    pub fn carrier_at(&mut self, side: usize, cable: usize, up: bool) {
        let Side { node, host } = &mut self.sides[side];
        node.on_carrier(cable as u16, up, host);
    }

    /// Records in flight to a side.
    pub fn records_in_flight(&self, side: usize, cable: usize) -> usize {
        self.cables[cable][side]
            .iter()
            .map(|frame| records(frame))
            .sum()
    }

    pub fn submit(&mut self, side: usize, mode: Mode, payload: &[u8], token: u64) {
        self.sides[side]
            .node
            .submit(GUIDS[1 - side], mode, payload, token)
            .unwrap();
    }

    /// Puts every frame that a side has to send on the cables.
    pub fn send(&mut self, side: usize) {
        for cable in 0..self.cables.len() {
            self.send_on(side, cable);
        }
    }

    pub fn send_on(&mut self, side: usize, cable: usize) {
        let mut buffer = [0xee; FRAME_BYTES_MAX];
        while let Some(len) = self.sides[side]
            .node
            .poll_transmit(cable as u16, &mut buffer)
        {
            if !self.cut[cable] {
                self.cables[cable][1 - side].push_back(buffer[..len].to_vec());
            }
        }
        assert!(
            !self.sides[side].node.has_work(cable as u16),
            "poll_transmit and has_work agree"
        );
    }

    /// Delivers the next frame of a cable to a side.
    pub fn deliver(&mut self, side: usize, cable: usize) -> bool {
        let Some(frame) = self.cables[cable][side].pop_front() else {
            return false;
        };
        self.inject(side, cable, &frame);
        true
    }

    /// A side receives these bytes.
    pub fn inject(&mut self, side: usize, cable: usize, frame: &[u8]) {
        let Side { node, host } = &mut self.sides[side];
        node.on_frame(cable as u16, frame, host);
    }

    pub fn tick(&mut self) {
        for Side { node, host } in &mut self.sides {
            node.on_tick(host);
        }
    }

    /// Sends and delivers until nothing moves.
    pub fn settle(&mut self) {
        for _ in 0..10_000 {
            self.send(A);
            self.send(B);
            let mut moved = false;
            for cable in 0..self.cables.len() {
                for side in [A, B] {
                    while self.deliver(side, cable) {
                        moved = true;
                    }
                }
            }
            if !moved {
                return;
            }
        }
        panic!("the bench never became quiescent");
    }

    /// Passes `ticks` ticks with everything delivered.
    pub fn run(&mut self, ticks: usize) {
        for _ in 0..ticks {
            self.tick();
            self.settle();
        }
    }

    /// Everything in flight on a cable is lost.
    pub fn lose(&mut self, cable: usize) {
        self.cables[cable].iter_mut().for_each(VecDeque::clear);
    }

    /// Both sides lose the carrier and everything in flight is lost.
    pub fn pull(&mut self, cable: usize) {
        self.lose(cable);
        self.cut[cable] = true;
        self.carrier(cable, false);
    }

    pub fn plug(&mut self, cable: usize) {
        self.cut[cable] = false;
        self.carrier(cable, true);
    }

    /// A side loses its memory. Its carriers come back at once.
    pub fn restart(&mut self, side: usize) {
        self.next_incarnation += 1;
        self.sides[side].node = node(
            side,
            self.next_incarnation,
            self.cables.len(),
            self.slots,
            self.first_sequence,
        );
        for cable in 0..self.cables.len() {
            if !self.cut[cable] {
                self.carrier_at(side, cable, true);
            }
        }
    }

    /// Kinds of the messages in flight to a side.
    pub fn in_flight(&self, side: usize, cable: usize) -> Vec<Kind> {
        self.cables[cable][side]
            .iter()
            .flat_map(|frame| kinds(frame))
            .collect()
    }
}

fn node(side: usize, incarnation: u64, cables: usize, slots: u8, first_sequence: u32) -> Node {
    let mut node = Node::new(NodeConfig {
        first_sequence,
        ..config(side, incarnation, slots)
    });
    for cable in 0..cables {
        node.add_link(cable as u16, [2, 0, 0, 0, side as u8, cable as u8])
            .unwrap();
    }
    node
}

/// Kinds of the messages in a frame.
pub fn kinds(frame: &[u8]) -> Vec<Kind> {
    headers(frame).iter().map(|header| header.kind).collect()
}

/// Headers of the messages in a frame.
pub fn headers(frame: &[u8]) -> Vec<Header> {
    let mut records = frame::parse(frame, DEFAULT_ETHERTYPE).unwrap();
    let mut headers = vec![];
    while !records.is_empty() {
        let (message, rest) = Message::split(records).unwrap();
        headers.push(message.header);
        records = rest;
    }
    headers
}

/// Records in a frame.
pub const fn records(frame: &[u8]) -> usize {
    (frame.len() - 14) / 64
}

/// Changes the record at `index` of a frame and makes the CRC fit again.
pub fn forge(frame: &mut [u8], index: usize, change: impl FnOnce(&mut [u8; 64])) {
    let at = 14 + index * 64;
    let record: &mut [u8; 64] = (&mut frame[at..at + 64]).try_into().unwrap();
    change(record);
    frame::seal(frame);
}
