//! A node whose records have no numbers: [`Mutant::Unnumbered`](crate::Mutant::Unnumbered).
//!
//! It stands in front of the production node. It presents each record as the next one of the epoch
//! in force, without a reflection. It keeps one bit of the sequence of a slot.

use covalent_protocol::{
    LinkState, Node,
    wire::{
        record::{self, Header},
        slice::Kind,
    },
};

use crate::frame::Frame;

/// The state from which it invents the omitted numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Unnumbered {
    /// For each port: the epoch in force and the number of records received in it.
    received: Vec<Option<(u32, u32)>>,
    /// Sequence of the last exchange that the node started on each of its ports, in slot 0.
    started: Vec<u32>,
    /// Sequence of the last exchange that it received, by the port of its initiator.
    served: Vec<u32>,
}

impl Unnumbered {
    /// Nothing was sent or received.
    #[must_use]
    pub fn new(ports: usize) -> Self {
        Self {
            received: vec![None; ports],
            started: vec![0; ports],
            served: vec![0; ports],
        }
    }

    /// Records the epochs in force after an input of the node.
    pub fn follow(&mut self, node: &Node) {
        for link in node.links() {
            let received = &mut self.received[usize::from(link.port)];
            let up = link.state == LinkState::Up;
            if received.is_some_and(|(epoch, _)| !up || epoch != link.epoch) || received.is_none() {
                *received = up.then_some((link.epoch, 0));
            }
        }
    }

    /// Records a frame that the node sends.
    pub fn send(&mut self, port: usize, frame: &Frame) {
        for (_, header) in frame.messages() {
            if matches!(header.kind, Kind::Request | Kind::Tentative) {
                self.started[port] = header.slot_sequence;
            }
        }
    }

    /// Returns the frame that the node receives in place of `frame`. All messages except handshakes
    /// have one record here.
    #[must_use]
    pub fn receive(&mut self, port: usize, frame: &Frame) -> Frame {
        let Some((epoch, received)) = &mut self.received[port] else {
            return frame.clone();
        };
        frame.changed(|header, records| {
            let record = &mut records[0];
            let payload = record::payload(record).to_vec();
            let about = usize::from(u16::from_le_bytes([payload[0], payload[1]]));
            let one_bit_off = |last: u32| (last ^ header.slot_sequence) & 1;
            let slot_sequence = match header.kind {
                Kind::Init => return false,
                Kind::Request | Kind::Tentative => {
                    self.served[port] += one_bit_off(self.served[port]);
                    self.served[port]
                }
                Kind::Resolve => {
                    self.served[about] += one_bit_off(self.served[about]);
                    self.served[about]
                }
                Kind::Commit => self.served[port] + one_bit_off(self.served[port]),
                Kind::Reflecting | Kind::Committed | Kind::Refused => {
                    self.started[port] - one_bit_off(self.started[port])
                }
                Kind::Resolved => self.started[about] - one_bit_off(self.started[about]),
                _ => 0,
            };
            Header {
                yours: 0,
                epoch: *epoch,
                record_sequence: *received,
                slot_sequence,
                ..*header
            }
            .write(&payload, record);
            *received += 1;
            true
        })
    }
}
