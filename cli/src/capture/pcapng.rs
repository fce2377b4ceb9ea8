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

/// Timestamps are in nanoseconds: the crate writes them so, whatever an interface says of them.
const NANOSECONDS: u8 = 9;

/// Directions in a packet's flags (pcapng, 4.3.1).
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// What pcapng becomes, block by block.
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
    /// Begins with these interfaces, which are known by their place, and of whose frames so many bytes are kept; 0 for all.
    ///
    /// # Errors
    /// It cannot be written.
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

    /// One more frame.
    ///
    /// # Errors
    /// It cannot be written: the disk is full, or nobody reads any more.
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

    /// Gives on what has gathered.
    ///
    /// # Errors
    /// As [`Capture::frame`].
    pub fn flush(&mut self) -> Result<()> {
        self.writer.get_mut().flush()?;
        Ok(())
    }
}
