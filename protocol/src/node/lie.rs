//! Faulty nodes, for simulations only: a node that sends given messages in place of its own about
//! trees and paths, and a node that enforces no quotas.

use alloc::{collections::VecDeque, vec::Vec};

use super::{Node, transmit::Blocked};
use crate::{
    link::{Link, Part},
    wire::{FRAME_PAYLOAD_BYTES_MAX, frame::FrameWriter, message::records_for, slice::Kind},
};

/// A false message of any kind.
#[derive(Debug, Clone)]
struct Lie {
    kind: Kind,
    slot: u8,
    slot_sequence: u32,
    payload: Vec<u8>,
}

/// Messages that wait for the first link with credit.
#[derive(Debug, Clone, Default)]
pub(super) struct Lies(VecDeque<Lie>);

impl Node {
    /// Sends this in the next frame with space. From now on the node sends no messages of its own
    /// about trees and paths. Drops a payload longer than a frame holds.
    pub fn lie(&mut self, kind: Kind, slot: u8, slot_sequence: u32, payload: &[u8]) {
        let lies = self.lies.get_or_insert_default();
        if payload.len() <= FRAME_PAYLOAD_BYTES_MAX {
            lies.0.push_back(Lie {
                kind,
                slot,
                slot_sequence,
                payload: payload.to_vec(),
            });
        }
    }

    /// Number of messages that wait for transmission.
    #[must_use]
    pub fn waiting_lies(&self) -> usize {
        self.lies.as_ref().map_or(0, |lies| lies.0.len())
    }

    /// Whether the first of them may be sent on a link now.
    pub(super) fn has_lies(&self, link: &Link) -> bool {
        let first = self.lies.as_ref().and_then(|lies| lies.0.front());
        first.is_some_and(|lie| link.feedback.may_send(records_for(lie.payload.len())))
    }

    /// Disables quotas: from now on the first requester takes all resources.
    pub fn share_nothing_out(&mut self) {
        if let Some(fabric) = &mut self.fabric {
            fabric.trees.share_nothing_out();
        }
    }

    pub(super) fn write_lies(
        &mut self,
        at: usize,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        let Self {
            lies, links, clock, ..
        } = self;
        let Some(Lies(lies)) = lies else {
            return Ok(());
        };
        while let Some(lie) = lies.front() {
            if !links[at].may_send(writer, lie.payload.len()) {
                return Err(Blocked);
            }
            let part = Part::whole(lie.kind, lie.slot, lie.slot_sequence, &lie.payload);
            links[at].write(writer, clock, &part);
            lies.pop_front();
        }
        Ok(())
    }
}
