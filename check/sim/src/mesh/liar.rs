//! A lying neighbor: a node beside the mesh, at its own cable to one of the nodes.
//!
//! Its link is a production node's, so its frames arrive: in order, in the epoch, within the
//! window. Its messages about trees, paths and exchanges of others are drawn here. It does not
//! claim a route to a node of the mesh: nodes believe their neighbors about that, so a liar may
//! attract routes.

use covalent_protocol::{
    ExchangeId, Execution, FRAME_BYTES_MAX, FabricConfig, Host, LinkEvent, Mode, Name, Node,
    NodeConfig, Outcome, Refusal, Reply,
    channel::{
        CHANNELS_MAX,
        note::{CHANNEL_MESSAGE_BYTES_MAX, ChannelMessage, CloseReason, Open},
    },
    tree::{
        Label,
        note::{CONTROL_MESSAGE_BYTES_MAX, Digest, ITEMS_MAX, Item, Writer, write_resync},
    },
    wire::slice::Kind,
};
use fastrand::Rng;

use super::{content::Content, program::guid, wire::Cable};

/// GUIDs of nodes that do not exist start here. The liar's GUID precedes them.
const INVENTED: u64 = 1 << 40;
/// Maximum number of queued lies.
const WAITING_MAX: usize = 64;
/// Bytes of a question that is passed on.
const RELAY_BYTES: usize = 44;

/// The liar, and its cable: end 0 is the honest node's.
pub(super) struct Liar {
    node: Node,
    pub wire: Cable,
    /// The node of the mesh to which it is cabled, at the port behind all its others.
    pub at: usize,
    pub is_lying: bool,
    rng: Rng,
    nodes: usize,
    /// Roots that were invented.
    invented: u64,
}

/// Host of the liar: it executes no request of others.
struct Deaf;

