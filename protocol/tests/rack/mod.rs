//! Whole nodes that take part in trees, with cables that the test holds in its hands.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses its own part of the rack"
)]

use std::collections::VecDeque;

use covalent_protocol::{
    DEFAULT_ETHERTYPE, DownReason, ExchangeId, Execution, FRAME_BYTES_MAX, FabricConfig, Host,
    LinkEvent, Mode, Name, Node, NodeConfig, NodeEvent, Outcome, Refusal, Reply,
    tree::Standing,
    wire::{frame, message::Message, slice::Kind},
};

/// The events of a node, and the exchanges that it executed.
#[derive(Default)]
pub struct HostRecord {
    pub links: Vec<LinkEvent>,
    pub trees: Vec<NodeEvent>,
    pub executed: usize,
    pub completed: usize,
    /// The executed payloads with their initiators, in order.
    pub journal: Vec<(u64, Vec<u8>)>,
    /// Exchanges that were admitted and are neither executed nor reversed.
    pub admitted: Vec<ExchangeId>,
    /// How exchanges ended, by token.
    pub ended: Vec<(u64, Ended)>,
    pub in_doubt: Vec<u64>,
    /// Nodes that were reported as reached or lost.
    pub paths: Vec<(u64, bool)>,
}

/// How an exchange ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    Committed(Vec<u8>),
    Refused,
    PeerRestarted,
}

impl Host for HostRecord {
    fn admit(&mut self, id: &ExchangeId, _: Mode, payload: &[u8]) -> Result<(), Refusal> {
        if payload == REFUSED {
            return Err(Refusal::NoResources);
        }
        assert!(!self.admitted.contains(id), "{id:?} is admitted twice");
        self.admitted.push(*id);
        Ok(())
    }

    fn execute(&mut self, id: &ExchangeId, payload: &[u8], reply: &mut Reply) -> Execution {
        self.settle(id);
        self.executed += 1;
        self.journal.push((id.peer, payload.to_vec()));
        assert!(reply.set(payload));
        Execution::Done
    }

    fn reverse(&mut self, id: &ExchangeId, _: &[u8]) {
        self.settle(id);
    }

    fn complete(&mut self, token: u64, outcome: Outcome<'_>) {
        self.completed += 1;
        let ended = match outcome {
            Outcome::Committed(reply) => Ended::Committed(reply.to_vec()),
            Outcome::Refused(_) => Ended::Refused,
            Outcome::PeerRestarted => Ended::PeerRestarted,
        };
        self.ended.push((token, ended));
    }

    fn in_doubt(&mut self, token: u64, _: &ExchangeId) {
        self.in_doubt.push(token);
    }

    fn path(&mut self, guid: u64, up: bool) {
        self.paths.push((guid, up));
    }

    fn link_event(&mut self, event: LinkEvent) {
        self.links.push(event);
    }

    fn tree_event(&mut self, event: NodeEvent) {
        self.trees.push(event);
    }
}

impl HostRecord {
    /// An admitted exchange is executed or reversed, once.
    fn settle(&mut self, id: &ExchangeId) {
        let at = self.admitted.iter().position(|admitted| admitted == id);
        self.admitted
            .swap_remove(at.unwrap_or_else(|| panic!("{id:?} was not admitted, or settled")));
    }
}

/// A request that every node refuses.
pub const REFUSED: &[u8] = b"refuse this";

pub struct Cable {
    /// Node and port of both ends.
    pub ends: [(usize, u16); 2],
    /// Frames in flight, by the receiving end.
    pub in_flight: [VecDeque<Vec<u8>>; 2],
    pub cut: bool,
}

pub struct Rack {
    pub nodes: Vec<Node>,
    pub hosts: Vec<HostRecord>,
    pub cables: Vec<Cable>,
    configs: Vec<NodeConfig>,
    incarnations: u64,
    /// Whether the registers hold valid state.
    pub is_sound: bool,
}

pub fn config(at: usize) -> NodeConfig {
    let name = Name::new(&format!("n{at}")).unwrap();
    NodeConfig {
        slots: 4,
        keepalive_misses_max: 4,
        message_bytes_max: 64,
        transactions_max: 64,
        fabric: Some(FabricConfig::default()),
        ..NodeConfig::new(guid(at), 1000 + at as u64, name)
    }
}

