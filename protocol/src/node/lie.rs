//! Faulty nodes, for simulations only: a node that sends given messages in place of its own about
//! trees and paths, and a node that enforces no quotas.

use alloc::{collections::VecDeque, vec::Vec};

use super::Node;
use crate::{
    clock::Clock,
    link::{Blocked, Link, Part},
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

/// Messages that wait for the first link with credit; `None` for an honest node.
#[derive(Debug, Clone, Default)]
pub(super) struct Lies(Option<VecDeque<Lie>>);

impl Lies {
    /// Whether they replace the node's own messages about trees and paths.
    pub(super) const fn replace_messages(&self) -> bool {
        self.0.is_some()
    }

    /// Whether the first of them may be sent on a link now.
    pub(super) fn may_go_on(&self, link: &Link) -> bool {
        let first = self.0.as_ref().and_then(VecDeque::front);
        first.is_some_and(|lie| link.feedback.may_send(records_for(lie.payload.len())))
    }

    pub(super) fn write(
        &mut self,
        link: &mut Link,
        clock: &mut Clock,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        let Some(lies) = &mut self.0 else {
            return Ok(());
        };
        while let Some(lie) = lies.front() {
            if !link.may_send(writer, lie.payload.len()) {
                return Err(Blocked);
            }
            let part = Part::whole(lie.kind, lie.slot, lie.slot_sequence, &lie.payload);
            link.write(writer, clock, &part);
            lies.pop_front();
        }
        Ok(())
    }
}

impl Node {
    /// Sends this in the next frame with space. From now on the node sends no messages of its own
    /// about trees and paths. Drops a payload longer than a frame holds.
    pub fn lie(&mut self, kind: Kind, slot: u8, slot_sequence: u32, payload: &[u8]) {
        let lies = self.lies.0.get_or_insert_default();
        if payload.len() <= FRAME_PAYLOAD_BYTES_MAX {
            lies.push_back(Lie {
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
        self.lies.0.as_ref().map_or(0, VecDeque::len)
    }

    /// Disables quotas: from now on the first requester takes all resources.
    pub fn share_nothing_out(&mut self) {
        if let Some(fabric) = &mut self.fabric {
            fabric.trees.share_nothing_out();
        }
    }
}