impl Host for Deaf {
    fn admit(&mut self, _: &ExchangeId, _: Mode, _: &[u8]) -> Result<(), Refusal> {
        Err(Refusal::NoResources)
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
    /// Creates a liar beside a mesh of `nodes` nodes, cabled to one of them. In half of the worlds
    /// it announces several times `roots_max` roots before any other node announces one.
    pub fn new(nodes: usize, at: usize, roots_max: u16, message_bytes: u16, mut rng: Rng) -> Self {
        let name = Name::new("liar").unwrap_or_else(|error| unreachable!("{error}"));
        let mut node = Node::new(NodeConfig {
            slots: 2,
            keepalive_misses_max: 4,
            message_bytes_max: message_bytes,
            fabric: Some(FabricConfig {
                roots: false,
                roots_max: 1,
                paths: 0,
                transits: 0,
            }),
            ..NodeConfig::new(INVENTED, 1, name)
        });
        let added = node.add_link(0, [2, 1, 0, 0, 0, 0]);
        debug_assert_eq!(added, Ok(()));
        let mut this = Self {
            node,
            wire: Cable::new(0, &mut rng),
            at,
            is_lying: true,
            nodes,
            invented: 0,
            rng,
        };
        if this.rng.bool() {
            while this.invented < 4 * u64::from(roots_max) {
                this.announce(ITEMS_MAX);
            }
        }
        this.node.on_carrier(0, true, &mut Deaf);
        this
    }

    /// A frame arrives.
    pub fn receive(&mut self, frame: &[u8]) {
        self.node.on_frame(0, frame, &mut Deaf);
    }

    /// Ticks the liar.
    pub fn tick(&mut self) {
        self.node.on_tick(&mut Deaf);
    }

    /// Sends the pending frames. Returns the units until each arrives.
    pub fn frames(&mut self, now_units: u64) -> Vec<u64> {
        let mut buffer = [0; FRAME_BYTES_MAX];
        let mut arrivals = Vec::new();
        while let Some(len) = self.node.poll_transmit(0, &mut buffer) {
            let frame = &buffer[..len];
            let content = Content::of(frame);
            arrivals.extend(self.wire.send(0, now_units, frame, content, &mut self.rng));
        }
        arrivals
    }

    /// Queues a lie, unless many are queued already. `incarnation` returns the incarnation of a
    /// node of the mesh.
    pub fn lie(&mut self, incarnation: impl Fn(usize) -> u32) {
        if self.node.waiting_lies() >= WAITING_MAX {
            return;
        }
        match self.rng.u8(..16) {
            0..4 => {
                let items = self.rng.usize(1..=ITEMS_MAX);
                self.announce(items);
            }
            4 => self.take_back(),
            5 => self.search(),
            6 => self.deny(),
            7 => self.compare(),
            8 => self.name(),
            9..12 => self.request_path(),
            12 => self.pass(),
            13 => self.query_about(incarnation),
            _ => self.babble(),
        }
    }

    fn note(&mut self, write: impl FnOnce(&mut Rng, &mut [u8]) -> Option<usize>) {
        let mut space = [0; CONTROL_MESSAGE_BYTES_MAX];
        if let Some(len) = write(&mut self.rng, &mut space) {
            self.node.lie(Kind::ControlMessage, 0, 0, &space[..len]);
        }
    }

    /// Roots that do not exist: new ones, and some that it announced before.
    fn announce(&mut self, items: usize) {
        let first = self.invented;
        self.invented += items as u64;
        let repeats = self.rng.u8(..4) == 0 && first > 0;
        self.note(|rng, space| {
            let mut writer = Writer::advert(space);
            for item in 0..items as u64 {
                let number = if repeats {
                    rng.u64(..first)
                } else {
                    first + item
                };
                let child = rng.u8(..8) == 0;
                writer.item(Item {
                    label: label(rng),
                    hops: rng.u16(..70),
                    incarnation: rng.u16(..3),
                    attached: true,
                    child,
                    nameless: child && rng.bool(),
                    ..Item::bound(invented(number), Label::FURTHEST)
                });
            }
            writer.finish()
        });
    }

    /// A root that there may be: one of the mesh, or an invented one.
    fn some_root(&mut self) -> u64 {
        if self.rng.bool() {
            guid(self.rng.usize(..self.nodes))
        } else {
            invented(self.rng.u64(..=self.invented))
        }
    }

    /// Reports some roots unreachable. For the receiving node's own root it claims a rival.
    fn take_back(&mut self) {
        let roots: Vec<u64> = (0..ITEMS_MAX).map(|_| self.some_root()).collect();
        let own = guid(self.at);
        self.note(|rng, space| {
            let mut writer = Writer::advert(space);
            for root in roots {
                let is_rival = root == own;
                writer.item(Item {
                    label: label(rng),
                    incarnation: rng.u16(..3),
                    attached: is_rival,
                    ..Item::bound(root, Label::FURTHEST)
                });
            }
            writer.finish()
        });
    }

    fn search(&mut self) {
        let root = self.some_root();
        self.note(|rng, space| {
            let mut writer = Writer::search(space);
            writer.item(Item::bound(root, label(rng)));
            writer.finish()
        });
    }

    fn deny(&mut self) {
        let roots: Vec<u64> = (0..20).map(|_| self.some_root()).collect();
        self.note(|_, space| {
            let mut writer = Writer::denied(space);
            roots.into_iter().for_each(|root| writer.root(root));
            writer.finish()
        });
    }

    fn compare(&mut self) {
        self.note(|rng, space| {
            if rng.bool() {
                return write_resync(rng.u8(1..), space);
            }
            let digest = Digest {
                answers: rng.u8(..3),
                items: rng.u32(..100),
                sum: rng.u64(..),
            };
            digest.write(space)
        });
    }

    fn name(&mut self) {
        let root = self.some_root();
        self.note(|_, space| {
            let mut writer = Writer::called(space);
            writer.name(root, &Name::new("mallory").ok()?);
            writer.finish()
        });
    }

    /// Paths for nodes that do not exist, and words about paths that may.
    fn request_path(&mut self) {
        let target = self.some_root();
        self.note(|rng, space| {
            let channel = rng.u8(..CHANNELS_MAX as u8);
            let note = match rng.u8(..12) {
                0 => ChannelMessage::Opened(channel),
                1 => ChannelMessage::Wanted(channel),
                2 => ChannelMessage::Close {
                    channel,
                    why: CloseReason::ALL[rng.usize(..CloseReason::ALL.len())],
                    opener: rng.u8(..4) > 0,
                },
                _ => ChannelMessage::Open(Open {
                    hops_left: rng.u8(1..=64),
                    channel,
                    target,
                    origin: invented(rng.u64(..1000)),
                }),
            };
            debug_assert!(space.len() >= CHANNEL_MESSAGE_BYTES_MAX);
            Some(note.write(space))
        });
    }

    /// A frame of a path.
    fn pass(&mut self) {
        let records = self.rng.usize(1..4);
        let mut payload: Vec<u8> = (0..4 + 64 * records).map(|_| self.rng.u8(..)).collect();
        let channel = self.rng.u8(..CHANNELS_MAX as u8);
        payload[..4].copy_from_slice(&[channel, 0, 1, 0]);
        self.node.lie(Kind::Pass, 0, 0, &payload);
    }

    /// Queries the outcome of an exchange that two other nodes may have, in the name of its
    /// initiator.
    fn query_about(&mut self, incarnation: impl Fn(usize) -> u32) {
        let [origin, target] = [(); 2].map(|()| self.rng.usize(..self.nodes));
        let target = if self.rng.bool() { self.at } else { target };
        let incarnation_of = |node| u64::from(incarnation(node)) << 32 | 1;
        let mut payload = Vec::with_capacity(RELAY_BYTES);
        for node in [origin, target] {
            payload.extend(guid(node).to_le_bytes());
            payload.extend(incarnation_of(node).to_le_bytes());
        }
        payload.extend(self.rng.u16(..4).to_le_bytes());
        payload.extend([self.rng.u8(..2), u8::from(self.rng.bool())]);
        payload.extend(self.rng.u32(..6).to_le_bytes());
        payload.extend(self.rng.u32(..40).to_le_bytes());
        let place = self.rng.u8(..8);
        let tag = self.rng.u32(..);
        self.node.lie(Kind::Relay, place, tag, &payload);
    }

    /// Any message.
    fn babble(&mut self) {
        let kinds = &Kind::ALL[1..];
        let kind = kinds[self.rng.usize(..kinds.len())];
        let bytes = self.rng.usize(..100);
        let payload: Vec<u8> = (0..bytes).map(|_| self.rng.u8(..16)).collect();
        let (slot, sequence) = (self.rng.u8(..3), self.rng.u32(..4));
        self.node.lie(kind, slot, sequence, &payload);
    }
}

const fn invented(number: u64) -> u64 {
    INVENTED + ((number + 1) << 8)
}

fn label(rng: &mut Rng) -> Label {
    Label::new(rng.u64(..6), rng.u64(..3) * Label::HOP_RANKS)
}
