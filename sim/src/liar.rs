//! A neighbor that lies: a node beside the world, at the end of a cable of its own to one of its nodes.
//!
//! Its link is a production node's, so what it says is in the epoch, in order and under the window.
//! Beyond that it says anything: requests that nobody asked for, answers to nothing, and questions
//! about exchanges of others in their names.

use std::collections::VecDeque;

use covalent_protocol::{
    ExchangeId, Execution, FRAME_BYTES_MAX, Host, LinkEvent, Mode, Name, Node, NodeConfig, Outcome,
    Refusal, Reply, wire::slice::Kind,
};
use fastrand::Rng;

use crate::{book::Life, incarnation, node_guid};

/// Its GUID.
pub(crate) const LIAR_GUID: u64 = 1 << 32;
/// Lies that may wait for room.
const WAITING_MAX: usize = 64;

/// The liar, and the frames between it and the node that it is cabled to.
pub(crate) struct Liar {
    node: Node,
    /// The node of the world.
    pub at: usize,
    /// Its port.
    pub port: u16,
    from: VecDeque<Vec<u8>>,
    to: VecDeque<Vec<u8>>,
}

/// It keeps what others ask it for, or does it, and does not care.
struct Careless;

impl Host for Careless {
    fn admit(&mut self, _: &ExchangeId, _: Mode, _: &[u8]) -> Result<(), Refusal> {
        Ok(())
    }

    fn execute(&mut self, _: &ExchangeId, _: &[u8], _: &mut Reply) -> Execution {
        Execution::Done
    }

    fn reverse(&mut self, _: &ExchangeId, _: &[u8]) {}

    fn complete(&mut self, _: u64, _: Outcome<'_>) {}

    fn in_doubt(&mut self, _: u64, _: &ExchangeId) {}

    fn link_event(&mut self, _: LinkEvent) {}
}

impl Liar {
    /// Cabled to a port of a node. Of the others it knows what that one's configuration says. It says
    /// that it is `life`, if one is given.
    pub fn new(at: usize, port: u16, like: &NodeConfig, life: Option<Life>) -> Self {
        let name = Name::new("liar").unwrap_or_else(|error| unreachable!("{error}"));
        let mut node = Node::new(NodeConfig {
            guid: life.map_or(LIAR_GUID, |life| node_guid(life.node)),
            incarnation: life.map_or(1, incarnation),
            name,
            ..*like
        });
        let added = node.add_link(0, [2, 0, 0, 1, 0, 0]);
        debug_assert_eq!(added, Ok(()));
        node.on_carrier(0, true, &mut Careless);
        Self {
            node,
            at,
            port,
            from: VecDeque::new(),
            to: VecDeque::new(),
        }
    }

    /// A frame for it is under way.
    pub fn send(&mut self, frame: &[u8]) {
        self.to.push_back(frame.to_vec());
    }

    /// The frame of it that arrives next.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        self.from.pop_front()
    }

    /// A pace passes, it hears what is under way, and says what it has to say.
    pub fn turn(&mut self, is_pace: bool) {
        if is_pace {
            self.node.on_tick(&mut Careless);
        }
        while let Some(frame) = self.to.pop_front() {
            self.node.on_frame(0, &frame, &mut Careless);
        }
        let mut buffer = [0; FRAME_BYTES_MAX];
        while let Some(len) = self.node.poll_transmit(0, &mut buffer) {
            self.from.push_back(buffer[..len].to_vec());
        }
    }

    /// Thinks of something to say. `lives` are those of the nodes of the world.
    pub fn lie(&mut self, lives: &[Life], slots: u8, rng: &mut Rng) {
        if self.node.waiting_lies() >= WAITING_MAX {
            return;
        }
        if rng.bool() {
            self.ask_about(lives, slots, rng);
        } else {
            self.babble(slots, rng);
        }
    }

    /// Asks how an exchange ended that two others may have: in the name of the one that started it.
    fn ask_about(&mut self, lives: &[Life], slots: u8, rng: &mut Rng) {
        let origin = lives[rng.usize(..lives.len())];
        let target = if rng.bool() {
            self.at
        } else {
            rng.usize(..lives.len())
        };
        let mut payload = Vec::new();
        for life in [origin, lives[target]] {
            payload.extend(node_guid(life.node).to_le_bytes());
            payload.extend(incarnation(life).to_le_bytes());
        }
        payload.extend(rng.u16(..4).to_le_bytes());
        payload.extend([rng.u8(..slots), u8::from(rng.bool())]);
        payload.extend(rng.u32(..8).to_le_bytes());
        payload.extend(rng.u32(..40).to_le_bytes());
        let (place, tag) = (rng.u8(..8), rng.u32(..));
        self.node.lie(Kind::Relay, place, tag, &payload);
    }

    /// Any message.
    fn babble(&mut self, slots: u8, rng: &mut Rng) {
        let kinds = &Kind::ALL[1..];
        let kind = kinds[rng.usize(..kinds.len())];
        let bytes = rng.usize(..120);
        // No request of a node of the world: what it says in its own name is its own.
        let payload: Vec<u8> = (0..bytes).map(|_| rng.u8(128..)).collect();
        let (slot, sequence) = (rng.u8(..slots), rng.u32(..4));
        self.node.lie(kind, slot, sequence, &payload);
    }
}
