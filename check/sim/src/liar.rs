//! A lying neighbor: a node beside the world, at its own cable to one of the nodes.
//!
//! Its link is a production node's, so its frames are in the epoch, in order and within the window.
//! Apart from that it sends anything: unsolicited requests, replies to nothing, and queries about
//! exchanges of others in their names.

use std::collections::VecDeque;

use covalent_protocol::{
    ExchangeId, Execution, FRAME_BYTES_MAX, Host, LinkEvent, Mode, Name, Node, NodeConfig, Outcome,
    Refusal, Reply, wire::slice::Kind,
};
use fastrand::Rng;

use crate::{book::NodeIncarnation, incarnation, node_guid};

/// Its GUID.
pub(crate) const LIAR_GUID: u64 = 1 << 32;
/// Maximum number of queued lies.
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

/// Host of the liar: it admits and executes every request, and ignores the rest.
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
    /// Creates a liar that is cabled to a port of a node. It knows what that node's configuration
    /// states about the others. It poses as `identity`, if given.
    pub fn new(at: usize, port: u16, like: &NodeConfig, identity: Option<NodeIncarnation>) -> Self {
        let name = Name::new("liar").unwrap_or_else(|error| unreachable!("{error}"));
        let mut node = Node::new(NodeConfig {
            guid: identity.map_or(LIAR_GUID, |identity| node_guid(identity.node)),
            incarnation: identity.map_or(1, incarnation),
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

    /// Puts a frame to the liar in flight.
    pub fn send(&mut self, frame: &[u8]) {
        self.to.push_back(frame.to_vec());
    }

    /// The frame of it that arrives next.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        self.from.pop_front()
    }

    /// Ticks if `is_tick`, receives the frames in flight, and sends its pending frames.
    pub fn turn(&mut self, is_tick: bool) {
        if is_tick {
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

    /// Queues a lie. `identities` holds the incarnations of the nodes of the world.
    pub fn lie(&mut self, identities: &[NodeIncarnation], slots: u8, rng: &mut Rng) {
        if self.node.waiting_lies() >= WAITING_MAX {
            return;
        }
        if rng.bool() {
            self.query_about(identities, slots, rng);
        } else {
            self.babble(slots, rng);
        }
    }

    /// Queries the outcome of an exchange that two other nodes may have, in the name of its
    /// initiator.
    fn query_about(&mut self, identities: &[NodeIncarnation], slots: u8, rng: &mut Rng) {
        let origin = identities[rng.usize(..identities.len())];
        let target = if rng.bool() {
            self.at
        } else {
            rng.usize(..identities.len())
        };
        let mut payload = Vec::new();
        for identity in [origin, identities[target]] {
            payload.extend(node_guid(identity.node).to_le_bytes());
            payload.extend(incarnation(identity).to_le_bytes());
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
        // No request of a node of the world: what the liar sends in its own name concerns only
        // itself.
        let payload: Vec<u8> = (0..bytes).map(|_| rng.u8(128..)).collect();
        let (slot, sequence) = (rng.u8(..slots), rng.u32(..4));
        self.node.lie(kind, slot, sequence, &payload);
    }
}