pub const fn guid(node: usize) -> u64 {
    (node as u64 + 1) << 8
}

impl Rack {
    pub fn new(nodes: usize, cables: &[(usize, usize)]) -> Self {
        Self::with(nodes, cables, |_| Some(FabricConfig::default()))
    }

    /// All carriers up, nothing sent yet.
    pub fn with(
        nodes: usize,
        cables: &[(usize, usize)],
        fabric: impl Fn(usize) -> Option<FabricConfig>,
    ) -> Self {
        Self::configured(nodes, cables, |at| NodeConfig {
            fabric: fabric(at),
            ..config(at)
        })
    }

    /// Likewise, with the whole configuration of each node.
    pub fn configured(
        nodes: usize,
        cables: &[(usize, usize)],
        config: impl Fn(usize) -> NodeConfig,
    ) -> Self {
        let mut ports = vec![0; nodes];
        let configs: Vec<NodeConfig> = (0..nodes).map(config).collect();
        let mut rack = Self {
            nodes: configs.iter().map(|config| Node::new(*config)).collect(),
            configs,
            incarnations: 2000,
            hosts: (0..nodes).map(|_| HostRecord::default()).collect(),
            cables: vec![],
            is_sound: true,
        };
        for &(a, b) in cables {
            let ends = [a, b].map(|at| {
                let port = ports[at];
                ports[at] += 1;
                rack.nodes[at]
                    .add_link(port, [2, 0, 0, 0, at as u8, port as u8])
                    .unwrap();
                (at, port)
            });
            rack.cables.push(Cable {
                ends,
                in_flight: Default::default(),
                cut: false,
            });
        }
        rack
    }

    pub fn up(nodes: usize, cables: &[(usize, usize)]) -> Self {
        let mut rack = Self::new(nodes, cables);
        rack.plug_all();
        rack.settle();
        rack
    }

    /// A node loses its memory. Its carriers come back at once, where the cables are whole.
    pub fn restart(&mut self, at: usize) {
        self.incarnations += 1;
        self.configs[at].incarnation = self.incarnations;
        self.nodes[at] = Node::new(self.configs[at]);
        self.hosts[at].admitted.clear();
        for cable in 0..self.cables.len() {
            for side in [0, 1] {
                let (node, port) = self.cables[cable].ends[side];
                if node == at {
                    let mac = [2, 0, 0, 0, at as u8, port as u8];
                    self.nodes[at].add_link(port, mac).unwrap();
                }
            }
        }
        for cable in 0..self.cables.len() {
            for side in [0, 1] {
                if self.cables[cable].ends[side].0 == at && !self.cables[cable].cut {
                    self.carrier_at(cable, side, true);
                }
            }
        }
    }

    pub fn plug_all(&mut self) {
        for cable in 0..self.cables.len() {
            self.plug(cable);
        }
    }

    pub fn carrier_at(&mut self, cable: usize, side: usize, up: bool) {
        let (at, port) = self.cables[cable].ends[side];
        self.nodes[at].on_carrier(port, up, &mut self.hosts[at]);
    }

    pub fn plug(&mut self, cable: usize) {
        self.cables[cable].cut = false;
        self.carrier_at(cable, 0, true);
        self.carrier_at(cable, 1, true);
    }

    /// Everything on the cable is lost from now on. No node is notified.
    pub fn cut(&mut self, cable: usize) {
        let cable = &mut self.cables[cable];
        cable.cut = true;
        cable.in_flight.iter_mut().for_each(VecDeque::clear);
    }

    pub fn pull(&mut self, cable: usize) {
        self.cut(cable);
        self.carrier_at(cable, 0, false);
        self.carrier_at(cable, 1, false);
    }

    /// The frames that one end of a cable has to send now.
    pub fn frames(&mut self, cable: usize, side: usize) -> Vec<Vec<u8>> {
        let (at, port) = self.cables[cable].ends[side];
        let node = &mut self.nodes[at];
        let mut buffer = [0xee; FRAME_BYTES_MAX];
        let mut frames = vec![];
        while let Some(len) = node.poll_transmit(port, &mut buffer) {
            frames.push(buffer[..len].to_vec());
        }
        assert!(
            !self.is_sound || !node.has_work(port),
            "poll_transmit and has_work agree"
        );
        frames
    }

