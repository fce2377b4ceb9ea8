//! Ways to build it wrong. Each stands around the production code and not in it, and each must be found.

use covalent_protocol::wire::{record, slice::Kind};

use crate::{frame::Frame, world::Side};

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

/// What `side` receives in place of `frame` where nobody keeps to an "undone".
#[must_use]
pub fn without_latch(side: &Side, peer: u64, frame: &Frame) -> Frame {
    frame.changed(|header, record| {
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
