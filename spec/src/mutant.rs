//! Ways to build it wrong. Each stands around the production code and not in it, and each must be found.

use covalent_protocol::{
    ExchangeId, LinkState,
    wire::{record, slice::Kind},
};

use crate::{
    frame::{Frame, Handshake},
    world::{INCARNATION, Side},
};

/// What is built wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// Nothing.
    None,
    /// Frames overtake one another on a cable.
    Reorder,
    /// Records have no numbers, and sequences one bit.
    Unnumbered,
    /// Both: what overtakes is taken for what it overtook.
    ReorderUnnumbered,
    /// A responder hands a two-phase request to its program at message 1.
    DeliverAt1,
    /// An initiator whose link fails starts its exchange afresh and does not wait for the answer to its question.
    FireAndForget,
    /// A program does not give back what it reserved for an exchange that is reversed.
    KeepReserved,
    /// A responder says "undone" of what it did not execute, and does not keep to it.
    NoLatch,
    /// The same, where a neighbour passes the question on.
    NoLatchForNeighbours,
    /// A program that goes does not say so to its node.
    KeepCallers,
    /// A handshake without an echo is taken for one that echoes what this end says now.
    NeedsNoEcho,
    /// A record of another epoch is taken for one of that in force.
    AnyEpoch,
    /// Whatever is heard on a port is taken to be of the node that was there at first.
    KnowsByPort,
    /// A neighbour answers "undone" to what it should pass on, and the responder never hears of it.
    NeighbourAnswers,
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

/// Added to the port in a question, it names one that no initiator has, so the responder latches nothing that will be used.
const NO_PORT: u16 = 0x7f00;
/// Where the payload lies in the first record of a message.
const PAYLOAD_AT: usize = 28;

/// Where the rest of a neighbour's question lies in its second record: the port in it, and whether to commit.
const RELAY_PORT_AT: usize = 12;
const RELAY_COMMIT_AT: usize = 15;

impl Mutant {
    /// What the node `guid`, which is `side`, receives on a port in place of a frame of `peer`.
    #[must_use]
    pub fn as_heard(self, side: &Side, port: u16, [guid, peer]: [u64; 2], frame: Frame) -> Frame {
        let up = || {
            let mut links = side.node.links();
            links.find(|link| link.port == port && link.state == LinkState::Up)
        };
        match self {
            Self::NoLatch => without_latch(side, peer, &frame),
            Self::NoLatchForNeighbours => over_neighbour(side, guid, false, &frame),
            Self::NeighbourAnswers => over_neighbour(side, guid, true, &frame),
            Self::NeedsNoEcho => up().map_or_else(
                || frame.clone(),
                |link| {
                    let heard = Some((INCARNATION, link.epoch));
                    frame.with_handshake(|said| Handshake { heard, ..said })
                },
            ),
            Self::AnyEpoch => up().map_or_else(|| frame.clone(), |link| frame.in_epoch(link.epoch)),
            Self::KnowsByPort => frame.with_handshake(|said| Handshake { guid: peer, ..said }),
            _ => frame,
        }
    }
}

/// What is received where nobody keeps to an "undone" that a neighbour is to pass on; or where all of it is `made_up`.
fn over_neighbour(side: &Side, guid: u64, made_up: bool, frame: &Frame) -> Frame {
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
            let of_asker = |id: &ExchangeId| (Some(id.peer), id.port) == (number(0), port);
            let known = second[RELAY_COMMIT_AT] != 0 || side.program.committed.iter().any(of_asker);
            if number(16) != Some(guid) || (known && !made_up) {
                return false;
            }
            let said = (port | NO_PORT).to_le_bytes();
            second[RELAY_PORT_AT..RELAY_PORT_AT + 2].copy_from_slice(&said);
            second[RELAY_COMMIT_AT] = 0;
            true
        }
        (Kind::Relayed, [first, ..]) => {
            let payload = record::payload(first);
            let port = u16::from_le_bytes([payload[0], payload[1]]);
            let said = (port & !NO_PORT).to_le_bytes();
            first[PAYLOAD_AT..PAYLOAD_AT + 2].copy_from_slice(&said);
            port & NO_PORT != 0
        }
        _ => false,
    })
}

/// What `side` receives in place of `frame` where nobody keeps to an "undone".
fn without_latch(side: &Side, peer: u64, frame: &Frame) -> Frame {
    frame.changed(|header, records| {
        let record = &mut records[0];
        let payload = record::payload(record);
        let port = u16::from_le_bytes([payload[0], payload[1]]);
        let said = match header.kind {
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
        record[PAYLOAD_AT..PAYLOAD_AT + 2].copy_from_slice(&said.to_le_bytes());
        said != port
    })
}
