//! Control messages about channels, and path frames, from neighbors.

use super::{super::Node, PATH_MAC};
use crate::{
    Host,
    channel::{
        Lie, Passed,
        note::{ChannelMessage, PassHead},
    },
    event::DownReason,
    wire::{
        ETHERNET_HEADER_BYTES, FRAME_BYTES_MAX, FRAME_RECORDS_MAX, RECORD_BYTES, frame::BROADCAST,
    },
};

impl Node {
    /// Processes a control message about a channel from a neighbor.
    ///
    /// # Errors
    /// No node sends it, or no neighbor in the same state as this side.
    pub(in crate::node) fn on_channel_message(
        &mut self,
        neighbor: u8,
        payload: &[u8],
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let note = ChannelMessage::read(payload).map_err(|_| DownReason::Violation)?;
        let Some(fabric) = &mut self.fabric else {
            return Ok(());
        };
        let channels = &mut fabric.channels;
        let lies = |Lie| DownReason::Violation;
        match note {
            ChannelMessage::Open(open) => {
                let spot = channels.on_open(neighbor, open).map_err(lies)?;
                self.decide(spot, open, host);
            }
            ChannelMessage::Opened(number) => {
                if let Some(end) = channels.on_opened(neighbor, number).map_err(lies)? {
                    self.raise_path(usize::from(end));
                }
            }
            ChannelMessage::Wanted(number) => {
                if let Some(end) = channels.on_wanted(neighbor, number).map_err(lies)? {
                    fabric.ends[usize::from(end)].wanted = true;
                }
            }
            ChannelMessage::Close {
                channel,
                why,
                opener,
            } => {
                let end = channels
                    .on_close(neighbor, channel, !opener, why)
                    .map_err(lies)?;
                if let Some(end) = end {
                    self.lose_path(usize::from(end), why, host);
                }
            }
        }
        self.stir(host);
        Ok(())
    }

    /// Passes a frame of a path to its end here, or forwards it.
    ///
    /// # Errors
    /// No node sends it, or no neighbor in the same state as this side.
    #[cold]
    #[inline(never)]
    pub(in crate::node) fn on_pass(
        &mut self,
        at: usize,
        payload: &[u8],
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let Some(neighbor) = self.neighbor_of(at)? else {
            return Ok(());
        };
        let (head, rest) = PassHead::split(payload).ok_or(DownReason::Violation)?;
        let (records, odd) = rest.as_chunks::<RECORD_BYTES>();
        if !odd.is_empty() || !(1..=FRAME_RECORDS_MAX).contains(&records.len()) {
            return Err(DownReason::Violation);
        }
        let Some(fabric) = &mut self.fabric else {
            return Ok(());
        };
        let passed = fabric.channels.on_pass(neighbor, head, records);
        if let Passed::Here(end) = passed.map_err(|Lie| DownReason::Violation)? {
            let mut frame = [0; FRAME_BYTES_MAX];
            let destination = if head.to_all { BROADCAST } else { PATH_MAC };
            frame[..6].copy_from_slice(&destination);
            frame[6..12].copy_from_slice(&PATH_MAC);
            frame[12..14].copy_from_slice(&self.config.ethertype.to_be_bytes());
            let len = ETHERNET_HEADER_BYTES + rest.len();
            frame[ETHERNET_HEADER_BYTES..len].copy_from_slice(rest);
            self.on_frame_at(usize::from(end), &frame[..len], host);
        }
        Ok(())
    }
}
