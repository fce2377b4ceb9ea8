//! A node whose records have no numbers: [`Mutant::Unnumbered`](crate::Mutant::Unnumbered).
//!
//! It stands in front of the production node and tells it of each record that it is the next one of the epoch in force and reflects
//! nothing. Of the sequence of a slot it leaves one bit.

use covalent_protocol::{
    LinkState, Node,
    wire::{
        record::{self, Header},
        slice::Kind,
    },
};

use crate::frame::Frame;

/// What it must know to make up the numbers that it leaves out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Unnumbered {
    /// Of each port: the epoch in force and the records heard in it.
    heard: Vec<Option<(u32, u32)>>,
    /// Sequence of the last exchange that the node started on each of its ports, in slot 0.
    started: Vec<u32>,
    /// Sequence of the last exchange that it heard of, by the port of its initiator.
    served: Vec<u32>,
}

impl Unnumbered {
    /// Nothing was said and nothing heard.
    #[must_use]
    pub fn new(ports: usize) -> Self {
        Self {
            heard: vec![None; ports],
            started: vec![0; ports],
            served: vec![0; ports],
        }
    }

    /// Notes what epochs are in force after something happened to the node.
    pub fn follow(&mut self, node: &Node) {
        for link in node.links() {
            let heard = &mut self.heard[usize::from(link.port)];
            let up = link.state == LinkState::Up;
            if heard.is_some_and(|(epoch, _)| !up || epoch != link.epoch) || heard.is_none() {
                *heard = up.then_some((link.epoch, 0));
            }
        }
    }

    /// Notes what the node says.
    pub fn say(&mut self, port: usize, frame: &Frame) {
        for (_, header) in frame.messages() {
            if matches!(header.kind, Kind::Request | Kind::Tentative) {
                self.started[port] = header.slot_sequence;
            }
        }
    }

    /// What the node is told in place of a frame. All messages but handshakes have one record here.
    #[must_use]
    pub fn hear(&mut self, port: usize, frame: &Frame) -> Frame {
        let Some((epoch, heard)) = &mut self.heard[port] else {
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
                record_sequence: *heard,
                slot_sequence,
                ..*header
            }
            .write(&payload, record);
            *heard += 1;
            true
        })
    }
}
