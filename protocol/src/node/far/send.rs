//! Notes about channels, and frames that pass, on their way out.

use super::super::{Node, fabric::SHARED_RECORDS, transmit::Blocked};
use crate::{
    channel::{
        Channels, Ready, Spot,
        note::{CHANNEL_MESSAGE_BYTES_MAX, PASS_HEAD_BYTES},
    },
    link::{Attachment, Part},
    wire::{
        ETHERNET_HEADER_BYTES, FRAME_BYTES_MAX, FRAME_PAYLOAD_BYTES_MAX, RECORD_BYTES,
        frame::{BROADCAST, FrameWriter},
        message::records_for,
        slice::Kind,
    },
};

/// Offset of a forwarded frame in a frame buffer: its header takes the end of the Ethernet header.
const START: usize = ETHERNET_HEADER_BYTES - PASS_HEAD_BYTES;

impl Node {
    /// The item that may be sent next on the link of a neighbor index.
    fn ready(&self, neighbor: u8) -> Option<(Spot, Ready)> {
        let fabric = self.fabric.as_ref()?;
        let speaks = |end| self.has_work_at(usize::from(end));
        fabric.channels.ready(neighbor, speaks)
    }

    /// Bytes of the first path frame that waits on the link of a neighbor index; for a path that
    /// ends here, the minimum.
    pub(in crate::node) fn pass_bytes(&self, neighbor: u8) -> Option<usize> {
        self.ready(neighbor).map(|(_, ready)| pass_bytes(ready))
    }

    pub(in crate::node) fn write_channel_messages(
        &mut self,
        at: usize,
        neighbor: u8,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        let Self {
            fabric,
            links,
            clock,
            ..
        } = self;
        let (Some(fabric), link) = (fabric.as_deref_mut(), &mut links[at]) else {
            return Ok(());
        };
        while let Some(note) = fabric.channels.note(neighbor) {
            if !link.may_send(writer, note.bytes()) {
                return Err(Blocked);
            }
            let mut space = [0; CHANNEL_MESSAGE_BYTES_MAX];
            let len = note.write(&mut space);
            link.write(
                writer,
                clock,
                &Part::whole(Kind::ControlMessage, 0, 0, &space[..len]),
            );
            fabric.channels.message_sent(neighbor);
        }
        Ok(())
    }

    /// Writes path frames on a link, as many as may go into this frame.
    pub(in crate::node) fn write_passes(
        &mut self,
        at: usize,
        neighbor: u8,
        attachment: Attachment,
        exchanges_wait: bool,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        let mut shared = if exchanges_wait {
            SHARED_RECORDS
        } else {
            usize::MAX
        };
        while shared > 0
            && let Some((spot, ready)) = self.ready(neighbor)
        {
            let bytes = pass_bytes(ready);
            if bytes <= FRAME_PAYLOAD_BYTES_MAX && !self.links[at].may_send(writer, bytes) {
                return Err(Blocked);
            }
            let mut buffer = [0; FRAME_BYTES_MAX];
            let Some(len) = self.take_pass(spot, ready, &mut buffer) else {
                return Ok(());
            };
            let payload = &buffer[START..len];
            let link = &mut self.links[at];
            if payload.len() <= FRAME_PAYLOAD_BYTES_MAX && link.may_send(writer, payload.len()) {
                let part = Part::whole(Kind::Pass, 0, 0, payload);
                link.write(writer, &mut self.clock, &part);
            } else {
                link.departing.load(Kind::Pass, 0, 0, &[], payload);
                self.write_departing(at, attachment, writer)?;
            }
            shared = shared.saturating_sub(records_for(payload.len().min(FRAME_PAYLOAD_BYTES_MAX)));
        }
        Ok(())
    }

    /// Moves the next path frame into `buffer` from [`START`] on, and returns the offset of its
    /// end.
    fn take_pass(
        &mut self,
        spot: Spot,
        ready: Ready,
        buffer: &mut [u8; FRAME_BYTES_MAX],
    ) -> Option<usize> {
        let (head, len) = match ready {
            Ready::Frame(_) => {
                let (space, _) = buffer[ETHERNET_HEADER_BYTES..].as_chunks_mut::<RECORD_BYTES>();
                let channels = &mut self.fabric.as_mut()?.channels;
                let (head, records) = channels.take_frame(spot, space)?;
                (head, ETHERNET_HEADER_BYTES + records * RECORD_BYTES)
            }
            Ready::End(end) => {
                let len = self.poll_transmit_at(usize::from(end), buffer)?;
                self.fabric.as_mut()?.channels.end_sent(spot);
                (Channels::head(spot, buffer[..6] == BROADCAST), len)
            }
        };
        buffer[START..ETHERNET_HEADER_BYTES].copy_from_slice(&head.to_bytes());
        Some(len)
    }
}

const fn pass_bytes(ready: Ready) -> usize {
    let records = match ready {
        Ready::Frame(records) => records,
        Ready::End(_) => 1,
    };
    PASS_HEAD_BYTES + records * RECORD_BYTES
}
