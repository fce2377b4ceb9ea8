//! Deliberate defects. Each surrounds the production code and does not change it. The search must
//! find each.

use covalent_protocol::{
    ExchangeId, LinkState,
    wire::{record, slice::Kind},
};

use crate::{
    frame::{Frame, Handshake},
    world::{INCARNATION, Side},
};

/// The deliberate defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// Nothing.
    None,
    /// Frames overtake one another on a cable.
    Reorder,
    /// Records have no numbers, and sequences one bit.
    Unnumbered,
    /// Both: a record that overtakes another one is mistaken for it.
    ReorderUnnumbered,
    /// A responder hands a two-phase request to its program at message 1.
    DeliverAt1,
    /// An initiator whose link fails starts its exchange again and does not wait for the reply to
    /// its query.
    FireAndForget,
    /// A program does not release its reservation for a reversed exchange.
    KeepReserved,
    /// A responder replies "undone" for an exchange that it did not execute, and does not latch it.
    NoLatch,
    /// The same, where a neighbor passes the question on.
    NoLatchForNeighbors,
    /// A program that exits does not report this to its node.
    KeepCallers,
    /// A handshake without an echo counts as one that echoes this end's current handshake.
    NeedsNoEcho,
    /// A record of another epoch is taken for one of that in force.
    AnyEpoch,
    /// Every frame on a port counts as one of the node that was there at first.
    KnowsByPort,
    /// A neighbor replies "undone" to a query that it should relay, and the responder never
    /// receives the query.
    NeighborAnswers,
}

impl Mutant {
    /// Whether frames overtake one another.
    #[must_use]
    pub const fn reorders(self) -> bool {
        matches!(self, Self::Reorder | Self::ReorderUnnumbered)
    }

    /// Whether records have no numbers.
    #[must_use]
    pub const fn is_unnumbered(self) -> bool {
        matches!(self, Self::Unnumbered | Self::ReorderUnnumbered)
    }
}

/// Added to the port in a query, it names a port that no initiator has. The responder latches
/// nothing that will be used.
const NO_PORT: u16 = 0x7f00;
/// Where the payload lies in the first record of a message.
const PAYLOAD_AT: usize = 28;

/// Offsets in the second record of a neighbor's query: the port in it, and whether to commit.
const RELAY_PORT_AT: usize = 12;
const RELAY_COMMIT_AT: usize = 15;

impl Mutant {
    /// Returns the frame that the node `guid`, which is `side`, receives on a port in place of a
    /// frame of `peer`.
    #[must_use]
    pub fn as_received(
        self,
        side: &Side,
        port: u16,
        [guid, peer]: [u64; 2],
        frame: Frame,
    ) -> Frame {
        let up = || {
            let mut links = side.node.links();
            links.find(|link| link.port == port && link.state == LinkState::Up)
        };
        match self {
            Self::NoLatch => without_latch(side, peer, &frame),
            Self::NoLatchForNeighbors => over_neighbor(side, guid, false, &frame),
            Self::NeighborAnswers => over_neighbor(side, guid, true, &frame),
            Self::NeedsNoEcho => up().map_or_else(
                || frame.clone(),
                |link| {
                    let echo = Some((INCARNATION, link.epoch));
                    frame.with_handshake(|written| Handshake { echo, ..written })
                },
            ),
            Self::AnyEpoch => up().map_or_else(|| frame.clone(), |link| frame.in_epoch(link.epoch)),
            Self::KnowsByPort => frame.with_handshake(|written| Handshake {
                guid: peer,
                ..written
            }),
            _ => frame,
        }
    }
}

/// Returns the received frame if an "undone" that a neighbor relays is not latched; or, if
/// `made_up`, if the neighbor invents it.
fn over_neighbor(side: &Side, guid: u64, made_up: bool, frame: &Frame) -> Frame {
    frame.changed(|header, records| match (header.kind, records) {
        (Kind::Relay, [first, second]) => {
            let payload = record::payload(first);
            let number = |at: usize| {
                payload[at..]
                    .first_chunk()
                    .map(|it| u64::from_le_bytes(*it))
            };
            let port = u16::from_le_bytes([second[RELAY_PORT_AT], second[RELAY_PORT_AT + 1]]);
            // One exchange of each initiator is all there is.
            let of_requester = |id: &ExchangeId| (Some(id.peer), id.port) == (number(0), port);
            let known =
                second[RELAY_COMMIT_AT] != 0 || side.program.committed.iter().any(of_requester);
            if number(16) != Some(guid) || (known && !made_up) {
                return false;
            }
            let written = (port | NO_PORT).to_le_bytes();
            second[RELAY_PORT_AT..RELAY_PORT_AT + 2].copy_from_slice(&written);
            second[RELAY_COMMIT_AT] = 0;
            true
        }
        (Kind::Relayed, [first, ..]) => {
            let payload = record::payload(first);
            let port = u16::from_le_bytes([payload[0], payload[1]]);
            let written = (port & !NO_PORT).to_le_bytes();
            first[PAYLOAD_AT..PAYLOAD_AT + 2].copy_from_slice(&written);
            port & NO_PORT != 0
        }
        _ => false,
    })
}

/// Returns the frame that `side` receives in place of `frame` if an "undone" is not latched.
fn without_latch(side: &Side, peer: u64, frame: &Frame) -> Frame {
    frame.changed(|header, records| {
        let record = &mut records[0];
        let payload = record::payload(record);
        let port = u16::from_le_bytes([payload[0], payload[1]]);
        let written = match header.kind {
            Kind::Resolve if payload[2] == 0 => {
                let known = side.program.committed.iter().any(|id| {
                    (id.peer, id.port, id.slot, id.sequence)
                        == (peer, port, header.slot, header.slot_sequence)
                });
                if known { port } else { port | NO_PORT }
            }
            Kind::Resolved => port & !NO_PORT,
            _ => port,
        };
        record[PAYLOAD_AT..PAYLOAD_AT + 2].copy_from_slice(&written.to_le_bytes());
        written != port
    })
}
