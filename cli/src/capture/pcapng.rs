//! Captures as files that Wireshark opens.

use std::{
    borrow::Cow,
    io::{BufWriter, Write},
    time::Duration,
};

use anyhow::Result;
use pcap_file::{
    DataLink,
    pcapng::{
        PcapNgBlock, PcapNgWriter,
        blocks::{
            enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption},
            interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption},
        },
    },
};

/// Timestamps are in nanoseconds: the crate writes nanoseconds, whatever the interface description
/// declares.
const NANOSECONDS: u8 = 9;

/// Directions in a packet's flags (pcapng, 4.3.1).
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// A pcapng file, written block by block.
pub struct Capture<W: Write> {
    writer: PcapNgWriter<BufWriter<W>>,
}

/// A frame that was captured.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// On which interface, by its place.
    pub interface: u32,
    /// When, since the Unix epoch.
    pub at: Duration,
    /// Its length; `bytes` may have fewer.
    pub frame_bytes: u32,
    /// Frames between the one before on this interface and this one that are missing.
    pub missed: u32,
    /// Whether it was sent, or received; `None` where that has no sense.
    pub sent: Option<bool>,
    /// The frame, or the first bytes of it.
    pub bytes: &'a [u8],
}

impl<W: Write> Capture<W> {
    /// Writes the descriptions of these interfaces; frames refer to them by index. `snap_bytes` is
    /// the number of bytes kept of each frame, 0 for all.
    ///
    /// # Errors
    /// Fails if the output cannot be written.
    pub fn new(
        writer: W,
        interfaces: impl IntoIterator<Item = String>,
        snap_bytes: u32,
    ) -> Result<Self> {
        let mut writer = PcapNgWriter::new(BufWriter::new(writer))?;
        for name in interfaces {
            let interface = InterfaceDescriptionBlock {
                linktype: DataLink::ETHERNET,
                snaplen: snap_bytes,
                options: vec![
                    InterfaceDescriptionOption::IfName(Cow::Owned(name)),
                    InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
                ],
            };
            writer.write_block(&interface.into_block())?;
        }
        Ok(Self { writer })
    }

    /// Appends one frame.
    ///
    /// # Errors
    /// Fails if the output cannot be written: the disk is full, or the reader is gone.
    pub fn frame(&mut self, seen: &Seen<'_>) -> Result<()> {
        let mut options = Vec::new();
        if let Some(sent) = seen.sent {
            let flags = if sent { OUTBOUND } else { INBOUND };
            options.push(EnhancedPacketOption::Flags(flags));
        }
        if seen.missed > 0 {
            options.push(EnhancedPacketOption::DropCount(seen.missed.into()));
        }
        let packet = EnhancedPacketBlock {
            interface_id: seen.interface,
            timestamp: seen.at,
            original_len: seen.frame_bytes,
            data: Cow::Borrowed(seen.bytes),
            options,
        };
        self.writer.write_block(&packet.into_block())?;
        Ok(())
    }

    /// Flushes the buffered blocks.
    ///
    /// # Errors
    /// As [`Capture::frame`].
    pub fn flush(&mut self) -> Result<()> {
        self.writer.get_mut().flush()?;
        Ok(())
    }
}
