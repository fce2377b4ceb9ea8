//! Forged frames of a blind attacker, which receives nothing from the cable.
//!
//! The attacker knows GUIDs, names and ports, but no incarnation and no epoch of a node.

use covalent_protocol::{
    DEFAULT_ETHERTYPE, FRAME_BYTES_MAX, Node, NodeConfig,
    wire::{
        frame::FrameWriter,
        record::{Header, NO_PIGGYBACK, Shape},
        slice::Kind,
    },
};

use crate::{
    frame::{Frame, Handshake},
    program::Program,
    scenario::Scenario,
    world::{guid, name},
};

/// The kind of a forged frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Forgery {
    /// A handshake of a node that is not there.
    UnknownNode,
    /// A handshake of the node at the other end, in another incarnation.
    NewIncarnation,
    /// The same, with an echo of an incarnation that the node does not have.
    WrongEcho,
    /// A request.
    Request,
    /// A question how an exchange ended.
    Question,
}

/// All of them.
pub const ALL: [Forgery; 5] = [
    Forgery::UnknownNode,
    Forgery::NewIncarnation,
    Forgery::WrongEcho,
    Forgery::Request,
    Forgery::Question,
];

/// A GUID, an incarnation and an epoch that no node has. The epoch is later than every epoch of a
/// search.
const GUID: u64 = 0x99;
const INCARNATION: u64 = 0x5eed;
const EPOCH: u32 = 1 << 20;

impl Forgery {
    /// The frame, in the name of the node `peer`, for the port `port`.
    #[must_use]
    pub fn frame(self, scenario: &Scenario, peer: usize, port: u16) -> Frame {
        let handshake = |guid, epoch, echo| {
            let first = first_handshake(scenario, guid, peer, port);
            first.with_handshake(|it| Handshake { epoch, echo, ..it })
        };
        match self {
            Self::UnknownNode => handshake(GUID, 1, None),
            Self::NewIncarnation => handshake(guid(peer), EPOCH, None),
            Self::WrongEcho => handshake(guid(peer), EPOCH, Some((INCARNATION + 1, EPOCH))),
            Self::Request => record(Kind::Request, peer),
            Self::Question => record(Kind::Resolve, peer),
        }
    }
}

/// Returns the first frame of a node with this GUID.
fn first_handshake(scenario: &Scenario, guid: u64, peer: usize, port: u16) -> Frame {
    let mut node = Node::new(NodeConfig {
        slots: scenario.slots,
        ..NodeConfig::new(guid, INCARNATION, name(peer))
    });
    let added = node.add_link(port, [2, 0, 0, 0, peer as u8, port as u8]);
    debug_assert!(added.is_ok());
    node.on_carrier(port, true, &mut Program::new(scenario, &[]));
    let mut buffer = [0; FRAME_BYTES_MAX];
    let len = node.poll_transmit(port, &mut buffer).unwrap_or(0);
    Frame::new(&buffer[..len])
}

/// The first record of an epoch.
fn record(kind: Kind, peer: usize) -> Frame {
    let mut buffer = [0; FRAME_BYTES_MAX];
    let Some(mut writer) = FrameWriter::new(&mut buffer) else {
        return Frame::new(&[]);
    };
    let header = Header {
        kind,
        yours: 0,
        epoch: EPOCH,
        record_sequence: 0,
        slot_sequence: 1,
        slot: 0,
        piggyback: NO_PIGGYBACK,
        clock: 0,
        shape: Shape::whole(1),
    };
    if let Some(record) = writer.next_record() {
        header.write(&[0], record);
    }
    let len = writer.finish([0xff; 6], [2, 0, 0, 0, peer as u8, 0], DEFAULT_ETHERTYPE);
    Frame::new(&buffer[..len])
}