    /// Sends the frames of every node that reports work.
    pub fn send(&mut self) {
        for cable in 0..self.cables.len() {
            for side in [0, 1] {
                let (at, port) = self.cables[cable].ends[side];
                if self.nodes[at].has_work(port) {
                    let frames = self.frames(cable, side);
                    if !self.cables[cable].cut {
                        self.cables[cable].in_flight[1 - side].extend(frames);
                    }
                }
            }
        }
    }

    pub fn inject(&mut self, cable: usize, side: usize, frame: &[u8]) {
        let (at, port) = self.cables[cable].ends[side];
        self.nodes[at].on_frame(port, frame, &mut self.hosts[at]);
    }

    /// Everything flies once.
    pub fn fly(&mut self) -> bool {
        self.send();
        let mut moved = false;
        for cable in 0..self.cables.len() {
            for side in [0, 1] {
                for frame in std::mem::take(&mut self.cables[cable].in_flight[side]) {
                    moved = true;
                    self.inject(cable, side, &frame);
                }
            }
        }
        moved
    }

    /// All nodes send everything, then the first frame in flight arrives.
    pub fn step(&mut self) -> bool {
        self.send();
        for cable in 0..self.cables.len() {
            for side in [0, 1] {
                if let Some(frame) = self.cables[cable].in_flight[side].pop_front() {
                    self.inject(cable, side, &frame);
                    return true;
                }
            }
        }
        false
    }

    pub fn settle(&mut self) {
        for _ in 0..10_000 {
            if !self.fly() {
                return;
            }
        }
        panic!("the rack never became quiescent");
    }

    /// One tick, with everything sent in it.
    pub fn tick(&mut self) {
        for (node, host) in self.nodes.iter_mut().zip(&mut self.hosts) {
            node.on_tick(host);
        }
        for _ in 0..100 {
            if !self.fly() {
                self.nodes.iter_mut().for_each(Node::on_quiet);
                if !self.fly() {
                    return;
                }
            }
        }
    }

    pub fn run(&mut self, ticks: usize) {
        for _ in 0..ticks {
            for (node, host) in self.nodes.iter_mut().zip(&mut self.hosts) {
                node.on_tick(host);
            }
            self.settle();
        }
    }

    pub fn assert_all_attached(&self) {
        for (at, node) in self.nodes.iter().enumerate() {
            for root in 0..self.nodes.len() {
                let tree = node.tree(guid(root));
                let standing = tree.map(|tree| tree.standing);
                assert_eq!(standing, Some(Standing::Attached), "{at} to {root}");
            }
        }
    }

    /// The nodes on the way from one to another.
    pub fn route(&self, from: usize, to: usize) -> Vec<usize> {
        let mut nodes = vec![from];
        while let Some(&at) = nodes.last()
            && let Some(route) = self.nodes[at].route(guid(to))
        {
            let ends = self.cables.iter().map(|cable| cable.ends);
            let ends = ends.filter(|ends| ends.contains(&(at, route.port)));
            let next = ends.flatten().find(|&end| end != (at, route.port)).unwrap();
            nodes.push(next.0);
            assert!(nodes.len() <= self.nodes.len(), "{nodes:?}");
        }
        nodes
    }

    pub fn downs(&self, at: usize) -> Vec<DownReason> {
        let reason = |event: &LinkEvent| match event {
            LinkEvent::Down { reason, .. } => Some(*reason),
            _ => None,
        };
        self.hosts[at].links.iter().filter_map(reason).collect()
    }
}

/// Kinds of the messages in a frame, and the records of each.
pub fn messages(frame: &[u8]) -> Vec<(Kind, usize)> {
    let mut records = frame::parse(frame, DEFAULT_ETHERTYPE).unwrap();
    let mut messages = vec![];
    while !records.is_empty() {
        let (message, rest) = Message::split(records).unwrap();
        messages.push((message.header.kind, message.records()));
        records = rest;
    }
    messages
}
