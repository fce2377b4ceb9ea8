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

/// What a node was told, and what it executed.
#[derive(Default)]
pub struct Told {
    pub links: Vec<LinkEvent>,
    pub trees: Vec<NodeEvent>,
    pub executed: usize,
    pub completed: usize,
}

impl Host for Told {
    fn admit(&mut self, _: &ExchangeId, _: Mode, _: &[u8]) -> Result<(), Refusal> {
        Ok(())
    }

    fn execute(&mut self, _: &ExchangeId, payload: &[u8], reply: &mut Reply) -> Execution {
        self.executed += 1;
        assert!(reply.set(payload));
        Execution::Done
    }

    fn reverse(&mut self, _: &ExchangeId, _: &[u8]) {}

    fn complete(&mut self, _: u64, outcome: Outcome<'_>) {
        assert!(matches!(outcome, Outcome::Committed(_)));
        self.completed += 1;
    }

    fn in_doubt(&mut self, _: u64, _: &ExchangeId) {}

    fn link_event(&mut self, event: LinkEvent) {
        self.links.push(event);
    }

    fn tree_event(&mut self, event: NodeEvent) {
        self.trees.push(event);
    }
}

pub struct Cable {
    /// Node and port of both ends.
    pub ends: [(usize, u16); 2],
    /// Frames under way, by the end that will hear them.
    pub under_way: [VecDeque<Vec<u8>>; 2],
    pub cut: bool,
}

pub struct Rack {
    pub nodes: Vec<Node>,
    pub hosts: Vec<Told>,
    pub cables: Vec<Cable>,
    /// Whether registers hold what they should.
    pub is_sound: bool,
}

pub const fn guid(node: usize) -> u64 {
    (node as u64 + 1) << 8
}

impl Rack {
    pub fn new(nodes: usize, cables: &[(usize, usize)]) -> Self {
        Self::with(nodes, cables, |_| Some(FabricConfig::default()))
    }

    /// All carriers up, nothing said yet.
    pub fn with(
        nodes: usize,
        cables: &[(usize, usize)],
        fabric: impl Fn(usize) -> Option<FabricConfig>,
    ) -> Self {
        let mut ports = vec![0; nodes];
        let mut rack = Self {
            nodes: (0..nodes)
                .map(|at| {
                    let name = Name::new(&format!("n{at}")).unwrap();
                    Node::new(NodeConfig {
                        slots: 4,
                        silent_paces_max: 4,
                        message_bytes_max: 64,
                        transactions_max: 64,
                        fabric: fabric(at),
                        ..NodeConfig::new(guid(at), 1000 + at as u64, name)
                    })
                })
                .collect(),
            hosts: (0..nodes).map(|_| Told::default()).collect(),
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
                under_way: Default::default(),
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

    /// Everything on the cable is lost from now on. Nobody is told.
    pub fn cut(&mut self, cable: usize) {
        let cable = &mut self.cables[cable];
        cable.cut = true;
        cable.under_way.iter_mut().for_each(VecDeque::clear);
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

    /// Sends what a caller would: where the node says that there is work.
    pub fn send(&mut self) {
        for cable in 0..self.cables.len() {
            for side in [0, 1] {
                let (at, port) = self.cables[cable].ends[side];
                if self.nodes[at].has_work(port) {
                    let frames = self.frames(cable, side);
                    if !self.cables[cable].cut {
                        self.cables[cable].under_way[1 - side].extend(frames);
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
                for frame in std::mem::take(&mut self.cables[cable].under_way[side]) {
                    moved = true;
                    self.inject(cable, side, &frame);
                }
            }
        }
        moved
    }

    pub fn settle(&mut self) {
        for _ in 0..10_000 {
            if !self.fly() {
                return;
            }
        }
        panic!("the rack never came to rest");
    }

    /// One pace, whatever is said in it.
    pub fn pace(&mut self) {
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

    pub fn run(&mut self, paces: usize) {
        for _ in 0..paces {
            for (node, host) in self.nodes.iter_mut().zip(&mut self.hosts) {
                node.on_tick(host);
            }
            self.settle();
        }
    }

    pub fn assert_all_hang(&self) {
        for (at, node) in self.nodes.iter().enumerate() {
            for root in 0..self.nodes.len() {
                let tree = node.tree(guid(root));
                let standing = tree.map(|tree| tree.standing);
                assert_eq!(standing, Some(Standing::Hangs), "{at} to {root}");
            }
        }
    }

    /// The nodes on the way from one to another.
    pub fn way(&self, from: usize, to: usize) -> Vec<usize> {
        let mut nodes = vec![from];
        while let Some(&at) = nodes.last()
            && let Some(way) = self.nodes[at].way(guid(to))
        {
            let ends = self.cables.iter().map(|cable| cable.ends);
            let ends = ends.filter(|ends| ends.contains(&(at, way.port)));
            let next = ends.flatten().find(|&end| end != (at, way.port)).unwrap();
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
